"""SCNN from a stream of batches: the same steps, with the past as a sum of small matrices.

The three steps see the data only through UᵀU, UᵀX, Σ|U| and XᵀX (``core/stats.py``). So a batch is
learned by the very alternation of ``scnn.py`` on its own rows, with the statistics of all
earlier batches added to theirs: momentum, guard and certificates included. Their codes stay as
they were when they were seen, so older rows may be made to count less. (Mairal et al. 2010 do
so for plain dictionary learning, with one U and one D step a batch.)

The first batch is learned until the network stands; a later one, that finds it nearly
right, in the few iterations that are worth it. Nothing grows with the stream.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lincode.core.encoder_step import (
    encode,
    factor_gram,
    gram_of_columns,
    matching_threshold,
)
from lincode.core.energy import energy
from lincode.core.stats import CodeStats
from lincode.core.types import Array, Rows
from lincode.networks._alternate import alternate
from lincode.networks.scnn import Momentum, SCNNTraining, Weights
from lincode.rows.batch import BatchRows

FIRST_TOL, LATER_TOL = 1e-3, 1e-2
"""A batch is left when an iteration changes the energy, past included, by at most this share."""
BATCH_ITERATIONS = 30
"""Most iterations on one batch. Two or three are usual, more where the data have changed."""
HELD_OUT_TOL = 1e-3
"""Optimality residual of the codes by which a batch is measured before it is learned."""


@dataclass(frozen=True)
class Stream:
    """A network that learns from batches, between two of them."""

    D: Array
    C: Array
    stats: CodeStats | None = None
    """Of all rows seen, older ones counting less if they are to be forgotten"""
    XtX: Array | None = None
    momentum: Momentum | None = None
    """Of the alternation, carried from batch to batch"""
    precision: np.dtype[np.floating] | None = None
    """The coarsest dtype of any batch"""
    n_batches: int = 0
    n_seen: int = 0
    n_revived: int = 0
    batch_energy: float = np.nan
    """Energy per row of the last batch before it was learned: an honest estimate"""

    def after(self, X: Rows, weights: Weights, *, half_life: float, n_threads: int) -> Stream:
        """The network after one more batch; a row counts half after ``half_life`` further rows."""
        n = X.shape[0]
        kept = 0.5 ** (n / half_life)
        precision = max(X.dtype, self.precision or X.dtype, key=lambda dtype: np.finfo(dtype).eps)
        past = None if self.stats is None else self.stats.weighted(kept)
        if past is not None:  # what less than a row is left of is forgotten, so that it can revive
            past = past.without(np.flatnonzero(past.used < 1))
        XtX = gram_of_columns(X) + (0.0 if self.XtX is None else kept * self.XtX)
        rows = BatchRows(X, self._first_codes(X, weights), past, n_threads=n_threads)
        tol = FIRST_TOL if past is None or not past.used.any() else LATER_TOL
        factor = factor_gram(XtX, precision)
        training = SCNNTraining(rows, self.D, self.C, weights, factor, tol=tol, precision=precision)
        if self.momentum is not None:
            training.momentum = self.momentum
        training.solve_codes(training.D, training.C, tol=HELD_OUT_TOL)
        held_out = energy(X, rows.U, training.D, training.C, weights.lam, weights.eta) / n
        alternate(training, max_iter=BATCH_ITERATIONS, tol=tol)
        return replace(
            self,
            D=training.D, C=training.C, stats=training.stats, XtX=XtX,
            momentum=training.momentum,
            precision=precision, n_batches=self.n_batches + 1, n_seen=self.n_seen + n,
            n_revived=self.n_revived + training.n_revived, batch_energy=held_out,
        )  # fmt: skip

    def _first_codes(self, X: Rows, weights: Weights) -> Array:
        """The encoder's codes, as sparse as those seen so far: from these the batch is solved."""
        if self.stats is None or not self.C.any():
            return np.zeros((X.shape[0], len(self.D)), dtype=X.dtype)
        C, density = self.C.astype(X.dtype), float(self.stats.used.mean()) / self.stats.n
        threshold = matching_threshold(X, C, density, positive=weights.positive)
        return encode(X, C, threshold, positive=weights.positive)
