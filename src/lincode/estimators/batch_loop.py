"""The loop over batches: when it stops, and how it continues after an interruption."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lincode.core.calibration import n_calibration_rows
from lincode.core.types import Rows, row_squares
from lincode.estimators.batch_training import BatchTraining
from lincode.estimators.checkpoint import Checkpoint
from lincode.estimators.samples import Samples
from lincode.estimators.stored_state import BatchProgress
from lincode.exceptions import CheckpointError
from lincode.networks.scnn import SCNNTraining, Trained
from lincode.networks.scnn_online import OnlineBatch
from lincode.networks.stopping import BatchStopping
from lincode.networks.training import Callback, Reason
from lincode.rows.batches import BatchRows, RecentRows, n_recent_batches

WINDOW_SAMPLES, ENCODER_WINDOW_SAMPLES = 20_000, 5000
"""The stopping rule averages the energy of small batches over this many samples, without and with
the encoder, or over one pass. The energies of large batches are compared one by one."""
MIN_SAMPLES, MIN_PASSES = 120_000, 3
"""With the encoder, small batches are learned until there were this many samples or passes."""
MAX_ITER_REASON = "max_iter passes over the data were made; increase max_iter or tol"
CONVERGED_REASON = "converged: the energy of new batches no longer decreases"


class BatchSource(Protocol):
    """How many batches and rows there are."""

    def max_batches(self) -> int | None:
        """Return the largest number of batches, or None if it is not known."""

    def rows_per_pass(self) -> float:
        """Return the number of rows of one pass, or infinity if it is not known."""


@dataclass(frozen=True)
class LoopResult:
    """The result of the loop over batches."""

    reason: str
    """Why it stopped"""
    X: Rows
    """The last batch, or the last rows if batches are small; missing entries are NaN"""
    rows: BatchRows
    """The same rows with their codes"""
    trained: Trained


class BatchLoop:
    """The loop over the batches of one call of ``fit`` or ``fit_batches``.

    Parameters
    ----------
    training : BatchTraining
        How a batch is learned.
    rule : BatchStopping
        When training stops.
    checkpoint : Checkpoint
        Where the state is saved.
    seed : int
        The seed of the order of the samples, which is saved with the state.
    progress : BatchProgress or None
        The state to continue from. The batches that it contains are not learned again.
    """

    def __init__(
        self,
        training: BatchTraining,
        rule: BatchStopping,
        checkpoint: Checkpoint,
        seed: int,
        progress: BatchProgress | None,
    ) -> None:
        self.training, self.rule, self.checkpoint, self.seed = training, rule, checkpoint, seed
        if progress is not None:
            training.stream = progress.stream
            training.energy, training.energy_path = progress.energy, progress.energy_path
            vars(rule).update(progress.rule)
        self.n_done = training.stream.n_batches
        self.n_recent = n_calibration_rows(len(training.stream.D))

    def first_batch(self, N: int, batch_size: int) -> int:
        """Return the number of the first batch that ``run`` needs, if a pass has N samples.

        The end of learning small batches needs the last rows before the interruption.
        """
        n_again = n_recent_batches(N, batch_size, self.n_recent) if self.training.online else 0
        return max(0, self.n_done - n_again)

    def run(
        self,
        batches: Iterable[Samples],
        source: BatchSource,
        *,
        first: int = 0,
        on_begin: Callable[[int], None],
        callback: Callback,
    ) -> LoopResult:
        """Learn batches until they end, the stopping rule applies or the callback returns True.

        ``first`` is the number of the first of the batches. ``on_begin`` is called with the number
        of each batch, counted from 1, and ``callback`` after each batch.
        """
        training, recent = self.training, RecentRows(self.n_recent)
        start, reason = time.perf_counter(), MAX_ITER_REASON
        learned: SCNNTraining | OnlineBatch | None = None
        for number, batch in enumerate(batches, first):
            X = batch.X
            if number < self.n_done:
                if training.online:
                    recent.add(X)
                continue
            if number > self.n_done:  # so that there is a batch left to continue with
                self.checkpoint.save_if_due(self._progress)
            on_begin(number + 1)
            learned = training.learn(batch)
            if training.online:
                recent.limit = int(min(recent.limit, source.rows_per_pass()))
                recent.add(X)
            seconds = time.perf_counter() - start
            if callback(training.iteration(X.shape[0], source.max_batches(), seconds)):
                reason = Reason.CALLBACK.value
                break
            energy, scale = training.stream.batch_energy, _mean_square(batch)
            if self.rule.add(X.shape[0], energy, scale, source.rows_per_pass()):
                reason = CONVERGED_REASON
                break
        if learned is None:
            raise CheckpointError(
                f"the batches ended after {number + 1}, but the checkpoint was written after"
                f" {self.n_done} batches; use the same batches to continue, or another"
                " checkpoint_path to start again."
            )
        if isinstance(learned, SCNNTraining):
            return LoopResult(reason, X, *training.batch_result(learned))
        X = recent.rows()
        return LoopResult(reason, X, *training.final_result(X))

    def _progress(self) -> BatchProgress:
        """Return the present state, from which training can continue."""
        return BatchProgress(
            self.training.stream,
            energy=self.training.energy,
            energy_path=self.training.energy_path,
            rule=dict(vars(self.rule)),
            seed=self.seed,
        )


def stopping_rule(
    tol: float, patience: int | None, encoder_weight: float, *, online: bool
) -> BatchStopping:
    """Return the stopping rule for small batches, or for large ones."""
    if not online:
        return BatchStopping(tol, patience, 1)
    if encoder_weight == 0:
        return BatchStopping(tol, patience, WINDOW_SAMPLES)
    return BatchStopping(tol, patience, ENCODER_WINDOW_SAMPLES, MIN_SAMPLES, MIN_PASSES)


def _mean_square(samples: Samples) -> float:
    """Return the mean of the squared entries. Weights are not used if entries are missing."""
    X = samples.X
    if samples.has_missing:
        return float(np.nanmean(np.square(X)))
    per_row = float(np.average(row_squares(X), weights=samples.weights))
    return per_row / int(X.shape[1])
