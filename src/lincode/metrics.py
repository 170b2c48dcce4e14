"""Measures of codes and reconstructions: functions of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

THRESHOLDS = np.linspace(0, 0.5, 51)
"""The paper's range of thresholds for sparsity curves."""


def rms_error(X: Any, X_reconstructed: ArrayLike) -> float:
    """Root mean square of X − X_reconstructed over all entries.

    Parameters
    ----------
    X : array-like or scipy sparse matrix of shape (n_samples, n_features)
    X_reconstructed : array-like of the same shape

    Examples
    --------
    >>> from lincode.metrics import rms_error
    >>> rms_error([[1.0, 2.0]], [[1.0, 0.0]])
    1.4142135623730951
    """
    A = np.asarray(X.toarray() if issparse(X) else X, dtype=np.float64)
    B = np.asarray(X_reconstructed, dtype=np.float64)
    if A.shape != B.shape:
        raise ValueError(f"X and X_reconstructed must have one shape, got {A.shape} and {B.shape}.")
    return float(np.sqrt(np.mean((A - B) ** 2)))


def sparsity(codes: Any, threshold: float = 0.0) -> float:
    """Share of coefficients that are not above ``threshold`` in absolute value.

    This is the paper's sparsity value with |u| for u: a large negative coefficient is
    not sparse.

    Parameters
    ----------
    codes : array-like or scipy sparse matrix of shape (n_samples, n_components)
    threshold : float, default=0

    Examples
    --------
    >>> from lincode.metrics import sparsity
    >>> sparsity([[0.0, -3.0, 0.0, 0.1]])
    0.5
    """
    return float(sparsity_curve(codes, [threshold])[0])


def sparsity_curve(codes: Any, thresholds: ArrayLike = THRESHOLDS) -> NDArray[np.float64]:
    """``sparsity`` at each of many thresholds; by default 51 of them, over the paper's [0, 0.5].

    Parameters
    ----------
    codes : array-like or scipy sparse matrix of shape (n_samples, n_components)
    thresholds : array-like of shape (n,), in any order

    Returns
    -------
    array of shape (n,)

    Examples
    --------
    >>> from lincode.metrics import sparsity_curve
    >>> sparsity_curve([[0.0, -0.3, 0.1, 2.0]], [0.0, 0.2, 0.4])
    array([0.25, 0.5 , 0.75])
    """
    U = codes.tocsr() if issparse(codes) else np.asarray(codes)
    values = U.data if issparse(codes) else U
    size = np.sort(np.abs(values), axis=None)
    total = int(np.prod(U.shape))
    # Thresholds in the precision of the codes, or 0.1 would not be at most 0.1.
    limits = np.asarray(thresholds, dtype=np.result_type(size.dtype, np.float16))
    small = np.searchsorted(size, limits, side="right")
    return np.asarray((small + total - size.size) / total, dtype=np.float64)


def sparsity_area(codes: Any, thresholds: ArrayLike = THRESHOLDS) -> float:
    """Area under ``sparsity_curve``, as a share of that of codes that are all zero.

    Parameters
    ----------
    codes : array-like or scipy sparse matrix of shape (n_samples, n_components)
    thresholds : array-like of shape (n,), rising

    Examples
    --------
    >>> from lincode.metrics import sparsity_area
    >>> sparsity_area([[0.0, 0.0, 0.0, 0.0]])
    1.0
    """
    t = np.asarray(thresholds, dtype=np.float64)
    if t.ndim != 1 or t.size < 2 or not (np.diff(t) > 0).all():
        raise ValueError(f"thresholds must be two or more numbers that rise, got {thresholds!r}.")
    curve = sparsity_curve(codes, t)
    return float(np.sum((curve[1:] + curve[:-1]) / 2 * np.diff(t)) / (t[-1] - t[0]))


def error_rate(y_true: ArrayLike, y_predicted: ArrayLike) -> float:
    """Share of labels that are wrong.

    Examples
    --------
    >>> from lincode.metrics import error_rate
    >>> error_rate([1, 2, 3, 4], [1, 2, 3, 3])
    0.25
    """
    a, b = np.asarray(y_true), np.asarray(y_predicted)
    if a.shape != b.shape or not a.size:
        raise ValueError(
            f"y_true and y_predicted must have one shape and not be empty, got {a.shape} and"
            f" {b.shape}."
        )
    return float(np.mean(a != b))
