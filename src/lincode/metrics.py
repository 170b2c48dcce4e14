"""Metrics of codes and reconstructions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from lincode.exceptions import InvalidInputError

THRESHOLDS = np.linspace(0, 0.5, 51)
"""Default thresholds of sparsity curves. The paper uses the range [0, 0.5]."""


def rms_error(X: Any, X_reconstructed: ArrayLike) -> float:
    """Root-mean-square difference between X and its reconstruction, over all entries.

    Parameters
    ----------
    X : array-like or scipy sparse matrix of shape (n_samples, n_features)
        Samples.
    X_reconstructed : array-like of shape (n_samples, n_features)
        Reconstructed samples, for example from ``reconstruct`` or ``inverse_transform``.

    Returns
    -------
    error : float

    Examples
    --------
    >>> from lincode.metrics import rms_error
    >>> rms_error([[1.0, 2.0]], [[1.0, 0.0]])
    1.4142135623730951
    """
    A, B = _numbers("X", X), _numbers("X_reconstructed", X_reconstructed)
    if A.shape != B.shape or not A.size:
        raise InvalidInputError(
            "X and X_reconstructed must have the same shape and at least one entry, got shapes"
            f" {A.shape} and {B.shape}."
        )
    for name, values in (("X", A), ("X_reconstructed", B)):
        if not np.isfinite(values).all():
            raise InvalidInputError(
                f"{name} must be finite, but it contains NaN or infinity; compare the other entries"
                " only."
            )
    difference = A.astype(np.float64) / 2 - B.astype(np.float64) / 2
    largest = float(np.abs(difference).max()) or 1.0  # squares of the ratios cannot overflow
    return 2 * largest * float(np.sqrt(np.mean((difference / largest) ** 2)))


def sparsity(codes: Any, threshold: float = 0.0) -> float:
    """Fraction of coefficients whose absolute value is at most ``threshold``.

    This is the sparsity value of the paper, except that it uses ``|u|`` instead of u. Large
    negative coefficients therefore do not count as small.

    Parameters
    ----------
    codes : array-like or scipy sparse matrix of shape (n_samples, n_components)
        Codes, as returned by ``transform``.
    threshold : float, default=0
        Largest absolute value that counts as small.

    Returns
    -------
    fraction : float
        Number between 0 and 1.

    Examples
    --------
    >>> from lincode.metrics import sparsity
    >>> sparsity([[0.0, -3.0, 0.0, 0.1]])
    0.5
    """
    return float(sparsity_curve(codes, [threshold])[0])


def sparsity_curve(codes: Any, thresholds: ArrayLike = THRESHOLDS) -> NDArray[np.float64]:
    """Compute :func:`sparsity` for many thresholds at once.

    Parameters
    ----------
    codes : array-like or scipy sparse matrix of shape (n_samples, n_components)
        Codes, as returned by ``transform``.
    thresholds : array-like of shape (n_thresholds,), default=51 values in [0, 0.5]
        Thresholds, in any order. The default range is that of the paper.

    Returns
    -------
    fractions : array of shape (n_thresholds,)
        For each threshold, the fraction of coefficients whose absolute value is at most the
        threshold.

    Examples
    --------
    >>> from lincode.metrics import sparsity_curve
    >>> sparsity_curve([[0.0, -0.3, 0.1, 2.0]], [0.0, 0.2, 0.4])
    array([0.25, 0.5 , 0.75])
    """
    if issparse(codes):
        codes = codes.tocsr(copy=True)
        codes.sum_duplicates()
    stored = _numbers("codes", codes.data if issparse(codes) else codes)
    total = int(np.prod(codes.shape)) if issparse(codes) else stored.size
    if not total:
        raise InvalidInputError("codes must have at least one entry, got none.")
    limits = _numbers("thresholds", thresholds)
    if np.isnan(limits).any():
        raise InvalidInputError(f"thresholds must not be NaN, got {thresholds!r}.")
    # Thresholds have the precision of the codes; otherwise the float32 number 0.1 is above 0.1.
    largest = np.finfo(stored.dtype).max
    limits = np.clip(limits, -largest, largest).astype(stored.dtype)
    n_small = np.searchsorted(np.sort(np.abs(stored), axis=None), limits, side="right")
    n_implicit_zeros = np.where(limits >= 0, total - stored.size, 0)
    return np.asarray((n_small + n_implicit_zeros) / total, dtype=np.float64)


def sparsity_area(codes: Any, thresholds: ArrayLike = THRESHOLDS) -> float:
    """Area under :func:`sparsity_curve`, divided by the area for codes that are all zero.

    Parameters
    ----------
    codes : array-like or scipy sparse matrix of shape (n_samples, n_components)
        Codes, as returned by ``transform``.
    thresholds : array-like of shape (n_thresholds,), default=51 values in [0, 0.5]
        At least two thresholds in increasing order.

    Returns
    -------
    area : float
        Number between 0 and 1. Larger means sparser.

    Examples
    --------
    >>> from lincode.metrics import sparsity_area
    >>> sparsity_area([[0.0, 0.0, 0.0, 0.0]])
    1.0
    """
    t = _numbers("thresholds", thresholds).astype(np.float64)
    if t.ndim != 1 or t.size < 2 or not (np.diff(t) > 0).all():
        raise InvalidInputError(
            f"thresholds must be at least two numbers in increasing order, got {thresholds!r}."
        )
    curve = sparsity_curve(codes, t)
    return float(np.sum((curve[1:] + curve[:-1]) / 2 * np.diff(t)) / (t[-1] - t[0]))


def error_rate(y_true: ArrayLike, y_predicted: ArrayLike) -> float:
    """Fraction of labels that are predicted wrongly.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels. Labels must not be missing (NaN, NA or None).
    y_predicted : array-like of shape (n_samples,)
        Predicted labels.

    Returns
    -------
    error : float
        Number between 0 and 1.

    Examples
    --------
    >>> from lincode.metrics import error_rate
    >>> error_rate([1, 2, 3, 4], [1, 2, 3, 3])
    0.25
    """
    a, b = _labels("y_true", y_true), _labels("y_predicted", y_predicted)
    if a.shape != b.shape or not a.size:
        raise InvalidInputError(
            "y_true and y_predicted must have the same shape and at least one label, got shapes"
            f" {a.shape} and {b.shape}."
        )
    return float(np.mean(a != b))


def _numbers(name: str, values: Any) -> NDArray[np.floating[Any]]:
    """Return numbers as an array of floats; those that are not floats become float64."""
    A = _array(name, values.toarray() if issparse(values) else values)
    if A.dtype.kind == "O":
        try:
            A = A.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"{name} must contain real numbers: {error}") from error
    if A.dtype.kind not in "biuf":
        raise InvalidInputError(f"{name} must contain real numbers, got dtype {A.dtype}.")
    return A if A.dtype.kind == "f" else A.astype(np.float64)


def _labels(name: str, values: Any) -> NDArray[Any]:
    """Return labels of any type as an array."""
    labels = np.empty(()) if issparse(values) else _array(name, values)
    if labels.ndim == 0:  # a single label, or an object that is not array-like
        raise InvalidInputError(
            f"{name} must be a sequence of labels, got {type(values).__name__}."
        )
    if _has_missing(labels):
        raise InvalidInputError(
            f"{name} must not contain missing labels (NaN, NA or None); remove these samples."
        )
    return labels


def _has_missing(labels: NDArray[Any]) -> bool:
    """Return whether a label is None or not equal to itself, as NaN and NaT."""
    if labels.dtype.kind != "O":
        return bool(np.any(labels != labels))
    try:
        return any(label is None or bool(label != label) for label in labels.flat)
    except TypeError:  # pd.NA is neither equal to itself nor not equal
        return True
    except ValueError:  # labels that are arrays
        return False


def _array(name: str, values: Any) -> NDArray[Any]:
    """Return the values as an array without masked entries."""
    if np.ma.is_masked(values):
        raise InvalidInputError(
            f"{name} must not have masked entries; select the others with ~{name}.mask."
        )
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name} must be an array: {error}") from error
