"""Proximal gradient steps with momentum for the U step, in the metric of ``code_step.py``.

There are two kinds of steps. With Y = U + β (U − U_old), both are

    V = argmin_V  G·V + ½‖V − Y‖²_M / α + τ‖V‖₁.

- Nesterov's steps: G is the gradient at Y, and α = 1. The momentum β grows from zero and is reset
  when it points uphill. They converge from any start.
- Heavy-ball steps (Polyak 1964): G is the gradient at U, and α and β are the constants that are
  optimal for a quadratic function with eigenvalues between μ and L,
  α = 4/(1 + √q)² and β = ((1 − √q)/(1 + √q))² with q = μ/L. The error shrinks by √β per step once
  the signs of the code have settled, while Nesterov's steps may need 1/√(1 − √q).

A row begins with Nesterov's steps, continues with heavy-ball steps, and returns to Nesterov's steps
if its objective increased.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lincode.core.types import Array

if TYPE_CHECKING:
    from lincode.core.code_step import CodeProblem

N_FIRST_STEPS = 3
"""The number of Nesterov's steps before the heavy-ball steps. Without them the signs of many codes
change in the first heavy-ball steps, and their objective increases."""
LENGTH_FRACTION = 0.95
"""The length of heavy-ball steps as a fraction of the optimal one, at which they are unstable."""


class Iterate:
    """The codes of some rows, to which steps are applied.

    The product UH is stored with U. Because it is linear in U, the gradient at the extrapolated
    point and the gradient at U need no further product.
    """

    def __init__(self, b: Array, U: Array, UH: Array, problem: CodeProblem) -> None:
        self.b, self.U, self.UH, self.problem = b, U, UH, problem
        self.U_old, self.UH_old = U.copy(), UH.copy()
        self.n_steps = 0
        self.age = np.zeros(len(U), dtype=U.dtype)  # steps since the last restart of a row
        self.slope = np.ones(len(U), dtype=U.dtype)  # the last slope of soft_threshold_along
        self.is_heavy = np.full(len(U), problem.mu > 0)  # whether heavy-ball steps are allowed

    def select(self, kept: NDArray[np.bool_]) -> Iterate:
        """Return the iterate with some of its rows."""
        selected = object.__new__(Iterate)
        selected.problem, selected.n_steps = self.problem, self.n_steps
        for name in ("b", "U", "UH", "U_old", "UH_old", "age", "slope", "is_heavy"):
            setattr(selected, name, getattr(self, name)[kept])
        return selected

    def advance(self, n_steps: int) -> None:
        """Do ``n_steps`` steps."""
        if self.problem.L == 0:  # D = 0 and η = 0: the minimiser is zero
            self.U, self.UH = np.zeros_like(self.U), np.zeros_like(self.UH)
            return
        for _ in range(n_steps):
            V = self._proximal_step()
            VH = self.problem.times_H(V, out=self.UH_old)
            self.U, self.U_old, self.UH, self.UH_old = V, self.U, VH, self.UH
            self.n_steps += 1

    def slow_down(self, rows: NDArray[np.bool_]) -> None:
        """Use Nesterov's steps for some rows from now on."""
        self.age[rows & self.is_heavy] = 0
        self.is_heavy &= ~rows

    def _proximal_step(self) -> Array:
        """Compute V, which overwrites U_old."""
        from lincode.core.proximal_step import step_rows  # imports Numba

        problem, dtype = self.problem, self.U.dtype
        length, momentum = problem.heavy_ball
        heavy = self.is_heavy & (self.n_steps >= N_FIRST_STEPS)
        nesterov = np.minimum(self.age / (self.age + 3), problem.max_momentum)
        alpha = np.where(heavy, LENGTH_FRACTION * length, 1.0) / problem.L
        beta, gamma = np.where(heavy, momentum, nesterov), np.where(heavy, 0, nesterov)
        arrays = self.U, self.U_old, self.UH, self.UH_old, self.b
        uphill = step_rows(
            arrays,
            problem.v,
            problem.sigma / problem.L,
            alpha.astype(dtype),
            (beta.astype(dtype), gamma.astype(dtype)),
            problem.tau,
            problem.positive,
            self.slope,
        )
        self.age = np.where((uphill > 0) & ~heavy, 0, self.age + 1).astype(dtype)
        return self.U_old
