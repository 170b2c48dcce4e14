"""Rows with missing entries: their scale, and the values with which training starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lincode.core.missing_fill import SecondMoments, predict_missing
from lincode.core.types import Array
from lincode.rows.memory import SCAN_ENTRIES, blocks, dense_blocks, gram, sample_indices
from lincode.rows.protocol import RowLengths

MOMENT_ROWS, MOMENT_ROWS_PER_FEATURE = 2000, 10
"""The second moments for the first prediction are estimated from max(2000, 10 p) rows."""
MOMENT_ROUNDS = 5
"""How often entries are predicted and the second moments computed again."""


@dataclass(frozen=True)
class ObservedEntries:
    """What the observed entries of X, which has NaN elsewhere, say about the scale of the rows."""

    largest: float
    """The largest absolute value; infinite if an entry is"""
    counts: Array
    """The number of observed entries of each column"""
    means: Array
    """The mean of the observed entries of each column"""
    lengths: RowLengths
    """The squares of missing entries are replaced by the mean square of their column"""
    empty: NDArray[np.bool_]
    """Which rows have no observed entry"""


def scan_observed(X: Array, weights: Array | None = None) -> ObservedEntries:
    """Measure the observed entries of X in two passes over the rows."""
    N, p = X.shape
    w = np.ones(N) if weights is None else weights
    total, sums, squares, counts = np.zeros(p), np.zeros(p), np.zeros(p), np.zeros(p)
    largest, empty = 0.0, np.zeros(N, dtype=bool)
    parts = blocks(N, max(1, SCAN_ENTRIES // p))
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in parts:
            missing = np.isnan(X[rows])
            block = np.where(missing, 0, X[rows]).astype(np.float64)
            largest = max(largest, float(np.abs(block).max(initial=0)))
            empty[rows] = missing.all(axis=1)
            counts += (~missing).sum(axis=0)
            total += w[rows] @ ~missing
            sums += w[rows] @ block
            squares += w[rows] @ block**2
    total = np.maximum(total, np.finfo(np.float64).tiny)
    longest = mean = 0.0
    for rows in parts if np.isfinite(squares).all() else []:
        missing = np.isnan(X[rows])
        entries = np.where(missing, squares / total, X[rows].astype(np.float64) ** 2)
        norms = np.sqrt(entries.sum(axis=1))[~empty[rows]]
        longest = max(longest, float(norms.max(initial=0)))
        mean += float(w[rows][~empty[rows]] @ norms)
    lengths = RowLengths(longest, mean / max(float(w[~empty].sum()), np.finfo(float).tiny))
    return ObservedEntries(largest, counts, sums / total, lengths, empty)


def fill_missing(
    X: Array, missing: NDArray[np.bool_], means: Array, weights: Array | None = None
) -> None:
    """Overwrite the missing entries of X by a linear prediction from the observed ones.

    It starts from the means of the columns. The second moments of a sample of the rows and the
    prediction of its missing entries are then computed in turn; all rows are predicted at the end.
    """
    N, p = X.shape
    sample = sample_indices(N, max(MOMENT_ROWS, MOMENT_ROWS_PER_FEATURE * p))
    rows, holes = X[sample], missing[sample]
    w = None if weights is None else weights[sample]
    np.copyto(rows, means.astype(X.dtype), where=holes)
    for _ in range(MOMENT_ROUNDS):
        predict_rows(rows, holes, second_moments(rows, w))
    predict_rows(X, missing, second_moments(rows, w))


def predict_rows(X: Array, missing: NDArray[np.bool_], moments: SecondMoments) -> None:
    """Do what ``predict_missing`` does, block by block."""
    for rows in dense_blocks(X):
        predict_missing(X[rows], missing[rows], moments)


def second_moments(X: Array, weights: Array | None = None) -> SecondMoments:
    """Return XᵀX, or its factor X if that is smaller."""
    N, p = X.shape
    if p > N:
        return SecondMoments.of_factor(X if weights is None else np.sqrt(weights)[:, None] * X)
    return SecondMoments(gram(X, weights=weights), is_factor=False)
