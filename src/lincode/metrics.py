"""Measures of codes and reconstructions: functions of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse


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
    U = codes if issparse(codes) else np.asarray(codes)
    values = np.asarray(U.data if issparse(codes) else U)
    active = values.size - int(np.count_nonzero(np.abs(values) <= threshold))
    return 1 - active / int(np.prod(U.shape))
