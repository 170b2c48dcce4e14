"""Sparse codes with a smooth penalty, for a given D: the codes of Sparsenet (paper eq. 5).

    min_u ½‖x − u D‖² + λ Σ g(u/σ)      row by row

by nonlinear conjugate gradient on all rows at once, one product with D Dᵀ a step. The length of a
step is the minimiser along the line of the parabola above g (see ``penalties.py``): no search,
and no row ever goes up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lincode.core.penalties import Penalty
from lincode.core.types import Array, Rows


class SmoothCodes(NamedTuple):
    """What the steps end with."""

    U: Array
    n_open: int
    """Rows that max_iter cut short"""


def smooth_codes(
    X: Rows,
    D: Array,
    lam: float,
    sigma: float,
    penalty: Penalty,
    *,
    tol: float,
    max_iter: int,
) -> SmoothCodes:
    """Codes of the rows X, from where Olshausen and Field start: x Dᵀ/‖d‖².

    A row leaves when its gradient is at most ``tol`` times as long as x Dᵀ, so no row feels which
    others it is with.
    """
    H, B = D @ D.T, np.asarray(X @ D.T)
    length = np.diag(H)
    codes = np.divide(B, length, out=np.zeros_like(B), where=length > 0)
    enough = tol * np.linalg.norm(B, axis=1)

    def slope(U: Array) -> Array:
        return np.asarray(lam / sigma * penalty.slope(U / sigma), dtype=B.dtype)

    rows, U = np.arange(len(B)), codes.copy()
    UH = U @ H
    G = UH - B + slope(U)
    P = -G
    for done in range(max_iter + 1):
        going = np.linalg.norm(G, axis=1) > enough[rows]
        if not going.all():
            codes[rows] = U
            rows, B = rows[going], B[going]
            U, UH, G, P = U[going], UH[going], G[going], P[going]
        if not rows.size or done == max_iter:
            break
        PH = P @ H
        bend = _dot(penalty.weight(U / sigma) * P, P) * (lam / sigma / sigma)
        step = _ratio(-_dot(G, P), _dot(P, PH) + bend)[:, None]
        U += step * P
        UH += step * PH
        before, G = G, UH - B + slope(U)
        # Polak and Ribière's share of the old direction, none where it would lead uphill.
        share = np.maximum(_ratio(_dot(G, G - before), _dot(before, before)), 0)
        share = np.where(_dot(G, P) * share >= _dot(G, G), 0, share)
        P *= share[:, None]
        P -= G
    codes[rows] = U
    return SmoothCodes(codes, len(rows))


def smooth_energy(
    X: Array, U: Array, D: Array, lam: float, sigma: float, penalty: Penalty
) -> float:
    """½‖X − U D‖² + λ Σ g(U/σ), the sum over rows in float64."""
    R = X - U @ D
    return 0.5 * float(np.square(R).sum(dtype=np.float64)) + lam * penalty.sum(U / sigma)


def _dot(A: Array, B: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->i", A, B))


def _ratio(a: Array, b: Array) -> Array:
    """a/b, 0 where b is not positive."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)
