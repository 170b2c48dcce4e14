"""SAANN, a sparse auto-associative network (paper eq. 2; Sivaram et al. 2010)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lincode.core.arrays import Array
from paper.networks.base import Layers, LayersNetwork, root_mean_square
from paper.networks.smooth import ACTIVATIONS, PENALTIES


@dataclass(frozen=True)
class SAANNEnergy:
    """E(D, C) = ½‖X − U D‖² + λ Σ log(1 + u²) with U = φ(X Cᵀ), and its gradient."""

    lam: float
    activation: str = "sigmoid"

    def value(self, X: Array, layers: Layers) -> float:
        """Return E(D, C)."""
        U = ACTIVATIONS[self.activation].value(X @ layers.C.T)
        squared_error = np.square(X - U @ layers.D).sum(dtype=np.float64)
        return 0.5 * float(squared_error) + self.lam * PENALTIES["log"].sum(U)

    def gradient(self, X: Array, layers: Layers) -> Layers:
        """Return ∂E/∂D and ∂E/∂C."""
        phi = ACTIVATIONS[self.activation]
        U = phi.value(X @ layers.C.T)
        R = U @ layers.D - X
        dU = R @ layers.D.T + self.lam * PENALTIES["log"].derivative(U)
        dZ = dU * phi.derivative_from_output(U)
        return Layers(D=U.T @ R, C=dZ.T @ X)


class SAANN(LayersNetwork):
    """Sparse auto-associative neural network.

    SAANN minimises over the dictionary D and the encoder C

        E = ½‖X − U D‖² + λ Σ log(1 + u²),      U = φ(X Cᵀ),

    by mini-batch gradient descent. The code of a sample x is φ(x Cᵀ). The energy does not limit
    the length of the atoms: only the activation function and the number of passes keep codes from
    shrinking while atoms grow.

    Parameters
    ----------
    n_components : int, default=None
        Number of units (atoms). None means the number of features.
    alpha : float, default=0.1
        Sparsity parameter λ ≥ 0.
    activation : {"sigmoid", "tanh", "linear"}, default="sigmoid"
        Activation function φ of the hidden units. The original network uses "sigmoid".
    init : {"scaled", "paper"}, default="scaled"
        Distribution of the random initial weights. "paper" means uniform in [−1, 1]. "scaled"
        means uniform with a width that follows from the scale of the data and the layer sizes;
        this is our choice.
    solver : {"adam", "sgd"}, default="adam"
        How the weights are updated: by Adam, or by plain gradient steps as in the original papers.
    learning_rate : float, default=0.005
        Step size in the first pass, for data whose root mean square is 1; it is rescaled for other
        data. It decreases to zero along half a cosine.
    batch_size : int, default=25
        Number of samples per gradient step.
    max_iter : int, default=300
        Number of passes over the samples. All of them are made.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial weights and of the order of the samples.

    Notes
    -----
    The original papers leave the learning rate, the batch size and the number of passes open. The
    defaults were chosen on validation digits.

    References
    ----------
    Sivaram, Ganapathy, Hermansky: Sparse auto-associative neural networks: theory and application
    to speech recognition. Interspeech 2010.
    """

    def __init__(
        self,
        n_components: int | None = None,
        alpha: float = 0.1,
        *,
        activation: str = "sigmoid",
        init: str = "scaled",
        solver: str = "adam",
        learning_rate: float = 0.005,
        batch_size: int = 25,
        max_iter: int = 300,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.activation = activation
        self.init = init
        self.solver = solver
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.random_state = random_state

    def _energy_function(self) -> SAANNEnergy:
        return SAANNEnergy(float(self.alpha), self.activation)

    def _train(self, X: Array, rng: np.random.RandomState) -> list[float]:
        self._check_parameters()
        scale = root_mean_square(X)
        return self._train_layers(X, self._random_layers(X, scale, rng), scale, rng)
