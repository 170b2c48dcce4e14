"""Cross-validation folds: how they are made, and how networks are evaluated on one of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import column_or_1d

from lincode.core.types import Array, Rows
from lincode.estimators.path import scnn_path
from lincode.estimators.progress import without_callbacks
from lincode.estimators.scnn import SCNN
from lincode.exceptions import InvalidInputError


def check_targets(y: Any) -> Array:
    """Return y as an array with one dimension."""
    try:
        targets = np.asarray(column_or_1d(y, warn=True))
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"y must have one target per sample: {error}") from error
    if targets.dtype.kind == "f" and not np.isfinite(targets).all():
        raise InvalidInputError(
            "y must be finite, but it contains NaN or infinity; remove samples without a target."
        )
    return targets


def make_folds(
    cv: Any, X: Rows, y: Any, groups: Any, *, by_class: bool
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return the indices of the training and test samples of each fold.

    An integer ``cv`` means stratified folds if ``by_class`` is true.
    """
    from sklearn.model_selection import check_cv  # slow to import

    try:
        splitter = check_cv(cv, y if by_class else None, classifier=by_class)
        folds = [(train, test) for train, test in splitter.split(X, y, groups)]
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            "cv must be an integer of at least 2, a splitter or an iterable of pairs (train, test)"
            f" that suits X, y and groups, got {cv!r}: {error}"
        ) from error
    if not folds:
        raise InvalidInputError("cv must yield at least one fold, got none.")
    return [(_indices(train, X.shape[0]), _indices(test, X.shape[0])) for train, test in folds]


def _indices(chosen: Any, n: int) -> NDArray[np.intp]:
    """Return the samples of a fold as indices; they may be a mask."""
    indices = np.asarray(chosen)
    if indices.dtype == bool and indices.shape == (n,):
        indices = np.flatnonzero(indices)
    valid = indices.ndim == 1 and indices.size > 0 and indices.dtype.kind in "iu"
    if not valid or indices.min() < -n or indices.max() >= n:
        raise InvalidInputError(
            f"cv must yield pairs (train, test) of arrays of indices of the {n} samples, each with"
            f" at least one index, got {chosen!r}."
        )
    return indices.astype(np.intp)


def new_classifier(classifier: Any) -> Any:
    """Return an unfitted copy of the classifier; None means logistic regression."""
    if classifier is None:
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=1000)
    try:
        return clone(classifier)
    except TypeError as error:
        raise InvalidInputError(
            f"classifier must be an estimator of scikit-learn, got {classifier!r}."
        ) from error


def new_scorer(classifier: Any, scoring: Any) -> Any:
    """Return the function ``scorer(classifier, codes, y)`` that ``scoring`` names."""
    from sklearn.metrics import check_scoring

    try:
        return check_scoring(classifier, scoring)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            "scoring must be None, a callable or the name of a scorer of scikit-learn that suits"
            f" the classifier, got {scoring!r}: {error}"
        ) from error


def evaluate_fold(
    network: Any,
    criterion: str,
    classifier: Any,
    scoring: Any,
    X: Rows,
    y: Array | None,
    weights: Array | None,
    alphas: Array,
    train: NDArray[np.intp],
    test: NDArray[np.intp],
) -> dict[str, list[float]]:
    """Return the sparsity and the criterion for each alpha, on the samples ``test``.

    The networks are fitted to the samples ``train``, without callbacks and checkpoints: they are
    comparable only if every network is fully trained. Weights are used for fitting only.
    """
    w = None if weights is None else weights[train]
    network = without_callbacks(clone(network))
    network.set_params(callback=None)
    networks = _fit_networks(network, X[train], w, alphas)
    codes = [fitted.transform(X[test]) for fitted in networks]
    # With split_sign, the codes have twice as many columns as there are units.
    n_codes = len(test) * len(networks[0].components_)
    results = {"sparsity": [1 - _count_nonzero(U) / n_codes for U in codes]}
    if criterion == "energy":
        results["energy"] = [-fitted.score(X[test]) for fitted in networks]
    if criterion == "score":
        assert y is not None
        results["score"] = []
        for fitted, U in zip(networks, codes, strict=True):
            model = new_classifier(classifier).fit(fitted.transform(X[train]), y[train])
            results["score"].append(new_scorer(model, scoring)(model, U, y[test]))
    return results


def _fit_networks(network: Any, X: Rows, weights: Array | None, alphas: Array) -> list[Any]:
    """Return a fitted network for each alpha, as a path if the network is an SCNN."""
    if isinstance(network, SCNN):
        parameters = network.get_params()
        del parameters["alpha"]
        return list(scnn_path(X, alphas=alphas, sample_weight=weights, **parameters))
    return [
        clone(network).set_params(alpha=float(alpha)).fit(X, sample_weight=weights)
        for alpha in alphas
    ]


def _count_nonzero(U: Any) -> int:
    return int(U.nnz if hasattr(U, "nnz") else np.count_nonzero(U))
