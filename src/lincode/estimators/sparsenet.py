"""Sparsenet as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lincode.core.types import LARGEST, Array, Rows
from lincode.estimators.network import BaseGradientNetwork, check_positive
from lincode.estimators.progress import FitProgress
from lincode.estimators.user_warnings import warn_user
from lincode.estimators.validation import check_choice, check_number
from lincode.exceptions import InvalidInputError
from lincode.networks.epochs import root_mean_square
from lincode.networks.sparsenet import GainControl, SparsenetEnergy, SparsenetTraining
from lincode.networks.training import Callback, Outcome
from lincode.rows.memory import code_blocks

ORIGINAL_ALPHA = 0.22
"""λ divided by the variance goal in the original: β σₙ² = 2.2 · 0.01 for a variance of 0.1."""


class Sparsenet(BaseGradientNetwork):
    """Sparse coding of Olshausen and Field, without an encoder (equation 5 of the paper).

    Sparsenet minimises over the codes U and the dictionary D

        E = ½‖X − U D‖² + λ Σ g(u/σ).

    The energy does not limit the length of the atoms. Instead, gain control rescales each atom
    after every step, so that the variance of its coefficient approaches ``variance_goal``.
    ``transform`` computes codes by conjugate gradient. E can have many local minima in U; the one
    that is reached from the starting point x Dᵀ/‖d‖² is returned.

    Parameters
    ----------
    n_components : int, default=None
        Number of units (atoms). None means the number of features.
    alpha : float, default=None
        Sparsity parameter λ ≥ 0. None means 0.22 times the variance goal, as in the original,
        where λ = 0.022 for data of variance 0.1. There is no largest useful value as for SCNN:
        the slope of the "log" and "exp" penalties is zero at u = 0, and with "l1" the ``alpha``
        above which all codes vanish depends on the lengths of the atoms, which gain control
        changes during training.
    penalty : {"log", "exp", "l1"}, default="log"
        Penalty function g(a): log(1 + a²), 1 − exp(−a²), or ``|a|``. The corner of ``|a|`` is
        rounded within about 0.001 of zero.
    sigma : float, default=None
        Scale σ > 0 of the penalty. None means the square root of the variance goal, as in the
        original, where σ = 0.316 for data of variance 0.1.
    variance_goal : float, default=None
        Variance that gain control aims at for every coefficient. None means the mean square of the
        entries of X, as in the original, where it is 0.1 for data of variance 0.1.
    variance_rate : float, default=0.001
        Weight of one sample in the running average of the variances, at least 0 and less than 1.
        The default is that of the original.
    gain : float, default=0.02
        Exponent of gain control: after every step, the length of an atom is multiplied by
        (variance / variance_goal) to the power of ``gain``. 0 keeps all lengths fixed. The default
        is that of the original.
    code_steps : int, default=30
        Number of conjugate gradient iterations for the codes of a batch during training. The
        original makes about 10, which is enough for whitened data. For data whose samples have a
        large common component, such as digits, 10 leave the codes too far from the minimum, and
        the lengths of the atoms do not converge. This default was chosen on validation digits (see
        ``benchmarks/network_defaults.py``).
    learning_rate : float, default=0.1
        Step size of the dictionary in the first pass. A step is ``learning_rate`` divided by the
        variance goal, times the mean over the batch of code times residual. The default is that of
        the original, where the factor is 1.0 for data of variance 0.1. The rate decreases to zero
        along half a cosine, which is our choice.
    batch_size : int, default=100
        Number of samples per gradient step. The default is that of the original.
    max_iter : int, default=100
        Number of passes over the samples. All of them are made, unless the callback stops
        training. The original papers leave this open; the default is our choice.
    transform_tol : float, default=1e-3
        Tolerance of the codes in ``transform`` and ``score``. A code has converged when the norm of
        its gradient is at most ``transform_tol`` times the norm of x Dᵀ.
    transform_max_iter : int, default=1000
        Largest number of conjugate gradient iterations in ``transform`` and ``score``.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial weights and of the order of the samples. Pass an int for the same
        result in every call.
    warm_start : bool, default=False
        Whether ``fit`` starts from the dictionary and the variances of the previous ``fit``
        instead of a random dictionary.
    verbose : int, default=0
        If it is greater than 0, ``fit`` logs one line after each pass, with the elapsed time and an
        estimate of the time that remains; see docs/progress.md.
    callback : callable, default=None
        Function that is called after each pass with a :class:`lincode.Iteration`. If it returns a
        true value, training stops and the current weights are kept.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The dictionary D, one atom per row.
    alpha_ : float
        The λ that was used in training.
    sigma_ : float
        The σ that was used in training.
    variance_ : array of shape (n_components,)
        Running average of the variance of each coefficient, on which gain control is based.
    energy_ : float
        Energy per sample of the training data after the last pass, E/N. Its codes are computed by
        ``code_steps`` iterations.
    energy_path_ : array of shape (n_iter + 1,)
        E/N of the initial dictionary and of each pass. The energy of a pass is the sum over its
        batches, each evaluated before the dictionary step of the batch. The last entry is
        ``energy_``, which is evaluated after the last pass.
    n_iter_ : int
        Number of passes that were made.
    stop_reason_ : str
        Sentence that says why training ended.
    n_features_in_ : int
        Number of features of the training data.
    feature_names_in_ : array of shape (n_features,)
        Names of the features. It exists only if X had column names that are all strings.

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

    def _fit_weights(
        self, X: Rows, previous: dict[str, Any], rng: np.random.RandomState, progress: FitProgress
    ) -> Outcome:
        goal = root_mean_square(X) ** 2 if self.variance_goal is None else float(self.variance_goal)
        self.alpha_ = ORIGINAL_ALPHA * goal if self.alpha is None else float(self.alpha)
        self.sigma_ = float(np.sqrt(goal)) if self.sigma is None else float(self.sigma)
        if not (1 / LARGEST <= self.sigma_ <= LARGEST and self.alpha_ <= LARGEST**1.9):
            raise InvalidInputError(
                f"sigma must be between {1 / LARGEST:.0e} and {LARGEST:.0e} and alpha at most"
                f" {LARGEST**1.9:.0e}, got sigma={self.sigma_:.3g} and alpha={self.alpha_:.3g}."
            )
        check_penalty(self.alpha_, self.sigma_)
        D = rng.standard_normal((self._n_units(X), X.shape[1]))
        D /= np.linalg.norm(D, axis=1, keepdims=True)
        variance = np.full(len(D), goal)
        if previous:
            D, variance = previous["components_"].astype(np.float64), previous["variance_"]
        training = SparsenetTraining(
            X,
            D,
            variance,
            self._energy_function(),
            GainControl(goal, float(self.variance_rate), float(self.gain)),
            self._schedule(),
            rng,
            code_steps=self.code_steps,
        )
        outcome = self._train(training, progress)
        self._check_atoms(training.D.astype(X.dtype))
        self.components_, self.variance_ = training.D.astype(X.dtype), training.variance
        return outcome

    def _check_atoms(self, D: Array) -> None:
        """Check that products of atoms and codes are representable."""
        largest, bound = float(np.abs(D).max()), float(np.finfo(D.dtype).max) ** 0.25
        if not largest <= bound:
            raise InvalidInputError(
                f"training diverged: an atom has the entry {largest:.3g}, which is above"
                f" {bound:.0e}; lower gain={self.gain!r} or learning_rate={self.learning_rate!r}."
            )

    def _energy_function(self) -> SparsenetEnergy:
        """Return the energy for the current parameters, with the fitted values for None."""
        lam = self.alpha_ if self.alpha is None else float(self.alpha)
        sigma = self.sigma_ if self.sigma is None else float(self.sigma)
        return SparsenetEnergy(lam=lam, sigma=sigma, penalty=self.penalty)

    def _codes(self, X: Rows) -> Array:
        D = self.components_.astype(X.dtype, copy=False)
        U: Array = np.empty((X.shape[0], len(D)), dtype=X.dtype)
        n_not_converged = 0
        for rows in code_blocks(*U.shape):
            solved = self._energy_function().codes(
                X[rows], D, tol=float(self.transform_tol), max_iter=self.transform_max_iter
            )
            U[rows] = solved.U
            n_not_converged += solved.n_not_converged
        if n_not_converged:
            warn_user(
                f"Sparsenet: the codes of {n_not_converged} of {X.shape[0]} samples are not within"
                f" transform_tol={self.transform_tol} after"
                f" transform_max_iter={self.transform_max_iter} iterations; increase"
                " transform_max_iter or transform_tol.",
                ConvergenceWarning,
            )
        return U

    def _energy(self, X: Array) -> float:
        D = self.components_.astype(X.dtype, copy=False)
        return self._energy_function().value(X, self._codes(X), D)

    def _check_alpha(self, *, or_none: bool = True) -> None:
        super()._check_alpha(or_none=or_none)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("penalty", self.penalty, ("log", "exp", "l1"))
        check_positive("sigma", self.sigma, or_none=True)
        check_positive("variance_goal", self.variance_goal, or_none=True)
        check_number("variance_rate", self.variance_rate, 0)
        if self.variance_rate >= 1:
            raise InvalidInputError(f"variance_rate must be below 1, got {self.variance_rate!r}.")
        check_number("gain", self.gain, 0)
        check_number("code_steps", self.code_steps, 1, integer=True)
        check_number("transform_tol", self.transform_tol, 0)
        check_number("transform_max_iter", self.transform_max_iter, 1, integer=True)


def check_penalty(alpha: float, sigma: float) -> None:
    """Check that the squared slope of the penalty, up to alpha / sigma, is representable."""
    if alpha > LARGEST * sigma:
        raise InvalidInputError(
            f"alpha / sigma must be at most {LARGEST:.0e}, got alpha={alpha:.3g} and"
            f" sigma={sigma:.3g}. By default both follow the scale of X."
        )
