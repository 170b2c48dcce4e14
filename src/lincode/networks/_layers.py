"""Two layers of weights learned together by mini-batches: SAANN, and ASCNN's last stage."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from lincode.core.activations import ACTIVATIONS
from lincode.core.adam import Adam
from lincode.core.types import Array, Rows
from lincode.networks._epochs import BestPassTraining, Pace


class Weights(NamedTuple):
    """The two layers, a unit a row."""

    D: Array
    C: Array

    def astype(self, dtype: np.dtype[np.floating]) -> Weights:
        """In another precision."""
        return Weights(self.D.astype(dtype, copy=False), self.C.astype(dtype, copy=False))


class Energy(Protocol):
    """The energy of a network of two layers, summed over rows, and its gradient."""

    @property
    def activation(self) -> str: ...

    def value(self, X: Array, D: Array, C: Array) -> float: ...

    def gradient(self, X: Array, D: Array, C: Array) -> Weights: ...


def encode(X: Rows, C: Array, activation: str) -> Array:
    """U = φ(X Cᵀ)"""
    return ACTIVATIONS[activation].of(np.asarray(X @ C.T))


class LayersTraining(BestPassTraining):
    """D and C together; steps of D in units of the data's scale, of C in units of its inverse."""

    def __init__(
        self,
        X: Rows,
        start: Weights,
        energy: Energy,
        pace: Pace,
        rng: np.random.RandomState,
        *,
        scale: float,
    ) -> None:
        super().__init__(X, pace, rng)
        self.terms, self.scale = energy, scale
        D, C = start.astype(X.dtype)
        self.D, self.C = Adam(D, unit=scale), Adam(C, unit=scale**3)

    @property
    def weights(self) -> Weights:
        return Weights(self.D.weights.copy(), self.C.weights.copy())

    def restore(self, weights: Weights) -> None:
        self.D.weights, self.C.weights = weights

    def learn(self, rows: Array, rate: float) -> None:
        gradient = self.terms.gradient(self.batch(rows), self.D.weights, self.C.weights)
        self.D.step(gradient.D, rate * self.scale)
        self.C.step(gradient.C, rate / self.scale)

    def energy_of(self, rows: slice) -> float:
        return self.terms.value(self.batch(rows), self.D.weights, self.C.weights)


def random_start(
    m: int, p: int, scale: float, rng: np.random.RandomState, *, of_the_paper: bool = False
) -> Weights:
    """Uniform weights that keep inputs of units, and what is made of them, at the data's scale.

    The paper's own are uniform in [−1, 1] whatever the sizes.
    """
    D, C = rng.uniform(-1, 1, (m, p)), rng.uniform(-1, 1, (m, p))
    if of_the_paper:
        return Weights(D, C)
    return Weights(D * scale * np.sqrt(3 / m), C / scale * np.sqrt(3 / p))
