"""Sparsenet (paper eq. 5; Olshausen and Field 1996): a dictionary alone, codes by optimisation.

    E(U, D) = ½‖X − U D‖²  +  λ Σ g(u/σ),      g one of log(1 + a²), 1 − exp(−a²), |a|

For each batch, codes by conjugate gradient; then D along the averaged gradient; then each atom's
length by a gain that drives the variance of its coefficient to a goal. In the original's terms
(error weighed by 1/σₙ² and penalty by β) λ = β σₙ².
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lincode.core.conjugate_gradient import SmoothCodes, smooth_codes, smooth_energy
from lincode.core.penalties import PENALTIES
from lincode.core.types import Array, Rows
from lincode.networks._epochs import EpochTraining, Pace


@dataclass(frozen=True)
class SparsenetEnergy:
    """E, and the codes that minimise it."""

    lam: float
    sigma: float
    penalty: str = "log"

    def codes(self, X: Rows, D: Array, *, tol: float, max_iter: int) -> SmoothCodes:
        """argmin_U E, from x Dᵀ/‖d‖²."""
        g = PENALTIES[self.penalty]
        return smooth_codes(X, D, self.lam, self.sigma, g, tol=tol, max_iter=max_iter)

    def value(self, X: Array, U: Array, D: Array) -> float:
        """E, summed over rows."""
        return smooth_energy(X, U, D, self.lam, self.sigma, PENALTIES[self.penalty])


@dataclass(frozen=True)
class GainControl:
    """How the length of each atom follows the variance of its coefficient."""

    goal: float
    rate: float
    """Share of each sample in the running variance"""
    exponent: float


class SparsenetTraining(EpochTraining):
    """Ends with the last pass, where the rate is zero.

    The energy of a pass is that of its batches as they were met, each before it was learned
    from; at the start and at the end it is that of all rows.
    """

    def __init__(
        self,
        X: Rows,
        D: Array,
        variance: Array,
        energy: SparsenetEnergy,
        gain: GainControl,
        pace: Pace,
        rng: np.random.RandomState,
        *,
        code_steps: int,
    ) -> None:
        super().__init__(X, pace, rng)
        self.terms, self.gain, self.code_steps = energy, gain, code_steps
        self.D, self.variance = D, variance
        self.met: float | None = None

    def steps(self) -> Iterator[str]:
        self.met = 0.0
        yield from super().steps()

    def energy(self) -> float:
        return super().energy() if self.met is None else self.met

    def final_steps(self) -> Iterator[str]:
        self.met = None
        yield "last pass"

    def learn(self, rows: Array, rate: float) -> None:
        X, D = self.batch(rows), self.D.astype(self.X.dtype)
        U = self._codes(X, D)
        self.met = (self.met or 0.0) + self.terms.value(X, U, D)
        n, gain = len(U), self.gain
        step = U.T.astype(np.float64) @ (X - U @ D)
        length = np.linalg.norm(self.D, axis=1)
        D = self.D + rate / (gain.goal * n) * step
        kept = (1 - gain.rate) ** n
        used = np.square(U, dtype=np.float64).mean(axis=0)
        self.variance = kept * self.variance + (1 - kept) * used
        length *= (self.variance / gain.goal) ** gain.exponent
        new = np.linalg.norm(D, axis=1)
        self.D = D * np.divide(length, new, out=np.zeros_like(new), where=new > 0)[:, None]

    def energy_of(self, rows: slice) -> float:
        X, D = self.batch(rows), self.D.astype(self.X.dtype)
        return self.terms.value(X, self._codes(X, D), D)

    def _codes(self, X: Array, D: Array) -> Array:
        return self.terms.codes(X, D, tol=0.0, max_iter=self.code_steps).U
