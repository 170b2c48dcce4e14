"""Batches of a stream: one batch with the sums of the earlier ones, and the last rows seen."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.sparse

from lincode.core.encoder_step import EncoderFactor, factor_gram
from lincode.core.energy import CodeStats
from lincode.core.stream_gram import StreamGram
from lincode.core.types import Array, Rows
from lincode.rows.memory import MemoryRows
from lincode.rows.required_memory import check_training_memory
from lincode.rows.threads import ordered_map


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
    XtX : array of shape (p, p) or StreamGram
        The sum of XᵀX over earlier batches and this one; of wide data, the approximate sum over
        earlier batches.
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
        XtX: Array | StreamGram,
        *,
        precision: object,
        n_threads: int,
    ) -> None:
        self.past, self.XtX, self.precision = past, XtX, precision
        super().__init__(X, m, n_threads=n_threads)

    def _check_memory(self, m: int) -> None:
        iterative, (N, p) = isinstance(self.XtX, StreamGram), self.shape
        check_training_memory(N, p, m, self.dtype, iterative=iterative, n_threads=self.n_threads)

    def _compute_factor(self) -> EncoderFactor:
        if isinstance(self.XtX, StreamGram):
            threads = partial(ordered_map, n_threads=self.n_threads)
            return self.XtX.factor_with(self.X, self.precision, threads)  # type: ignore[arg-type]
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
