"""One batch of a stream: the earlier batches are represented by the sums of their statistics."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lincode.core.encoder_step import EncoderFactor, factor_gram
from lincode.core.energy import CodeStats
from lincode.core.types import Array, Rows
from lincode.rows.memory import MemoryRows, gram


class BatchRows(MemoryRows):
    """The rows of one batch. The statistics of earlier batches are added to every sum.

    Parameters
    ----------
    X : array or CSR matrix of shape (N, p)
        The rows of the batch.
    m : int
        The number of units.
    past : CodeStats or None
        The statistics of earlier batches.
    XtX : array of shape (p, p)
        The sum of XᵀX over earlier batches and this one.
    precision : dtype
        The least precise dtype of any batch.
    n_threads : int
        The number of threads.
    past_XtX : array of shape (p, p), default=None
        The sum of XᵀX over earlier batches. It is needed only if entries of X are missing.
    weights, missing : arrays, default=None
        The weights of the rows, and which entries are missing; see ``MemoryRows``.
    """

    def __init__(
        self,
        X: Rows,
        m: int,
        past: CodeStats | None,
        XtX: Array,
        *,
        precision: object,
        n_threads: int,
        past_XtX: Array | None = None,
        weights: Array | None = None,
        missing: NDArray[np.bool_] | None = None,
    ) -> None:
        super().__init__(X, m, n_threads=n_threads, weights=weights, missing=missing)
        self.past, self.XtX, self.precision = past, XtX, precision
        self.past_XtX = past_XtX

    def _compute_factor(self) -> EncoderFactor:
        if self.missing is not None:  # the entries may have changed
            past = 0.0 if self.past_XtX is None else self.past_XtX
            self.XtX = gram(self.X, weights=self.weights) + past
        return factor_gram(self.XtX, self.precision)  # type: ignore[arg-type]

    def _sum(self, stats_of: Callable[[slice], CodeStats]) -> CodeStats:
        present = super()._sum(stats_of)
        return present if self.past is None else present + self.past
