"""Training on batches: the state between two batches, and how one batch is learned."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

import numpy as np

from lincode.core.types import Array, Rows
from lincode.estimators.samples import Samples
from lincode.networks.scnn import EnergyWeights, SCNNTraining, Trained, n_ridge_rows
from lincode.networks.scnn_minibatch import Stream
from lincode.networks.scnn_online import (
    OnlineBatch,
    batch_training,
    final_training,
    learn_online,
    with_ridge,
)
from lincode.networks.training import Iteration
from lincode.rows.batches import BatchRows
from lincode.rows.memory import sample_indices
from lincode.rows.threads import blas_threads, matrix_threads

MAX_SMOOTHING, SMOOTHING_ROWS = 0.5, 5000
"""The weight of the newest batch in the smoothed energy is its number of samples divided by 5000,
at most 0.5, but at least that of the other batches."""


@dataclass
class BatchTraining:
    """The training of MiniBatchSCNN. Each batch updates the state of the network and the energies.

    There are two ways to learn a batch: by one update (``networks/scnn_online.py``), or by several
    iterations (``networks/scnn_minibatch.py``).
    """

    stream: Stream
    """The state of the network"""
    weights: EnergyWeights
    online: bool
    """Whether a batch is learned by one update"""
    batch_size: int
    """A larger batch is learned in parts of this size, if ``online``"""
    half_life: float | None
    """The weight of a sample is halved after this many further samples. None is possible only if
    ``online``; see ``learn_online``."""
    n_threads: int
    energy: float = 0.0
    """The smoothed energy per sample"""
    energy_path: Array = field(default_factory=lambda: np.empty(0))
    """The energy per sample of each batch before it was learned"""
    eigenvalue_ratio: float = 1.0
    """The mean eigenvalue of XᵀX relative to the mean of its diagonal; see ``with_ridge``"""

    def blas_threads(self) -> AbstractContextManager[None]:
        """Return a context that limits the threads of the BLAS library."""
        n_threads = matrix_threads(max(self.stream.D.shape), self.n_threads)
        limit: AbstractContextManager[None] = blas_threads(n_threads)
        return limit

    def choose_ridge(self, X: Rows, N: float) -> None:
        """Choose an automatic ridge from some of the rows X, which represent N rows.

        This is needed before batches are learned by one update each. Otherwise the ridge is chosen
        from the first batch or, without the encoder term, when the encoder is fitted.
        """
        if not self.online or self.weights.eta == 0:
            return
        rows, p = X.shape
        sample = X if rows <= n_ridge_rows(p) else X[sample_indices(rows, n_ridge_rows(p))]
        with self.blas_threads():
            self.stream, self.eigenvalue_ratio = with_ridge(
                self.stream, sample, self.weights, N, n_threads=self.n_threads
            )

    def learn(self, samples: Samples, *, keep_gram: bool = False) -> SCNNTraining | OnlineBatch:
        """Learn one batch; return it with its codes.

        ``keep_gram`` says whether ``batch_result`` will be called for this batch.
        """
        learned: SCNNTraining | OnlineBatch
        if self.online:
            self.stream, learned = learn_online(
                self.stream,
                samples.X,
                self._online_weights(),
                batch_size=self.batch_size,
                half_life=self.half_life,
                n_threads=self.n_threads,
                keep_gram=keep_gram,
            )
        else:
            learned = self._learn_by_iterations(samples)
        self._add_energy(samples.X.shape[0])
        return learned

    def _online_weights(self) -> EnergyWeights:
        """Return the weights with a ridge that is relative to the mean of the diagonal of XᵀX."""
        ridge = self.stream.ridge if self.weights.ridge is None else self.weights.ridge
        if ridge is None:
            return self.weights
        return replace(self.weights, ridge=self.eigenvalue_ratio * ridge)

    def _learn_by_iterations(self, samples: Samples) -> SCNNTraining:
        X, missing = samples.X, None
        if samples.has_missing and self.stream.XtX is None:
            X, missing = samples.filled()
        elif samples.has_missing:
            X, missing = np.array(X, order="C"), np.isnan(X)
            self.stream.predict(X, missing)
        assert self.half_life is not None
        self.stream, training = self.stream.learn(
            X,
            self.weights,
            half_life=self.half_life,
            n_threads=self.n_threads,
            row_weights=samples.weights,
            missing=missing,
        )
        return training

    def _add_energy(self, n: int) -> None:
        """Add the energy of a batch of n samples, which was learned, to the energies."""
        n_batches, energy = self.stream.n_batches, self.stream.batch_energy
        smoothed = energy
        # The first batch is measured with an untrained network and does not enter the average.
        if n_batches > 2:
            weight = max(min(MAX_SMOOTHING, n / SMOOTHING_ROWS), 1 / (n_batches - 1))
            smoothed = self.energy + weight * (energy - self.energy)
        self.energy, self.energy_path = float(smoothed), np.append(self.energy_path, energy)

    def iteration(self, n: int, n_batches: int | None, seconds: float) -> Iteration:
        """Return the last batch, of n samples, as an iteration.

        ``n_batches`` is the largest number of batches, or None if it is not known.
        """
        energy = float(self.energy_path[-1])
        previous = float(self.energy_path[-2]) if len(self.energy_path) > 1 else math.nan
        change = abs(previous - energy) / previous if previous > 0 else 1.0
        return Iteration(self.stream.n_batches, n_batches, energy, change, seconds, n, "batch")

    def batch_result(self, learned: SCNNTraining | OnlineBatch) -> tuple[BatchRows, Trained]:
        """Return the rows of the last batch and the network, whose encoder is fitted if needed."""
        if isinstance(learned, SCNNTraining):
            assert isinstance(learned.rows, BatchRows)
            return learned.rows, learned.result()
        self.stream, rows, trained = batch_training(
            self.stream, learned, self.weights, n_threads=self.n_threads
        )
        return rows, trained

    def final_result(self, X: Rows) -> tuple[BatchRows, Trained]:
        """Return rows X and the network, whose encoder is fitted to their codes."""
        self.stream, rows, trained = final_training(
            self.stream, X, self.weights, n_threads=self.n_threads
        )
        return rows, trained
