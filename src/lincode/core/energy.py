"""The energy of SCNN (equation 6 of the paper) and the sums over rows that determine it.

    E(U, D, C) = 1/p ‖X − U D‖²  +  η/m (‖U − X Cᵀ‖² + ρ‖C‖²)  +  2λ/m ‖U‖₁      s.t. ‖D[j]‖ ≤ 1

The paper uses η = 1 and ρ = 0. Missing entries are predicted before training (``missing.py``), and
λ of such a row is multiplied by a factor, its ``penalty``. The D step, the C step and the energy
need the rows only through ``CodeStats`` (UᵀU, UᵀX and ‖U‖₁) and through XᵀX. All of these are sums
over rows, so rows in threads, in batches or on several machines are handled by the same algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from lincode.core.arrays import Array, Rows
from lincode.core.compiler import compiled
from lincode.core.ridge import EncoderFactor

ROUNDING_FACTOR = 20
"""Safety factor of the bound on rounding errors in ``energy_from_stats``."""
DENSE_ENTRIES, SPARSE_ROWS = 2_000_000, 8192
"""The size of the blocks of ``energy_of_rows``: entries of dense rows, or sparse rows."""
MAX_SPARSE_DENSITY, MIN_SPARSE_UNITS = 0.05, 200
"""The products of codes of at most this density are summed over their non-zeros. Matrix products
are as fast at a density of 0.1 with 400 or 1536 units, and of 0.05 with 4096 units."""


@dataclass(frozen=True)
class CodeStats:
    """Sums over rows that the D step, the C step and the energy need.

    The statistics of two sets of rows are the sum of the statistics of each. All sums are in
    float64, because the energy is a difference of large terms.
    """

    UtU: Array
    """UᵀU, shape (m, m)"""
    UtX: Array
    """UᵀX, shape (m, p)"""
    l1: float
    """‖U‖₁, the sum of |U|, where each row is multiplied by its penalty"""
    used: Array
    """The number of rows with a non-zero code for each unit, shape (m,)"""
    n: float
    """The number of rows"""
    residual: float = 0.0
    """The largest optimality residual of any row's code; combined by the maximum"""

    @classmethod
    def of(
        cls, U: Array, X: Rows, residual: float = 0.0, *, penalties: Array | None = None
    ) -> CodeStats:
        """Compute the statistics of one block of rows, which may have penalties."""
        if penalties is None:
            l1 = float(np.abs(U).sum(dtype=np.float64))
        else:
            l1 = float(penalties @ np.abs(U).sum(axis=1, dtype=np.float64))
        used = np.count_nonzero(U, axis=0).astype(np.float64)
        UtU, UtX = code_products(U, X, used.sum() / max(U.size, 1))
        return cls(
            UtU=UtU,
            UtX=UtX,
            l1=l1,
            used=used,
            n=U.shape[0],
            residual=residual,
        )

    def __add__(self, other: CodeStats) -> CodeStats:
        return CodeStats(
            UtU=self.UtU + other.UtU,
            UtX=self.UtX + other.UtX,
            l1=self.l1 + other.l1,
            used=self.used + other.used,
            n=self.n + other.n,
            residual=max(self.residual, other.residual),
        )

    def without(self, units: NDArray[np.intp]) -> CodeStats:
        """Return the statistics with the codes of some units set to 0 (``l1`` is unchanged)."""
        kept = np.ones(len(self.used))
        kept[units] = 0
        return replace(
            self,
            UtU=self.UtU * kept * kept[:, None],
            UtX=self.UtX * kept[:, None],
            used=self.used * kept,
        )

    def weighted(self, weight: float) -> CodeStats:
        """Return the statistics of the same rows, each with the given weight."""
        return CodeStats(
            UtU=weight * self.UtU,
            UtX=weight * self.UtX,
            l1=weight * self.l1,
            used=weight * self.used,
            n=weight * self.n,
            residual=self.residual,
        )


def code_products(U: Array, X: Rows, density: float) -> tuple[Array, Array]:
    """Compute UᵀU and UᵀX in float64, for codes of the given density."""
    is_dense = density > MAX_SPARSE_DENSITY or U.shape[1] < MIN_SPARSE_UNITS
    if is_dense or scipy.sparse.issparse(X):
        return np.asarray(U.T @ U, dtype=np.float64), np.asarray(U.T @ X, dtype=np.float64)
    m, p = U.shape[1], X.shape[1]
    UtU, UtX, units = np.zeros((m, m)), np.zeros((m, p)), np.empty(m, np.int64)
    _add_products(np.ascontiguousarray(U), np.ascontiguousarray(X), UtU, UtX, units)
    return UtU, UtX


