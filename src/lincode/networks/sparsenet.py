"""The energy and the training of Sparsenet (paper eq. 5; Olshausen and Field 1996).

    E(U, D) = ½‖X − U D‖² + λ Σ g(u/σ),      g(a) = log(1 + a²), 1 − exp(−a²) or |a|

Sparsenet has a dictionary D but no encoder. For each batch of rows, training

1. computes the codes U by conjugate gradient,
2. makes a gradient step of D,
3. rescales each atom, so that the variance of its coefficient approaches a given value
   (gain control).

The original weighs the error by 1/σₙ² and the penalty by β. In these terms, λ = β σₙ².
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lincode.core.conjugate_gradient import (
    SmoothPenaltyCodes,
    smooth_penalty_codes,
    smooth_penalty_energy,
)
from lincode.core.smooth_functions import PENALTIES
from lincode.core.types import Array, Rows
from lincode.networks.epochs import EpochTraining, Schedule


@dataclass(frozen=True)
class SparsenetEnergy:
    """E, summed over rows, and the codes that minimise it for a given D."""

    lam: float
    sigma: float
    penalty: str = "log"

    def codes(self, X: Rows, D: Array, *, tol: float, max_iter: int) -> SmoothPenaltyCodes:
        """Return a local minimiser of E over U."""
        g = PENALTIES[self.penalty]
        return smooth_penalty_codes(X, D, self.lam, self.sigma, g, tol=tol, max_iter=max_iter)

    def value(self, X: Array, U: Array, D: Array) -> float:
        """Return E(U, D)."""
        return smooth_penalty_energy(X, U, D, self.lam, self.sigma, PENALTIES[self.penalty])


@dataclass(frozen=True)
class GainControl:
    """The rule that rescales atoms according to the variance of their coefficients."""

    variance_goal: float
    """The variance that each coefficient should have."""
    variance_rate: float
    """Weight of one sample in the running average of the variance."""
    exponent: float
    """An atom's length is multiplied by (variance / variance_goal) to this power."""

    def update_variance(self, variance: Array, U: Array) -> Array:
        """Return the running variances after a batch with the codes U."""
        old_weight = (1 - self.variance_rate) ** len(U)
        new_variance = np.square(U, dtype=np.float64).mean(axis=0)
        return np.asarray(old_weight * variance + (1 - old_weight) * new_variance)

    def length_factors(self, variance: Array) -> Array:
        """Return the factors by which the atoms' lengths are multiplied."""
        return np.asarray((variance / self.variance_goal) ** self.exponent)


class SparsenetTraining(EpochTraining):
    """Training that keeps the weights of the last pass, where the learning rate is almost 0.

    Computing codes is expensive. The energy of a pass is therefore the sum over its batches, each
    evaluated with the dictionary before its own step. Only at the start and at the end is the
    energy that of all rows with the current dictionary.
    """

    def __init__(
        self,
        X: Rows,
        D: Array,
        variance: Array,
        energy_function: SparsenetEnergy,
        gain_control: GainControl,
        schedule: Schedule,
        rng: np.random.RandomState,
        *,
        code_steps: int,
    ) -> None:
        super().__init__(X, schedule, rng)
        self.energy_function, self.gain_control = energy_function, gain_control
        self.code_steps = code_steps
        self.D, self.variance = D, variance
        self.pass_energy: float | None = None

    def steps(self) -> Iterator[str]:
        """Make one pass over all rows and sum the energies of its batches."""
        self.pass_energy = 0.0
        yield from super().steps()

    def energy(self) -> float:
        """Return the energy of the last pass, or of all rows at the start and at the end."""
        return super().energy() if self.pass_energy is None else self.pass_energy

    def final_steps(self) -> Iterator[str]:
        """Make the next call of ``energy`` use all rows."""
        self.pass_energy = None
        yield "last pass"

    def update_weights(self, rows: Array, rate: float) -> None:
        X, D = self.dense_rows(rows), self.D.astype(self.X.dtype)
        U = self._codes(X, D)
        self.pass_energy = (self.pass_energy or 0.0) + self.energy_function.value(X, U, D)
        gain = self.gain_control
        descent = U.T.astype(np.float64) @ (X - U @ D)
        lengths = np.linalg.norm(self.D, axis=1)
        D = self.D + rate / (gain.variance_goal * len(U)) * descent
        self.variance = gain.update_variance(self.variance, U)
        # The gradient step sets the direction of an atom; gain control alone sets its length.
        lengths *= gain.length_factors(self.variance)
        norms = np.linalg.norm(D, axis=1)
        self.D = D * np.divide(lengths, norms, out=np.zeros_like(norms), where=norms > 0)[:, None]

    def energy_of_rows(self, rows: slice) -> float:
        X, D = self.dense_rows(rows), self.D.astype(self.X.dtype)
        return self.energy_function.value(X, self._codes(X, D), D)

    def _codes(self, X: Array, D: Array) -> Array:
        return self.energy_function.codes(X, D, tol=0.0, max_iter=self.code_steps).U
