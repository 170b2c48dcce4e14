"""Rows a block at a time, dense where a block has to be."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from lincode.core.types import Array, Rows

DENSE_ENTRIES = 2_000_000
"""Entries of X that may be made dense at a time."""


def blocks(n: int, size: int) -> list[slice]:
    """Consecutive slices of at most ``size`` that cover range(n)."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def dense_blocks(X: Rows) -> list[slice]:
    """Blocks of rows small enough to be made dense one at a time."""
    N, p = X.shape
    return blocks(N, max(1, DENSE_ENTRIES // p))


def dense(X: Rows) -> Array:
    """A block of rows as a dense array; never to be used on all of X."""
    return np.asarray(X.toarray() if scipy.sparse.issparse(X) else X)
