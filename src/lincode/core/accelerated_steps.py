"""Accelerated proximal gradient steps for the U step, in the metric of ``code_step.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lincode.core.prox import soft_threshold, soft_threshold_along
from lincode.core.types import Array

if TYPE_CHECKING:
    from lincode.core.code_step import CodeProblem


class Iterate:
    """Accelerated proximal gradient steps for some rows, each with its own momentum.

    The product UH is stored with U. Because it is linear in U, the gradient at the extrapolated
    point and the gradient at U need no further product.
    """

    def __init__(
        self,
        b: Array,
        U: Array,
        UH: Array,
        problem: CodeProblem,
        previous: tuple[Array, Array] | None = None,
    ) -> None:
        self.b, self.U, self.UH, self.problem = b, U, UH, problem
        self.U_old, self.UH_old = (U.copy(), UH.copy()) if previous is None else previous
        self.age = np.zeros(len(U), dtype=U.dtype)  # steps since the last restart of a row
        self.slope = np.ones(len(U), dtype=U.dtype)  # the last slope of soft_threshold_along
        self.Y, self.Z, self.work = (np.empty_like(U) for _ in range(3))

    def select(self, kept: NDArray[np.bool_]) -> Iterate:
        """Return the iterate with some of its rows."""
        previous = self.U_old[kept], self.UH_old[kept]
        selected = Iterate(self.b[kept], self.U[kept], self.UH[kept], self.problem, previous)
        selected.age, selected.slope = self.age[kept], self.slope[kept]
        return selected

    def advance(self, n_steps: int) -> None:
        """Do ``n_steps`` accelerated steps."""
        if self.problem.L == 0:  # D = 0 and η = 0: the minimiser is zero
            self.U, self.UH = np.zeros_like(self.U), np.zeros_like(self.UH)
            return
        for _ in range(n_steps):
            V = self._proximal_step()
            VH = np.matmul(V, self.problem.H, out=self.UH_old)
            self.U, self.U_old, self.UH, self.UH_old = V, self.U, VH, self.UH

    def _proximal_step(self) -> Array:
        """Compute V = argmin_V  G·V + ½‖V − Y‖²_M + τ‖V‖₁, where G is the gradient at Y.

        Y is U extrapolated by the momentum. V overwrites U_old. The momentum of a row is reset
        if (Y − V) M (V − U) > 0 (O'Donoghue and Candès 2015).
        """
        L, sigma, v = self.problem.L, self.problem.sigma, self.problem.v
        Y, Z, V = self.Y, self.Z, self.U_old
        momentum = np.minimum(self.age / (self.age + 3), self.problem.max_momentum)[:, None]
        _extrapolate(self.U, self.U_old, momentum, out=Y)
        _extrapolate(self.UH, self.UH_old, momentum, out=Z)
        Z -= self.b
        Z *= -1 / L
        Z += Y  # Y − G/L
        t, positive = self.problem.tau / L, self.problem.positive
        if sigma == 0:
            soft_threshold(Z, t, positive=positive, out=V)
        else:
            soft_threshold_along(
                Z,
                t,
                v,
                sigma / L,
                Y @ v,
                slope=self.slope,
                positive=positive,
                out=V,
                work=self.work,
            )
        Y -= V
        moved = np.subtract(V, self.U, out=Z)
        uphill = L * np.einsum("ij,ij->i", Y, moved) + sigma * (Y @ v) * (moved @ v)
        self.age += 1
        self.age[uphill > 0] = 0
        return V


def _extrapolate(A: Array, A_old: Array, momentum: Array, *, out: Array) -> None:
    """Write A + momentum · (A − A_old) to ``out``."""
    np.subtract(A, A_old, out=out)
    out *= momentum
    out += A
