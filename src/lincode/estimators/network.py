"""Base classes of the networks that are trained by mini-batches: SAANN, ASCNN and Sparsenet."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from lincode.core.types import Array, Rows
from lincode.estimators.array_api import keeps_array_type
from lincode.estimators.dictionary import DictionaryTransformer
from lincode.estimators.progress import FitProgress, ProgressMixin
from lincode.estimators.user_warnings import warn_user
from lincode.estimators.validation import (
    check_callback,
    check_choice,
    check_flag,
    check_number,
    check_scaled_rows,
    check_seed,
    check_verbose,
    unchanged_on_failure,
)
from lincode.exceptions import InvalidInputError
from lincode.networks.epochs import Schedule
from lincode.networks.layers import (
    Layers,
    TwoLayerEnergy,
    TwoLayerTraining,
    apply_encoder,
    random_layers,
)
from lincode.networks.training import Outcome, Reason, Training, train
from lincode.rows.memory import dense, dense_blocks

ALL_PASSES_MADE = "all max_iter passes were made, over which the learning rate decreased to zero"
SCALE_ADVICE = (
    "Divide X by {0} and alpha by its square; this changes nothing but the scale of the network."
)


class BaseGradientNetwork(ProgressMixin, DictionaryTransformer):
    """Base class of the networks that are trained by passes over mini-batches."""

    _n_stages = 1
    _gradient_power = 2
    """The power of the scale of X to which gradients are proportional"""

    def fit(self, X: Any, y: object = None) -> Any:
        """Learn the network from X.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Training samples.
        y : None
            Ignored. It is accepted for use in pipelines.

        Returns
        -------
        self : object
            The fitted network.
        """
        with unchanged_on_failure(self):
            self._check_parameters()
            is_warm = self.warm_start and hasattr(self, "components_")
            previous = vars(self).copy() if is_warm else {}
            X, lengths = check_scaled_rows(
                self, X, reset=True, advice=SCALE_ADVICE, power=self._gradient_power
            )
            if previous:
                self._check_warm_start_shape(previous["components_"], X)
            if lengths.mean == 0:
                warn_user(
                    f"{type(self).__name__}: all entries of X are zero, so the fitted network is"
                    " meaningless; check how X was loaded and scaled."
                )
            rng = check_seed(self.random_state)
            # The energy is checked instead of each operation.
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                outcome = self._with_progress(
                    lambda progress: self._fit_weights(X, previous, rng, progress),
                    max_iter=self.max_iter,
                    n_stages=self._n_stages,
                    tol=0.0,
                    X=X,
                    y=y,
                )
            self.energy_path_ = np.array(outcome.energy_path) / X.shape[0]
            self.energy_ = float(self.energy_path_[-1])
            self.n_iter_ = outcome.n_iter
            self.stop_reason_ = self._stop_reason(outcome)
        return self

    @keeps_array_type
    def transform(self, X: Any) -> Array:
        """Return the codes of X.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Samples to encode.

        Returns
        -------
        codes : array of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        self._check_parameters()
        X, _ = check_scaled_rows(self, X, reset=False, advice=SCALE_ADVICE)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            codes = self._codes(X)
        if not np.isfinite(codes).all():
            raise InvalidInputError(
                f"the codes of some samples are too large for {codes.dtype}; scale X like the"
                " training samples."
            )
        return codes

    def score(self, X: Any, y: object = None) -> float:
        """Return minus the energy per sample of X. Larger is better.

        Compare only networks with the same ``alpha`` and ``n_components`` by this score, because
        the energy depends on both. To choose ``alpha`` or ``n_components``, score the task for
        which the codes are used.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Samples to score.
        y : None
            Ignored. It is accepted for use in pipelines.

        Returns
        -------
        score : float
        """
        check_is_fitted(self)
        self._check_parameters()
        X = check_scaled_rows(self, X, reset=False, advice=SCALE_ADVICE)[0]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            total = float(sum(self._energy(dense(X[rows])) for rows in dense_blocks(X)))
        if not np.isfinite(total):
            raise InvalidInputError(
                f"the energy of these samples is {total}; scale X like the training samples."
            )
        return -total / int(X.shape[0])

    @abstractmethod
    def _fit_weights(
        self, X: Rows, previous: dict[str, Any], rng: np.random.RandomState, progress: FitProgress
    ) -> Outcome:
        """Train on validated rows and set the fitted weights.

        ``previous`` holds the attributes of the last fit if this fit is a warm start; otherwise
        it is empty.
        """

    @abstractmethod
    def _codes(self, X: Rows) -> Array:
        """Return the codes of validated rows."""

    @abstractmethod
    def _energy(self, X: Array) -> float:
        """Return the energy of validated dense rows."""

    def _train(self, training: Training, progress: FitProgress) -> Outcome:
        """Run the training loop and report its progress."""
        return train(
            training,
            max_iter=self.max_iter,
            tol=0.0,
            callback=progress.end,
            on_begin=progress.begin,
        )

    def _stop_reason(self, outcome: Outcome) -> str:
        """Return a sentence that says why training ended."""
        return ALL_PASSES_MADE if outcome.reason is Reason.MAX_ITER else outcome.reason.value

    def _schedule(self) -> Schedule:
        return Schedule(float(self.learning_rate), int(self.batch_size), int(self.max_iter))

    def _n_units(self, X: Rows) -> int:
        """Return n_components, or the number of features if it is None."""
        return int(X.shape[1] if self.n_components is None else self.n_components)

    def _check_warm_start_shape(self, components: Array, X: Rows) -> None:
        shape = (self._n_units(X), X.shape[1])
        if components.shape != shape:
            raise InvalidInputError(
                "warm_start=True needs (n_components, n_features) to stay"
                f" {components.shape}, got {shape}; set warm_start=False to start a new fit."
            )

    def _check_alpha(self, *, or_none: bool = False) -> None:
        if isinstance(self.alpha, str):
            raise InvalidInputError(
                f"alpha must be {'None or ' if or_none else ''}a finite number of at least 0, got"
                f" {self.alpha!r}; strings such as '0.05*max' are for SCNN, because"
                f" {type(self).__name__} has no largest useful alpha."
            )
        check_number("alpha", self.alpha, 0, or_none=or_none)

    def _check_parameters(self) -> None:
        check_number("n_components", self.n_components, 1, integer=True, or_none=True)
        self._check_alpha()
        check_number("learning_rate", self.learning_rate, 0)
        check_number("batch_size", self.batch_size, 1, integer=True)
        check_number("max_iter", self.max_iter, 1, integer=True)
        check_flag("warm_start", self.warm_start)
        check_verbose(self.verbose)
        check_callback(self.callback)


