"""SCNN with its λ chosen on samples that were held out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_classifier
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from lincode.core.types import Array, Rows
from lincode.estimators._checks import check_choice, check_number, check_rows, unchanged_on_failure
from lincode.estimators.path import alpha_grid, scnn_path
from lincode.estimators.scnn import SCNN


class SCNNCV(TransformerMixin, BaseEstimator):
    """SCNN with its λ chosen by cross-validation, one warm path of λ a fold.

    Parameters
    ----------
    estimator : SCNN, default=None
        The network, of any parameters; its ``alpha`` is what is chosen. None means ``SCNN()``.
        Its ``callback`` hears of the last fit only.
    alphas, shares : default=None and 10
        The values of λ to choose from, as in :func:`lincode.scnn_path`.
    choose : {"sparsity", "score", "energy"}, default="sparsity"
        What makes a λ the best.

        - "sparsity": the share of zeros in the codes of held-out samples is nearest to
          ``target_sparsity``;
        - "score": a classifier of the codes, trained with y, does best on held-out samples;
        - "energy": the energy of held-out samples is least. As λ is part of the energy, this is
          nearly always the least λ: it tells how low λ may go before a dictionary learned
          from few samples no longer serves others.
    target_sparsity : float, default=0.9
    classifier : estimator, default=None
        What is trained on the codes for "score"; may be a regressor. None means
        ``LogisticRegression(max_iter=1000)``.
    scoring : str or callable, default=None
        How it is judged: any scorer of scikit-learn. None means its own ``score``.
    cv : int, splitter or iterable, default=5
        Folds, as scikit-learn understands them.

    Attributes
    ----------
    alpha_ : float
        The λ that was chosen.
    best_estimator_ : SCNN
        The network learned with it from all samples; ``components_`` and ``encoder_`` are its.
    cv_results_ : dict of str to array
        "alpha" (n_alphas,), falling; "sparsity" and what was chosen by, (n_alphas, n_folds).
    n_features_in_ : int
    feature_names_in_ : array of str

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from lincode import SCNN, SCNNCV
    >>> X, y = load_digits(return_X_y=True)
    >>> network = SCNN(n_components=20, threshold="match", random_state=0)
    >>> search = SCNNCV(network, target_sparsity=0.6, cv=2).fit(X[:1000] / 16)
    >>> bool(0.5 < (search.transform(X[1000:] / 16) == 0).mean() < 0.7)
    True
    """

    def __init__(
        self,
        estimator: SCNN | None = None,
        *,
        alphas: ArrayLike | None = None,
        shares: ArrayLike | int = 10,
        choose: str = "sparsity",
        target_sparsity: float = 0.9,
        classifier: Any = None,
        scoring: Any = None,
        cv: Any = 5,
    ) -> None:
        self.estimator = estimator
        self.alphas = alphas
        self.shares = shares
        self.choose = choose
        self.target_sparsity = target_sparsity
        self.classifier = classifier
        self.scoring = scoring
        self.cv = cv

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> SCNNCV:
        """Choose λ, then learn all of X with it.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
            Needed for ``choose="score"``.
        groups : array-like of shape (n_samples,), default=None
            For splitters that keep groups together.

        Returns
        -------
        self
        """
        with unchanged_on_failure(self):
            network = self._check_parameters(y)
            validate_data(self, X, skip_check_array=True)
            data = check_rows(None, X, reset=False, scale=True)
            y = None if y is None else column_or_1d(y, warn=True)
            alphas = alpha_grid(network.alpha_max(data), self.alphas, self.shares)
            from sklearn.model_selection import check_cv  # not loaded by who does not search

            splitter = check_cv(self.cv, y, classifier=is_classifier(self._judge()))
            folds = list(splitter.split(data, y, groups))
            judged = [self._fold(network, data, y, alphas, *fold) for fold in folds]
            self.cv_results_ = {"alpha": alphas} | {
                name: np.array([fold[name] for fold in judged]).T for name in judged[0]
            }
            self.alpha_ = float(alphas[self._best()])
            self.best_estimator_ = clone(network).set_params(alpha=self.alpha_).fit(X)
        return self

    def _fold(
        self, network: SCNN, X: Rows, y: Array | None, alphas: Array, train: Array, test: Array
    ) -> dict[str, list[float]]:
        """What each λ is worth where the network has seen ``train`` only."""
        parameters = network.get_params()
        del parameters["alpha"]
        parameters["callback"] = None  # a fold without all its λ cannot be compared
        path = scnn_path(X[train], alphas=alphas, **parameters)
        codes = [scnn.transform(X[test]) for scnn in path]
        worth = {"sparsity": [1 - _used(U) / np.prod(U.shape) for U in codes]}
        if self.choose == "energy":
            worth["energy"] = [-scnn.score(X[test]) for scnn in path]
        if self.choose == "score":
            assert y is not None
            worth["score"] = []
            for scnn, U in zip(path, codes, strict=True):
                judge = self._judge()
                judge.fit(scnn.transform(X[train]), y[train])
                worth["score"].append(self._scorer(judge)(judge, U, y[test]))
        return worth

    def _judge(self) -> Any:
        if self.classifier is not None:
            return clone(self.classifier)
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=1000)

    def _scorer(self, judge: Any) -> Any:
        from sklearn.metrics import check_scoring

        return check_scoring(judge, self.scoring)

    def _best(self) -> int:
        """Of equals the largest λ, which comes first."""
        mean = self.cv_results_[self.choose].mean(axis=1)
        if np.isnan(mean).all():
            raise ValueError(f"every alpha has a {self.choose} that is NaN; look at the scorer.")
        if self.choose == "sparsity":
            return int(np.nanargmin(np.abs(mean - self.target_sparsity)))
        return int(np.nanargmax(mean) if self.choose == "score" else np.nanargmin(mean))

    def transform(self, X: Any) -> Any:
        """The codes of X by the network that was chosen."""
        check_is_fitted(self)
        return self.best_estimator_.transform(X)

    def inverse_transform(self, X: Any) -> Array:
        """The samples that codes stand for."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.inverse_transform(X))

    def score(self, X: Any, y: object = None) -> float:
        """Minus the energy per sample, as ``SCNN.score``."""
        check_is_fitted(self)
        return float(self.best_estimator_.score(X))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the codes, as ``SCNN.get_feature_names_out``."""
        check_is_fitted(self)
        return self.best_estimator_.get_feature_names_out(input_features)

    @property
    def components_(self) -> Array:
        """The dictionary of the network that was chosen."""
        return np.asarray(self.best_estimator_.components_)

    @property
    def encoder_(self) -> Array:
        """The encoder of the network that was chosen."""
        return np.asarray(self.best_estimator_.encoder_)

    def _check_parameters(self, y: object) -> SCNN:
        network = SCNN() if self.estimator is None else self.estimator
        if not isinstance(network, SCNN):
            raise TypeError(f"estimator must be an SCNN or None, got {network!r}.")
        network._check_parameters()
        check_choice("choose", self.choose, ("sparsity", "score", "energy"))
        check_number("target_sparsity", self.target_sparsity, 0)
        if self.target_sparsity > 1:
            raise ValueError(
                f"target_sparsity must be between 0 and 1, got {self.target_sparsity}."
            )
        if self.choose == "score" and y is None:
            raise ValueError(
                "choose='score' requires y, but it is None: give fit the labels the"
                " classifier is to learn, or choose by 'sparsity'."
            )
        if self.choose == "score":
            self._scorer(self._judge())
        return network

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _used(U: Any) -> int:
    return int(U.nnz if hasattr(U, "nnz") else np.count_nonzero(U))
