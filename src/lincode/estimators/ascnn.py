"""ASCNN as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np

from lincode.core.types import Rows
from lincode.estimators.network import BaseTwoLayerNetwork, check_positive
from lincode.estimators.progress import FitProgress
from lincode.estimators.validation import check_choice
from lincode.networks.ascnn import ASCNNEnergy, FirstStageTraining, FirstStageWeights, fit_encoder
from lincode.networks.epochs import root_mean_square
from lincode.networks.layers import Layers, TwoLayerTraining
from lincode.networks.training import Callback, Outcome, Reason
from lincode.rows.memory import dense, dense_blocks


class ASCNN(BaseTwoLayerNetwork):
    """Associative sparse coding neural network (equations 3 and 4 of the paper).

    ASCNN is trained in three stages. The first stage minimises over the inputs Z of the hidden
    units and the dictionary D

        E = ½‖X − φ(Z) D‖² + λ Σ log(1 + (z/σ)²).

    The second stage fits the encoder C by least squares, so that X Cᵀ approximates Z. The third
    stage minimises the same energy with Z = X Cᵀ over D and C. The first and the third stage use
    mini-batch gradient descent. The code of a sample x is φ(x Cᵀ).

    Parameters
    ----------
    n_components : int, default=None
        Number of units (atoms). None means the number of features.
    alpha : float, default=0.1
        Sparsity parameter λ ≥ 0. A larger value gives smaller codes. There is no largest useful
        value as for SCNN: the slope of log(1 + (z/σ)²) is zero at z = 0, so no ``alpha`` makes
        all codes exactly zero.
    activation : {"tanh", "linear"}, default="tanh"
        Activation function φ of the hidden units. The original network uses "tanh".
    sigma : float, default=1.0
        Scale σ > 0 of the penalty. The original papers leave this open; the default is our
        choice.
    init : {"scaled", "paper"}, default="scaled"
        Distribution of the random initial weights. "paper" means uniform in [−1, 1]. "scaled"
        means uniform with a width that follows from the scale of the data and the number of units
        and features. The original papers do not mention "scaled"; it is our choice.
    solver : {"adam", "sgd"}, default="adam"
        How the weights are updated. "adam" is the method of Kingma and Ba. "sgd" means plain
        gradient steps, as in the original papers: ``learning_rate`` times the mean gradient of the
        batch. Its best ``learning_rate`` depends more on the data and on ``init``.
    learning_rate : float, default=0.01
        Step size in the first pass of a stage, for data whose root mean square is 1; it is
        rescaled for other data. The rate decreases to zero along half a cosine. The original
        papers leave this open; this default was chosen on validation digits (see
        ``benchmarks/network_defaults.py``).
    batch_size : int, default=50
        Number of samples per gradient step. The original papers leave this open; this default was
        chosen on validation digits (see ``benchmarks/network_defaults.py``).
    max_iter : int, default=150
        Number of passes over the samples in the first stage, and again in the third. All of them
        are made, unless the callback stops training. The original papers leave this open; this
        default was chosen on validation digits (see ``benchmarks/network_defaults.py``).
    random_state : int, RandomState instance or None, default=None
        Seed of the initial weights and of the order of the samples. Pass an int for the same
        result in every call.
    warm_start : bool, default=False
        Whether ``fit`` starts from the weights of the previous ``fit`` instead of random weights.
        All three stages are made again.
    verbose : int, default=0
        If it is greater than 0, ``fit`` logs one line after each pass, with the elapsed time and an
        estimate of the time that remains; see docs/progress.md.
    callback : callable, default=None
        Function that is called after each pass with a :class:`lincode.Iteration`, which counts
        the passes of the current stage. If it returns a true value, training stops and the best
        weights of this stage are kept. If this happens in the first stage, the encoder is still
        fitted in the second stage, but the third stage is skipped and ``stop_reason_`` says so.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The dictionary D, one atom per row.
    encoder_ : array of shape (n_components, n_features)
        The encoder C, one filter per row.
    energy_ : float
        Energy per sample, E/N, of the training data with Z = X Cᵀ and the fitted weights.
    energy_path_ : array of shape (n_iter + 1,)
        E/N at the start of the third stage and after each of its passes. The last entry is
        replaced by the lowest one, ``energy_``, because the weights with the lowest energy are
        kept.
    first_stage_energy_path_ : array of shape (n_passes + 1,)
        E/N at the start of the first stage and after each of its passes. The last entry is
        replaced by the lowest one.
    n_iter_ : int
        Number of passes that were made in the third stage. It is 0 if the callback stopped
        training in the first stage.
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
    Zeng et al.: Associative sparse coding neural network, as described by Montalto, Tessitore,
    Prevete: A linear approach for sparse coding by a two-layer neural network. Neurocomputing
    149 (2015), Section 2.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from lincode import ASCNN
    >>> X = load_digits().data / 16
    >>> codes = ASCNN(n_components=20, max_iter=20, random_state=0).fit_transform(X)
    >>> codes.shape
    (1797, 20)
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
        warm_start: bool = False,
        verbose: int = 0,
        callback: Callback | None = None,
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
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback

    _n_stages = 2

    def _energy_function(self) -> ASCNNEnergy:
        return ASCNNEnergy(
            lam=float(self.alpha), sigma=float(self.sigma), activation=self.activation
        )

    def _fit_weights(
        self, X: Rows, previous: dict[str, Any], rng: np.random.RandomState, progress: FitProgress
    ) -> Outcome:
        energy_function, schedule = self._energy_function(), self._schedule()
        scale = root_mean_square(X)
        initial = self._initial_layers(X, previous, scale, rng)
        Z = np.asarray(X @ initial.C.T.astype(X.dtype))
        first_stage = FirstStageTraining(
            X, FirstStageWeights(Z, initial.D), energy_function, schedule, rng, scale=scale
        )
        first_outcome = self._train(first_stage, progress)
        self.first_stage_energy_path_ = np.array(first_outcome.energy_path) / X.shape[0]
        Z, D = first_stage.weights
        layers = Layers(D, fit_encoder(X, Z))
        if first_outcome.reason is not Reason.CALLBACK:
            third_stage = TwoLayerTraining(X, layers, energy_function, schedule, rng, scale=scale)
            return self._train_layers(third_stage, X, progress)
        self.components_, self.encoder_ = layers.astype(X.dtype)
        energy = sum(self._energy(dense(X[rows])) for rows in dense_blocks(X))
        return Outcome([energy], 0, first_outcome.reason)

    def _stop_reason(self, outcome: Outcome) -> str:
        if outcome.n_iter == 0:
            return f"{outcome.reason.value} in the first stage, so the third stage was skipped"
        return super()._stop_reason(outcome)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("activation", self.activation, ("tanh", "linear"))
        check_positive("sigma", self.sigma)
