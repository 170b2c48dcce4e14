"""Sparsenet, sparse coding without an encoder (paper eq. 5; Olshausen and Field 1996).

    E(U, D) = ½‖X − U D‖² + λ Σ g(u/σ),      g(a) = log(1 + a²), 1 − exp(−a²) or |a|

For each batch of rows, training

1. computes the codes U by conjugate gradient,
2. makes a gradient step of D,
3. rescales each atom, so that the variance of its coefficient approaches a given value
   (gain control).

The original weighs the error by 1/σₙ² and the penalty by β. In these terms, λ = β σₙ².
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from lincode.core.arrays import Array
from paper.networks.base import (
    Network,
    Schedule,
    check_choice,
    finite,
    root_mean_square,
    train_by_passes,
)
from paper.networks.smooth import (
    PENALTIES,
    SmoothPenaltyCodes,
    smooth_penalty_codes,
    smooth_penalty_energy,
)

ORIGINAL_ALPHA = 0.22
"""λ divided by the variance goal in the original: β σₙ² = 2.2 · 0.01 for a variance of 0.1."""
BLOCK_ENTRIES, MIN_BLOCK_ENTRIES = 500_000, 100_000
"""The largest number of codes that are solved together, and the smallest unless there are fewer."""


@dataclass(frozen=True)
class SparsenetEnergy:
    """E, summed over rows, and the codes that minimise it for a given D."""

    lam: float
    sigma: float
    penalty: str = "log"

    def codes(self, X: Array, D: Array, *, tol: float, max_iter: int) -> SmoothPenaltyCodes:
        """Return a local minimiser of E over U."""
        g = PENALTIES[self.penalty]
        return smooth_penalty_codes(X, D, self.lam, self.sigma, g, tol=tol, max_iter=max_iter)

    def value(self, X: Array, U: Array, D: Array) -> float:
        """Return E(U, D)."""
        return smooth_penalty_energy(X, U, D, self.lam, self.sigma, PENALTIES[self.penalty])


@dataclass(frozen=True)
class GainControl:
    """The rule that rescales atoms according to the variance of their coefficients."""

    variance_goal: float
    """The variance that each coefficient should have."""
    variance_rate: float
    """Weight of one sample in the running average of the variance."""
    exponent: float
    """An atom's length is multiplied by (variance / variance_goal) to this power."""

    def update_variance(self, variance: Array, U: Array) -> Array:
        """Return the running variances after a batch with the codes U."""
        old_weight = (1 - self.variance_rate) ** len(U)
        new_variance = np.square(U, dtype=np.float64).mean(axis=0)
        return np.asarray(old_weight * variance + (1 - old_weight) * new_variance)

    def length_factors(self, variance: Array) -> Array:
        """Return the factors by which the atoms' lengths are multiplied."""
        return np.asarray((variance / self.variance_goal) ** self.exponent)


class SparsenetTraining:
    """Training that keeps the weights of the last pass, where the learning rate is almost 0.

    Computing codes is expensive. The energy of a pass is therefore the sum over its batches, each
    evaluated with the dictionary before its own step. Only the first energy is that of all rows.
    """

    def __init__(
        self,
        X: Array,
        D: Array,
        energy: SparsenetEnergy,
        gain_control: GainControl,
        code_steps: int,
    ) -> None:
        self.X, self.D, self.energy_function = X, D, energy
        self.gain_control, self.code_steps = gain_control, code_steps
        self.variance = np.full(len(D), gain_control.variance_goal)
        self.pass_energy: float | None = None

    def codes(self, X: Array, D: Array) -> Array:
        """Return codes by the number of iterations that training makes."""
        return self.energy_function.codes(X, D, tol=0.0, max_iter=self.code_steps).U

    def total_energy(self) -> float:
        """Return the energy of all rows with the present dictionary."""
        D = self.D.astype(self.X.dtype)
        return self.energy_function.value(self.X, self.codes(self.X, D), D)

    def energy(self) -> float:
        """Return the energy of the last pass, or that of all rows before the first one."""
        energy = self.total_energy() if self.pass_energy is None else self.pass_energy
        self.pass_energy = 0.0
        return energy

    def update(self, rows: NDArray[np.intp], rate: float) -> None:
        """Make a gradient step of the dictionary and rescale its atoms."""
        X, D = self.X[rows], self.D.astype(self.X.dtype)
        U = self.codes(X, D)
        self.pass_energy = (self.pass_energy or 0.0) + self.energy_function.value(X, U, D)
        gain = self.gain_control
        descent = U.T.astype(np.float64) @ (X - U @ D)
        lengths = np.linalg.norm(self.D, axis=1)
        D = self.D + rate / (gain.variance_goal * len(U)) * descent
        self.variance = gain.update_variance(self.variance, U)
        # The gradient step sets the direction of an atom; gain control alone sets its length.
        lengths *= gain.length_factors(self.variance)
        norms = np.linalg.norm(D, axis=1)
        self.D = D * np.divide(lengths, norms, out=np.zeros_like(norms), where=norms > 0)[:, None]


