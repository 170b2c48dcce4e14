"""Sparsenet as a scikit-learn transformer."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lincode.core.types import Array, Rows
from lincode.estimators.validation import check_choice, check_number
from lincode.estimators._network import BatchNetwork, check_positive
from lincode.networks.training import Callback, Outcome
from lincode.networks._epochs import scale_of
from lincode.networks.sparsenet import GainControl, SparsenetEnergy, SparsenetTraining
from lincode.rows.memory import code_blocks


class Sparsenet(BatchNetwork):
    """Olshausen and Field's sparse coding: a dictionary, and no encoder (the paper's eq. 5).

    Minimises over the codes U and the dictionary D

        E = ½‖X − U D‖² + λ Σ g(u/σ),

    with each atom's length held by a gain that drives the variance of its coefficient to a goal.
    ``transform`` solves for the codes: E has many local minima in U, and the one below the start
    x Dᵀ/‖d‖² is taken.

    Parameters
    ----------
    n_components : int, default=None
        Number m of units. None means the number of features.
    alpha : float, default=None
        Sparsity λ ≥ 0. None means 0.22 of the variance goal: the original's β σₙ² = 2.2 · 0.01
        for data of variance 0.1.
    penalty : {"log", "exp", "l1"}, default="log"
        g(a): log(1 + a²), 1 − exp(−a²), or |a| (rounded off within 0.001 of 0).
    sigma : float, default=None
        Scale σ > 0 of the penalty. None means the root of the variance goal: the original's 0.316
        for data of variance 0.1.
    variance_goal : float, default=None
        What the variance of each coefficient is driven to. None means the mean square of the
        entries of X: the original's 0.1 for data of variance 0.1.
    variance_rate : float, default=0.001
        Share of each sample in the running variance of a coefficient, below 1. The original's.
    gain : float, default=0.02
        Exponent with which the length of an atom follows that variance. The original's.
    code_steps : int, default=30
        Conjugate gradient steps for the codes of a batch in training. The original's are about 10,
        which suits whitened data; on data with a common direction, as digits, they leave the
        codes so far from their minimum that the atoms' lengths do not settle. Our choice.
    learning_rate : float, default=0.1
        Length of a step at the start, as a share of the mean of residual times code over
        the variance goal: the original's 1.0 for data of variance 0.1. It falls to zero along half
        a cosine, which is our choice.
    batch_size : int, default=100
        Samples a step is made from. The original's.
    max_iter : int, default=100
        Passes over the samples. Our choice.
    transform_tol : float, default=1e-3
        Length of the gradient, as a share of that of x Dᵀ, to which codes are solved at
        ``transform`` and ``score``.
    transform_max_iter : int, default=1000
        Most conjugate gradient steps there.
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
    alpha_, sigma_ : float
        The λ and σ that were used.
    variance_ : array of shape (n_components,)
        Running variance of each coefficient, which the gains follow.
    energy_ : float
        E on the training data, the sum over samples.
    energy_path_ : array of shape (n_iter_ + 1,)
        E at the start, then of the batches of each pass as they were met, but for the last
        pass, which stands with the E of all samples after it, ``energy_``.
    n_iter_ : int
        Passes done.
    stop_reason_ : str
        Why training ended, in a sentence.
    n_features_in_ : int
    feature_names_in_ : array of str
        Where X had column names that are all strings.

    References
    ----------
    Olshausen, Field: Emergence of simple-cell receptive field properties by learning a sparse
    code for natural images. Nature 381 (1996).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from lincode import Sparsenet
    >>> X = load_digits().data / 16
    >>> codes = Sparsenet(n_components=20, max_iter=10, random_state=0).fit_transform(X)
    >>> codes.shape
    (1797, 20)
    """

    def __init__(
        self,
        n_components: int | None = None,
        alpha: float | None = None,
        *,
        penalty: str = "log",
        sigma: float | None = None,
        variance_goal: float | None = None,
        variance_rate: float = 0.001,
        gain: float = 0.02,
        code_steps: int = 30,
        learning_rate: float = 0.1,
        batch_size: int = 100,
        max_iter: int = 100,
        transform_tol: float = 1e-3,
        transform_max_iter: int = 1000,
        random_state: int | np.random.RandomState | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.penalty = penalty
        self.sigma = sigma
        self.variance_goal = variance_goal
        self.variance_rate = variance_rate
        self.gain = gain
        self.code_steps = code_steps
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.transform_tol = transform_tol
        self.transform_max_iter = transform_max_iter
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback

    def _learn(self, X: Rows, known: dict[str, Any], rng: np.random.RandomState) -> Outcome:
        goal = scale_of(X) ** 2 if self.variance_goal is None else float(self.variance_goal)
        self.alpha_ = 0.22 * goal if self.alpha is None else float(self.alpha)
        self.sigma_ = float(np.sqrt(goal)) if self.sigma is None else float(self.sigma)
        D = rng.standard_normal((self._width(X), X.shape[1]))
        D /= np.linalg.norm(D, axis=1, keepdims=True)
        variance = np.full(len(D), goal)
        if known:
            D, variance = known["components_"].astype(np.float64), known["variance_"]
        gain = GainControl(goal, float(self.variance_rate), float(self.gain))
        training = SparsenetTraining(
            X, D, variance, self._terms(), gain, self._pace(), rng, code_steps=self.code_steps
        )
        outcome = self._train(training)
        self.components_, self.variance_ = training.D.astype(X.dtype), training.variance
        return outcome

    def _terms(self) -> SparsenetEnergy:
        lam = self.alpha_ if self.alpha is None else float(self.alpha)
        sigma = self.sigma_ if self.sigma is None else float(self.sigma)
        return SparsenetEnergy(lam=lam, sigma=sigma, penalty=self.penalty)

    def _codes(self, X: Rows) -> Array:
        D = self.components_.astype(X.dtype, copy=False)
        U: Array = np.empty((X.shape[0], len(D)), dtype=X.dtype)
        n_open = 0
        for rows in code_blocks(*U.shape):
            codes = self._terms().codes(
                X[rows], D, tol=float(self.transform_tol), max_iter=self.transform_max_iter
            )
            U[rows], n_open = codes.U, n_open + codes.n_open
        if n_open:
            warnings.warn(
                f"Sparsenet: the codes of {n_open} of {X.shape[0]} samples are not within"
                f" transform_tol = {self.transform_tol} after {self.transform_max_iter} steps;"
                " raise one of the two.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return U

    def _energy(self, X: Array) -> float:
        return self._terms().value(X, self._codes(X), self.components_.astype(X.dtype, copy=False))

    def _check_alpha(self) -> None:
        check_number("alpha", self.alpha, 0, or_none=True)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("penalty", self.penalty, ("log", "exp", "l1"))
        check_positive("sigma", self.sigma, or_none=True)
        check_positive("variance_goal", self.variance_goal, or_none=True)
        check_number("variance_rate", self.variance_rate, 0)
        if self.variance_rate >= 1:
            raise ValueError(f"variance_rate must be below 1, got {self.variance_rate!r}.")
        check_number("gain", self.gain, 0)
        check_number("code_steps", self.code_steps, 1, integer=True)
        check_number("transform_tol", self.transform_tol, 0)
        check_number("transform_max_iter", self.transform_max_iter, 1, integer=True)
