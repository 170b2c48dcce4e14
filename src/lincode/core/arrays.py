"""The arrays that the package uses: their types, blocks, sums and samples of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.floating[Any]]
"""A dense array of float32 or float64."""
Rows: TypeAlias = Any
"""Samples, one per row: an ``Array`` or a SciPy CSR matrix."""
BLOCK_ENTRIES = 1_000_000
"""The number of entries of X that are converted to float64 at a time."""
DENSE_ENTRIES = 2_000_000
"""The maximum number of entries of X that are converted to a dense array at a time."""
SCAN_ENTRIES = 200_000
"""The number of entries of X that are checked and measured together, so that they stay in cache."""

MAPPED_BYTES = 2**30
"""Rows of a memory-mapped array of at most this size are read one by one, in random order."""


@dataclass(frozen=True)
class RowLengths:
    """The scale of the rows of X."""

    longest: float
    """max ‖X[n]‖"""
    mean: float
    """The mean of ‖X[n]‖"""


def is_lazy(X: Any) -> bool:
    """Return whether X is an array that should be read in chunks and not as a whole."""
    if isinstance(X, np.ndarray):
        return isinstance(X, np.memmap) and X.ndim == 2 and X.nbytes > MAPPED_BYTES
    # The values of objects with one of these attributes are in memory.
    in_memory = ("__array_interface__", "__dlpack__", "iloc")
    if scipy.sparse.issparse(X) or any(hasattr(X, name) for name in in_memory):
        return False
    if not all(hasattr(X, name) for name in ("shape", "dtype", "__getitem__")):
        return False
    try:
        np.dtype(X.dtype)
    except TypeError:  # such as the dtypes of PyTorch
        return False
    return isinstance(X.shape, tuple)


def blocks(n: int, size: int) -> list[slice]:
    """Return consecutive slices of at most ``size`` that cover range(n)."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def dense_blocks(X: Rows) -> list[slice]:
    """Return blocks of rows that are small enough to be converted to dense arrays."""
    N, p = X.shape
    return blocks(N, max(1, DENSE_ENTRIES // p))


def dense(X: Rows) -> Array:
    """Return a block of rows as a dense array. Do not use it on the whole of X."""
    return np.asarray(X.toarray() if scipy.sparse.issparse(X) else X)


def stack(parts: list[Rows]) -> Rows:
    """Return blocks of rows as one array, or as a CSR matrix if all of them are sparse."""
    if len(parts) == 1:
        return parts[0]
    if all(map(scipy.sparse.issparse, parts)):
        return scipy.sparse.vstack(parts, format="csr")
    return np.concatenate([dense(part) for part in parts])


def sample_indices(N: int, n: int) -> NDArray[np.intp]:
    """Return at most n indices of range(N), in increasing order, always the same ones.

    They are random, because evenly spaced rows of periodic data may all be of one kind.
    """
    if n >= N:
        return np.arange(N)
    return np.sort(np.random.RandomState(0).permutation(N)[:n])


def gram(X: Rows, rows_per_block: int = 4096) -> Array:
    """Compute XᵀX (p, p) in float64."""
    if scipy.sparse.issparse(X):
        X = X.astype(np.float64)
        return np.asarray((X.T @ X).toarray())
    XtX = np.zeros((X.shape[1], X.shape[1]))
    for rows in blocks(X.shape[0], rows_per_block):
        block = np.asarray(X[rows], dtype=np.float64)
        XtX += block.T @ block
    return XtX


def scan_rows(X: Rows) -> tuple[float, RowLengths]:
    """Return the largest absolute value of X, and its row lengths, in one pass over the rows.

    They are not finite if X is not, or if the squares of its entries overflow.
    """
    N, p = X.shape
    largest, longest, total = 0.0, 0.0, 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in blocks(N, max(1, SCAN_ENTRIES // p)):
            block = X[rows]
            values = block.data if scipy.sparse.issparse(block) else block
            if not values.size:
                continue
            largest = float(np.maximum(largest, np.maximum(values.max(), -values.min())))
            lengths = np.sqrt(row_squares(block))
            longest = max(float(lengths.max()), longest)
            total += float(lengths.sum())
    if not np.isfinite(total):
        longest = total
    return largest, RowLengths(longest, total / N)


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
