"""Training by mini-batches, written once: passes over the rows in random order, a batch a step.

What the networks trained so share with each other, and with ``_alternate.py`` as its training.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lincode.rows.memory import blocks, dense, dense_blocks
from lincode.core.types import Array, Rows


@dataclass(frozen=True)
class Pace:
    """How fast to learn, and from how many rows at a time."""

    learning_rate: float
    batch_size: int
    max_iter: int


class EpochTraining(ABC):
    """A network in training; an iteration is a pass over all rows, in batches of nearly one size.

    The rate falls along half a cosine, from ``learning_rate`` at the start to zero after
    ``max_iter`` passes. Noise may raise the energy from pass to pass, most of all in the middle,
    so nothing is to be learned from a pass that brings nothing: all are made.
    """

    monotone = False

    def __init__(self, X: Rows, pace: Pace, rng: np.random.RandomState) -> None:
        self.X, self.pace, self.rng = X, pace, rng
        self.n = X.shape[0]
        self.passes = 0

    @abstractmethod
    def learn(self, rows: Array, rate: float) -> None:
        """One step from these rows; ``rate`` is that of the step."""

    @abstractmethod
    def energy_of(self, rows: slice) -> float:
        """The energy of these rows."""

    @abstractmethod
    def final_steps(self) -> Iterator[str]:
        """What is left to do after the last pass."""

    def steps(self) -> Iterator[str]:
        done = self.passes / self.pace.max_iter
        rate = self.pace.learning_rate * (1 + math.cos(math.pi * min(done, 1.0))) / 2
        order = self.rng.permutation(self.n)
        n_batches = -(-self.n // self.pace.batch_size)
        for rows in blocks(self.n, -(-self.n // n_batches)):
            self.learn(order[rows], rate)
        self.passes += 1
        yield "pass"

    def energy(self) -> float:
        return sum(self.energy_of(rows) for rows in dense_blocks(self.X))

    def rounding(self) -> float:
        return 0.0

    def monitored_error(self, energy: float) -> float:
        return energy

    def set_change(self, change: float) -> bool:
        return False

    def batch(self, rows: Array | slice) -> Array:
        """These rows, dense."""
        return dense(self.X[rows])


class BestPassTraining(EpochTraining):
    """Training that ends with the weights of the pass after which the energy was lowest."""

    def __init__(self, X: Rows, pace: Pace, rng: np.random.RandomState) -> None:
        super().__init__(X, pace, rng)
        self.lowest, self.best = np.inf, None
        self.lowest_after_a_pass = np.inf
        self.failed = False
        """Whether every pass ended well above the start"""

    @property
    @abstractmethod
    def weights(self) -> Any:
        """All that is learned, as one thing that can be kept and put back."""

    @abstractmethod
    def restore(self, weights: Any) -> None:
        """Put them back."""

    def energy(self) -> float:
        energy = super().energy()
        if self.passes:
            self.lowest_after_a_pass = min(self.lowest_after_a_pass, energy)
        if energy < self.lowest:
            self.lowest, self.best = energy, self.weights
        return energy

    def final_steps(self) -> Iterator[str]:
        # Near an optimum, as after a warm start, passes may be a little above it.
        self.failed = self.lowest_after_a_pass > 1.1 * self.lowest
        self.restore(self.best)
        yield "choice of the best pass"


def scale_of(X: Rows) -> float:
    """The root mean square of the entries of X (1 for zeros): what weights are measured by."""
    square = sum(float(np.square(dense(X[r]), dtype=np.float64).sum()) for r in dense_blocks(X))
    return math.sqrt(square / (X.shape[0] * X.shape[1])) or 1.0
