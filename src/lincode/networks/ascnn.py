"""ASCNN (paper eqs. 3 and 4; Zeng et al. 2010): an associative network, learned in three stages.

    1.  E(Z, D) = ½‖X − φ(Z) D‖²  +  λ Σ log(1 + (z/σ)²)     Z and D in turn
    2.  E(C)    = ½‖X Cᵀ − Z‖²                               C fitted to Z
    3.  E(D, C) = E(Z, D) with Z = X Cᵀ                      all together

Z is the input of the hidden units. Stages 1 and 3 go by mini-batches, stage 2 is least squares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lincode.core.activations import ACTIVATIONS
from lincode.core.adam import Adam
from lincode.rows.memory import dense_blocks, factor_rows
from lincode.core.encoder_step import encoder_step
from lincode.core.penalties import PENALTIES
from lincode.core.types import Array, Rows
from lincode.networks._epochs import BestPassTraining, Pace
from lincode.networks._layers import Weights

CODE_STEPS = 5
"""Steps of the inputs Z of a batch for each step of D."""


class Bottom(NamedTuple):
    """What stage 1 learns: the inputs of the hidden units and the dictionary."""

    Z: Array
    D: Array


@dataclass(frozen=True)
class ASCNNEnergy:
    """E of stages 1 and 3, and its gradients."""

    lam: float
    sigma: float = 1.0
    activation: str = "tanh"

    def bottom(self, X: Array, Z: Array, D: Array) -> float:
        """E(Z, D), summed over rows."""
        error = np.square(X - ACTIVATIONS[self.activation].of(Z) @ D).sum(dtype=np.float64)
        return 0.5 * float(error) + self.lam * PENALTIES["log"].sum(Z / self.sigma)

    def bottom_gradient(self, X: Array, Z: Array, D: Array) -> Bottom:
        """∂E/∂Z and ∂E/∂D"""
        U = ACTIVATIONS[self.activation].of(Z)
        R = U @ D - X
        inner = self.lam / self.sigma * PENALTIES["log"].slope(Z / self.sigma)
        return Bottom(Z=R @ D.T * ACTIVATIONS[self.activation].slope(U) + inner, D=U.T @ R)

    def value(self, X: Array, D: Array, C: Array) -> float:
        """E(D, C), summed over rows."""
        return self.bottom(X, np.asarray(X @ C.T), D)

    def gradient(self, X: Array, D: Array, C: Array) -> Weights:
        """∂E/∂D and ∂E/∂C"""
        bottom = self.bottom_gradient(X, np.asarray(X @ C.T), D)
        return Weights(D=bottom.D, C=bottom.Z.T @ X)


def fit_encoder(X: Rows, Z: Array) -> Array:
    """Stage 2: argmin_C ‖X Cᵀ − Z‖²"""
    parts = (np.asarray(Z[rows].T @ X[rows], dtype=np.float64) for rows in dense_blocks(X))
    return encoder_step(sum(parts, np.zeros((Z.shape[1], X.shape[1]))), factor_rows(X))


class BottomTraining(BestPassTraining):
    """Stage 1: for each batch some steps of its Z, then one of D."""

    def __init__(
        self,
        X: Rows,
        start: Bottom,
        energy: ASCNNEnergy,
        pace: Pace,
        rng: np.random.RandomState,
        *,
        scale: float,
    ) -> None:
        super().__init__(X, pace, rng)
        self.terms, self.scale = energy, scale
        self.Z, self.D = start.Z, Adam(start.D.astype(X.dtype), unit=scale)

    @property
    def weights(self) -> Bottom:
        return Bottom(self.Z.copy(), self.D.weights.copy())

    def restore(self, weights: Bottom) -> None:
        self.Z, self.D.weights = weights

    def learn(self, rows: Array, rate: float) -> None:
        X, D = self.batch(rows), self.D.weights
        Z = Adam(self.Z[rows], unit=self.scale**2)
        for _ in range(CODE_STEPS):
            Z.step(self.terms.bottom_gradient(X, Z.weights, D).Z, rate)
        self.Z[rows] = Z.weights
        gradient = self.terms.bottom_gradient(X, Z.weights, D)
        self.D.step(gradient.D, rate * self.scale)

    def energy_of(self, rows: slice) -> float:
        return self.terms.bottom(self.batch(rows), self.Z[rows], self.D.weights)
