"""SAANN as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np

from lincode.core.types import Rows
from lincode.estimators.network import BaseTwoLayerNetwork
from lincode.estimators.progress import FitProgress
from lincode.estimators.validation import check_choice
from lincode.networks.epochs import root_mean_square
from lincode.networks.layers import TwoLayerTraining
from lincode.networks.saann import SAANNEnergy
from lincode.networks.training import Callback, Outcome


class SAANN(BaseTwoLayerNetwork):
    """Sparse auto-associative neural network (equation 2 of the paper).

    SAANN minimises over the dictionary D and the encoder C

        E = ½‖X − U D‖² + λ Σ log(1 + u²),      U = φ(X Cᵀ),

    by mini-batch gradient descent. The code of a sample x is φ(x Cᵀ).

    Parameters
    ----------
    n_components : int, default=None
        Number of units (atoms). None means the number of features.
    alpha : float, default=0.1
        Sparsity parameter λ ≥ 0. A larger value gives smaller codes. There is no largest useful
        value as for SCNN: the slope of log(1 + u²) is zero at u = 0, so no ``alpha`` makes all
        codes exactly zero.
    activation : {"sigmoid", "tanh", "linear"}, default="sigmoid"
        Activation function φ of the hidden units. The original network uses "sigmoid".
    init : {"scaled", "paper"}, default="scaled"
        Distribution of the random initial weights. "paper" means uniform in [−1, 1]. "scaled"
        means uniform with a width that follows from the scale of the data and the number of units
        and features. The original papers do not mention "scaled"; it is our choice.
    solver : {"adam", "sgd"}, default="adam"
        How the weights are updated. "adam" is the method of Kingma and Ba. "sgd" means plain
        gradient steps, as in the original papers: ``learning_rate`` times the mean gradient of the
        batch. Its best ``learning_rate`` depends more on the data and on ``init``.
    learning_rate : float, default=0.005
        Step size in the first pass, for data whose root mean square is 1; it is rescaled
        for other data. The rate decreases to zero along half a cosine. The original papers leave
        this open; this default was chosen on validation digits (see
        ``benchmarks/network_defaults.py``).
    batch_size : int, default=25
        Number of samples per gradient step. The original papers leave this open; this default was
        chosen on validation digits (see ``benchmarks/network_defaults.py``).
    max_iter : int, default=300
        Number of passes over the samples. All of them are made, unless the callback stops
        training. The original papers leave this open; this default was chosen on validation
        digits (see ``benchmarks/network_defaults.py``).
    random_state : int, RandomState instance or None, default=None
        Seed of the initial weights and of the order of the samples. Pass an int for the same
        result in every call.
    warm_start : bool, default=False
        Whether ``fit`` starts from the weights of the previous ``fit`` instead of random weights.
    verbose : int, default=0
        If it is greater than 0, ``fit`` logs one line after each pass, with the elapsed time and an
        estimate of the time that remains; see docs/progress.md.
    callback : callable, default=None
        Function that is called after each pass with a :class:`lincode.Iteration`. If it returns a
        true value, training stops and the best weights so far are kept.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The dictionary D, one atom per row.
    encoder_ : array of shape (n_components, n_features)
        The encoder C, one filter per row.
    energy_ : float
        Energy per sample, E/N, of the training data with the fitted weights.
    energy_path_ : array of shape (n_iter + 1,)
        E/N of the initial weights and after each pass. The last entry is replaced by the lowest
        one, ``energy_``, because the weights with the lowest energy are kept.
    n_iter_ : int
        Number of passes that were made.
    stop_reason_ : str
        Sentence that says why training ended.
    n_features_in_ : int
        Number of features of the training data.
    feature_names_in_ : array of shape (n_features,)
        Names of the features. It exists only if X had column names that are all strings.

    Notes
    -----
    The energy does not limit the length of the atoms. Small codes with long atoms reconstruct X
    as well as large codes with short atoms, and they have a smaller penalty. Only the activation
    function and the limited number of passes keep the codes from shrinking further.

    Codes are never exactly zero. Use :func:`lincode.metrics.sparsity_curve` or
    :func:`lincode.metrics.sparsity_area` to measure how sparse they are.

    References
    ----------
    Sivaram, Ganapathy, Hermansky: Sparse auto-associative neural networks: theory and application
    to speech recognition. Interspeech 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from lincode import SAANN
    >>> X = load_digits().data / 16
    >>> codes = SAANN(n_components=20, max_iter=50, random_state=0).fit_transform(X)
    >>> codes.shape
    (1797, 20)
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
        warm_start: bool = False,
        verbose: int = 0,
        callback: Callback | None = None,
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
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback

    def _energy_function(self) -> SAANNEnergy:
        return SAANNEnergy(lam=float(self.alpha), activation=self.activation)

    def _fit_weights(
        self, X: Rows, previous: dict[str, Any], rng: np.random.RandomState, progress: FitProgress
    ) -> Outcome:
        scale = root_mean_square(X)
        initial = self._initial_layers(X, previous, scale, rng)
        training = TwoLayerTraining(
            X, initial, self._energy_function(), self._schedule(), rng, scale=scale
        )
        return self._train_layers(training, X, progress)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("activation", self.activation, ("sigmoid", "tanh", "linear"))
