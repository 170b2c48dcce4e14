"""The U step (B-SCNN input update, paper eqs. 12 to 14): the codes for a given D and C.

The lasso of ``code_problem.py``, minimised by accelerated proximal gradient steps on a block
of rows at a time, one product with its Hessian H each. Rows that are found to be sparse go
through ``code_descent.py`` once, where it is compiled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lincode.core.code_descent import descend, sparse_rows
from lincode.core.code_problem import CodeProblem
from lincode.core.optimality import code_violation
from lincode.core.prox import soft_threshold, soft_threshold_along
from lincode.core.types import Array, Rows

CHECK_EVERY = 5
"""Accelerated steps between two looks at the optimality of each row."""


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
    UH = U @ problem.H
    measures = _measure(U, UH, b, problem)
    U, violation, value = U.copy(), measures.violation, measures.value
    going = violation > _allowed(measures, scale, problem, tol)
    if max_iter > 0:  # where b = 0 there is nothing to solve
        empty = scale == 0
        U[empty], violation[empty], value[empty], going[empty] = 0, 0, 0, False

    rounding = 4 * float(np.finfo(U.dtype).eps)
    rows = np.flatnonzero(going)
    run = _Run(b[rows], U[rows], UH[rows], problem)

    def settle() -> None:
        """Keep what is better, let go the rows that are done."""
        nonlocal rows, run
        measures = _measure(run.U, run.UH, run.b, problem, run.Z, run.work)
        # A row is kept at its best so far: momentum may carry it up on the way down.
        noise = 8 * np.finfo(U.dtype).eps * measures.l1 * scale[rows]
        lower = measures.value <= value[rows] + noise
        better = rows[lower]
        U[better] = run.U[lower]
        violation[better], value[better] = measures.violation[lower], measures.value[lower]
        going = ~lower | (measures.violation > _allowed(measures, scale[rows], problem, tol))
        if not going.all():
            rows, run = rows[going], run.only(going)

    for done in range(0, max_iter, CHECK_EVERY):
        # With curvature to hold on to, a few steps first: they tell how sparse a row will be.
        if (done > 0 or problem.mu == 0) and run.descend(max(tol, rounding) * scale[rows]):
            settle()
        if not rows.size:
            break
        run.advance(CHECK_EVERY)
        settle()

    # A row without gradient at zero has the code zero: any violation is a whole one.
    relative = np.divide(violation, scale, out=np.sign(violation), where=scale > 0)
    return Codes(U, float(relative.max(initial=0)), len(rows))


class _Measures(NamedTuple):
    """What is to be known of each row's code; all (n,)."""

    violation: Array
    """Largest violation of the optimality conditions"""
    value: Array
    """½ u H uᵀ − b uᵀ + τ‖u‖₁"""
    l1: Array
    """‖u‖₁"""
    length: Array
    """‖u‖₂"""


def _measure(
    U: Array,
    UH: Array,
    b: Array,
    problem: CodeProblem,
    Z: Array | None = None,
    work: Array | None = None,
) -> _Measures:
    """How good each row's code is; Z and work are room to work in."""
    tau, positive = problem.tau, problem.positive
    G = np.subtract(UH, b, out=Z)
    violation = code_violation(U, G, tau, positive=positive)
    G -= b
    l1 = np.abs(U, out=work).sum(axis=1)
    value = 0.5 * np.einsum("ij,ij->i", U, G) + tau * l1
    length = np.sqrt(np.einsum("ij,ij->i", U, U))
    return _Measures(violation, value, l1, length)


