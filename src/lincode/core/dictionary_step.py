"""The D step (B-SCNN weight update, paper eqs. 7 and 9), from the small matrices alone.

min_D ⟨UtU, D Dᵀ⟩ − 2⟨UtX, D⟩      s.t. ‖D[j]‖ ≤ 1
"""

from __future__ import annotations

import numpy as np

from lincode.core.dictionary_dual import solve_dual
from lincode.core.optimality import dictionary_residual
from lincode.core.stats import CodeStats
from lincode.core.types import Array

MOST_ATOMS = 4096
"""Beyond so many atoms the cube of their number, which the dual costs, is too much."""
BLOCK_ATOMS = 64
"""Atoms updated between two products with the whole dictionary; changes the speed only."""


def dictionary_step(
    D: Array, stats: CodeStats, *, tol: float = 1e-6, max_sweeps: int = 100
) -> tuple[Array, float]:
    """The D that is optimal to ``tol`` for all used atoms, and its residual.

    All atoms at once by the dual; where that fails, sweeps atom by atom. Never leaves D
    worse than it came. Atoms no row uses are left alone.
    """
    at_once = _all_at_once(D, stats, tol)
    if at_once is not None and objective(at_once, stats) <= objective(D, stats):
        D = at_once
    residual = dictionary_residual(D, stats)
    for _ in range(max_sweeps):
        if residual <= tol:
            break
        D = dictionary_sweep(D, stats)
        residual = dictionary_residual(D, stats)
    return D, residual


def objective(D: Array, stats: CodeStats) -> float:
    """What the D step lowers: ⟨UtU, D Dᵀ⟩ − 2⟨UtX, D⟩."""
    return float(np.vdot(stats.UtU, D @ D.T) - 2 * np.vdot(stats.UtX, D))


def _all_at_once(D: Array, stats: CodeStats, tol: float) -> Array | None:
    used = np.flatnonzero(np.diag(stats.UtU))
    if len(used) > MOST_ATOMS:
        return None
    best = solve_dual(D[used], stats.UtU[np.ix_(used, used)], stats.UtX[used], 0.1 * tol)
    if best is None:
        return None
    D = D.copy()
    D[used] = best
    return D


def dictionary_sweep(D: Array, stats: CodeStats) -> Array:
    """Each atom in turn to its minimiser given the others: closed form, then projection.

    D[j] ← project( D[j] + (UtX[j] − UtU[j] D) / UtU[j, j] )

    The product UtU[j] D is taken for a block of atoms at once and corrected inside the
    block as atoms change: the same iterates, at the speed of a matrix product.
    """
    D = D.copy()
    UtU, UtX = stats.UtU, stats.UtX
    used = np.flatnonzero(np.diag(UtU))
    for start in range(0, len(used), BLOCK_ATOMS):
        block = used[start : start + BLOCK_ATOMS]
        minus_gradient = UtX[block] - UtU[block] @ D
        within = UtU[np.ix_(block, block)]
        for k, j in enumerate(block):
            atom = D[j] + minus_gradient[k] / within[k, k]
            atom /= max(float(np.linalg.norm(atom)), 1.0)
            minus_gradient -= np.outer(within[:, k], atom - D[j])
            D[j] = atom
    return D
