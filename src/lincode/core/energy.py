"""The paper's error function (eq. 6), from whole arrays and from the small matrices.

    E(U, D, C) = 1/p ‖X − U D‖²  +  η/m ‖U − X Cᵀ‖²  +  2λ/m ‖U‖₁      s.t. ‖D[j]‖ ≤ 1

η is 1 in the paper.
"""

from __future__ import annotations

import numpy as np

from lincode.core.blocks import dense, dense_blocks
from lincode.core.encoder_step import EncoderFactor
from lincode.core.stats import CodeStats
from lincode.core.types import Array, Rows


def energy(X: Rows, U: Array, D: Array, C: Array, lam: float, eta: float = 1.0) -> float:
    """E term by term as printed: the definition every other route is compared with."""
    D, C = D.astype(np.float64), C.astype(np.float64)
    return float(sum(_energy_of(X[r], U[r], D, C, lam, eta) for r in dense_blocks(X)))


def _energy_of(X: Rows, U: Array, D: Array, C: Array, lam: float, eta: float) -> float:
    m, p = D.shape
    X, U = np.asarray(dense(X), dtype=np.float64), np.asarray(U, dtype=np.float64)
    reconstruction = np.sum((X - U @ D) ** 2) / p
    encoder = np.sum((U - X @ C.T) ** 2) / m
    return float(reconstruction + eta * encoder + 2 * lam / m * np.abs(U).sum())


def energy_from_stats(
    stats: CodeStats, D: Array, C: Array, factor: EncoderFactor, lam: float, eta: float = 1.0
) -> float:
    """E from UtU, UtX, Σ|U| and the factor of XtX; no row of data is read.

    ‖X − U D‖²  = tr XtX − 2⟨UtX, D⟩ + ⟨UtU, D Dᵀ⟩
    ‖U − X Cᵀ‖² = tr UtU − 2⟨UtX, C⟩ + ⟨C XtX, C⟩
    """
    m, p = D.shape
    reconstruction = factor.trace - 2 * np.vdot(stats.UtX, D) + np.vdot(stats.UtU, D @ D.T)
    encoder = np.trace(stats.UtU) - 2 * np.vdot(stats.UtX, C) + factor.quadratic(C)
    # Both are squared norms: what rounding leaves below zero is zero.
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
    """How far rounding can move ``energy_from_stats`` when rows are of ``dtype``.

    A small multiple of eps times the sum of the sizes of all that is added and taken away.
    """
    m, p = D.shape
    UtU, UtX = np.abs(stats.UtU), np.abs(stats.UtX)
    reconstruction = factor.trace + 2 * np.vdot(UtX, np.abs(D)) + np.vdot(UtU, np.abs(D @ D.T))
    encoder = np.trace(UtU) + 2 * np.vdot(UtX, np.abs(C)) + factor.quadratic(C)
    return 20 * float(np.finfo(dtype).eps * (reconstruction / p + eta * encoder / m))


def lam_max(X: Rows, m: int) -> float:
    """The λ from which on U = 0 stays optimal for C = 0 and every D: m/p · max ‖X[n]‖.

    At U = 0 and C = 0 unit j of row x has gradient x·D[j]/p, at most ‖x‖/p, against λ/m.
    """
    longest = max(
        float(np.linalg.norm(dense(X[rows]).astype(np.float64), axis=1).max())
        for rows in dense_blocks(X)
    )
    return float(m / X.shape[1] * longest)
