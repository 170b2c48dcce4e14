"""Checks of codes, names, indices and estimators, which the displays also use."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from lincode.exceptions import InvalidInputError

Floats = NDArray[np.float64]


def check_network(estimator: Any, attribute: str = "components_") -> Any:
    """Check that an estimator is a fitted network with an attribute, and return the attribute."""
    name = type(estimator).__name__
    if hasattr(estimator, "steps"):
        steps = [key for key, step in estimator.steps if hasattr(step, attribute)]
        step = f"{steps[-1]!r}" if steps else "name"
        raise InvalidInputError(
            f"estimator must be a fitted network, got a {name}; pass its step,"
            f" pipeline[{step}], and samples that the steps before it have transformed."
        )
    if not hasattr(estimator, "fit") or isinstance(estimator, type):
        raise InvalidInputError(
            f"estimator must be a fitted network, such as SCNN, got {estimator!r:.40}; pass arrays"
            " to the constructor of a display."
        )
    if hasattr(estimator, attribute):
        return getattr(estimator, attribute)
    best = getattr(estimator, "best_estimator_", None)
    if best is not None and not hasattr(estimator, "components_"):
        raise InvalidInputError(
            f"estimator must be a fitted network, got a {name}; pass its best_estimator_."
        )
    check_is_fitted(estimator)
    raise InvalidInputError(f"{name} has no {attribute}; it must be an estimator that has it.")


def codes_per_atom(estimator: Any, X: Any) -> Any:
    """Return the codes of X with one column per atom, also if signs are split."""
    m = len(check_network(estimator))
    U, _ = named_matrix(estimator.transform(X), "codes")
    return U[:, :m] - U[:, m:] if U.shape[1] == 2 * m else U


def splits_signs(estimator: Any) -> bool:
    """Return whether the codes have two columns per atom, for either sign."""
    network = getattr(estimator, "best_estimator_", estimator)
    return bool(getattr(network, "split_sign", False))


def decoder_of(estimator: Any) -> Floats:
    """Return what ``inverse_transform`` multiplies codes with, one row per atom."""
    D = np.asarray(check_network(estimator))
    n_columns = len(D) * (2 if splits_signs(estimator) else 1)
    return np.asarray(estimator.inverse_transform(np.eye(len(D), n_columns)))


def check_codes(codes: Any) -> Any:
    """Return codes as a dense float64 array or a CSR matrix of finite numbers, or raise."""
    return named_matrix(codes, "codes")[0]


def named_matrix(values: Any, name: str) -> tuple[Any, Any]:
    """Return a dense float64 array or a CSR matrix, and the names of its columns or None."""
    names = getattr(values, "columns", None)
    if hasattr(values, "fit"):
        raise InvalidInputError(
            f"{name} must be numbers, got the estimator {type(values).__name__}; pass"
            " scnn.transform(X), where scnn is the estimator."
        )
    if issparse(values):
        matrix = values.tocsr().astype(np.float64)
        matrix.sum_duplicates()
    else:
        try:
            matrix = np.asarray(values, dtype=np.float64)
        except (ValueError, TypeError) as error:
            raise InvalidInputError(f"{name} must be numbers: {error}") from error
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InvalidInputError(
            f"{name} must have two dimensions and at least one entry, got shape {matrix.shape}."
        )
    if not np.isfinite(matrix.data if issparse(matrix) else matrix).all():
        raise InvalidInputError(f"{name} must be finite, but contain NaN or infinity.")
    return matrix, None if names is None else np.asarray(names)


def check_names(names: Any, n: int) -> Any:
    """Return names as an array, or raise if their number is wrong."""
    array = np.asarray(names)
    if array.shape != (n,):
        raise InvalidInputError(
            f"feature_names must have one name for each of {n} features, got shape {array.shape}."
        )
    return array


def check_indices(indices: Any, n: int, advice: str = "") -> NDArray[np.intp]:
    """Return indices of atoms as an array; None means all n of them.

    ``advice`` is added to the message if an index is not below n.
    """
    if indices is None:
        return np.arange(n)
    array = np.atleast_1d(np.asarray(indices))
    if array.ndim != 1 or not array.size or not np.issubdtype(array.dtype, np.integer):
        raise InvalidInputError(f"atoms must be None or integers, got {indices!r}.")
    if array.min() < 0 or array.max() >= n:
        more = f"; {advice}" if advice else ""
        raise InvalidInputError(f"atoms must be between 0 and {n - 1}, got {indices!r}{more}.")
    return array.astype(np.intp)
