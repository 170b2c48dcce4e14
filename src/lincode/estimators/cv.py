"""SCNN with alpha chosen by cross-validation."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_classifier
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from lincode.estimators.folds import (
    check_targets,
    evaluate_fold,
    make_folds,
    new_classifier,
    new_scorer,
)
from lincode.estimators.minibatch import MiniBatchSCNN
from lincode.estimators.path import N_RATIOS, alpha_grid
from lincode.estimators.progress import FitProgress, ProgressMixin
from lincode.estimators.samples import check_sample_weight, check_samples
from lincode.estimators.scnn import SCNN
from lincode.estimators.user_warnings import warn_user
from lincode.estimators.validation import (
    check_choice,
    check_number,
    check_rows,
    unchanged_on_failure,
)
from lincode.exceptions import InvalidInputError

MAX_SPARSITY_ERROR = 0.1
"""``fit`` warns if the sparsity of the best alpha differs by more than this from the target."""


def _of_best_estimator(name: str) -> property:
    """Return a property with the value of an attribute of ``best_estimator_``."""
    return property(attrgetter(f"best_estimator_.{name}"), doc=f"``best_estimator_.{name}``.")


class SCNNCV(ProgressMixin, TransformerMixin, BaseEstimator):
    """SCNN with alpha chosen by cross-validation.

    Parameters
    ----------
    estimator : SCNN or MiniBatchSCNN, default=None
        The network. Its ``alpha`` is ignored. None means ``SCNN()``. In each fold, the networks of
        an SCNN for all values of alpha are fitted by :func:`lincode.scnn_path`, and those of a
        MiniBatchSCNN one by one. The final network is fitted in the same way to all samples.
        ``callback`` is only used for the final network.
    alphas : array-like of float or str, default=None
        The values of alpha to choose from, as numbers or relative to X, such as ``"0.1*max"`` and
        ``"mean"``. None means that ``alpha_ratios`` determines them.
    alpha_ratios : int or array-like of float, default=10
        The values of alpha as fractions of ``alpha_max(X)``. An integer is a number of values
        between 0.9 and 0.003, evenly spaced on a logarithmic scale.
    criterion : {"sparsity", "score", "energy"}, default="sparsity"
        How alpha is chosen.

        - "sparsity": the fraction of zeros in the codes of held-out samples is closest to
          ``target_sparsity``;
        - "score": a classifier that is trained on the codes and y has the best score on held-out
          samples;
        - "energy": the energy of held-out samples is lowest. Because alpha is part of the energy,
          this nearly always chooses the smallest alpha. It shows how small alpha may be before a
          dictionary learned from few samples overfits.
    target_sparsity : float, default=0.9
        The desired fraction of zeros for ``criterion="sparsity"``.
    classifier : estimator, default=None
        The estimator that is trained on the codes for ``criterion="score"``; it may be a
        regressor. None means ``LogisticRegression(max_iter=1000)``.
    scoring : str or callable, default=None
        The scorer for ``criterion="score"``, as in scikit-learn. None means the ``score`` method
        of the classifier.
    cv : int, splitter or iterable, default=5
        The cross-validation folds, as in scikit-learn.

    Attributes
    ----------
    alpha_ : float
        The chosen alpha.
    best_estimator_ : SCNN or MiniBatchSCNN
        The network fitted to all samples with the chosen alpha. For an SCNN it is the last network
        of a path from the largest alpha to the chosen one, as in the folds. ``SCNN(alpha=alpha_)``
        starts from random samples instead and gives another network.
    components_, encoder_, gains_, decoder_, refined_encoder_, threshold_, n_nonzero_coefs_, \
    encoder_ridge_, encoder_r2_, usage_, energy_, energy_path_, optimality_, stop_reason_
        The attributes of ``best_estimator_``, as far as it has them.
    cv_results_ : dict of str to array
        "alpha" of shape (n_alphas,), in decreasing order; "sparsity" and the values of the
        criterion, each of shape (n_alphas, n_folds).
    n_features_in_ : int
        The number of features.
    feature_names_in_ : array of str
        The names of the features, if X has names that are all strings.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from lincode import SCNN, SCNNCV
    >>> X, y = load_digits(return_X_y=True)
    >>> network = SCNN(n_components=20, random_state=0)
    >>> search = SCNNCV(network, target_sparsity=0.6, cv=2).fit(X[:1000] / 16)
    >>> bool(0.5 < (search.transform(X[1000:] / 16) == 0).mean() < 0.7)
    True
    """

    def __init__(
        self,
        estimator: SCNN | MiniBatchSCNN | None = None,
        *,
        alphas: ArrayLike | None = None,
        alpha_ratios: ArrayLike | int = N_RATIOS,
        criterion: str = "sparsity",
        target_sparsity: float = 0.9,
        classifier: Any = None,
        scoring: Any = None,
        cv: Any = 5,
    ) -> None:
        self.estimator = estimator
        self.alphas = alphas
        self.alpha_ratios = alpha_ratios
        self.criterion = criterion
        self.target_sparsity = target_sparsity
        self.classifier = classifier
        self.scoring = scoring
        self.cv = cv

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, groups: Any = None
    ) -> SCNNCV:
        """Choose alpha and fit the network to all samples.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The training samples. Missing entries are NaN.
        y : array-like of shape (n_samples,), default=None
            The targets of the classifier, required for ``criterion="score"``.
        sample_weight : array-like of shape (n_samples,), default=None
            The weights of the samples; see ``SCNN.fit``. The networks are trained with them, but
            the criterion does not use them.
        groups : array-like of shape (n_samples,), default=None
            The groups for splitters that need them.

        Returns
        -------
        self
        """
        with unchanged_on_failure(self):
            network = self._check_parameters(y)
            rows = check_rows(None, X, reset=False, check_finite=False)
            validate_data(self, X, skip_check_array=True)
            lengths = check_samples(None, rows, sample_weight, reset=False, warn=False).lengths
            weights = None
            if sample_weight is not None:
                weights = check_sample_weight(sample_weight, rows.shape[0])
            targets = check_targets(y) if self.criterion == "score" else None
            p = rows.shape[1]
            m = network._n_units(p)
            alphas = alpha_grid(self.alphas, self.alpha_ratios, lengths, m=m, p=p)
            by_class = targets is not None and is_classifier(new_classifier(self.classifier))
            folds = make_folds(
                self.cv, rows, y if targets is None else targets, groups, by_class=by_class
            )
            evaluate = partial(
                evaluate_fold, network, self.criterion, self.classifier, self.scoring
            )

            def choose_and_fit(progress: FitProgress) -> int:
                results = []
                for fold in folds:
                    with progress.subtask("fold"):
                        results.append(evaluate(rows, targets, weights, alphas, *fold))
                self.cv_results_ = {"alpha": alphas} | {
                    name: np.array([result[name] for result in results]).T for name in results[0]
                }
                best = self._best_index()
                self.alpha_ = float(alphas[best])
                self.best_estimator_ = clone(network).set_params(alpha=self.alpha_)
                with progress.subtask("final fit", self.best_estimator_):
                    fit_best = self.best_estimator_.fit
                    if isinstance(network, SCNN):  # the results of the folds are those of paths
                        fit_best = partial(self.best_estimator_._fit, larger_alphas=alphas[:best])
                    fit_best(X, sample_weight=weights)
                return best

            best = self._with_progress(choose_and_fit, max_iter=len(folds) + 1, X=X, y=y)
        self._warn_about_sparsity(best)
        self._warn_about_grid(best)
        return self

    def _best_index(self) -> int:
        """Return the index of the best alpha, the largest if several are equally good."""
        mean = self.cv_results_[self.criterion].mean(axis=1)
        if np.isnan(mean).all():
            raise InvalidInputError(
                f"the {self.criterion} is NaN for every alpha; check scoring and the classifier."
            )
        if self.criterion == "sparsity":
            return int(np.nanargmin(np.abs(mean - self.target_sparsity)))
        return int(np.nanargmax(mean) if self.criterion == "score" else np.nanargmin(mean))

    def _warn_about_sparsity(self, best: int) -> None:
        if self.criterion != "sparsity":
            return
        reached = float(self.cv_results_["sparsity"].mean(axis=1)[best])
        if abs(reached - self.target_sparsity) > MAX_SPARSITY_ERROR:
            warn_user(
                f"SCNNCV: no alpha gives codes with target_sparsity={self.target_sparsity:.3g}; the"
                f" closest has {reached:.3g} zeros. Add values of alpha, or change threshold or"
                " n_components."
            )

    def _warn_about_grid(self, best: int) -> None:
        """Warn if the score may be better beyond an end of the grid."""
        alphas = self.cv_results_["alpha"]
        if self.criterion != "score" or len(alphas) < 2 or best not in (0, len(alphas) - 1):
            return
        mean = self.cv_results_["score"].mean(axis=1)
        smallest = best > 0
        neighbour = best - 1 if smallest else 1
        if mean[best] > mean[neighbour] and self.alpha_ > 0:
            end, more = ("smallest", "smaller") if smallest else ("largest", "larger")
            warn_user(
                f"SCNNCV: the best score is that of the {end} alpha, {self.alpha_:.3g}; add {more}"
                " values to alphas or alpha_ratios."
            )

    def transform(self, X: Any) -> Any:
        """Compute the codes of X with ``best_estimator_``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        array or CSR matrix of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        return self.best_estimator_.transform(X)

    def inverse_transform(self, X: Any) -> Any:
        """Reconstruct samples from their codes with ``best_estimator_``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_components)
            Codes as returned by ``transform``.

        Returns
        -------
        array of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return self.best_estimator_.inverse_transform(X)

    def reconstruct(self, X: Any) -> Any:
        """Compute the codes of X with ``best_estimator_`` and reconstruct X from them.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        array of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return self.best_estimator_.reconstruct(X)

    def encoder_module(self) -> Any:
        """Return the encoder and the decoder as a module of PyTorch; see ``SCNN.encoder_module``.

        Returns
        -------
        torch.nn.Module
        """
        check_is_fitted(self)
        return self.best_estimator_.encoder_module()

    def calibrate(self, X: Any, y: object = None, *, density: float | None = None) -> SCNNCV:
        """Adapt the encoder of ``best_estimator_`` to X; see ``SCNN.calibrate``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The samples.
        y : ignored
        density : float, default=None
            The fraction of non-zeros. None means that of the trained codes.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self.best_estimator_.calibrate(X, density=density)
        return self

    def alpha_max(self, X: Any) -> float:
        """Return the smallest alpha for which all codes are zero; see ``SCNN.alpha_max``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        float
        """
        return float(self._network().alpha_max(X))

    def score(self, X: Any, y: object = None) -> float:
        """Return the negative energy per sample of X; see ``SCNN.score``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The samples.
        y : ignored

        Returns
        -------
        float
        """
        check_is_fitted(self)
        return float(self.best_estimator_.score(X))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the codes; see ``SCNN.get_feature_names_out``.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        array of str
        """
        check_is_fitted(self)
        return self.best_estimator_.get_feature_names_out(input_features)

    components_ = _of_best_estimator("components_")
    encoder_ = _of_best_estimator("encoder_")
    gains_ = _of_best_estimator("gains_")
    decoder_ = _of_best_estimator("decoder_")
    refined_encoder_ = _of_best_estimator("refined_encoder_")
    threshold_ = _of_best_estimator("threshold_")
    n_nonzero_coefs_ = _of_best_estimator("n_nonzero_coefs_")
    encoder_ridge_ = _of_best_estimator("encoder_ridge_")
    encoder_r2_ = _of_best_estimator("encoder_r2_")
    usage_ = _of_best_estimator("usage_")
    energy_ = _of_best_estimator("energy_")
    energy_path_ = _of_best_estimator("energy_path_")
    optimality_ = _of_best_estimator("optimality_")
    stop_reason_ = _of_best_estimator("stop_reason_")

    def _network(self) -> Any:
        """Return the network without its alpha being chosen."""
        network = SCNN() if self.estimator is None else self.estimator
        if not isinstance(network, SCNN | MiniBatchSCNN):
            raise InvalidInputError(
                f"estimator must be an SCNN, a MiniBatchSCNN or None, got {network!r}; SCNNCV takes"
                " a network with its parameters, such as SCNNCV(SCNN(n_components=40))."
            )
        return network

    def _check_parameters(self, y: object) -> Any:
        network = self._network()
        network._check_parameters()
        check_choice("criterion", self.criterion, ("sparsity", "score", "energy"))
        check_number("target_sparsity", self.target_sparsity, 0)
        if self.target_sparsity > 1:
            raise InvalidInputError(
                f"target_sparsity must be between 0 and 1, got {self.target_sparsity}."
            )
        if self.criterion == "score" and y is None:
            raise InvalidInputError(
                "criterion='score' requires y, but it is None; pass the targets of the classifier"
                " to fit, or use criterion='sparsity'."
            )
        if self.criterion == "score":
            new_scorer(new_classifier(self.classifier), self.scoring)
        return network

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
