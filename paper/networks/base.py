"""The scikit-learn contract of all networks, and training by passes over mini-batches."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from lincode.core.arrays import Array
from lincode.exceptions import InvalidInputError
from paper.networks.smooth import ACTIVATIONS

DECAY, DECAY_SQUARE = 0.9, 0.999
"""Adam's decay rates for the running means of the gradient and of its square."""
FLOATS = [np.float64, np.float32]


class Network(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Base class of all networks. A subclass implements ``_train``, ``_codes`` and ``_energy``.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The dictionary D, one atom per row.
    energy_path_ : array of shape (n_iter + 1,)
        The energy per sample, E/N, at the start and after each iteration of training.
    energy_ : float
        The energy per sample with the fitted weights.
    n_iter_ : int
        The number of iterations.
    """

    n_components: int | None
    random_state: int | np.random.RandomState | None

    def fit(self, X: Any, y: object = None) -> Self:
        """Learn the network from X, an array of shape (n_samples, n_features)."""
        X = validate_data(self, X, dtype=FLOATS)
        # The energy is checked instead of each operation.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            path = self._train(X, check_random_state(self.random_state))
        self.energy_path_ = np.array(path) / len(X)
        self.energy_ = float(self.energy_path_[-1])
        self.n_iter_ = len(path) - 1
        return self

    def transform(self, X: Any) -> Array:
        """Return the codes of X, an array of shape (n_samples, n_components)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            codes = self._codes(X)
        if not np.isfinite(codes).all():
            raise InvalidInputError(
                f"the codes of some samples are too large for {codes.dtype}; scale X like the"
                " training samples."
            )
        return codes

    def inverse_transform(self, X: Any) -> Array:
        """Return the samples that are reconstructed from the codes X by the dictionary."""
        check_is_fitted(self)
        U = check_array(X, dtype=FLOATS)
        return np.asarray(U @ self.components_.astype(U.dtype, copy=False))

    def score(self, X: Any, y: object = None) -> float:
        """Return minus the energy per sample of X."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        return -self._energy(X) / len(X)

    @abstractmethod
    def _train(self, X: Array, rng: np.random.RandomState) -> list[float]:
        """Set the fitted weights; return the energies at the start and after each iteration."""

    @abstractmethod
    def _codes(self, X: Array) -> Array:
        """Return the codes of validated samples."""

    @abstractmethod
    def _energy(self, X: Array) -> float:
        """Return the energy of validated samples."""

    def _n_units(self, X: Array) -> int:
        """Return n_components, or the number of features if it is None."""
        return int(X.shape[1] if self.n_components is None else self.n_components)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise an error if the value of a parameter is not one of the choices."""
    if value not in choices:
        raise InvalidInputError(f"{name} must be one of {', '.join(choices)}, got {value!r}.")


def finite(energy: float) -> float:
    """Return the energy, and raise an error if training has diverged."""
    if not math.isfinite(energy):
        raise InvalidInputError(
            f"the energy is {energy}; scale X to moderate values, and choose alpha and"
            " learning_rate to match."
        )
    return energy


def root_mean_square(X: Array) -> float:
    """Return the root mean square of all entries of X, and 1 if X is all zeros.

    It is the unit in which weights and steps are measured, so it must not be 0.
    """
    return math.sqrt(float(np.square(X, dtype=np.float64).sum()) / X.size) or 1.0


@dataclass(frozen=True)
class Schedule:
    """The learning rate, the batch size and the number of passes over the rows."""

    learning_rate: float
    batch_size: int
    max_iter: int
    solver: str = "adam"
    """"adam" or "sgd", the class that updates the weights"""

    def rate(self, n_passes: int) -> float:
        """Return the learning rate after ``n_passes`` passes.

        It decreases along half a cosine, from ``learning_rate`` to 0 after ``max_iter`` passes.
        """
        return self.learning_rate * (1 + math.cos(math.pi * n_passes / self.max_iter)) / 2

    def optimizer(self, weights: Array, *, unit: float, n: int = 1) -> Adam | GradientDescent:
        """Return the object that updates ``weights`` by gradients that are sums over n rows."""
        if self.solver == "sgd":
            return GradientDescent(weights, unit=unit * n)
        return Adam(weights, unit=unit)

    def batches(self, n: int) -> list[slice]:
        """Divide n rows into the fewest batches of at most ``batch_size``, of similar sizes."""
        n_batches = -(-n // self.batch_size)
        size = -(-n // n_batches)
        return [slice(start, min(start + size, n)) for start in range(0, n, size)]


class Adam:
    """An array of weights that is updated by Adam (Kingma and Ba 2015).

    A step changes each entry by about ``rate``, whatever the scale of the gradient. Gradients are
    divided by ``unit``, so that their squares stay within the range of the precision. Updates are
    made in place, because memory traffic dominates the cost.
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
    """An array of weights that is updated by plain gradient steps, with the methods of Adam."""

    def __init__(self, weights: Array, *, unit: float = 1.0) -> None:
        self.weights, self.unit = weights.copy(), unit

    def step(self, gradient: Array, rate: float) -> None:
        """Subtract ``rate`` times the gradient from ``weights``."""
        self.weights -= np.asarray(rate / self.unit * gradient, dtype=self.weights.dtype)


class Training(Protocol):
    """A network in training, with the methods that ``train_by_passes`` calls."""

    def update(self, rows: NDArray[np.intp], rate: float) -> None:
        """Make one step with the rows of these indices."""

    def energy(self) -> float:
        """Return the energy of all rows."""


def train_by_passes(
    training: Training, N: int, schedule: Schedule, rng: np.random.RandomState
) -> list[float]:
    """Make all passes over N rows, in random order; return the energies before and after each.

    The energy may increase from one pass to the next, most of all when the learning rate is still
    large. A pass without progress is therefore no reason to stop.
    """
    path = [finite(training.energy())]
    for n_passes in range(schedule.max_iter):
        order = rng.permutation(N)
        for batch in schedule.batches(N):
            training.update(order[batch], schedule.rate(n_passes))
        path.append(finite(training.energy()))
    return path


class Layers(NamedTuple):
    """The two weight matrices of a network, with one unit per row."""

    D: Array
    """Dictionary (m, p)"""
    C: Array
    """Encoder (m, p)"""


class LayersEnergy(Protocol):
    """The energy of a network of two layers and its gradient, summed over rows."""

    def value(self, X: Array, layers: Layers) -> float:
        """Return E(D, C)."""

    def gradient(self, X: Array, layers: Layers) -> Layers:
        """Return ∂E/∂D and ∂E/∂C."""


class LayersTraining:
    """Training of D and C together, which keeps the weights of the pass with the lowest energy.

    ``scale`` is the root mean square of X. D has the units of X and C those of 1/X, so the steps
    of D are multiplied by ``scale`` and the steps of C are divided by it.
    """

    def __init__(
        self, X: Array, initial: Layers, energy: LayersEnergy, schedule: Schedule, scale: float
    ) -> None:
        self.X, self.energy_function, self.scale = X, energy, scale
        n, (D, C) = schedule.batch_size, initial
        self.D = schedule.optimizer(D.astype(X.dtype), unit=scale, n=n)
        self.C = schedule.optimizer(C.astype(X.dtype), unit=scale**3, n=n)
        self.lowest, self.best = np.inf, self.layers

    @property
    def layers(self) -> Layers:
        """The present weights."""
        return Layers(self.D.weights, self.C.weights)

    def update(self, rows: NDArray[np.intp], rate: float) -> None:
        """Make one step of both layers."""
        gradient = self.energy_function.gradient(self.X[rows], self.layers)
        self.D.step(gradient.D, rate * self.scale)
        self.C.step(gradient.C, rate / self.scale)

    def energy(self) -> float:
        """Return the energy of all rows, and keep the weights if it is the lowest so far."""
        energy = self.energy_function.value(self.X, self.layers)
        if energy < self.lowest:
            self.lowest, self.best = energy, Layers(*(A.copy() for A in self.layers))
        return energy


class LayersNetwork(Network):
    """Base class of SAANN and ASCNN: codes φ(X Cᵀ) with the encoder C, ``encoder_``.

    Training keeps the weights of the pass with the lowest energy, and the last entry of
    ``energy_path_`` is that energy.
    """

    alpha: float
    activation: str
    init: str
    solver: str
    learning_rate: float
    batch_size: int
    max_iter: int

    @abstractmethod
    def _energy_function(self) -> LayersEnergy:
        """Return the energy for the current parameters."""

    def _check_parameters(self) -> None:
        check_choice("activation", self.activation, list(ACTIVATIONS))
        check_choice("init", self.init, ("scaled", "paper"))
        check_choice("solver", self.solver, ("adam", "sgd"))

    def _schedule(self) -> Schedule:
        return Schedule(self.learning_rate, self.batch_size, self.max_iter, self.solver)

    def _random_layers(self, X: Array, scale: float, rng: np.random.RandomState) -> Layers:
        """Return uniform random weights.

        With ``init="paper"`` they are in [−1, 1]. With ``init="scaled"`` their size is chosen such
        that the inputs of the units have a variance of about 1, and the reconstructions have the
        scale of the data.
        """
        m, p = self._n_units(X), X.shape[1]
        D, C = rng.uniform(-1, 1, (m, p)), rng.uniform(-1, 1, (m, p))
        if self.init == "paper":
            return Layers(D, C)
        return Layers(D * scale * np.sqrt(3 / m), C / scale * np.sqrt(3 / p))

    def _train_layers(
        self, X: Array, initial: Layers, scale: float, rng: np.random.RandomState
    ) -> list[float]:
        """Train both layers together and set ``components_`` and ``encoder_``."""
        schedule = self._schedule()
        training = LayersTraining(X, initial, self._energy_function(), schedule, scale)
        path = train_by_passes(training, len(X), schedule, rng)
        if min(path[1:]) > path[0]:
            warnings.warn(
                f"{type(self).__name__}: every pass ended with a higher energy than the initial"
                " weights, so the initial weights were kept; lower"
                f" learning_rate={self.learning_rate}.",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.components_, self.encoder_ = training.best
        return [*path[:-1], training.lowest]

    def _codes(self, X: Array) -> Array:
        Z = X @ self.encoder_.astype(X.dtype, copy=False).T
        return ACTIVATIONS[self.activation].value(Z)

    def _energy(self, X: Array) -> float:
        D, C = (A.astype(X.dtype, copy=False) for A in (self.components_, self.encoder_))
        return self._energy_function().value(X, Layers(D, C))
