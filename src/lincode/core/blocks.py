"""Rows a block at a time, dense where a block has to be."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from lincode.core.types import Array, Rows


def blocks(n: int, size: int) -> list[slice]:
    """Consecutive slices of at most ``size`` that cover range(n)."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def dense(X: Rows) -> Array:
    """A block of rows as a dense array; never to be used on all of X."""
    return np.asarray(X.toarray() if scipy.sparse.issparse(X) else X)
