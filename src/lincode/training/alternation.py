"""SCNN (Section 3 of the paper): a linear network that learns codes, dictionary and encoder.

    E(U, D, C) = 1/p ‖X − U D‖²  +  η/m (‖U − X Cᵀ‖² + ρ‖C‖²)  +  2λ/m ‖U‖₁      s.t. ‖D[j]‖ ≤ 1

Training alternates between three convex steps, as in Algorithm 1 of the paper:

    U   accelerated proximal gradient for each row         core/lasso.py
    D   Newton's method on the dual, or sweeps             core/dictionary.py
    C   ridge regression with a precomputed factorisation  core/ridge.py

With many rows, training starts on a small random subset, continues on subsets that are four times
as large, and ends on all rows. The first iterations change D and C most, and a sample of the rows
shows the direction of the change nearly as well as all rows. Each stage starts from D, C and the
momentum of the one before, so that the last stage needs few iterations. The subsets are nested, and
they are chosen by the indices of the rows, so that the result does not depend on where the rows are
stored.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lincode.core.arrays import Array, sample_indices
from lincode.core.dictionary import (
    dictionary_residual,
    dictionary_step,
    longer_parts,
    nonnegative_atoms,
    project_unit_ball,
)
from lincode.core.energy import CodeStats, energy_from_stats, rounding_of_energy
from lincode.core.lasso import CodeProblem
from lincode.core.ridge import EncoderFactor, choose_ridge, encoder_residual, encoder_step
from lincode.core.threshold import Thresholding, matching_threshold
from lincode.training.loop import Outcome, Progress, Reason, train
from lincode.training.rows import RowSource

MAX_CODE_STEPS = 1000
"""The largest number of accelerated steps in one U step, as in step (a) of Algorithm 1."""
MAX_STEP_TOL, MIN_STEP_TOL = 1e-2, 1e-6
"""The range of the tolerance of the steps, which follows the change of the energy."""
STEP_TOL_FRACTION = 0.3
"""The tolerance of the steps as a fraction of the last relative change of the energy."""
ENCODER_TOL_RATIO = 10.0
"""The tolerance of an iterative C step before the last, relative to that of the other steps. The
last one has a tenth of their tolerance, because ``optimality_`` measures each feature alone."""
MAX_SWEEPS, MAX_FINAL_SWEEPS = 5, 1000
"""The largest number of dictionary sweeps in an iteration and after the last one."""
MAX_MOMENTUM = 0.9
"""The largest factor by which D and C are extrapolated."""
RIDGE_ROWS, RIDGE_ROWS_PER_FEATURE = 10_000, 5
"""The ridge is chosen from at most max(10,000, 5 p) rows if there are many."""
ROUNDING_TOL = 1e-14
"""Codes cannot be computed to a smaller tolerance than this."""
ROWS_PER_UNIT, MIN_ROWS = 10, 1000
"""The first subset has max(1000, 10 m) rows."""
MIN_TOTAL_ROWS = 10_000
"""With fewer rows in total, subsets save little time and are not used."""
GROWTH = 4
"""The ratio of the sizes of two subsets."""
MAX_FRACTION = 1 / 3
"""A subset has at most this fraction of all rows."""
MAX_SUBSET_BYTES = 2**30
"""A subset is copied to memory, and has at most this size with its codes."""
MAX_STAGE_TOL, STAGE_TOL_FACTOR = 2e-3, 0.02
"""A stage of n rows ends when the relative change is at most 0.02 m/n, and at most 0.002."""
LATER_STEP_TOL = 1e-3
"""The largest tolerance of the steps in all stages but the first."""
THRESHOLD_ROWS = 2000
"""The number of rows from which the threshold of the initial codes is computed."""


@dataclass(frozen=True)
class EnergyWeights:
    """The parameters of the energy that are fixed during training."""

    lam: float
    eta: float = 1.0
    positive: bool = False
    ridge: float | None = 0.0
    """ρ relative to the mean eigenvalue of XᵀX; None means that training chooses it"""
    positive_dict: bool = False
    """Whether the atoms are constrained to D ≥ 0"""

    @property
    def threshold(self) -> float:
        """The threshold of the encoder in the paper.

        The minimiser of η‖U − X Cᵀ‖² + 2λ‖U‖₁ is soft_threshold(X Cᵀ, λ/η).
        """
        return self.lam / self.eta if self.eta > 0 else self.lam

    @property
    def thresholding(self) -> Thresholding:
        """The soft threshold of the paper."""
        return Thresholding("soft", self.threshold, positive=self.positive)

    def code_problem(self, D: Array, C: Array, dtype: np.dtype[np.floating]) -> CodeProblem:
        """Return the problem of the U step for D and C."""
        return CodeProblem.of(D, C, self.lam, self.eta, positive=self.positive, dtype=dtype)


@dataclass(frozen=True)
class Trained:
    """The result of training."""

    D: Array
    C: Array
    optimality: dict[str, float]
    stats: CodeStats
    factor: EncoderFactor
    ridge: float
    """The ridge ρ relative to the mean eigenvalue of XᵀX"""
    n_replaced: int


@dataclass(frozen=True)
class Momentum:
    """D and C of the previous iteration, and the number of iterations since the last restart."""

    D: Array
    C: Array
    age: int = 0


class SCNNTraining:
    """SCNN in training: a row source with its codes, D, C, and the three steps."""

    def __init__(
        self,
        rows: RowSource,
        D: Array,
        C: Array,
        weights: EnergyWeights,
        *,
        tol: float,
    ) -> None:
        self.rows, self.weights = rows, weights
        if weights.positive_dict:
            D = nonnegative_atoms(D, signed=not weights.positive)
        self.ridge = choose_ridge_for(rows, D, weights) if weights.ridge is None else weights.ridge
        self.factor = rows.factor().with_ridge(self.ridge)
        # An encoder from other data may have components in directions in which these data are zero.
        self.D, self.C = D, self.factor.project(C)
        self.stats: CodeStats = rows.stats()
        self.n = self.stats.n
        self.n_replaced = 0
        self.codes_computed = False  # atoms without a code are unused only after a U step
        self.momentum = Momentum(self.D, self.C)
        self.step_tol = self.max_step_tol = MAX_STEP_TOL
        self.final_tol = float(np.clip(tol, MIN_STEP_TOL, MAX_STEP_TOL / 10))
        self._cached_energy: tuple[CodeStats | None, Array, Array, float] = (None, D, C, np.inf)

    def energy(self) -> float:
        """Return the present energy, which is computed once for each state."""
        stats, D, C, energy = self._cached_energy
        if not (stats is self.stats and D is self.D and C is self.C):
            lam, eta = self.weights.lam, self.weights.eta
            energy = energy_from_stats(self.stats, self.D, self.C, self.factor, lam, eta)
            self._cached_energy = self.stats, self.D, self.C, energy
        return energy

    def zero_energy(self) -> float:
        """Return the energy of zero codes, ‖X‖²/p."""
        return float(self.factor.trace / self.D.shape[1])

    def rounding(self) -> float:
        """Return a bound of the rounding error of the energy."""
        eta, dtype = self.weights.eta, self.rows.dtype
        return rounding_of_energy(self.stats, self.D, self.C, self.factor, eta, dtype)

    def set_change(self, change: float) -> bool:
        """Adapt the tolerance of the steps to the progress of the iterations."""
        accurate = self.step_tol <= self.final_tol
        self.step_tol = float(
            np.clip(STEP_TOL_FRACTION * change, self.final_tol, self.max_step_tol)
        )
        return accurate

    def steps(self) -> Iterator[str]:
        """Do one iteration, from an extrapolated D and C if that lowers the energy."""
        if self.codes_computed and (self.stats.used == 0).any():
            self.replace_unused_atoms()
            yield "atom replacement"
        if self.momentum.age > 0 and self.extrapolated_iteration():
            yield "extrapolated"
        else:
            yield from self.plain_iteration()

    def plain_iteration(self) -> Iterator[str]:
        """Do the three steps from the present D and C."""
        D, C, age = self.D, self.C, self.momentum.age
        self.update_codes(self.D, self.C)
        yield "codes"
        self.update_dictionary(self.step_tol, MAX_SWEEPS)
        yield "dictionary"
        if self.weights.eta > 0:
            tol = ENCODER_TOL_RATIO * self.step_tol
            self.C = encoder_step(self.stats.UtX, self.factor, self.C, tol)
            yield "encoder"
        self.momentum = Momentum(D, C, age + 1)

    def extrapolated_iteration(self) -> bool:
        """Do the three steps from D and C extrapolated in the direction of their last change.

        This is Nesterov's momentum applied to the alternation. It needs about a third of the
        iterations. If the energy does not decrease, D and C are restored and the momentum is
        reset. The codes are then computed again until they are as good as before; if η = 0 the
        problem may be too flat for that, so they are saved and restored. Returns whether the energy
        decreased.
        """
        energy, D, C, momentum = self.energy(), self.D, self.C, self.momentum
        stats, saved = self.stats, self.rows.save_codes() if self.weights.eta == 0 else None
        factor = min(momentum.age / (momentum.age + 3), MAX_MOMENTUM)
        extrapolated = D + factor * (D - momentum.D)
        self.D = project_unit_ball(extrapolated, positive=self.weights.positive_dict)
        self.C = C + factor * (C - momentum.C)
        for _ in self.plain_iteration():
            pass
        if self.energy() <= energy:
            self.momentum = Momentum(D, C, momentum.age + 1)
            return True
        self.D, self.C, self.momentum = D, C, Momentum(D, C)
        if saved is not None:
            self.rows.restore_codes(saved)
            self.stats = stats
            self.step_tol /= 10
            return False
        while self.energy() > energy and self.step_tol > ROUNDING_TOL:
            self.step_tol /= 10
            self.update_codes(D, C)
        return False

    def update_codes(self, D: Array, C: Array, tol: float | None = None) -> None:
        """Do the U step for D and C, to the present tolerance of the steps or to ``tol``."""
        problem = self.weights.code_problem(D, C, self.rows.dtype)
        tol = self.step_tol if tol is None else tol
        self.stats = self.rows.update_codes(problem, tol=tol, max_iter=MAX_CODE_STEPS)
        self.codes_computed = True

    def update_dictionary(self, tol: float, max_sweeps: int) -> None:
        """Do the D step."""
        positive = self.weights.positive_dict
        self.D, _ = dictionary_step(
            self.D, self.stats, tol=tol, max_sweeps=max_sweeps, positive=positive
        )

    def replace_unused_atoms(self) -> None:
        """Replace atoms that no row uses. Their codes are zero, so the energy does not change."""
        unused = np.flatnonzero(self.stats.used == 0)
        D, replaced = replace_atoms(self.D, unused, self.rows, self.weights)
        if replaced.size:
            self.D = D
            self.n_replaced += len(replaced)
            # The last change is unrelated to the new atoms.
            self.momentum = Momentum(self.D, self.C)

    def final_steps(self) -> Iterator[str]:
        """Compute the dictionary to its final tolerance, and the encoder for the final codes."""
        self.update_dictionary(self.final_tol, MAX_FINAL_SWEEPS)
        yield "dictionary"
        self.C = encoder_step(self.stats.UtX, self.factor, self.C, self.final_tol / 10)
        yield "encoder"

    def snapshot(self) -> Trained:
        """Return the network during training, with the encoder for the present codes."""
        present = copy.copy(self)
        present.C = encoder_step(self.stats.UtX, self.factor, self.C)
        return present.result()

    def result(self) -> Trained:
        """Return the trained network with the optimality residual of each step.

        D and C are coupled only through U, so "dictionary" and "encoder" hold for the final
        network. "codes" is the residual of the last U step, for the D and C of that step, and
        "joint" the residual of the same codes for the final D and C.
        """
        problem = self.weights.code_problem(self.D, self.C, self.rows.dtype)
        stats = self.stats
        return Trained(
            D=self.D,
            C=self.C,
            optimality={
                "codes": stats.residual,
                "dictionary": dictionary_residual(
                    self.D, stats, positive=self.weights.positive_dict
                ),
                "encoder": encoder_residual(self.C, stats.UtU, stats.UtX, self.factor),
                "joint": self.rows.code_residual(problem),
            },
            stats=stats,
            factor=self.factor,
            ridge=self.ridge,
            n_replaced=self.n_replaced,
        )


def replace_atoms(
    D: Array, unused: NDArray[np.intp], rows: RowSource, weights: EnergyWeights
) -> tuple[Array, NDArray[np.intp]]:
    """Replace unused atoms by the normalised residuals of the worst rows.

    A row will use the new atom if its gradient there, ‖r‖/p for the residual r, exceeds λ/m;
    otherwise the atom is not replaced. If the atoms must be positive, r is replaced by its
    positive part, or by its negative part if that is longer and codes may be negative. Returns the
    dictionary and the indices of the atoms that were replaced.
    """
    m, p = D.shape
    R: Array = rows.largest_residuals(D, len(unused)).astype(np.float64)
    if weights.positive_dict:
        R = longer_parts(R, signed=not weights.positive)
    norms = np.linalg.norm(R, axis=1)
    useful = (norms / p > weights.lam / m) & (norms > 0)
    replaced = unused[: len(R)][useful]
    if replaced.size:
        D = D.copy()
        D[replaced] = R[useful] / norms[useful, None]
    return D, replaced


def n_ridge_rows(p: int) -> int:
    """Return the number of rows with p features from which the ridge is chosen."""
    return max(RIDGE_ROWS, RIDGE_ROWS_PER_FEATURE * p)


def choose_ridge_for(
    rows: RowSource, D: Array, weights: EnergyWeights, N: float | None = None
) -> float:
    """Choose ρ before training, for the codes of the initial dictionary and an encoder of zero.

    The codes of the rows are restored afterwards. ρ is relative to the mean eigenvalue
    of XᵀX. It does not change during training, so that the energy has the same meaning in every
    iteration. If the rows are a sample, N is the number of all rows.
    """
    problem = weights.code_problem(D, np.zeros_like(D), rows.dtype)
    saved = rows.save_codes()
    stats = rows.update_codes(problem, tol=MAX_STEP_TOL, max_iter=MAX_CODE_STEPS)
    rows.restore_codes(saved)
    return choose_ridge(stats.UtU, stats.UtX, stats.n, rows.factor(), N)


def atom_signs(D: Array) -> Array:
    """Return the sign of the largest entry of each atom, shape (m, 1).

    (u, d, c) and (−u, −d, −c) have the same energy, so atoms and filters are multiplied by this
    sign. The first of equally large entries counts.
    """
    largest = np.take_along_axis(D, np.abs(D).argmax(axis=1)[:, None], axis=1)
    return np.where(largest < 0, -1.0, 1.0)


def subset_sizes(N: int, p: int, m: int) -> list[int]:
    """Return the sizes of the subsets for N rows and m units, without the last stage of N rows."""
    size = max(MIN_ROWS, ROWS_PER_UNIT * m)
    sizes: list[int] = []
    if N < MIN_TOTAL_ROWS:
        return sizes
    while size <= MAX_FRACTION * N and size * (p + m) * 8 <= MAX_SUBSET_BYTES:
        sizes.append(size)
        size *= GROWTH
    return sizes


def stage_tol(n: int, m: int, tol: float) -> float:
    """Return the relative change of the energy at which training on a subset of n rows ends.

    The energy of all rows is above that of the subset by a fraction that grows with m/n. Changes
    that are much smaller than this adapt D and C to the rows of the subset only.
    """
    return max(tol, min(MAX_STAGE_TOL, STAGE_TOL_FACTOR * m / n))


def _next_stage(
    previous: SCNNTraining | None,
    rows: RowSource,
    D: Array,
    C: Array,
    weights: EnergyWeights,
    *,
    tol: float,
) -> SCNNTraining:
    """Return the training on more rows, which continues the previous one if there is one."""
    if previous is None:
        return SCNNTraining(rows, D, C, weights, tol=tol)
    _set_initial_codes(rows, previous)
    training = SCNNTraining(rows, D, C, weights, tol=tol)
    training.momentum = previous.momentum
    training.n_replaced = previous.n_replaced
    # The first change is large, because the initial codes are not accurate, but D and C are.
    training.step_tol = training.max_step_tol = LATER_STEP_TOL
    return training


def _set_initial_codes(rows: RowSource, previous: SCNNTraining) -> None:
    """Set the codes to those of the encoder, with the density of the codes of the last stage."""
    stats = previous.stats
    C = encoder_step(stats.UtX, previous.factor)  # if η = 0, the training itself has none
    if not C.any():
        return
    density, positive = float(stats.used.mean()) / stats.n, previous.weights.positive
    sample = rows.take(sample_indices(rows.shape[0], THRESHOLD_ROWS))
    Z = np.asarray(sample @ C.astype(rows.dtype).T)
    threshold = matching_threshold(Z, density, positive=positive)
    rows.set_codes(C, Thresholding("soft", threshold, positive=positive))


def train_in_stages(
    rows: RowSource,
    D: Array,
    C: Array,
    weights: EnergyWeights,
    *,
    sizes: list[int],
    rng: np.random.RandomState,
    tol: float,
    max_iter: int,
    progress: Progress | None = None,
) -> tuple[SCNNTraining, Outcome]:
    """Train from D and C on subsets of the given sizes, then on all rows.

    A ridge of None is chosen before the first stage. ``tol`` belongs to the training on all rows,
    and ``max_iter`` to each stage. If a callback requests a stop before the last stage, one
    iteration on all rows follows, because all rows need codes. Returns the training on all rows and
    its outcome.
    """
    previous: SCNNTraining | None = None
    order = rng.permutation(rows.shape[0]) if sizes else np.arange(0)
    if sizes and weights.ridge is None:
        weights = replace(weights, ridge=_ridge_from_sample(rows, order, D, weights))
    for n in sizes:
        subset, ends_at = rows.subset(np.sort(order[:n])), stage_tol(n, len(D), tol)
        training = _next_stage(previous, subset, D, C, weights, tol=ends_at)
        outcome = train(training, max_iter=max_iter, tol=ends_at, progress=progress)
        if outcome.reason is Reason.CALLBACK:
            last = _next_stage(training, rows, training.D, training.C, weights, tol=tol)
            outcome = train(last, max_iter=1, tol=tol)
            return last, replace(outcome, reason=Reason.CALLBACK)
        D, C, previous = training.D, training.C, training
    training = _next_stage(previous, rows, D, C, weights, tol=tol)
    outcome = train(training, max_iter=max_iter, tol=tol, progress=progress)
    return training, outcome


def _ridge_from_sample(
    rows: RowSource, order: NDArray[np.intp], D: Array, weights: EnergyWeights
) -> float:
    """Choose the ridge from some of the rows, the first ones in the given order."""
    N, p = rows.shape
    n = n_ridge_rows(p)
    sample = rows.subset(np.sort(order[:n])) if n < N else rows
    return choose_ridge_for(sample, D, weights, N)
