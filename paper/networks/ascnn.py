"""ASCNN, an associative network that is learned in three stages (paper eqs. 3 and 4).

Z holds the inputs of the hidden units, one row per sample.

    1.  min over Z and D   E(Z, D) = ½‖X − φ(Z) D‖² + λ Σ log(1 + (z/σ)²)
    2.  min over C         ½‖X Cᵀ − Z‖²
    3.  min over D and C   E(X Cᵀ, D)

Stages 1 and 3 use mini-batches. Stage 2 is a linear least-squares problem.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lincode.core.arrays import Array
from paper.networks.base import Layers, LayersNetwork, Schedule, root_mean_square, train_by_passes
from paper.networks.scnn import factor_rows
from paper.networks.smooth import ACTIVATIONS, PENALTIES

Z_STEPS_PER_BATCH = 5
"""Steps of Z for each step of D in stage 1. The original papers leave this open."""


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

    def first_stage_gradient(self, X: Array, Z: Array, D: Array) -> tuple[Array, Array]:
        """Return ∂E/∂Z and ∂E/∂D."""
        phi = ACTIVATIONS[self.activation]
        U = phi.value(Z)
        R = U @ D - X
        penalty_gradient = self.lam / self.sigma * PENALTIES["log"].derivative(Z / self.sigma)
        dZ = R @ D.T * phi.derivative_from_output(U) + penalty_gradient
        return dZ, U.T @ R

    def value(self, X: Array, layers: Layers) -> float:
        """Return E(X Cᵀ, D)."""
        return self.first_stage_value(X, X @ layers.C.T, layers.D)

    def gradient(self, X: Array, layers: Layers) -> Layers:
        """Return the derivatives of E(X Cᵀ, D) with respect to D and C."""
        dZ, dD = self.first_stage_gradient(X, X @ layers.C.T, layers.D)
        return Layers(D=dD, C=dZ.T @ X)


class FirstStage:
    """Stage 1: for each batch, a few steps of its rows of Z and then one step of D.

    ``scale`` is the root mean square of X, the unit of D. ``best`` are Z and D after the pass with
    the lowest energy.
    """

    def __init__(
        self, X: Array, Z: Array, D: Array, energy: ASCNNEnergy, schedule: Schedule, scale: float
    ) -> None:
        self.X, self.energy_function, self.schedule, self.scale = X, energy, schedule, scale
        self.Z = Z
        self.D = schedule.optimizer(D.astype(X.dtype), unit=scale, n=schedule.batch_size)
        self.lowest, self.best = np.inf, (Z, D)

    def update(self, rows: NDArray[np.intp], rate: float) -> None:
        """Make a few steps of these rows of Z, and one step of D."""
        X, D, gradient = self.X[rows], self.D.weights, self.energy_function.first_stage_gradient
        Z = self.schedule.optimizer(self.Z[rows], unit=self.scale**2)
        for _ in range(Z_STEPS_PER_BATCH):
            Z.step(gradient(X, Z.weights, D)[0], rate)
        self.Z[rows] = Z.weights
        self.D.step(gradient(X, Z.weights, D)[1], rate * self.scale)

    def energy(self) -> float:
        """Return the energy of all rows, and keep Z and D if it is the lowest so far."""
        energy = self.energy_function.first_stage_value(self.X, self.Z, self.D.weights)
        if energy < self.lowest:
            self.lowest, self.best = energy, (self.Z.copy(), self.D.weights.copy())
        return energy


class ASCNN(LayersNetwork):
    """Associative sparse coding neural network.

    The first stage minimises over the inputs Z of the hidden units and the dictionary D

        E = ½‖X − φ(Z) D‖² + λ Σ log(1 + (z/σ)²).

    The second stage fits the encoder C by least squares, so that X Cᵀ approximates Z. The third
    stage minimises the same energy with Z = X Cᵀ over D and C. The code of a sample x is φ(x Cᵀ).
    As with SAANN, the energy does not limit the length of the atoms.

    Parameters
    ----------
    n_components : int, default=None
        Number of units (atoms). None means the number of features.
    alpha : float, default=0.1
        Sparsity parameter λ ≥ 0.
    activation : {"sigmoid", "tanh", "linear"}, default="tanh"
        Activation function φ of the hidden units. The original network uses "tanh".
    sigma : float, default=1.0
        Scale σ > 0 of the penalty. The original papers leave this open.
    init, solver, random_state
        As in SAANN.
    learning_rate : float, default=0.01
        Step size in the first pass of stages 1 and 3, as in SAANN.
    batch_size : int, default=50
        Number of samples per gradient step.
    max_iter : int, default=150
        Number of passes over the samples in stage 1, and again in stage 3.

    Attributes
    ----------
    energy_path_ : array of shape (max_iter + 1,)
        E/N at the start of stage 3 and after each of its passes.
    first_stage_energy_path_ : array of shape (max_iter + 1,)
        E/N at the start of stage 1 and after each of its passes.

    References
    ----------
    Zeng et al.: Associative sparse coding neural network, as described by Montalto, Tessitore,
    Prevete: A linear approach for sparse coding by a two-layer neural network. Neurocomputing
    149 (2015), Section 2.
    """

    def __init__(
        self,
        n_components: int | None = None,
        alpha: float = 0.1,
        *,
        activation: str = "tanh",
        sigma: float = 1.0,
        init: str = "scaled",
        solver: str = "adam",
        learning_rate: float = 0.01,
        batch_size: int = 50,
        max_iter: int = 150,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.activation = activation
        self.sigma = sigma
        self.init = init
        self.solver = solver
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.random_state = random_state

    def _energy_function(self) -> ASCNNEnergy:
        return ASCNNEnergy(float(self.alpha), float(self.sigma), self.activation)

    def _train(self, X: Array, rng: np.random.RandomState) -> list[float]:
        self._check_parameters()
        scale, schedule = root_mean_square(X), self._schedule()
        D, C = self._random_layers(X, scale, rng)
        Z = X @ C.T.astype(X.dtype)
        stage = FirstStage(X, Z, D, self._energy_function(), schedule, scale)
        path = train_by_passes(stage, len(X), schedule, rng)
        self.first_stage_energy_path_ = np.array(path) / len(X)
        Z, D = stage.best
        C = factor_rows(X).solve(np.asarray(Z.T @ X, dtype=np.float64))
        return self._train_layers(X, Layers(D, C), scale, rng)
