"""Sparse codes with a smooth penalty for a fixed dictionary D: the codes of Sparsenet (eq. 5).

    min_u ½‖x − u D‖² + λ Σ g(u/σ)      for every row x of X

All rows are solved together by nonlinear conjugate gradient, with one product by D Dᵀ per
iteration. The step size minimises, along the search direction, the upper bound of the energy in
which the parabola of ``smooth_functions.py`` replaces g. So no line search is needed, and the
energy of a row never increases.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lincode.core.smooth_functions import Penalty
from lincode.core.types import Array, Rows


class SmoothPenaltyCodes(NamedTuple):
    """The result of :func:`smooth_penalty_codes`."""

    U: Array
    """Codes (N, m)"""
    n_not_converged: int
    """Number of rows that reached max_iter before tol"""


def smooth_penalty_codes(
    X: Rows,
    D: Array,
    lam: float,
    sigma: float,
    penalty: Penalty,
    *,
    tol: float,
    max_iter: int,
) -> SmoothPenaltyCodes:
    """Return a local minimiser of the energy of each row, starting from x Dᵀ/‖d‖².

    This is the starting point of Olshausen and Field. A row has converged when the norm of its
    gradient is at most ``tol`` times the norm of x Dᵀ. It is then removed from the iteration, so
    its code does not depend on the other rows.
    """
    H, B = D @ D.T, np.asarray(X @ D.T)
    squared_norms = np.diag(H)
    codes = np.divide(B, squared_norms, out=np.zeros_like(B), where=squared_norms > 0)
    gradient_limit = tol * np.linalg.norm(B, axis=1)

    def penalty_gradient(U: Array) -> Array:
        return np.asarray(lam / sigma * penalty.derivative(U / sigma), dtype=B.dtype)

    # The variables below hold only the rows that have not converged; `rows` are their indices.
    rows, U = np.arange(len(B)), codes.copy()
    UH = U @ H
    G = UH - B + penalty_gradient(U)
    P = -G
    for n_iter in range(max_iter + 1):
        active = np.linalg.norm(G, axis=1) > gradient_limit[rows]
        if not active.all():
            codes[rows] = U
            rows, B = rows[active], B[active]
            U, UH, G, P = U[active], UH[active], G[active], P[active]
        if not rows.size or n_iter == max_iter:
            break
        PH = P @ H
        penalty_curvature = _dot(penalty.weight(U / sigma) * P, P) * (lam / sigma / sigma)
        step = _ratio(-_dot(G, P), _dot(P, PH) + penalty_curvature)[:, None]
        U += step * P
        UH += step * PH
        G_old, G = G, UH - B + penalty_gradient(U)
        # The factor of Polak and Ribière, set to 0 where the new direction would be an ascent.
        beta = np.maximum(_ratio(_dot(G, G - G_old), _dot(G_old, G_old)), 0)
        beta = np.where(_dot(G, P) * beta >= _dot(G, G), 0, beta)
        P *= beta[:, None]
        P -= G
    codes[rows] = U
    return SmoothPenaltyCodes(codes, len(rows))


def smooth_penalty_energy(
    X: Array, U: Array, D: Array, lam: float, sigma: float, penalty: Penalty
) -> float:
    """Return ½‖X − U D‖² + λ Σ g(U/σ), summed over rows in float64."""
    R = X - U @ D
    return 0.5 * float(np.square(R).sum(dtype=np.float64)) + lam * penalty.sum(U / sigma)


def _dot(A: Array, B: Array) -> Array:
    """Return the inner product of each row of A with the same row of B."""
    return np.asarray(np.einsum("ij,ij->i", A, B))


def _ratio(a: Array, b: Array) -> Array:
    """Return a/b, and 0 where b is not positive."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)
