"""SCNN trained on a stream of batches.

The three steps need the data only through UᵀU, UᵀX, ‖U‖₁ and XᵀX (``core/energy.py``). A batch is
therefore learned by the alternation of ``scnn.py`` on its own rows, with the statistics of all
earlier batches added, including momentum, the check of the energy and the optimality residuals. The
codes of earlier rows are not updated, so their weight may decrease with their age. (Mairal et al.
2010 do this for plain dictionary learning, with one U and one D step per batch.)

The first batch is learned nearly to convergence. A later batch needs only a few iterations. The
memory does not grow with the number of batches. If p is in the tens of thousands, XᵀX of earlier
batches is approximated (``core/stream_gram.py``). The energy of a batch is always measured on its
own rows. If rows are visited again, one update for each of many small batches is faster:
``scnn_online.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lincode.core.calibration import matching_threshold, n_calibration_rows
from lincode.core.encoder_step import Thresholding
from lincode.core.energy import CodeStats, energy, energy_of_rows
from lincode.core.missing_fill import SecondMoments
from lincode.core.missing_step import prediction_error
from lincode.core.stream_gram import StreamGram
from lincode.core.types import Array, Rows, scaled_rows
from lincode.networks.scnn import EnergyWeights, Momentum, SCNNTraining
from lincode.networks.training import train
from lincode.rows.batches import BatchRows
from lincode.rows.memory import dense, dense_blocks, gram, is_wide_stream, sample_indices
from lincode.rows.missing import predict_rows

FIRST_BATCH_TOL, LATER_BATCH_TOL = 1e-3, 1e-2
"""Training on a batch ends when the relative change of the energy is at most this."""
MAX_BATCH_ITERATIONS = 30
"""The largest number of iterations on one batch; two or three are typical."""
HELD_OUT_TOL = 1e-3
"""The tolerance of the codes with which a batch is measured before it is learned."""


@dataclass(frozen=True)
class Stream:
    """The state of a network between two batches."""

    D: Array
    C: Array
    stats: CodeStats | None = None
    """The weighted statistics of all rows seen"""
    XtX: Array | StreamGram | None = None
    """The weighted XᵀX of all rows seen; approximate if p is large"""
    momentum: Momentum | None = None
    """The momentum of the alternation, which is kept between batches"""
    precision: np.dtype[np.floating] | None = None
    """The least precise dtype of any batch"""
    n_batches: int = 0
    n_seen: int = 0
    n_replaced: int = 0
    batch_energy: float = np.nan
    """The energy per row of the last batch before it was learned"""
    ridge: float | None = None
    """The ridge ρ relative to the mean eigenvalue of XᵀX, if it was chosen: from a sample of the
    rows by ``fit``, or from the first batch"""

    def after_batch(self, X: Rows, **changes: Any) -> Stream:
        """Return the state with some changes after one more batch X."""
        return replace(
            self,
            precision=self.least_precision(X),
            n_batches=self.n_batches + 1,
            n_seen=self.n_seen + X.shape[0],
            **changes,
        )

    def least_precision(self, X: Rows) -> np.dtype[np.floating]:
        """Return the least precise dtype of any batch, including X."""
        dtype: np.dtype[np.floating] = X.dtype
        return max(dtype, self.precision or dtype, key=lambda dtype: np.finfo(dtype).eps)

    def learn(
        self,
        X: Rows,
        weights: EnergyWeights,
        *,
        half_life: float,
        n_threads: int,
        row_weights: Array | None = None,
        missing: NDArray[np.bool_] | None = None,
    ) -> tuple[Stream, SCNNTraining]:
        """Return the state after one more batch, and the training on this batch.

        The weight of a row is halved after ``half_life`` further rows. The rows of the batch may
        have weights. If entries are missing, X must contain a prediction of them (``predict``),
        and it is overwritten.
        """
        if weights.ridge is None:
            weights = replace(weights, ridge=self.ridge)
        n = X.shape[0] if row_weights is None else float(row_weights.sum())
        decay = 0.5 ** (n / half_life)
        precision = self.least_precision(X)
        past = None if self.stats is None else self.stats.weighted(decay)
        if past is not None:
            # Atoms with a total weight below half a row count as unused, so that they are replaced.
            past = past.without(np.flatnonzero(past.used < 0.5 * n / X.shape[0]))
        XtX = self.gram_before(X, decay, row_weights)
        wide = isinstance(self.XtX, StreamGram)
        rows = BatchRows(
            X,
            len(self.D),
            past,
            XtX,
            precision=precision,
            n_threads=n_threads,
            past_XtX=None if wide or self.XtX is None else decay * self.XtX,
            weights=row_weights,
            missing=missing,
        )
        self._set_initial_codes(rows, weights)
        tol = FIRST_BATCH_TOL if past is None or not past.used.any() else LATER_BATCH_TOL
        training = SCNNTraining(rows, self.D, self.C, weights, tol=tol, precision=precision)
        if self.momentum is not None:
            training.momentum = self.momentum
        training.update_codes(training.D, training.C, tol=HELD_OUT_TOL)
        if rows.has_missing:
            training.update_missing()
        eta = weights.eta
        batch_energy = _energy_of_batch(rows, training.D, training.C, weights)
        per_row = training.factor.ridge / training.n * float(np.sum(training.C**2))
        batch_energy += n * eta / len(self.D) * per_row
        train(training, max_iter=MAX_BATCH_ITERATIONS, tol=tol)
        stream = self.after_batch(
            X,
            D=training.D,
            C=training.C,
            stats=replace(training.stats, prediction_error=0.0),  # it concerns this batch only
            XtX=gram_after(rows.XtX, scaled_rows(rows.X, row_weights), len(self.D)),
            momentum=training.momentum,
            n_replaced=self.n_replaced + training.n_replaced,
            batch_energy=float(batch_energy) / n,
            ridge=training.ridge,
        )
        return stream, training

    def predict(self, X: Array, missing: NDArray[np.bool_]) -> None:
        """Overwrite the missing entries of X by a linear prediction from all rows seen so far."""
        assert self.XtX is not None
        if isinstance(self.XtX, StreamGram):
            moments = SecondMoments.of_factor(self.XtX.B)
        else:
            moments = SecondMoments(self.XtX, is_factor=False)
        predict_rows(X, missing, moments)

    def gram_before(
        self, X: Rows, decay: float, row_weights: Array | None = None
    ) -> Array | StreamGram:
        """Return the weighted XᵀX: with this batch, or without it if the data are wide."""
        p, past = X.shape[1], self.XtX
        if past is None and is_wide_stream(p):
            past = StreamGram.empty(p)
        if isinstance(past, StreamGram):
            return past.weighted(decay)
        return gram(X, weights=row_weights) + (0.0 if past is None else decay * past)

    def _set_initial_codes(self, rows: BatchRows, weights: EnergyWeights) -> None:
        """Set the codes to those of the encoder, with the density of the codes seen so far."""
        if self.stats is None or not self.C.any():
            return  # they are zero
        density = float(self.stats.used.mean()) / self.stats.n
        sample = rows.take(sample_indices(rows.shape[0], n_calibration_rows(len(self.C))))
        Z = np.asarray(sample @ self.C.astype(rows.dtype).T)
        threshold = matching_threshold(Z, density, positive=weights.positive)
        rows.set_codes(self.C, Thresholding("soft", threshold, positive=weights.positive))


def gram_after(before: Array | StreamGram, X: Rows, m: int) -> Array | StreamGram:
    """Return the weighted XᵀX with the batch X, from the result of ``Stream.gram_before``."""
    return before.updated(X, m) if isinstance(before, StreamGram) else before


def _energy_of_batch(rows: BatchRows, D: Array, C: Array, weights: EnergyWeights) -> float:
    """Return the energy of the rows of a batch, without the ridge."""
    lam, eta, p = weights.lam, weights.eta, D.shape[1]
    if rows.weights is None and rows.prediction is None:
        return energy_of_rows(rows.X, rows.U, D, C, lam, eta)
    total = 0.0
    for block in dense_blocks(rows.X):
        w, f = (None if a is None else a[block] for a in (rows.weights, rows.penalties))
        X = dense(rows.X[block])
        total += energy(X, rows.U[block], D, C, lam, eta, weights=w, penalties=f)
        if rows.prediction is not None:
            total += prediction_error(X, rows.prediction[block], w) / p
    return total