class Sparsenet(Network):
    """Sparse coding of Olshausen and Field, without an encoder.

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
        where λ = 0.022 for data of variance 0.1.
    penalty : {"log", "exp", "l1"}, default="log"
        Penalty function g(a): log(1 + a²), 1 − exp(−a²), or ``|a|``. The corner of ``|a|`` is
        rounded within about 0.001 of zero.
    sigma : float, default=None
        Scale σ > 0 of the penalty. None means the square root of the variance goal, as in the
        original.
    variance_goal : float, default=None
        Variance that gain control aims at for every coefficient. None means the mean square of the
        entries of X, as in the original.
    variance_rate : float, default=0.001
        Weight of one sample in the running average of the variances, as in the original.
    gain : float, default=0.02
        Exponent of gain control, as in the original. 0 keeps all lengths fixed.
    code_steps : int, default=30
        Number of conjugate gradient iterations for the codes of a batch during training. The
        original makes about 10, which is enough for whitened data. For data whose samples have a
        large common component, such as digits, the lengths of the atoms do not converge with 10.
    learning_rate : float, default=0.1
        Step size of the dictionary in the first pass: a step is ``learning_rate`` divided by the
        variance goal, times the mean over the batch of code times residual. The default is that of
        the original. The rate decreases to zero along half a cosine, which is our choice.
    batch_size : int, default=100
        Number of samples per gradient step, as in the original.
    max_iter : int, default=100
        Number of passes over the samples. The original papers leave this open.
    transform_tol : float, default=1e-3
        A code has converged when the norm of its gradient is at most ``transform_tol`` times the
        norm of x Dᵀ.
    transform_max_iter : int, default=1000
        Largest number of conjugate gradient iterations in ``transform`` and ``score``.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial weights and of the order of the samples.

    Attributes
    ----------
    alpha_, sigma_ : float
        The λ and the σ that were used in training.
    variance_ : array of shape (n_components,)
        Running average of the variance of each coefficient.
    energy_path_ : array of shape (max_iter + 1,)
        E/N of the initial dictionary and of each pass. The energy of a pass is the sum over its
        batches, each evaluated before the dictionary step of the batch. The last entry is
        evaluated after the last pass, with codes by ``code_steps`` iterations.

    References
    ----------
    Olshausen, Field: Emergence of simple-cell receptive field properties by learning a sparse
    code for natural images. Nature 381 (1996).
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

    def _train(self, X: Array, rng: np.random.RandomState) -> list[float]:
        check_choice("penalty", self.penalty, list(PENALTIES))
        goal = root_mean_square(X) ** 2 if self.variance_goal is None else float(self.variance_goal)
        self.alpha_ = ORIGINAL_ALPHA * goal if self.alpha is None else float(self.alpha)
        self.sigma_ = float(np.sqrt(goal)) if self.sigma is None else float(self.sigma)
        D = rng.standard_normal((self._n_units(X), X.shape[1]))
        D /= np.linalg.norm(D, axis=1, keepdims=True)
        gain = GainControl(goal, self.variance_rate, self.gain)
        training = SparsenetTraining(X, D, self._energy_function(), gain, self.code_steps)
        schedule = Schedule(self.learning_rate, self.batch_size, self.max_iter)
        path = train_by_passes(training, len(X), schedule, rng)
        self.components_, self.variance_ = training.D.astype(X.dtype), training.variance
        return [*path[:-1], finite(training.total_energy())]

    def _energy_function(self) -> SparsenetEnergy:
        return SparsenetEnergy(self.alpha_, self.sigma_, self.penalty)

    def _codes(self, X: Array) -> Array:
        D = self.components_.astype(X.dtype, copy=False)
        (N, m), n_not_converged = (len(X), len(D)), 0
        U: Array = np.empty((N, m), dtype=X.dtype)
        size = max(MIN_BLOCK_ENTRIES // m, min(BLOCK_ENTRIES // m, -(-N // 8)), 16)
        for start in range(0, N, size):
            rows = slice(start, start + size)
            solved = self._energy_function().codes(
                X[rows], D, tol=self.transform_tol, max_iter=self.transform_max_iter
            )
            U[rows] = solved.U
            n_not_converged += solved.n_not_converged
        if n_not_converged:
            warnings.warn(
                f"Sparsenet: the codes of {n_not_converged} of {N} samples are not within"
                f" transform_tol={self.transform_tol} after"
                f" transform_max_iter={self.transform_max_iter} iterations; increase"
                " transform_max_iter or transform_tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return U

    def _energy(self, X: Array) -> float:
        D = self.components_.astype(X.dtype, copy=False)
        return self._energy_function().value(X, self._codes(X), D)
