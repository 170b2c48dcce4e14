"""Smooth functions that are applied to every entry of an array: activations φ and penalties g.

A penalty Σ g(u/σ) makes codes sparse. Every g here is even, and concave as a function of a².
Therefore a parabola that touches g at a₀ is an upper bound of g:

    g(a) ≤ g(a₀) + ½ w(a₀) (a² − a₀²),      w(a) = g'(a)/a.

``conjugate_gradient.py`` computes its step sizes from this bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.special

from lincode.core.types import Array

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
"""The activations by name."""


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
"""The penalties of Olshausen and Field (1996) by name; the paper uses "log"."""
