"""Batches of a stream: one batch with the sums of the earlier ones, and the last rows seen."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from lincode.core.encoder_step import EncoderFactor, factor_gram
from lincode.core.energy import CodeStats
from lincode.core.stream_gram import StreamGram
from lincode.core.types import Array, Rows, scaled_rows
from lincode.rows.memory import MemoryRows, dense, gram
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
        XtX: Array | StreamGram,
        *,
        precision: object,
        n_threads: int,
        past_XtX: Array | None = None,
        weights: Array | None = None,
        missing: NDArray[np.bool_] | None = None,
    ) -> None:
        self.past, self.XtX, self.precision = past, XtX, precision
        self.past_XtX = past_XtX
        super().__init__(X, m, n_threads=n_threads, weights=weights, missing=missing)

    def _check_memory(self, m: int) -> None:
        iterative, (N, p) = isinstance(self.XtX, StreamGram), self.shape
        check_training_memory(N, p, m, self.dtype, iterative=iterative, n_threads=self.n_threads)

    def _compute_factor(self) -> EncoderFactor:
        if isinstance(self.XtX, StreamGram):
            threads = partial(ordered_map, n_threads=self.n_threads)
            X = scaled_rows(self.X, self.weights)
            return self.XtX.factor_with(X, self.precision, threads)  # type: ignore[arg-type]
        if self.missing is not None:  # the entries may have changed
            past = 0.0 if self.past_XtX is None else self.past_XtX
            self.XtX = gram(self.X, weights=self.weights) + past
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
        """Return the rows as one CSR matrix, or as one array if any batch is an array."""
        if all(scipy.sparse.issparse(batch) for batch in self.batches):
            return scipy.sparse.vstack(list(self.batches), format="csr")
        return np.concatenate([dense(batch) for batch in self.batches])


def n_recent_batches(N: int, batch_size: int, limit: int) -> int:
    """Return how many batches of N rows fill ``RecentRows`` with the given limit."""
    n_batches = -(-N // batch_size)
    return -(-limit // max(N // n_batches, 1)) + 1
