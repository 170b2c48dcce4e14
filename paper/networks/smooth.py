"""Smooth functions of every entry of an array, and sparse codes with a smooth penalty.

A penalty Σ g(u/σ) makes codes sparse. Every g here is even, and concave as a function of a².
Therefore a parabola that touches g at a₀ is an upper bound of g:

    g(a) ≤ g(a₀) + ½ w(a₀) (a² − a₀²),      w(a) = g'(a)/a.

The step sizes of ``smooth_penalty_codes`` are computed from this bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.special

from lincode.core.arrays import Array

L1_SMOOTHING = 1e-3
"""ε in the "l1" penalty √(a² + ε²) − ε, which is |a| with a rounded corner at 0."""


@dataclass(frozen=True)
class Activation:
    """An activation function φ of hidden units, and its derivative."""

    value: Callable[[Array], Array]
    """U = φ(Z). The result is always a new array."""
    derivative_from_output: Callable[[Array], Array]
    """φ'(Z), computed from U = φ(Z)."""


ACTIVATIONS = {
    "sigmoid": Activation(scipy.special.expit, lambda U: U * (1 - U)),
    "tanh": Activation(np.tanh, lambda U: 1 - U * U),
    "linear": Activation(np.array, np.ones_like),
}


@dataclass(frozen=True)
class Penalty:
    """A penalty function g and its derivative, in the form that the bound above needs."""

    value: Callable[[Array], Array]
    """g(a)"""
    weight: Callable[[Array], Array]
    """w(a) = g'(a)/a, which is positive."""

    def sum(self, A: Array) -> float:
        """Return Σ g(a) over all entries, summed in float64."""
        return float(self.value(A).sum(dtype=np.float64))

    def derivative(self, A: Array) -> Array:
        """Return g'(a) for every entry."""
        return np.asarray(self.weight(A) * A)


PENALTIES = {
    "log": Penalty(lambda A: np.log1p(A * A), lambda A: 2 / (1 + A * A)),
    "exp": Penalty(lambda A: -np.expm1(-A * A), lambda A: 2 * np.exp(-A * A)),
    "l1": Penalty(
        lambda A: np.sqrt(A * A + L1_SMOOTHING**2) - L1_SMOOTHING,
        lambda A: 1 / np.sqrt(A * A + L1_SMOOTHING**2),
    ),
}
"""The penalties of Olshausen and Field (1996); the paper uses "log"."""


class SmoothPenaltyCodes(NamedTuple):
    """The result of :func:`smooth_penalty_codes`."""

    U: Array
    """Codes (N, m)"""
    n_not_converged: int
    """Number of rows that reached max_iter before tol"""


def smooth_penalty_codes(
    X: Array, D: Array, lam: float, sigma: float, penalty: Penalty, *, tol: float, max_iter: int
) -> SmoothPenaltyCodes:
    """Return a local minimiser of ½‖x − u D‖² + λ Σ g(u/σ) for every row x, from x Dᵀ/‖d‖².

    This is the starting point of Olshausen and Field. All rows are solved together by nonlinear
    conjugate gradient. The step size minimises, along the search direction, the upper bound of the
    energy in which the parabola replaces g. So no line search is needed, and the energy of a row
    never increases. A row has converged when the norm of its gradient is at most ``tol`` times the
    norm of x Dᵀ. It is then removed from the iteration, so its code does not depend on the others.
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
