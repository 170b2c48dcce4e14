"""Rows with missing entries (NaN): prediction of the entries, and codes without them.

If G is proportional to the second moments of the rows, the ridge regression of the missing entries
M of a row on its observed entries O is

    x_M = x_O (G_OO + ρ I)⁻¹ G_OM.

The matrix G_OO differs from row to row. Instead of factoring it, a few conjugate gradient steps are
made for a block of rows at a time. They cost one product of the block with G each.

Training uses the predicted entries. λ of a row is multiplied by 1 − |M|/(2p), its penalty, because
codes of rows with many predicted entries would be too small otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from lincode.core.arrays import (
    SCAN_ENTRIES,
    Array,
    RowLengths,
    Rows,
    blocks,
    dense_blocks,
    gram,
    sample_indices,
)
from lincode.core.lasso import Coder
from lincode.core.ridge import conjugate_gradient

FILL_RIDGE = 0.1
"""ρ relative to the mean of the diagonal of G."""
FILL_STEPS = 8
"""The number of conjugate gradient steps."""
MOMENT_ROWS, MOMENT_ROWS_PER_FEATURE = 2000, 10
"""The second moments for the first prediction are estimated from max(2000, 10 p) rows."""
MOMENT_ROUNDS = 5
"""How often entries are predicted and the second moments computed again."""


@dataclass(frozen=True)
class SecondMoments:
    """G as a matrix of shape (p, p), or as FᵀF if F, of shape (k, p), is much smaller."""

    matrix: Array
    is_factor: bool

    @classmethod
    def of_factor(cls, F: Array) -> SecondMoments:
        """Return FᵀF, in the form with the cheaper product."""
        k, p = F.shape
        return cls(F, True) if p > 2 * k else cls(F.T @ F, False)

    def astype(self, dtype: np.dtype[np.floating]) -> SecondMoments:
        """Return the same moments with another dtype."""
        return SecondMoments(self.matrix.astype(dtype), self.is_factor)

    def mean(self) -> float:
        """Return the mean of the diagonal of G."""
        p = self.matrix.shape[1]
        if self.is_factor:
            return float(np.sum(np.square(self.matrix, dtype=np.float64)) / p)
        return float(np.trace(self.matrix) / p)

    def multiply(self, P: Array) -> Array:
        """Return P G."""
        product = P @ self.matrix.T @ self.matrix if self.is_factor else P @ self.matrix
        return np.asarray(product)


def predict_missing(X: Array, missing: NDArray[np.bool_], moments: SecondMoments) -> None:
    """Overwrite the missing entries of X by their prediction.

    The prediction of a row in which nothing is observed is 0.
    """
    mean = moments.mean()
    scale = 1 / mean if mean > 0 else 1.0  # only the ratio of the moments matters
    moments = SecondMoments(
        moments.matrix * (scale**0.5 if moments.is_factor else scale), moments.is_factor
    ).astype(X.dtype)

    def multiply(P: Array) -> Array:
        Q = moments.multiply(P) + X.dtype.type(FILL_RIDGE) * P
        Q[missing] = 0
        return Q

    W, R = np.zeros_like(X), np.where(missing, X.dtype.type(0), X)
    conjugate_gradient(multiply, W, R, n_steps=FILL_STEPS)
    np.copyto(X, moments.multiply(W), where=missing)


def penalty_factors(missing: NDArray[np.bool_]) -> Array:
    """Return the factor of λ for each row, 1 − |M|/(2p)."""
    return np.asarray(1 - missing.mean(axis=1) / 2)


@dataclass(frozen=True)
class ObservedSums:
    """Sums over the observed entries of rows, which have NaN elsewhere. They can be added."""

    largest: float
    """The largest absolute value; infinite if an entry is"""
    counts: Array
    """The number of observed entries of each column"""
    sums: Array
    squares: Array

    @classmethod
    def of(cls, X: Array) -> ObservedSums:
        """Return the sums of the rows X."""
        largest, sums = 0.0, np.zeros((3, X.shape[1]))
        with np.errstate(over="ignore", invalid="ignore"):
            for rows in blocks(X.shape[0], max(1, SCAN_ENTRIES // X.shape[1])):
                missing = np.isnan(X[rows])
                block = np.where(missing, 0, X[rows]).astype(np.float64)
                largest = max(largest, float(np.abs(block).max(initial=0)))
                sums += (~missing).sum(axis=0), block.sum(axis=0), (block**2).sum(axis=0)
        return cls(largest, *sums)

    def __add__(self, other: ObservedSums) -> ObservedSums:
        return ObservedSums(
            max(self.largest, other.largest),
            self.counts + other.counts,
            self.sums + other.sums,
            self.squares + other.squares,
        )

    @property
    def means(self) -> Array:
        """The mean of the observed entries of each column"""
        return np.asarray(self.sums / np.maximum(self.counts, 1))

    @property
    def mean_squares(self) -> Array:
        """The mean square of the observed entries of each column"""
        return np.asarray(self.squares / np.maximum(self.counts, 1))


def observed_lengths(X: Array, mean_squares: Array) -> RowLengths:
    """Return the row lengths, with ``mean_squares`` of the columns for missing entries."""
    longest = total = 0.0
    for rows in blocks(X.shape[0], max(1, SCAN_ENTRIES // X.shape[1])):
        entries = np.where(np.isnan(X[rows]), mean_squares, X[rows].astype(np.float64) ** 2)
        lengths = np.sqrt(entries.sum(axis=1))
        longest, total = max(longest, float(lengths.max())), total + float(lengths.sum())
    return RowLengths(longest, total / X.shape[0])


def moment_rows(N: int, p: int) -> NDArray[np.intp]:
    """Return the indices of the rows from which the second moments are estimated."""
    return sample_indices(N, max(MOMENT_ROWS, MOMENT_ROWS_PER_FEATURE * p))


def estimate_moments(X: Array, means: Array) -> SecondMoments:
    """Return the second moments of rows with missing entries (NaN).

    Their prediction starts from the means of the columns. The second moments and the prediction
    are then computed in turn.
    """
    missing = np.isnan(X)
    X = np.where(missing, means.astype(X.dtype), X)
    for _ in range(MOMENT_ROUNDS):
        predict_rows(X, missing, second_moments(X))
    return second_moments(X)


def fill_rows(X: Array, moments: SecondMoments) -> tuple[Array, Array]:
    """Return a copy of X with a prediction of missing entries, and the penalties of the rows."""
    X, missing = np.array(X, order="C"), np.isnan(X)
    predict_rows(X, missing, moments)
    return X, penalty_factors(missing)


def predict_rows(X: Array, missing: NDArray[np.bool_], moments: SecondMoments) -> None:
    """Do what ``predict_missing`` does, block by block."""
    for rows in dense_blocks(X):
        predict_missing(X[rows], missing[rows], moments)


def second_moments(X: Array) -> SecondMoments:
    """Return XᵀX, or its factor X if that is smaller."""
    N, p = X.shape
    return SecondMoments.of_factor(X) if p > N else SecondMoments(gram(X), is_factor=False)


@dataclass(frozen=True)
class IncompleteCoder:
    """Codes of rows whose missing entries are left out.

    ``make(atoms, f)`` returns the coder of a dictionary, with a penalty that is multiplied by the
    fraction f of observed entries. Rows with the same observed entries are solved together. If
    ``unit`` is true, the observed parts of the atoms are normalised, because greedy algorithms
    compare their products with the rows.
    """

    D: Array
    complete: Coder
    """The coder of complete rows"""
    make: Callable[[Array, float], Coder]
    unit: bool

    @property
    def n_units(self) -> int:
        return len(self.D)

    def write(self, U: Array, X: Rows, b: Array | None = None, start: Array | None = None) -> int:
        """Write the codes of X to U. Products and a start are not used."""
        if issparse(X) or not np.isnan(X).any():
            return self.complete.write(U, X)
        n_unfinished, p = 0, X.shape[1]
        for observed, rows in patterns(X):
            codes: Array = np.zeros((len(rows), self.n_units), U.dtype)
            scale: Array = np.ones(self.n_units, U.dtype)
            if len(observed) == p:
                n_unfinished += self.complete.write(codes, X[rows])
            elif observed.size:
                atoms = np.ascontiguousarray(self.D[:, observed])
                if self.unit:
                    norms = np.linalg.norm(atoms, axis=1)
                    scale = np.where(norms > 0, norms, 1).astype(U.dtype)
                coder = self.make(atoms / scale[:, None], len(observed) / p)
                n_unfinished += coder.write(codes, X[np.ix_(rows, observed)])
            U[rows] = codes / scale
        return n_unfinished


def patterns(X: Array) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Group the rows of X by the entries that are observed, that is, not NaN.

    Returns pairs of the indices of the observed entries and the indices of the rows.
    """
    bits = np.packbits(~np.isnan(X), axis=1)
    _, first, group = np.unique(bits, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    members = np.split(order, np.cumsum(np.bincount(group.ravel()))[:-1])
    return [(np.flatnonzero(~np.isnan(X[k])), rows) for k, rows in zip(first, members, strict=True)]
