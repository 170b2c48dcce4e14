"""Smooth penalties Σ g(u/σ) that make codes sparse: the paper's log, and Olshausen and Field's.

Each g is even, and concave as a function of a². So at any a₀ it lies below a parabola,

    g(a) ≤ g(a₀) + ½ w(a₀) (a² − a₀²),   w(a) = g'(a)/a,

which is what ``conjugate_gradient.py`` measures its steps by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lincode.core.types import Array

CORNER = 1e-3
"""|a| is rounded off within this of zero, so that it has a slope there."""


@dataclass(frozen=True)
class Penalty:
    """g, entry by entry."""

    of: Callable[[Array], Array]
    """g(a)"""
    weight: Callable[[Array], Array]
    """g'(a)/a > 0"""

    def sum(self, A: Array) -> float:
        """Σ g"""
        return float(self.of(A).sum(dtype=np.float64))

    def slope(self, A: Array) -> Array:
        """g'(a)"""
        return np.asarray(self.weight(A) * A)


PENALTIES = {
    "log": Penalty(lambda A: np.log1p(A * A), lambda A: 2 / (1 + A * A)),
    "exp": Penalty(lambda A: -np.expm1(-A * A), lambda A: 2 * np.exp(-A * A)),
    "l1": Penalty(
        lambda A: np.sqrt(A * A + CORNER**2) - CORNER, lambda A: 1 / np.sqrt(A * A + CORNER**2)
    ),
}
