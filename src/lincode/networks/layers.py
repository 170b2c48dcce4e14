"""Networks of two layers that are learned together: SAANN, and the third stage of ASCNN."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from lincode.core.smooth_functions import ACTIVATIONS
from lincode.core.types import Array, Rows
from lincode.networks.epochs import BestPassTraining, Schedule


class Layers(NamedTuple):
    """The two weight matrices of a network, with one unit per row."""

    D: Array
    """Dictionary (m, p)"""
    C: Array
    """Encoder (m, p)"""

    def astype(self, dtype: np.dtype[np.floating]) -> Layers:
        """Return both matrices in the given precision."""
        return Layers(self.D.astype(dtype, copy=False), self.C.astype(dtype, copy=False))


class TwoLayerEnergy(Protocol):
    """The energy of a network of two layers and its gradient, summed over rows."""

    @property
    def activation(self) -> str: ...

    def value(self, X: Array, D: Array, C: Array) -> float: ...

    def gradient(self, X: Array, D: Array, C: Array) -> Layers: ...


def apply_encoder(X: Rows, C: Array, activation: str) -> Array:
    """Return the codes U = φ(X Cᵀ)."""
    return ACTIVATIONS[activation].value(np.asarray(X @ C.T))


class TwoLayerTraining(BestPassTraining):
    """Training of D and C together.

    ``scale`` is the root mean square of X. D has the units of X and C those of 1/X, so the steps
    of D are multiplied by ``scale`` and the steps of C are divided by it.
    """

    def __init__(
        self,
        X: Rows,
        initial: Layers,
        energy_function: TwoLayerEnergy,
        schedule: Schedule,
        rng: np.random.RandomState,
        *,
        scale: float,
    ) -> None:
        super().__init__(X, schedule, rng)
        self.energy_function, self.scale = energy_function, scale
        D, C = initial.astype(X.dtype)
        n = schedule.batch_size
        self.D = schedule.optimizer(D, unit=scale, n=n)
        self.C = schedule.optimizer(C, unit=scale**3, n=n)

    @property
    def weights(self) -> Layers:
        return Layers(self.D.weights.copy(), self.C.weights.copy())

    def restore(self, weights: Layers) -> None:
        self.D.weights, self.C.weights = weights

    def update_weights(self, rows: Array, rate: float) -> None:
        X = self.dense_rows(rows)
        gradient = self.energy_function.gradient(X, self.D.weights, self.C.weights)
        self.D.step(gradient.D, rate * self.scale)
        self.C.step(gradient.C, rate / self.scale)

    def energy_of_rows(self, rows: slice) -> float:
        return self.energy_function.value(self.dense_rows(rows), self.D.weights, self.C.weights)


def random_layers(m: int, p: int, scale: float, rng: np.random.RandomState, *, init: str) -> Layers:
    """Return uniform random weights.

    With ``init="paper"`` they are in [−1, 1], whatever the number of units and features. With
    ``init="scaled"`` their size is chosen such that the inputs of the units have variance of
    about 1, and the reconstructions have the scale of the data.
    """
    D, C = rng.uniform(-1, 1, (m, p)), rng.uniform(-1, 1, (m, p))
    if init == "paper":
        return Layers(D, C)
    return Layers(D * scale * np.sqrt(3 / m), C / scale * np.sqrt(3 / p))
