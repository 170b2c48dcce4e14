"""SCNN trained by Algorithm 1 of the paper: the reference for ``scnn.py``.

The steps are plain proximal and gradient steps with Lipschitz step sizes. Errors in the printed
algorithm are corrected as follows (paper → here):

    weight updates d + η ∂E/∂d                      minus: descent
    2/d and 1/d in ∂E/∂D and η_U                    p, the number of inputs
    threshold λ in every U iteration                2 η_U λ/m, the prox of the penalty in E
    ‖UUᵀ‖²_F and ‖XXᵀ‖²_F in η_D and η_C            spectral norms of UᵀU and XᵀX
    steps (b) and (c) use U of the last iteration   the newest U, as the text says

As in the paper, training stops on the change of the network's reconstruction error. The initial
encoder is projected onto the row space of X, because no gradient changes the rest of it.

The paper does not define the convergence of an inner loop. Here an inner loop ends when the
relative change of the iterate is at most ``INNER_RTOL``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lincode.core.encoder_step import DirectFactor
from lincode.core.energy import CodeStats
from lincode.core.prox import project_unit_ball, soft_threshold
from lincode.core.types import Array
from lincode.exceptions import InvalidInputError
from lincode.networks.scnn import SCNNTraining
from lincode.rows.memory import MemoryRows, needs_iterative_factor

U_ITERATIONS, D_ITERATIONS, C_ITERATIONS = 1000, 500, 500
"""The largest numbers of inner iterations (Section 4 of the paper)."""
CONVERGED_REASON = "converged: the relative change of the reconstruction error fell to tol or below"
"""The reason of the end, in place of ``Reason.CONVERGED``."""
MAX_ITER = 50
"""The number of outer iterations (Section 4 of the paper)."""
INNER_RTOL = 1e-5


class PaperTraining(SCNNTraining):
    """SCNN trained as in the paper: without acceleration and without replacing unused atoms."""

    rows: MemoryRows
    factor: DirectFactor

    def __init__(self, rows: MemoryRows, *args: Any, **options: Any) -> None:
        if needs_iterative_factor(rows.X):
            N, p = rows.shape
            raise InvalidInputError(
                f"solver='paper' needs the eigenvectors of XᵀX, which are too large for {N}"
                f" samples with {p} features; use solver='auto'."
            )
        super().__init__(rows, *args, **options)

    def steps(self) -> Iterator[str]:
        """Do one iteration of Algorithm 1."""
        self.input_update()
        yield "codes"
        self.reconstruction_weight_update()
        yield "dictionary"
        self.projection_weight_update()
        yield "encoder"

    def input_update(self) -> None:
        """Do step (a), the B-SCNN input update (equation 14): U ← P(U − η_U ∂E₁/∂U)."""
        lam, positive = self.weights.lam, self.weights.positive
        X, m = self.rows.X, len(self.D)
        problem = self.weights.code_problem(self.D, self.C, X.dtype)
        H, b = problem.H, np.asarray(X @ problem.W.T)
        norm = problem.norm  # ‖D Dᵀ/p + η I/m‖
        eta_U = 1 / (2 * norm) if norm > 0 else 0.0

        def update(U: Array) -> Array:
            gradient = 2 * (U @ H - b)  # equation 12
            return soft_threshold(U - eta_U * gradient, 2 * eta_U * lam / m, positive=positive)

        self.rows.U[...] = _iterate(update, self.rows.U, U_ITERATIONS)
        self.stats = CodeStats.of(self.rows.U, X, self.rows.code_residual(problem))

    def reconstruction_weight_update(self) -> None:
        """Do step (b), the B-SCNN weight update (equations 7 and 9), with a projection."""
        UtU, UtX = self.stats.UtU, self.stats.UtX
        p = self.D.shape[1]
        norm = np.linalg.norm(UtU, 2)
        if norm == 0:
            return
        eta_D = p / (2 * norm)

        def update(D: Array) -> Array:
            gradient = 2 / p * (UtU @ D - UtX)
            return project_unit_ball(D - eta_D * gradient)

        self.D = _iterate(update, self.D, D_ITERATIONS)

    def projection_weight_update(self) -> None:
        """Do step (c), the T-SCNN weight update (equations 8 and 10)."""
        V, s2, UtX = self.factor.V, self.factor.s2 + self.factor.ridge, self.stats.UtX
        m = len(self.C)
        if not s2.size:
            return
        eta_C = m / (2 * s2.max())  # s2.max() = ‖XᵀX + ρ I‖

        def update(C: Array) -> Array:
            CXtX = (C @ V * s2) @ V.T
            gradient = 2 / m * (CXtX - UtX)
            return np.asarray(C - eta_C * gradient)

        self.C = _iterate(update, self.C, C_ITERATIONS)

    def monitored_error(self, energy: float) -> float:
        """Return 1/p ‖X − X Cᵀ D‖², the error of the network in step (d)."""
        V, s2 = self.factor.V, self.factor.s2
        residual = V.T - (V.T @ self.C.T) @ self.D
        return float(s2 @ (residual**2).sum(axis=1) / self.D.shape[1])

    def set_change(self, change: float) -> bool:
        """Report that the steps are always accurate enough to stop."""
        return True

    def final_steps(self) -> Iterator[str]:
        """Do nothing after the last iteration."""
        return iter(())


def _iterate(update: Callable[[Array], Array], A: Array, max_iter: int) -> Array:
    """Apply an update until it converges or ``max_iter`` is reached."""
    for _ in range(max_iter):
        previous, A = A, update(A)
        if np.linalg.norm(A - previous) <= INNER_RTOL * np.linalg.norm(A):
            break
    return A
