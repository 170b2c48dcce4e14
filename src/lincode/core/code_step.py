"""The U step (B-SCNN input update, paper eqs. 12 to 14): the codes for a given D and C.

Half the energy, as a function of one row's code u, is

    ½ u H uᵀ − b uᵀ + τ‖u‖₁ + constant,   H = D Dᵀ/p + η I/m,  b = x (D/p + η C/m)ᵀ,  τ = λ/m,

a lasso whose Hessian H is shared by all rows. It is minimised by accelerated proximal
gradient steps on a block of rows at a time: one product with H and one soft threshold each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from lincode.core.optimality import code_violation
from lincode.core.prox import soft_threshold
from lincode.core.types import Array, Rows

CHECK_EVERY = 10
"""Accelerated steps between two looks at the optimality of each row."""


@dataclass(frozen=True)
class CodeProblem:
    """What all rows share: min_u ½ u H uᵀ − b uᵀ + τ‖u‖₁ with b = x Wᵀ (u ≥ 0 if ``positive``)."""

    H: Array
    """Hessian (m, m)"""
    W: Array
    """b = x Wᵀ, W (m, p)"""
    tau: float
    positive: bool
    L: float
    """Largest eigenvalue of H: steps of 1/L never overshoot"""
    mu: float
    """Smallest eigenvalue of H: how much momentum pays"""

    @classmethod
    def of(
        cls,
        D: Array,
        C: Array,
        lam: float,
        eta: float,
        *,
        positive: bool,
        dtype: np.dtype[np.floating],
    ) -> CodeProblem:
        """The problem of D and C, its matrices in the precision of the rows."""
        m, p = D.shape
        DDt = D @ D.T
        # The non-zero spectrum of D Dᵀ is that of DᵀD: take the smaller one.
        spectrum = scipy.linalg.eigvalsh(DDt if m <= p else D.T @ D) / p
        smallest = max(float(spectrum[0]), 0.0) if m <= p else 0.0
        H = DDt / p
        H.flat[:: m + 1] += eta / m
        W = D / p + eta / m * C
        largest = float(np.finfo(dtype).max)
        if not max(float(np.abs(H).max()), float(np.abs(W).max())) < largest:
            raise ValueError(
                f"encoder_weight={eta:g} makes numbers that {dtype} cannot hold; it must be"
                " smaller."
            )
        return cls(
            H=H.astype(dtype),
            W=W.astype(dtype),
            tau=min(lam / m, largest),
            positive=positive,
            L=(max(float(spectrum[-1]), 0.0) + eta / m) * (1 + 1e-6),
            mu=smallest + eta / m,
        )


class Codes(NamedTuple):
    """What a U step gives."""

    U: Array
    residual: float
    """The worst row's optimality residual"""
    n_open: int
    """Rows that max_iter cut short"""


def code_step(U: Array, X: Rows, problem: CodeProblem, *, tol: float, max_iter: int) -> Codes:
    """Codes of the rows X, started from U and optimal to ``tol``.

    A row's residual is its largest violation of the optimality conditions relative to
    max|b|, its gradient at zero. Rows leave as soon as they are within ``tol`` (or within
    the rounding of their precision); after ``max_iter`` steps the rest leave as they are.
    No row's objective is higher than where it started.
    """
    b = np.asarray(X @ problem.W.T)
    scale = np.abs(b).max(axis=1, initial=0)
    G = U @ problem.H - b
    violation = code_violation(U, G, problem.tau, positive=problem.positive)
    value = _objective(U, G, b, problem.tau)
    U = U.copy()
    if max_iter > 0:  # where b = 0 there is nothing to solve
        empty = scale == 0
        U[empty], violation[empty], value[empty] = 0, 0, 0

    rows = np.flatnonzero(violation > _allowed(U, scale, problem, tol))
    run = _Run(U[rows], b[rows], problem)
    for _ in range(0, max_iter, CHECK_EVERY):
        if not rows.size:
            break
        run.advance(CHECK_EVERY)
        G = run.U @ problem.H - run.b
        new_violation = code_violation(run.U, G, problem.tau, positive=problem.positive)
        # A row is kept at its best so far: momentum may carry it up on the way down.
        new_value = _objective(run.U, G, run.b, problem.tau)
        noise = 8 * np.finfo(U.dtype).eps * np.abs(run.U).sum(axis=1) * scale[rows]
        lower = new_value <= value[rows] + noise
        better = rows[lower]
        U[better], violation[better] = run.U[lower], new_violation[lower]
        value[better] = new_value[lower]
        going = ~lower | (new_violation > _allowed(run.U, scale[rows], problem, tol))
        if not going.all():
            rows = rows[going]
            run = run.only(going)

    # A row without gradient at zero has the code zero: any violation is a whole one.
    relative = np.divide(violation, scale, out=np.sign(violation), where=scale > 0)
    return Codes(U, float(relative.max(initial=0)), len(rows))


class _Run:
    """Rows on their way: FISTA with each row's momentum capped by √(μ/L) and restarted by need."""

    def __init__(self, U: Array, b: Array, problem: CodeProblem) -> None:
        self.U, self.U_old, self.b, self.problem = U, U, b, problem
        self.age = np.zeros((len(U), 1), dtype=U.dtype)  # steps since the row's last restart
        root = np.sqrt(problem.mu / problem.L) if problem.L > 0 else 1.0
        self.cap = U.dtype.type((1 - root) / (1 + root))

    def only(self, keep: NDArray[np.bool_]) -> _Run:
        """The rows still on their way."""
        rest = _Run(self.U[keep], self.b[keep], self.problem)
        rest.U_old, rest.age = self.U_old[keep], self.age[keep]
        return rest

    def advance(self, n_steps: int) -> None:
        """So many accelerated steps."""
        H, L, tau = self.problem.H, self.problem.L, self.problem.tau
        if L == 0:  # D = 0 and η = 0: every code is worth the same without ℓ1, so 0
            self.U = self.U_old = np.zeros_like(self.U)
            return
        for _ in range(n_steps):
            momentum = np.minimum(self.age / (self.age + 3), self.cap)
            Y = self.U - self.U_old
            Y *= momentum
            Y += self.U
            V = Y @ H
            V -= self.b
            V *= -1 / L
            V += Y
            soft_threshold(V, tau / L, positive=self.problem.positive, out=V)
            # Momentum that points uphill is dropped (O'Donoghue and Candès 2015).
            Y -= V
            uphill = np.einsum("ij,ij->i", Y, V - self.U) > 0
            self.age += 1
            self.age[uphill] = 0
            self.U_old, self.U = self.U, V


def _objective(U: Array, G: Array, b: Array, tau: float) -> Array:
    """½ u H uᵀ − b uᵀ + τ‖u‖₁ for each row, from its gradient G = u H − b."""
    return np.asarray(
        0.5 * np.einsum("ij,ij->i", U, G - b) + tau * np.abs(U).sum(axis=1), dtype=np.float64
    )


def _allowed(U: Array, scale: Array, problem: CodeProblem, tol: float) -> Array:
    """The violation at which a row is done: ``tol`` of its scale, or what rounding hides.

    Rounding moves U H − b by eps times its terms, and a gradient smaller than L times the
    last digit of u can no longer move u.
    """
    eps = float(np.finfo(U.dtype).eps)
    size = np.abs(U)
    terms = size.sum(axis=1) * float(problem.H.diagonal().max(initial=0)) + scale
    rounding = 4 * eps * (terms + problem.L * size.max(axis=1, initial=0))
    return np.asarray(np.maximum(tol * scale, rounding))