@compiled
def _add_products(U: Any, X: Any, UtU: Any, UtX: Any, units: Any) -> None:
    """Add UᵀU and UᵀX, row by row, in time proportional to the products that are not zero."""
    (n, m), p = U.shape, X.shape[1]
    for i in range(n):
        k = 0
        for j in range(m):
            if U[i, j] != 0:
                units[k] = j
                k += 1
        for r in range(k):
            code, UtU_row, UtX_row = U[i, units[r]], UtU[units[r]], UtX[units[r]]
            for c in range(k):
                UtU_row[units[c]] += code * U[i, units[c]]
            for q in range(p):
                UtX_row[q] += code * X[i, q]


def energy(
    X: Array,
    U: Array,
    D: Array,
    C: Array,
    lam: float,
    eta: float = 1.0,
    ridge: float = 0.0,
    *,
    penalties: Array | None = None,
) -> float:
    """Compute E in float64 from its definition. X is dense; rows may have penalties."""
    m, p = D.shape
    X, U, D, C = (np.asarray(A, dtype=np.float64) for A in (X, U, D, C))
    f = 1.0 if penalties is None else penalties[:, None]
    reconstruction = np.sum((X - U @ D) ** 2) / p
    encoder = (np.sum((U - X @ C.T) ** 2) + ridge * np.sum(C**2)) / m
    return float(reconstruction + eta * encoder + 2 * lam / m * np.sum(f * np.abs(U)))


def energy_of_rows(X: Rows, U: Array, D: Array, C: Array, lam: float, eta: float = 1.0) -> float:
    """Compute E without its ridge, block by block. X may be sparse and is never made dense.

    Sparse rows have ‖X − U D‖² = ‖X‖² − 2⟨U, X Dᵀ⟩ + ⟨UᵀU, D Dᵀ⟩.
    """
    (m, p), N = D.shape, X.shape[0]
    D, C = D.astype(np.float64, copy=False), C.astype(np.float64, copy=False)
    sparse = scipy.sparse.issparse(X)
    size = SPARSE_ROWS if sparse else max(1, DENSE_ENTRIES // p)
    slices = [slice(start, start + size) for start in range(0, N, size)]
    if not sparse:
        return sum(energy(X[rows], U[rows], D, C, lam, eta) for rows in slices)
    Dt, Ct, DDt, total = np.ascontiguousarray(D.T), np.ascontiguousarray(C.T), D @ D.T, 0.0
    for rows in slices:
        block, codes = X[rows].astype(np.float64), U[rows].astype(np.float64)
        error = np.vdot(codes, codes @ DDt - 2 * (block @ Dt)) + np.vdot(block.data, block.data)
        total += max(float(error), 0.0) / p + 2 * lam / m * float(np.abs(codes).sum())
        total += eta / m * float(np.sum((codes - block @ Ct) ** 2))
    return total


def energy_from_stats(
    stats: CodeStats, D: Array, C: Array, factor: EncoderFactor, lam: float, eta: float = 1.0
) -> float:
    """Compute E from the statistics and the factor of XᵀX, without reading a row.

    ‖X − U D‖²  = tr XtX − 2⟨UtX, D⟩ + ⟨UtU, D Dᵀ⟩
    ‖U − X Cᵀ‖² + ρ‖C‖² = tr UtU − 2⟨UtX, C⟩ + ⟨C (XtX + ρ I), C⟩
    """
    m, p = D.shape
    reconstruction = factor.trace - 2 * np.vdot(stats.UtX, D) + np.vdot(stats.UtU, D @ D.T)
    encoder = np.trace(stats.UtU) - 2 * np.vdot(stats.UtX, C) + factor.quadratic(C)
    # Both terms are squared norms; rounding may make them slightly negative.
    return float(
        max(reconstruction, 0.0) / p + eta * max(encoder, 0.0) / m + 2 * lam / m * stats.l1
    )


def rounding_of_energy(
    stats: CodeStats,
    D: Array,
    C: Array,
    factor: EncoderFactor,
    eta: float,
    dtype: np.dtype[np.floating],
) -> float:
    """Bound the rounding error of ``energy_from_stats`` for rows of the given dtype.

    The bound is a small multiple of the machine epsilon times the sum of the absolute values
    of all terms.
    """
    m, p = D.shape
    UtU, UtX = np.abs(stats.UtU), np.abs(stats.UtX)
    reconstruction = factor.trace + 2 * np.vdot(UtX, np.abs(D)) + np.vdot(UtU, np.abs(D @ D.T))
    encoder = np.trace(UtU) + 2 * np.vdot(UtX, np.abs(C)) + factor.quadratic(C)
    return ROUNDING_FACTOR * float(np.finfo(dtype).eps * (reconstruction / p + eta * encoder / m))


def lam_max(longest: float, m: int, p: int) -> float:
    """Return the smallest λ for which U = 0 is optimal with C = 0 and any D: m/p · max ‖X[n]‖.

    At U = 0 and C = 0 the gradient of unit j for the row x is x·D[j]/p, which is at most ‖x‖/p;
    the code stays zero if this is at most λ/m.
    """
    return m / p * longest