class _Run:
    """Rows on their way: FISTA, each row with its own momentum.

    ``UH`` is kept with U. By its linearity the gradient where momentum leads needs no product
    of its own, and the one at U, which tells how good U is, comes free.
    """

    def __init__(
        self,
        b: Array,
        U: Array,
        UH: Array,
        problem: CodeProblem,
        old: tuple[Array, Array] | None = None,
    ) -> None:
        self.b, self.U, self.UH, self.problem = b, U, UH, problem
        self.U_old, self.UH_old = (U.copy(), UH.copy()) if old is None else old
        self.age = np.zeros(len(U), dtype=U.dtype)  # steps since the row's last restart
        self.slope = np.ones(len(U), dtype=U.dtype)  # what soft_threshold_along last saw
        self.descended = np.zeros(len(U), dtype=bool)
        self.Y, self.Z, self.work = (np.empty_like(U) for _ in range(3))

    def only(self, keep: NDArray[np.bool_]) -> _Run:
        """The rows still on their way."""
        old = self.U_old[keep], self.UH_old[keep]
        rest = _Run(self.b[keep], self.U[keep], self.UH[keep], self.problem, old)
        rest.age, rest.slope = self.age[keep], self.slope[keep]
        rest.descended = self.descended[keep]
        return rest

    def descend(self, enough: Array) -> bool:
        """Rows that have become sparse, once each, by coordinate descent; whether there were any.

        A little further than enough: measured anew, rounding shows.
        """
        new = np.flatnonzero(sparse_rows(self.U, self.problem) & ~self.descended)
        if not new.size:
            return False
        U = descend(self.U[new], self.b[new], self.problem, 0.9 * enough[new])
        UH = U @ self.problem.H
        self.U[new], self.UH[new], self.U_old[new], self.UH_old[new] = U, UH, U, UH
        self.age[new], self.descended[new] = 0, True
        return True

    def advance(self, n_steps: int) -> None:
        """So many accelerated steps."""
        if self.problem.L == 0:  # D = 0 and η = 0: every code is worth the same without ℓ1, so 0
            self.U, self.UH = np.zeros_like(self.U), np.zeros_like(self.UH)
            return
        for _ in range(n_steps):
            V = self._step()
            VH = np.matmul(V, self.problem.H, out=self.UH_old)
            self.U, self.U_old, self.UH, self.UH_old = V, self.U, VH, self.UH

    def _step(self) -> Array:
        """U_old ← V = argmin_V  G·V + ½‖V − Y‖²_M + τ‖V‖₁, G the gradient at Y, a little past U.

        Momentum that points uphill, (Y − V) M (V − U) > 0, is dropped (O'Donoghue and
        Candès 2015).
        """
        L, sigma, v = self.problem.L, self.problem.sigma, self.problem.v
        Y, Z, V = self.Y, self.Z, self.U_old
        momentum = np.minimum(self.age / (self.age + 3), self.problem.most_momentum)[:, None]
        _beyond(self.U, self.U_old, momentum, out=Y)
        _beyond(self.UH, self.UH_old, momentum, out=Z)
        Z -= self.b
        Z *= -1 / L
        Z += Y  # Y − G/L
        t, positive = self.problem.tau / L, self.problem.positive
        if sigma == 0:
            soft_threshold(Z, t, positive=positive, out=V)
        else:
            soft_threshold_along(
                Z, t, v, sigma / L, Y @ v,
                slope=self.slope, positive=positive, out=V, work=self.work,
            )  # fmt: skip
        Y -= V
        moved = np.subtract(V, self.U, out=Z)
        uphill = L * np.einsum("ij,ij->i", Y, moved) + sigma * (Y @ v) * (moved @ v)
        self.age += 1
        self.age[uphill > 0] = 0
        return V


def _beyond(A: Array, A_old: Array, momentum: Array, *, out: Array) -> None:
    """A + momentum · (A − A_old)"""
    np.subtract(A, A_old, out=out)
    out *= momentum
    out += A


def _allowed(measures: _Measures, scale: Array, problem: CodeProblem, tol: float) -> Array:
    """The violation at which a row is done: ``tol`` of its scale, or what rounding hides.

    Rounding moves U H − b by eps times its terms, and a gradient smaller than ‖H‖ times the
    last digits of u can no longer move u.
    """
    eps = float(np.finfo(scale.dtype).eps)
    terms = measures.l1 * float(problem.H.diagonal().max(initial=0)) + scale
    rounding = 4 * eps * (terms + problem.norm * measures.length)
    return np.asarray(np.maximum(tol * scale, rounding))
