"""The energies and the training of ASCNN (paper eqs. 3 and 4; Zeng et al. 2010).

ASCNN is an associative network that is learned in three stages. Z holds the inputs of the hidden
units, one row per sample.

    1.  min over Z and D   E(Z, D) = ½‖X − φ(Z) D‖² + λ Σ log(1 + (z/σ)²)
    2.  min over C         ½‖X Cᵀ − Z‖²
    3.  min over D and C   E(X Cᵀ, D)

Stages 1 and 3 use mini-batches. Stage 2 is a linear least-squares problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lincode.core.encoder_step import encoder_step
from lincode.core.smooth_functions import ACTIVATIONS, PENALTIES
from lincode.core.types import Array, Rows
from lincode.networks.epochs import BestPassTraining, Schedule
from lincode.networks.layers import Layers
from lincode.rows.memory import dense_blocks, factor_rows

Z_STEPS_PER_BATCH = 5
"""Steps of Z that are made for each step of D in stage 1.

The original papers leave this open; the value is our choice.
"""


class FirstStageWeights(NamedTuple):
    """The variables of stage 1."""

    Z: Array
    """Inputs of the hidden units (N, m)"""
    D: Array
    """Dictionary (m, p)"""


@dataclass(frozen=True)
class ASCNNEnergy:
    """The energy of stages 1 and 3 and its gradients, summed over rows."""

    lam: float
    sigma: float = 1.0
    activation: str = "tanh"

    def first_stage_value(self, X: Array, Z: Array, D: Array) -> float:
        """Return E(Z, D)."""
        U = ACTIVATIONS[self.activation].value(Z)
        squared_error = np.square(X - U @ D).sum(dtype=np.float64)
        return 0.5 * float(squared_error) + self.lam * PENALTIES["log"].sum(Z / self.sigma)

    def first_stage_gradient(self, X: Array, Z: Array, D: Array) -> FirstStageWeights:
        """Return ∂E/∂Z and ∂E/∂D."""
        phi = ACTIVATIONS[self.activation]
        U = phi.value(Z)
        R = U @ D - X
        penalty_gradient = self.lam / self.sigma * PENALTIES["log"].derivative(Z / self.sigma)
        dZ = R @ D.T * phi.derivative_from_output(U) + penalty_gradient
        return FirstStageWeights(Z=dZ, D=U.T @ R)

    def value(self, X: Array, D: Array, C: Array) -> float:
        """Return E(X Cᵀ, D)."""
        return self.first_stage_value(X, np.asarray(X @ C.T), D)

    def gradient(self, X: Array, D: Array, C: Array) -> Layers:
        """Return the derivatives of E(X Cᵀ, D) with respect to D and C."""
        first_stage = self.first_stage_gradient(X, np.asarray(X @ C.T), D)
        return Layers(D=first_stage.D, C=first_stage.Z.T @ X)


class FirstStageTraining(BestPassTraining):
    """Stage 1: for each batch, a few steps of its rows of Z and then one step of D.

    ``scale`` is the root mean square of X, the unit of D.
    """

    def __init__(
        self,
        X: Rows,
        initial: FirstStageWeights,
        energy_function: ASCNNEnergy,
        schedule: Schedule,
        rng: np.random.RandomState,
        *,
        scale: float,
    ) -> None:
        super().__init__(X, schedule, rng)
        self.energy_function, self.scale = energy_function, scale
        D = initial.D.astype(X.dtype)
        self.Z, self.D = initial.Z, schedule.optimizer(D, unit=scale, n=schedule.batch_size)

    @property
    def weights(self) -> FirstStageWeights:
        return FirstStageWeights(self.Z.copy(), self.D.weights.copy())

    def restore(self, weights: FirstStageWeights) -> None:
        self.Z, self.D.weights = weights

    def update_weights(self, rows: Array, rate: float) -> None:
        X, D = self.dense_rows(rows), self.D.weights
        Z = self.schedule.optimizer(self.Z[rows], unit=self.scale**2)
        for _ in range(Z_STEPS_PER_BATCH):
            Z.step(self.energy_function.first_stage_gradient(X, Z.weights, D).Z, rate)
        self.Z[rows] = Z.weights
        gradient = self.energy_function.first_stage_gradient(X, Z.weights, D)
        self.D.step(gradient.D, rate * self.scale)

    def energy_of_rows(self, rows: slice) -> float:
        X = self.dense_rows(rows)
        return self.energy_function.first_stage_value(X, self.Z[rows], self.D.weights)


def fit_encoder(X: Rows, Z: Array) -> Array:
    """Stage 2: return the C (m, p) that minimises ‖X Cᵀ − Z‖²."""
    ZtX = np.zeros((Z.shape[1], X.shape[1]))
    for rows in dense_blocks(X):
        ZtX = ZtX + np.asarray(Z[rows].T @ X[rows], dtype=np.float64)
    return encoder_step(ZtX, factor_rows(X))
