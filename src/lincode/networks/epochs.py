"""Training by mini-batches: the learning rate schedule, the optimisers, and passes over the rows.

SAANN, ASCNN and Sparsenet share this module. ``EpochTraining`` implements the interface that the
training loop of the package expects, with one pass over all rows as an iteration.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lincode.core.types import Array, Rows
from lincode.rows.memory import blocks, dense, dense_blocks

DECAY, DECAY_SQUARE = 0.9, 0.999
"""Adam's decay rates for the running means of the gradient and of its square."""
FAILURE_RATIO = 1.1
"""Training has failed if every pass ends with more than this times the lowest energy.

It is above 1 because a warm start may begin at an optimum, from which mini-batches move away a
little.
"""


@dataclass(frozen=True)
class Schedule:
    """The learning rate, the batch size and the number of passes over the rows."""

    learning_rate: float
    batch_size: int
    max_iter: int
    solver: str = "adam"
    """"adam" or "sgd", the class that updates the weights"""

    def rate(self, n_passes: int) -> float:
        """Return the learning rate of the next pass, after ``n_passes`` passes.

        The rate decreases along half a cosine, from ``learning_rate`` to 0 after ``max_iter``
        passes.
        """
        fraction = n_passes / self.max_iter
        return self.learning_rate * (1 + math.cos(math.pi * min(fraction, 1.0))) / 2

    def optimizer(self, weights: Array, *, unit: float, n: int = 1) -> Adam | GradientDescent:
        """Return the object that updates ``weights`` by gradients that are sums over n rows."""
        if self.solver == "sgd":
            return GradientDescent(weights, unit=unit * n)
        return Adam(weights, unit=unit)

    def batches(self, n: int) -> list[slice]:
        """Divide n rows into the fewest batches of at most ``batch_size``, of similar sizes."""
        n_batches = -(-n // self.batch_size)
        return blocks(n, -(-n // n_batches))


class Adam:
    """An array of weights that is updated by Adam (Kingma and Ba 2015).

    A step changes each entry by about ``rate``, whatever the scale of the gradient. All updates
    are made in place and in the precision of the weights, because memory traffic dominates the
    cost.

    Parameters
    ----------
    weights : array
        Initial weights. They are copied.
    unit : float, default=1.0
        Typical size of a gradient entry. Gradients are divided by it, so that their squares stay
        within the range of the precision.
    """

    def __init__(self, weights: Array, *, unit: float = 1.0) -> None:
        self.weights, self.unit = weights.copy(), unit
        self.mean, self.square, self.n_steps = np.zeros_like(weights), np.zeros_like(weights), 0
        self._change, self._step = np.empty_like(weights), np.empty_like(weights)

    def step(self, gradient: Array, rate: float) -> None:
        """Update ``weights`` by one step of size ``rate`` against the gradient."""
        self.n_steps += 1
        change, step = self._change, self._step
        np.multiply(gradient, 1 / self.unit, out=step)
        np.subtract(step, self.mean, out=change)
        change *= 1 - DECAY
        self.mean += change
        np.square(step, out=change)
        change -= self.square
        change *= 1 - DECAY_SQUARE
        self.square += change
        # An entry does not move if its gradient, or the square of it, is 0 in this precision.
        np.sqrt(self.square, out=step)
        np.divide(self.mean, step, out=step, where=step > 0)
        step *= rate * np.sqrt(1 - DECAY_SQUARE**self.n_steps) / (1 - DECAY**self.n_steps)
        self.weights -= step


class GradientDescent:
    """An array of weights that is updated by plain gradient steps.

    It has the interface of :class:`Adam`, but a step is proportional to the gradient.

    Parameters
    ----------
    weights : array
        Initial weights. They are copied.
    unit : float, default=1.0
        Gradients are divided by it.
    """

    def __init__(self, weights: Array, *, unit: float = 1.0) -> None:
        self.weights, self.unit = weights.copy(), unit

    def step(self, gradient: Array, rate: float) -> None:
        """Subtract ``rate`` times the gradient from ``weights``."""
        self.weights -= np.asarray(rate / self.unit * gradient, dtype=self.weights.dtype)


class EpochTraining(ABC):
    """Training in which an iteration is one pass over all rows, in random order and in batches.

    The energy may increase from one pass to the next, most of all in the middle of training when
    the learning rate is still large. A pass without progress is therefore no reason to stop, and
    all ``max_iter`` passes are made.
    """

    monotone = False

    def __init__(self, X: Rows, schedule: Schedule, rng: np.random.RandomState) -> None:
        self.X, self.schedule, self.rng = X, schedule, rng
        self.n = X.shape[0]
        self.n_passes = 0

    @abstractmethod
    def update_weights(self, rows: Array, rate: float) -> None:
        """Make one step with the rows of these indices and the learning rate ``rate``."""

    @abstractmethod
    def energy_of_rows(self, rows: slice) -> float:
        """Return the energy of these rows."""

    @abstractmethod
    def final_steps(self) -> Iterator[str]:
        """Finish training after the last pass; yield the name of each step."""

    def steps(self) -> Iterator[str]:
        """Make one pass over all rows, then yield its name."""
        rate = self.schedule.rate(self.n_passes)
        order = self.rng.permutation(self.n)
        for batch in self.schedule.batches(self.n):
            self.update_weights(order[batch], rate)
        self.n_passes += 1
        yield "pass"

    def energy(self) -> float:
        """Return the energy of all rows."""
        return sum(self.energy_of_rows(rows) for rows in dense_blocks(self.X))

    def rounding(self) -> float:
        """Return 0: the energy may increase anyway, so rounding does not matter."""
        return 0.0

    def monitored_error(self, energy: float) -> float:
        """Return the energy, whose change is reported after each pass."""
        return energy

    def set_change(self, change: float) -> bool:
        """Return False: training never stops because the energy changed too little."""
        return False

    def dense_rows(self, rows: Array | slice) -> Array:
        """Return these rows of X as a dense array."""
        return dense(self.X[rows])


class BestPassTraining(EpochTraining):
    """Training that ends with the weights of the pass with the lowest energy.

    After training, ``failed`` is True if every pass ended well above the initial energy.
    """

    def __init__(self, X: Rows, schedule: Schedule, rng: np.random.RandomState) -> None:
        super().__init__(X, schedule, rng)
        self.lowest_energy, self.best_weights = np.inf, None
        self.lowest_energy_after_pass = np.inf
        self.failed = False

    @property
    @abstractmethod
    def weights(self) -> Any:
        """A copy of everything that is learned."""

    @abstractmethod
    def restore(self, weights: Any) -> None:
        """Set everything that is learned to an earlier value of ``weights``."""

    def energy(self) -> float:
        """Return the energy of all rows, and keep the weights if it is the lowest so far."""
        energy = super().energy()
        if self.n_passes:
            self.lowest_energy_after_pass = min(self.lowest_energy_after_pass, energy)
        if energy < self.lowest_energy:
            self.lowest_energy, self.best_weights = energy, self.weights
        return energy

    def final_steps(self) -> Iterator[str]:
        """Restore the weights of the best pass."""
        self.failed = self.lowest_energy_after_pass > FAILURE_RATIO * self.lowest_energy
        self.restore(self.best_weights)
        yield "choice of the best pass"


def root_mean_square(X: Rows) -> float:
    """Return the root mean square of all entries of X, and 1 if X is all zeros.

    It is the unit in which weights and steps are measured, so it must not be 0.
    """
    square = sum(float(np.square(dense(X[r]), dtype=np.float64).sum()) for r in dense_blocks(X))
    return math.sqrt(square / (X.shape[0] * X.shape[1])) or 1.0
