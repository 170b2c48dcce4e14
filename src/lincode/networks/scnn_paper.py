"""SCNN by Algorithm 1 of the paper, to be read beside it: the reference for ``scnn.py``.

Plain proximal and gradient steps with Lipschitz step sizes. The slips of the print are
mended as follows (paper → here):

    weight updates d + η ∂E/∂d                      minus: descent
    2/d and 1/d in ∂E/∂D and η_U                    p, the number of inputs
    threshold λ in every U iteration                2 η_U λ/m, the prox of the penalty in E
    ‖UUᵀ‖²_F and ‖XXᵀ‖²_F in η_D and η_C            spectral norms of UᵀU and XᵀX
    steps (b) and (c) use U of the iteration before the newest U, as the text says

What training watches is the paper's: the change of the network's reconstruction error. The
start's encoder is reduced to the directions the data span: no gradient ever moves the rest.

Left open by the paper: "until convergence" of an inner loop is here the relative change of
the iterate falling below ``INNER_RTOL``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from lincode.core.prox import project_unit_ball, soft_threshold
from lincode.core.stats import CodeStats
from lincode.core.types import Array
from lincode.networks.scnn import SCNNTraining

U_ITERATIONS, D_ITERATIONS, C_ITERATIONS = 1000, 500, 500
"""Caps of the inner loops (paper Section 4)."""
T_MAX = 50
"""Outer iterations (paper Section 4)."""
INNER_RTOL = 1e-5


class PaperTraining(SCNNTraining):
    """SCNN trained as printed. No atom is revived, nothing is accelerated."""

    def steps(self) -> Iterator[str]:
        self.input_update()
        yield "codes"
        self.reconstruction_weight_update()
        yield "dictionary"
        self.projection_weight_update()
        yield "encoder"

    def input_update(self) -> None:
        """(a) B-SCNN input update, eq. 14: U ← P(U − η_U ∂E₁/∂U), P at 2 η_U λ/m."""
        lam, positive = self.weights.lam, self.weights.positive
        X, m = self.rows.X, len(self.D)
        problem = self.weights.code_problem(self.D, self.C, X.dtype)
        H, b = problem.H, np.asarray(X @ problem.W.T)
        norm = problem.norm  # ‖D Dᵀ/p + η I/m‖
        eta_U = 1 / (2 * norm) if norm > 0 else 0.0

        def update(U: Array) -> Array:
            gradient = 2 * (U @ H - b)  # eq. 12
            return soft_threshold(U - eta_U * gradient, 2 * eta_U * lam / m, positive=positive)

        self.rows.U[...] = _until_convergence(update, self.rows.U, U_ITERATIONS)
        self.stats = CodeStats.of(self.rows.U, X, self.rows.code_residual(problem))

    def reconstruction_weight_update(self) -> None:
        """(b) B-SCNN weight update, eqs. 7 and 9, then projection onto the unit balls."""
        UtU, UtX = self.stats.UtU, self.stats.UtX
        p = self.D.shape[1]
        norm = np.linalg.norm(UtU, 2)
        if norm == 0:
            return
        eta_D = p / (2 * norm)

        def update(D: Array) -> Array:
            gradient = 2 / p * (UtU @ D - UtX)
            return project_unit_ball(D - eta_D * gradient)

        self.D = _until_convergence(update, self.D, D_ITERATIONS)

    def projection_weight_update(self) -> None:
        """(c) T-SCNN weight update, eqs. 8 and 10."""
        V, s2, UtX = self.factor.V, self.factor.s2, self.stats.UtX
        m = len(self.C)
        if not s2.size:
            return
        eta_C = m / (2 * s2.max())  # s2.max() = ‖XᵀX‖

        def update(C: Array) -> Array:
            CXtX = (C @ V * s2) @ V.T
            gradient = 2 / m * (CXtX - UtX)
            return np.asarray(C - eta_C * gradient)

        self.C = _until_convergence(update, self.C, C_ITERATIONS)

    def watched(self, energy: float) -> float:
        """(d) 1/p ‖X − X Cᵀ D‖², the error of the network as a whole."""
        V, s2 = self.factor.V, self.factor.s2
        missed = V.T - (V.T @ self.C.T) @ self.D
        return float(s2 @ (missed**2).sum(axis=1) / self.D.shape[1])

    def note_change(self, change: float) -> bool:
        return True

    def closing_steps(self) -> Iterator[str]:
        return iter(())


def _until_convergence(update: Callable[[Array], Array], A: Array, most: int) -> Array:
    for _ in range(most):
        before, A = A, update(A)
        if np.linalg.norm(A - before) <= INNER_RTOL * np.linalg.norm(A):
            break
    return A
