"""What the networks trained by mini-batches share as estimators: fit, score, names, checks."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lincode.rows.memory import dense, dense_blocks
from lincode.core.types import Array, Rows
from lincode.estimators.validation import (
    check_choice,
    check_flag,
    check_number,
    check_scaled_rows,
    unchanged_on_failure,
)
from lincode.estimators.base import DictionaryTransformer
from lincode.networks.training import Iteration, Outcome, Reason, Training, train
from lincode.networks._epochs import Pace
from lincode.networks._layers import Energy, LayersTraining, Weights, encode, random_start

ALL_PASSES = "all max_iter passes were made, over which the learning rate fell to zero"
REMEDY = "Divide X by {0} and alpha by its square: the network is the same but for its scale."


class BatchNetwork(DictionaryTransformer):
    """A network trained by passes of mini-batches."""

    def fit(self, X: Any, y: object = None) -> Any:
        """Learn the network from X.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
        """
        with unchanged_on_failure(self):
            self._check_parameters()
            known = vars(self).copy() if self.warm_start and hasattr(self, "components_") else {}
            X = check_scaled_rows(self, X, reset=True, advice=REMEDY)[0]
            if known:
                self._check_shape(known["components_"], X)
            outcome = self._learn(X, known, check_random_state(self.random_state))
            self.energy_ = outcome.energy_path[-1]
            self.energy_path_ = np.array(outcome.energy_path)
            self.n_iter_ = outcome.n_iter
            self.stop_reason_ = self._why(outcome)
        return self

    def transform(self, X: Any) -> Array:
        """The codes of X.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        self._check_parameters()
        return self._codes(check_scaled_rows(self, X, reset=False, advice=REMEDY)[0])

    def score(self, X: Any, y: object = None) -> float:
        """Minus the energy per sample on X: the larger the better.

        It compares networks of the same ``alpha`` and ``n_components``, which are part of the
        energy; to choose those, score what you want the codes for.
        """
        check_is_fitted(self)
        self._check_parameters()
        X = check_scaled_rows(self, X, reset=False, advice=REMEDY)[0]
        total = sum(self._energy(dense(X[rows])) for rows in dense_blocks(X))
        return -float(total) / int(X.shape[0])

    @abstractmethod
    def _learn(self, X: Rows, known: dict[str, Any], rng: np.random.RandomState) -> Outcome:
        """Train on validated rows, from ``known`` attributes if there are any; name the weights."""

    @abstractmethod
    def _codes(self, X: Rows) -> Array:
        """Codes of validated rows."""

    @abstractmethod
    def _energy(self, X: Array) -> float:
        """The energy of dense rows."""

    def _train(self, training: Training) -> Outcome:
        def on_iteration(iteration: Iteration) -> bool:
            if self.verbose:
                print(f"[{type(self).__name__}] {iteration}", flush=True)
            return self.callback is not None and bool(self.callback(iteration))

        return train(training, max_iter=self.max_iter, tol=0.0, callback=on_iteration)

    def _why(self, outcome: Outcome) -> str:
        """Why training ended, as a sentence."""
        return ALL_PASSES if outcome.reason is Reason.MAX_ITER else outcome.reason.value

    def _pace(self) -> Pace:
        return Pace(float(self.learning_rate), int(self.batch_size), int(self.max_iter))

    def _width(self, X: Rows) -> int:
        return int(X.shape[1] if self.n_components is None else self.n_components)

    def _check_shape(self, known: Array, X: Rows) -> None:
        m, p = self._width(X), X.shape[1]
        if known.shape != (m, p):
            raise ValueError(
                f"warm_start=True needs n_components and n_features to stay {known.shape},"
                f" got ({m}, {p}); set warm_start=False to start anew."
            )

    def _check_alpha(self) -> None:
        check_number("alpha", self.alpha, 0)

    def _check_parameters(self) -> None:
        check_number("n_components", self.n_components, 1, integer=True, or_none=True)
        self._check_alpha()
        check_number("learning_rate", self.learning_rate, 0)
        check_number("batch_size", self.batch_size, 1, integer=True)
        check_number("max_iter", self.max_iter, 1, integer=True)
        check_flag("warm_start", self.warm_start)
        if not isinstance(self.verbose, bool | np.bool_):
            check_number("verbose", self.verbose, 0, integer=True)
        if self.callback is not None and not callable(self.callback):
            raise TypeError(f"callback must be callable or None, got {self.callback!r}.")


class LayersNetwork(BatchNetwork):
    """A network of two layers, ``components_`` (D) and ``encoder_`` (C): codes are φ(X Cᵀ)."""

    @abstractmethod
    def _terms(self) -> Energy:
        """The energy."""

    def _first_layers(
        self, X: Rows, known: dict[str, Any], scale: float, rng: np.random.RandomState
    ) -> Weights:
        """The layers training starts from: those there are, or random ones."""
        if known:
            return Weights(*(known[a].astype(np.float64) for a in ("components_", "encoder_")))
        m, p = self._width(X), X.shape[1]
        return random_start(m, p, scale, rng, of_the_paper=self.init == "paper")

    def _learn_layers(self, training: LayersTraining, X: Rows) -> Outcome:
        """Learn both layers together, and name them."""
        outcome = self._train(training)
        if training.failed:
            warnings.warn(
                f"{type(self).__name__}: every pass ended above the start, which is what is kept;"
                f" lower learning_rate={self.learning_rate}.",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.components_, self.encoder_ = training.weights.astype(X.dtype)
        return outcome

    def _codes(self, X: Rows) -> Array:
        return encode(X, self.encoder_.astype(X.dtype, copy=False), self.activation)

    def _energy(self, X: Array) -> float:
        layers = Weights(self.components_, self.encoder_).astype(X.dtype)
        return self._terms().value(X, *layers)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("init", self.init, ("scaled", "paper"))


def check_positive(name: str, value: Any, *, or_none: bool = False) -> None:
    """A finite number above 0."""
    check_number(name, value, 0, or_none=or_none)
    if value == 0:
        raise ValueError(f"{name} must be above 0, got {value!r}.")
