"""Codes in the layouts that ``transform`` returns: with split signs, and as compressed rows.

The kernels are compiled by Numba. They read a block of codes while it is in the cache. This module
imports Numba, so it is imported only when it is needed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lincode.core.compiler import compiled
from lincode.core.types import Array


class CompressedRows(NamedTuple):
    """The non-zeros of a block of codes, row by row."""

    counts: NDArray[np.int64]
    """The number of non-zeros of each row, shape (n,)"""
    columns: NDArray[np.int32]
    """The columns of the non-zeros, in increasing order in each row"""
    values: Array
    """The non-zeros"""


def split_signs(U: Array, out: Array) -> None:
    """Write [max(U, 0), max(−U, 0)] to ``out``, of shape (n, 2 m), for U of shape (n, m)."""
    _split(U, out)


def compress_rows(U: Array, *, split: bool) -> CompressedRows:
    """Return the non-zeros of U, or with ``split`` those of [max(U, 0), max(−U, 0)]."""
    counts = np.empty(len(U), dtype=np.int64)
    _count(U, counts)
    size = int(counts.sum())
    # ``_fill`` also writes to the last place, which is not part of the result.
    columns, values = np.empty(size + 1, dtype=np.int32), np.empty(size + 1, dtype=U.dtype)
    _fill(U, columns, values)
    if split:
        _split_compressed(U.shape[1], counts, columns, values)
    return CompressedRows(counts, columns[:size], values[:size])


@compiled
def _split(U: Any, out: Any) -> None:
    n, m = U.shape
    zero = U.dtype.type(0)
    for i in range(n):
        # Two simple loops become vector instructions; one loop that writes twice does not.
        row, positive, negative = U[i], out[i, :m], out[i, m:]
        for j in range(m):
            positive[j] = row[j] if row[j] > zero else zero
        for j in range(m):
            negative[j] = -row[j] if row[j] < zero else zero


@compiled
def _count(U: Any, counts: Any) -> None:
    n, m = U.shape
    for i in range(n):
        row, count = U[i], 0
        for j in range(m):
            count += row[j] != 0
        counts[i] = count


@compiled
def _fill(U: Any, columns: Any, values: Any) -> None:
    """Write every entry; one that is zero is overwritten by the next. Branches would be slower."""
    n, m = U.shape
    k = 0
    for i in range(n):
        row = U[i]
        for j in range(m):
            columns[k] = j
            values[k] = row[j]
            k += row[j] != 0


@compiled
def _split_compressed(m: int, counts: Any, columns: Any, values: Any) -> None:
    """Move the negative values of each row behind the positive ones, to the columns m, m + 1, …

    As in ``_fill``, a value is written to both places, and to the wrong one only temporarily.
    """
    negative_columns, negative_values = np.empty(m, columns.dtype), np.empty(m, values.dtype)
    start = 0
    for count in counts:
        n_positive, n_negative = 0, 0
        for k in range(start, start + count):
            column, value = columns[k], values[k]
            negative_columns[n_negative] = m + column
            negative_values[n_negative] = -value
            columns[start + n_positive] = column
            values[start + n_positive] = value
            n_negative += value < 0
            n_positive = k + 1 - start - n_negative
        for k in range(n_negative):
            columns[start + n_positive + k] = negative_columns[k]
            values[start + n_positive + k] = negative_values[k]
        start += count
