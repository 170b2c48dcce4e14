"""Rows with missing entries: their scale, and the values with which training starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from lincode.core.arrays import (
    SCAN_ENTRIES,
    RowLengths,
    blocks,
    dense_blocks,
    gram,
    sample_indices,
)
from lincode.core.lasso import Coder
from lincode.core.missing import PatternProblem, SecondMoments, patterns, predict_missing
from lincode.core.types import Array, Rows

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


def scan_observed(X: Array) -> ObservedEntries:
    """Measure the observed entries of X in two passes over the rows."""
    N, p = X.shape
    sums, squares, counts = np.zeros(p), np.zeros(p), np.zeros(p)
    largest, empty = 0.0, np.zeros(N, dtype=bool)
    parts = blocks(N, max(1, SCAN_ENTRIES // p))
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in parts:
            missing = np.isnan(X[rows])
            block = np.where(missing, 0, X[rows]).astype(np.float64)
            largest = max(largest, float(np.abs(block).max(initial=0)))
            empty[rows] = missing.all(axis=1)
            counts += (~missing).sum(axis=0)
            sums += block.sum(axis=0)
            squares += (block**2).sum(axis=0)
    n = np.maximum(counts, 1)
    longest = total = 0.0
    for rows in parts if np.isfinite(squares).all() else []:
        missing = np.isnan(X[rows])
        entries = np.where(missing, squares / n, X[rows].astype(np.float64) ** 2)
        norms = np.sqrt(entries.sum(axis=1))[~empty[rows]]
        longest = max(longest, float(norms.max(initial=0)))
        total += float(norms.sum())
    lengths = RowLengths(longest, total / max(int((~empty).sum()), 1))
    return ObservedEntries(largest, counts, sums / n, lengths, empty)


def fill_missing(X: Array, missing: NDArray[np.bool_], means: Array) -> None:
    """Overwrite the missing entries of X by a linear prediction from the observed ones.

    It starts from the means of the columns. The second moments of a sample of the rows and the
    prediction of its missing entries are then computed in turn; all rows are predicted at the end.
    """
    N, p = X.shape
    sample = sample_indices(N, max(MOMENT_ROWS, MOMENT_ROWS_PER_FEATURE * p))
    rows, holes = X[sample], missing[sample]
    np.copyto(rows, means.astype(X.dtype), where=holes)
    for _ in range(MOMENT_ROUNDS):
        predict_rows(rows, holes, second_moments(rows))
    predict_rows(X, missing, second_moments(rows))


def predict_rows(X: Array, missing: NDArray[np.bool_], moments: SecondMoments) -> None:
    """Do what ``predict_missing`` does, block by block."""
    for rows in dense_blocks(X):
        predict_missing(X[rows], missing[rows], moments)


def second_moments(X: Array) -> SecondMoments:
    """Return XᵀX, or its factor X if that is smaller."""
    N, p = X.shape
    return SecondMoments.of_factor(X) if p > N else SecondMoments(gram(X), is_factor=False)


Solver = Callable[[Array, Array, NDArray[np.intp]], int]
"""Writes the codes of samples with the same observed entries; returns how many are not solved."""


@dataclass(frozen=True)
class IncompleteCoder:
    """Another coder for complete samples; samples with NaN are solved for their observed entries.

    The problem of a sample depends on which entries are observed. Samples with the same pattern
    are solved together.
    """

    coder: Coder
    solve: Solver

    @property
    def n_units(self) -> int:
        return self.coder.n_units

    def write(self, U: Array, X: Rows, b: Array | None = None, start: Array | None = None) -> int:
        """Write the codes of X to U. Products and a start are not used."""
        complete = np.ones(len(U), bool) if issparse(X) else ~np.isnan(X).any(axis=1)
        if complete.all():
            return self.coder.write(U, X)
        codes = np.empty((int(complete.sum()), self.n_units), U.dtype)
        n_unfinished = self.coder.write(codes, X[complete]) if len(codes) else 0
        U[complete] = codes
        for observed, rows in patterns(X, np.flatnonzero(~complete)):
            codes = np.zeros((len(rows), self.n_units), U.dtype)
            if observed.size:
                n_unfinished += self.solve(codes, X[np.ix_(rows, observed)], observed)
            U[rows] = codes
        return n_unfinished


def exact_solver(
    D: Array, C: Array, lam: float, eta: float, *, positive: bool, tol: float, max_iter: int
) -> Solver:
    """Return the solver of "exact": the code and the missing entries minimise the energy."""

    def solve(U: Array, X: Array, observed: NDArray[np.intp]) -> int:
        problem = PatternProblem.of(D, C, eta, observed)
        return problem.solve(X, U, lam, positive=positive, tol=tol, max_iter=max_iter)

    return solve


def restricted_solver(D: Array, make: Callable[[Array, float], Coder], *, unit: bool) -> Solver:
    """Return the solver of algorithms without the encoder: missing entries are left out.

    ``make(atoms, f)`` returns the coder of a dictionary, with a penalty that is multiplied by the
    fraction f of observed entries. If ``unit`` is true, the observed parts of the atoms are
    normalised, because greedy algorithms compare their products with the samples.
    """

    def solve(U: Array, X: Array, observed: NDArray[np.intp]) -> int:
        atoms = np.ascontiguousarray(D[:, observed])
        norms = np.linalg.norm(atoms, axis=1)[:, None]
        scale = np.where(norms > 0, norms, 1).astype(D.dtype) if unit else D.dtype.type(1)
        n_unfinished = make(atoms / scale, len(observed) / D.shape[1]).write(U, X)
        U /= np.ravel(scale)
        return n_unfinished

    return solve
