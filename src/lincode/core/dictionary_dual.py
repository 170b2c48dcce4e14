"""The D step all at once, by Newton's method on its dual (as Lee, Battle, Raina and Ng 2007).

With a multiplier λ[j] ≥ 0 for each constraint ‖D[j]‖ ≤ 1, the dictionary is explicit,

    D(λ) = (UtU + diag λ)⁻¹ UtX,

and λ maximises the dual  −⟨UtX, D(λ)⟩ − Σλ,  smooth and concave, with the gradient
‖D[j]‖² − 1 and the Hessian −2 (D Dᵀ) ∘ (UtU + diag λ)⁻¹. From the multipliers of a dictionary
that is nearly right, three or four steps reach machine precision, for the price of as many
sweeps over the atoms.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from lincode.core.prox import project_unit_ball
from lincode.core.types import Array

NEWTON_STEPS = 30
SHORTEST = 1e-6
"""Of the halved steps of a line search; then it is given up."""


def solve_dual(D: Array, UtU: Array, UtX: Array, tol: float) -> Array | None:
    """The best dictionary for atoms that are all in use, started from D; None if it fails.

    It fails where UtU + diag λ is singular: with fewer rows than atoms, or atoms that need
    no constraint. Stops when every ‖D[j]‖² with λ[j] > 0 is within ``tol`` of 1.
    """
    multipliers = np.maximum(np.einsum("ij,ij->i", UtX - UtU @ D, D), 0.0)
    try:
        point = _DualPoint(multipliers, UtU, UtX)
        for _ in range(NEWTON_STEPS):
            slope = np.einsum("ij,ij->i", point.D, point.D) - 1
            free = np.flatnonzero((point.multipliers > 0) | (slope > 0))
            if np.abs(slope[free]).max(initial=0) <= tol:
                return project_unit_ball(point.D)
            step = np.zeros_like(slope)
            curvature = scipy.linalg.cho_factor(point.curvature()[np.ix_(free, free)], lower=True)
            step[free] = scipy.linalg.cho_solve(curvature, slope[free])
            point = _line_search(point, step, UtU, UtX)
    except (np.linalg.LinAlgError, ValueError):  # singular, or so nearly that it overflows
        pass
    return None


class _DualPoint:
    """Multipliers, the dictionary they stand for, and the value of the dual there."""

    def __init__(self, multipliers: Array, UtU: Array, UtX: Array) -> None:
        self.multipliers = multipliers
        self.factor = scipy.linalg.cho_factor(UtU + np.diag(multipliers), lower=True)
        self.D: Array = scipy.linalg.cho_solve(self.factor, UtX)
        self.value = -float(np.vdot(UtX, self.D)) - float(multipliers.sum())

    def curvature(self) -> Array:
        """Minus the Hessian of the dual."""
        inverse = scipy.linalg.cho_solve(self.factor, np.eye(len(self.D)))
        return np.asarray(2 * (self.D @ self.D.T) * inverse)


def _line_search(point: _DualPoint, step: Array, UtU: Array, UtX: Array) -> _DualPoint:
    """The longest of step, step/2, step/4, … that does not lower the dual."""
    length = 1.0
    while length > SHORTEST:
        new = _DualPoint(np.maximum(point.multipliers + length * step, 0.0), UtU, UtX)
        if new.value >= point.value - 1e-12 * abs(point.value):
            return new
        length /= 2
    raise np.linalg.LinAlgError("no step raises the dual")
