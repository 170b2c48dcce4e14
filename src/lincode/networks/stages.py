"""SCNN trained on growing subsets of the rows.

The first iterations change D and C most, and a sample of the rows shows how nearly as well as all
rows do. Training therefore starts on a small random subset, continues on subsets that are four
times as large, and ends on all rows. Each stage starts from D, C and the momentum of the one before
and, in the last stage, only a few iterations remain. The subsets are nested, and they are chosen by
the indices of the rows, so that the result does not depend on where the rows are stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from lincode.core.calibration import matching_threshold
from lincode.core.encoder_step import Thresholding, encoder_step
from lincode.core.types import Array
from lincode.networks.scnn import (
    ROUNDING_TOL,
    EnergyWeights,
    Momentum,
    SCNNTraining,
    choose_ridge_for,
    n_ridge_rows,
)
from lincode.networks.training import Callback, Outcome, Reason, train
from lincode.rows.memory import sample_indices
from lincode.rows.protocol import RowSource

ROWS_PER_UNIT, MIN_ROWS = 10, 1000
"""The first subset has max(1000, 10 m) rows, unless its size is given."""
MIN_TOTAL_ROWS = 10_000
"""With fewer rows in total, subsets save little time and are only used if their size is given."""
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
MAX_RESTORING_ROUNDS = 100
"""How often codes and missing entries are solved to continue training; one or two are typical."""
THRESHOLD_ROWS = 2000
"""The number of rows from which the threshold of the initial codes is computed."""


def subset_sizes(N: int, p: int, m: int, first: int | None = None) -> list[int]:
    """Return the sizes of the subsets for N rows and m units, without the last stage of N rows."""
    size = max(MIN_ROWS, ROWS_PER_UNIT * m) if first is None else first
    sizes: list[int] = []
    if first is None and N < MIN_TOTAL_ROWS:
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


@dataclass(frozen=True)
class Progress:
    """The state of the training on all rows after an iteration, except for the codes."""

    D: Array
    C: Array
    momentum: Momentum
    energy_path: Array
    """The energy of all rows at the start and after each iteration"""
    ridge: float
    step_tol: float
    max_step_tol: float
    n_replaced: int

    @property
    def done(self) -> str:
        """What has been done, for messages."""
        n = len(self.energy_path) - 1
        return f"{n} iteration{'' if n == 1 else 's'}"

    @classmethod
    def of(cls, training: SCNNTraining, energy_path: list[float]) -> Progress:
        """Return the present state of the training."""
        return cls(
            training.D,
            training.C,
            training.momentum,
            np.array(energy_path),
            training.ridge,
            training.step_tol,
            training.max_step_tol,
            training.n_replaced,
        )


def _continue_from(
    progress: Progress, rows: RowSource, weights: EnergyWeights, *, tol: float
) -> SCNNTraining:
    """Return the training in a state that was reached before, with codes that are solved again.

    They, and missing entries, are solved until the energy is not above that of the state. Those
    that belonged to it were not optimal for its D and C, so this is possible, except for rounding.
    """
    D, C = progress.D, progress.C
    training = SCNNTraining(rows, D, C, replace(weights, ridge=progress.ridge), tol=tol)
    step_tol = progress.step_tol
    for _ in range(MAX_RESTORING_ROUNDS):
        training.update_codes(D, C, tol=step_tol)
        if rows.has_missing:
            training.update_missing()
        if training.energy() <= progress.energy_path[-1]:
            break
        step_tol = max(step_tol / 10, ROUNDING_TOL)
    training.momentum, training.n_replaced = progress.momentum, progress.n_replaced
    training.step_tol, training.max_step_tol = progress.step_tol, progress.max_step_tol
    return training


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
    callback: Callback | None = None,
    on_begin: Callable[[int], None] | None = None,
    progress: Progress | None = None,
    on_progress: Callable[[Callable[[], Progress]], None] | None = None,
) -> tuple[SCNNTraining, Outcome]:
    """Train from D and C on subsets of the given sizes, then on all rows.

    Parameters
    ----------
    rows : RowSource
        All rows. Their codes are set here, unless ``sizes`` is empty.
    D, C : array of shape (m, p)
        The initial dictionary and encoder.
    weights : EnergyWeights
        The parameters of the energy. A ridge of None is chosen before the first stage.
    sizes : list of int
        The numbers of rows of the subsets.
    rng : RandomState
        The source of the random subsets.
    tol : float
        The relative change of the energy at which training on all rows ends.
    max_iter : int
        The largest number of iterations of each stage.
    callback : callable, default=None
        It receives the iterations of all stages. If it requests a stop before the last stage, one
        iteration on all rows follows, because all rows need codes.
    on_begin : callable, default=None
        It is called before each iteration, with its number in its stage.
    progress : Progress, default=None
        The state from which training on all rows continues. D, C and ``sizes`` are then ignored.
    on_progress : callable, default=None
        It is called after each iteration over all rows but the last possible one, with a function
        that returns the present state.

    Returns
    -------
    training : SCNNTraining
        The training on all rows.
    outcome : Outcome
        The course of the training on all rows.
    """
    started = time.perf_counter()
    run = partial(train, callback=callback, on_begin=on_begin, started=started)
    previous: SCNNTraining | None = None
    if progress is not None:
        training, sizes = _continue_from(progress, rows, weights, tol=tol), []
    order = rng.permutation(rows.shape[0]) if sizes else np.arange(0)
    if sizes and weights.ridge is None:
        weights = replace(weights, ridge=_ridge_from_sample(rows, order, D, weights))
    for n in sizes:
        subset, ends_at = rows.subset(np.sort(order[:n])), stage_tol(n, len(D), tol)
        training = _next_stage(previous, subset, D, C, weights, tol=ends_at)
        outcome = run(training, max_iter=max_iter, tol=ends_at)
        if outcome.reason is Reason.CALLBACK:
            last = _next_stage(training, rows, training.D, training.C, weights, tol=tol)
            outcome = train(last, max_iter=1, tol=tol)
            return last, replace(outcome, reason=Reason.CALLBACK)
        D, C, previous = training.D, training.C, training
    if progress is None:
        training = _next_stage(previous, rows, D, C, weights, tol=tol)

    def on_continue(energy_path: list[float]) -> None:
        if on_progress is not None:
            on_progress(partial(Progress.of, training, energy_path))

    earlier: list[float] = [] if progress is None else progress.energy_path.tolist()
    if earlier:  # the codes may be worse by rounding errors
        earlier[-1] = max(earlier[-1], training.energy())
    outcome = run(training, max_iter=max_iter, tol=tol, earlier=earlier, on_continue=on_continue)
    return training, outcome


def _ridge_from_sample(
    rows: RowSource, order: NDArray[np.intp], D: Array, weights: EnergyWeights
) -> float:
    """Choose the ridge from some of the rows, the first ones in the given order."""
    N, p = rows.shape
    total = float(N if rows.weights is None else rows.weights.sum())
    n = n_ridge_rows(p)
    sample = rows.subset(np.sort(order[:n])) if n < N else rows
    return choose_ridge_for(sample, D, weights, total)
