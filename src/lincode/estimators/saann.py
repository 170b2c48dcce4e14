"""SAANN as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np

from lincode.core.types import Rows
from lincode.estimators.validation import check_choice
from lincode.estimators._network import LayersNetwork
from lincode.networks.training import Callback, Outcome
from lincode.networks._epochs import scale_of
from lincode.networks._layers import LayersTraining
from lincode.networks.saann import SAANNEnergy


class SAANN(LayersNetwork):
    """A sparse auto-associative network: both layers by gradient descent (the paper's eq. 2).

    Minimises over the dictionary D and the encoder C

        E = ½‖X − U D‖² + λ Σ log(1 + u²),      U = φ(X Cᵀ)

    with hidden units φ that are sigmoids in the original. The code of a sample is φ(x Cᵀ).

    Parameters
    ----------
    n_components : int, default=None
        Number m of units. None means the number of features.
    alpha : float, default=0.1
        Sparsity λ ≥ 0.
    activation : {"sigmoid", "tanh", "linear"}, default="sigmoid"
        φ.
    init : {"scaled", "paper"}, default="scaled"
        Weights at the start: uniform, of a size that suits the data and the number of units (our
        choice), or uniform in [−1, 1].
    learning_rate : float, default=0.005
        Length of a step at the start, in units of the data's scale; it falls to zero along half a
        cosine. Our choice, see the guide.
    batch_size : int, default=25
        Samples a step is made from. Our choice.
    max_iter : int, default=300
        Passes over the samples. Our choice.
    random_state : int, RandomState instance or None, default=None
        Seed of the start and of the order of samples.
    warm_start : bool, default=False
        Start the next ``fit`` from the present weights.
    verbose : int, default=0
        Above 0, print a line after each pass.
    callback : callable, default=None
        Called after each pass with a :class:`lincode.Iteration`. Training ends there, and what was
        learned is kept, if it returns something true.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The dictionary D, an atom a row.
    encoder_ : array of shape (n_components, n_features)
        The encoder C, a filter a row.
    energy_ : float
        E on the training data, the sum over samples.
    energy_path_ : array of shape (n_iter_ + 1,)
        E at the start and after each pass; the last is the lowest, which is kept.
    n_iter_ : int
        Passes done.
    stop_reason_ : str
        Why training ended, in a sentence.
    n_features_in_ : int
    feature_names_in_ : array of str
        Where X had column names that are all strings.

    Notes
    -----
    The energy has no term that holds D: small codes and large atoms reconstruct as well as large
    codes and small atoms, at a lower penalty. Only the activation and the finite training keep the
    codes at their size.

    References
    ----------
    Sivaram, Ganapathy, Hermansky: Sparse auto-associative neural networks: theory and application
    to speech recognition. Interspeech 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from lincode import SAANN
    >>> X = load_digits().data / 16
    >>> codes = SAANN(n_components=20, random_state=0).fit_transform(X)
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
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback

    def _terms(self) -> SAANNEnergy:
        return SAANNEnergy(lam=float(self.alpha), activation=self.activation)

    def _learn(self, X: Rows, known: dict[str, Any], rng: np.random.RandomState) -> Outcome:
        scale = scale_of(X)
        start = self._first_layers(X, known, scale, rng)
        training = LayersTraining(X, start, self._terms(), self._pace(), rng, scale=scale)
        return self._learn_layers(training, X)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("activation", self.activation, ("sigmoid", "tanh", "linear"))