class BaseTwoLayerNetwork(BaseGradientNetwork):
    """Base class of networks with ``components_`` (D) and ``encoder_`` (C) and codes φ(X Cᵀ)."""

    _gradient_power = 3

    @abstractmethod
    def _energy_function(self) -> TwoLayerEnergy:
        """Return the energy for the current parameters."""

    def _initial_layers(
        self, X: Rows, previous: dict[str, Any], scale: float, rng: np.random.RandomState
    ) -> Layers:
        """Return the layers of the previous fit if there is one, else random layers."""
        if previous:
            D, C = (previous[name].astype(np.float64) for name in ("components_", "encoder_"))
            return Layers(D, C)
        return random_layers(self._n_units(X), X.shape[1], scale, rng, init=self.init)

    def _schedule(self) -> Schedule:
        return replace(super()._schedule(), solver=self.solver)

    def _train_layers(self, training: TwoLayerTraining, X: Rows, progress: FitProgress) -> Outcome:
        """Train both layers together and set ``components_`` and ``encoder_``."""
        outcome = self._train(training, progress)
        if training.failed:
            warn_user(
                f"{type(self).__name__}: every pass ended with a higher energy than the initial"
                " weights, so the initial weights were kept; lower"
                f" learning_rate={self.learning_rate}.",
                ConvergenceWarning,
            )
        self.components_, self.encoder_ = training.weights.astype(X.dtype)
        return outcome

    def _codes(self, X: Rows) -> Array:
        return apply_encoder(X, self.encoder_.astype(X.dtype, copy=False), self.activation)

    def _energy(self, X: Array) -> float:
        layers = Layers(self.components_, self.encoder_).astype(X.dtype)
        return self._energy_function().value(X, layers.D, layers.C)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("init", self.init, ("scaled", "paper"))
        check_choice("solver", self.solver, ("adam", "sgd"))


def check_positive(name: str, value: Any, *, or_none: bool = False) -> None:
    """Raise unless ``value`` is a finite number greater than 0, or None where allowed."""
    check_number(name, value, 0, or_none=or_none)
    if value == 0:
        raise InvalidInputError(
            f"{name} must be {'None or ' if or_none else ''}greater than 0, got {value!r}."
        )
