"""The D step (B-SCNN weight update, paper eqs. 7 and 9): atom by atom, from the small matrices.

min_D ⟨UtU, D Dᵀ⟩ − 2⟨UtX, D⟩      s.t. ‖D[j]‖ ≤ 1
"""

from __future__ import annotations

import numpy as np

from lincode.core.optimality import dictionary_residual
from lincode.core.stats import CodeStats
from lincode.core.types import Array

BLOCK_ATOMS = 64
"""Atoms updated between two products with the whole dictionary; changes the speed only."""


def dictionary_step(
    D: Array, stats: CodeStats, *, tol: float = 1e-6, max_sweeps: int = 100
) -> tuple[Array, float]:
    """Sweeps until every atom is optimal to ``tol``; the new D and its residual.

    Never leaves D worse than it came: each atom is set to the exact minimiser with the
    others fixed. Atoms no row uses are left alone.
    """
    for _ in range(max_sweeps):
        D = dictionary_sweep(D, stats)
        residual = dictionary_residual(D, stats)
        if residual <= tol:
            break
    return D, residual


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
