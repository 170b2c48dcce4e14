"""Batches of a stream: one batch with the sums of the earlier ones, and the last rows seen."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
import scipy.sparse

from lincode.core.encoder_step import EncoderFactor, factor_gram
from lincode.core.energy import CodeStats
from lincode.core.types import Array, Rows
from lincode.rows.memory import MemoryRows


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
    ) -> None:
        super().__init__(X, m, n_threads=n_threads)
        self.past, self.XtX, self.precision = past, XtX, precision

    def _compute_factor(self) -> EncoderFactor:
        return factor_gram(self.XtX, self.precision)  # type: ignore[arg-type]

    def _sum(self, stats_of: Callable[[slice], CodeStats]) -> CodeStats:
        present = super()._sum(stats_of)
        return present if self.past is None else present + self.past


class RecentRows:
    """The last batches of a stream, with about ``limit`` rows."""

    def __init__(self, limit: int) -> None:
        self.limit, self.batches, self.n = limit, deque[Rows](), 0

    def add(self, X: Rows) -> None:
        """Add a batch, and forget the oldest ones that are not needed."""
        self.batches.append(X)
        self.n += X.shape[0]
        while self.n - self.batches[0].shape[0] >= self.limit:
            self.n -= self.batches.popleft().shape[0]

    def rows(self) -> Rows:
        """Return the rows as one array or CSR matrix."""
        if scipy.sparse.issparse(self.batches[0]):
            return scipy.sparse.vstack(list(self.batches), format="csr")
        return np.concatenate(list(self.batches))
