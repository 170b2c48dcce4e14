"""ASCNN as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np

from lincode.rows.memory import dense, dense_blocks
from lincode.core.types import Rows
from lincode.estimators.validation import check_choice
from lincode.estimators._network import LayersNetwork, check_positive
from lincode.networks.training import Callback, Outcome, Reason
from lincode.networks._epochs import scale_of
from lincode.networks._layers import LayersTraining, Weights
from lincode.networks.ascnn import ASCNNEnergy, Bottom, BottomTraining, fit_encoder


class ASCNN(LayersNetwork):
    """An associative sparse coding network, learned in three stages (the paper's eqs. 3 and 4).

    Minimises first over the inputs Z of its hidden units and the dictionary D

        E = ½‖X − φ(Z) D‖² + λ Σ log(1 + (z/σ)²),

    then fits the encoder C to Z, and at last minimises the same energy with Z = X Cᵀ over D and
    C. The code of a sample is φ(x Cᵀ).

    Parameters
    ----------
    n_components : int, default=None
        Number m of units. None means the number of features.
    alpha : float, default=0.1
        Sparsity λ ≥ 0.
    activation : {"tanh", "linear"}, default="tanh"
        φ.
    sigma : float, default=1.0
        Scale σ > 0 of the penalty. Our choice.
    init : {"scaled", "paper"}, default="scaled"
        Weights at the start: uniform, of a size that suits the data and the number of units (our
        choice), or uniform in [−1, 1].
    learning_rate : float, default=0.01
        Length of a step at the start, in units of the data's scale; it falls to zero along half a
        cosine. Our choice, see the guide.
    batch_size : int, default=50
        Samples a step is made from. Our choice.
    max_iter : int, default=150
        Passes over the samples in the first stage, and again in the last. Our choice.
    random_state : int, RandomState instance or None, default=None
        Seed of the start and of the order of samples.
    warm_start : bool, default=False
        Start the next ``fit`` from the present weights.
    verbose : int, default=0
        Above 0, print a line after each pass.
    callback : callable, default=None
        Called after each pass with a :class:`lincode.Iteration`, whose counts are those of the
        stage. If it returns something true, training ends there and what was learned is kept; in
        the first stage, with an encoder fitted to it but no third stage, as ``stop_reason_``
        then says.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The dictionary D, an atom a row.
    encoder_ : array of shape (n_components, n_features)
        The encoder C, a filter a row.
    energy_ : float
        E on the training data, the sum over samples.
    energy_path_ : array of shape (n_iter_ + 1,)
        E of the last stage at its start and after each pass; the last is the lowest, which is
        kept.
    n_iter_ : int
        Passes done in the last stage; 0 where the callback ended the first.
    stop_reason_ : str
        Why training ended, in a sentence.
    n_features_in_ : int
    feature_names_in_ : array of str
        Where X had column names that are all strings.
    bottom_energy_path_ : array
        E of the first stage, in the same way.

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
    >>> codes = ASCNN(n_components=20, random_state=0).fit_transform(X)
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
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback

    def _terms(self) -> ASCNNEnergy:
        return ASCNNEnergy(
            lam=float(self.alpha), sigma=float(self.sigma), activation=self.activation
        )

    def _learn(self, X: Rows, known: dict[str, Any], rng: np.random.RandomState) -> Outcome:
        terms, pace, scale = self._terms(), self._pace(), scale_of(X)
        start = self._first_layers(X, known, scale, rng)
        Z = np.asarray(X @ start.C.T.astype(X.dtype))
        bottom = BottomTraining(X, Bottom(Z, start.D), terms, pace, rng, scale=scale)
        first = self._train(bottom)
        self.bottom_energy_path_ = np.array(first.energy_path)
        Z, D = bottom.weights
        layers = Weights(D, fit_encoder(X, Z))
        if first.reason is not Reason.CALLBACK:
            training = LayersTraining(X, layers, terms, pace, rng, scale=scale)
            return self._learn_layers(training, X)
        self.components_, self.encoder_ = layers.astype(X.dtype)
        energy = sum(self._energy(dense(X[rows])) for rows in dense_blocks(X))
        return Outcome([energy], 0, first.reason)

    def _why(self, outcome: Outcome) -> str:
        if outcome.n_iter == 0:
            return f"{outcome.reason.value} in the first stage, so there was no third"
        return super()._why(outcome)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("activation", self.activation, ("tanh", "linear"))
        check_positive("sigma", self.sigma)
