"""The two kinds of arrays that the package uses."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.floating[Any]]
"""A dense array of float32 or float64."""

Rows: TypeAlias = Any
"""Samples, one per row: an ``Array`` or a SciPy CSR matrix."""


LARGEST = float(np.finfo(np.float64).max) ** 0.5
"""The largest absolute value of an entry or a parameter, so that squares are representable."""
BLOCK_ENTRIES = 1_000_000
"""The number of entries of X that are converted to float64 at a time."""


def canonical_rows(X: Rows) -> Rows:
    """Return rows without duplicate entries, which SciPy allows in a CSR matrix.

    Duplicates are added in a copy. The square of an entry is not the sum of the squares of its
    parts.
    """
    if scipy.sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def row_squares(X: Rows) -> Array:
    """Return ‖X[n]‖² of each row in float64."""
    if scipy.sparse.issparse(X):
        return np.asarray(X.astype(np.float64).power(2).sum(axis=1)).ravel()
    X = np.asarray(X, dtype=np.float64)
    return np.asarray(np.einsum("ij,ij->i", X, X))


def column_squares(X: Rows) -> Array:
    """Return ‖X[:, k]‖² of each column in float64."""
    if scipy.sparse.issparse(X):
        values = np.square(X.data, dtype=np.float64)
        return np.bincount(X.indices, weights=values, minlength=X.shape[1]).astype(np.float64)
    squares = np.zeros(X.shape[1])
    size = max(1, BLOCK_ENTRIES // X.shape[1])
    for start in range(0, X.shape[0], size):
        block = np.asarray(X[start : start + size], dtype=np.float64)
        squares += np.einsum("ij,ij->j", block, block)
    return squares


def scaled_rows(X: Rows, weights: Array | None) -> Rows:
    """Return the rows of X, each multiplied by the square root of its weight, if there are any."""
    if weights is None:
        return X
    root = np.sqrt(weights).astype(X.dtype)
    if scipy.sparse.issparse(X):
        return (scipy.sparse.diags(root) @ X).tocsr()
    return X * root[:, None]
