"""Rows in one array (in memory, memory-mapped or CSR), processed in blocks by threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from operator import add

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from lincode.core.code_step import CodeProblem, code_step
from lincode.core.encoder_step import (
    DirectFactor,
    EncoderFactor,
    Thresholding,
    encode,
    factor_gram,
    factor_transposed,
)
from lincode.core.energy import CodeStats
from lincode.core.iterative_factor import IterativeFactor
from lincode.core.types import Array, Rows, row_squares
from lincode.rows.protocol import RowLengths
from lincode.rows.required_memory import check_training_memory, direct_factor_bytes
from lincode.rows.threads import ordered_map

DENSE_ENTRIES = 2_000_000
"""The maximum number of entries of X that are converted to a dense array at a time."""
SCAN_ENTRIES = 200_000
"""The number of entries of X that are checked and measured together, so that they stay in cache."""
BLOCK_ENTRIES = 500_000
"""The maximum number of codes (rows times units) solved together, so that they fit in the cache."""
MIN_THREAD_ENTRIES = 100_000
"""The minimum number of codes for which a separate thread is faster."""
MAX_DIRECT_BYTES = 2**31
"""If the factorisation of XᵀX would need more memory, the C step is iterative. The limit is fixed,
so that the result does not depend on the machine."""
MAX_SPARSE_DIRECT, MAX_SPARSE_BYTES = 2048, 2**29
"""The largest smaller dimension of sparse rows, and the largest memory, for which XᵀX is
factored."""
CHUNK_ROWS = 2048
"""The number of rows whose statistics are computed by one matrix product."""


def blocks(n: int, size: int) -> list[slice]:
    """Return consecutive slices of at most ``size`` that cover range(n)."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def dense_blocks(X: Rows) -> list[slice]:
    """Return blocks of rows that are small enough to be converted to dense arrays."""
    N, p = X.shape
    return blocks(N, max(1, DENSE_ENTRIES // p))


def dense(X: Rows) -> Array:
    """Return a block of rows as a dense array. Do not use it on the whole of X."""
    return np.asarray(X.toarray() if scipy.sparse.issparse(X) else X)


def code_blocks(n: int, m: int) -> list[slice]:
    """Return the blocks in which the codes of n rows are solved."""
    return blocks(n, max(MIN_THREAD_ENTRIES // m, min(BLOCK_ENTRIES // m, -(-n // 8)), 16))


def chunks(N: int, m: int) -> list[slice]:
    """Return the partition of N rows that determines the order of every sum.

    It depends on N and m only, so results do not depend on the number of threads. There are at
    least eight chunks if each of them is large enough for a thread.
    """
    return blocks(N, max(MIN_THREAD_ENTRIES // m, min(CHUNK_ROWS, -(-N // 8)), 16))


def sample_indices(N: int, n: int) -> NDArray[np.intp]:
    """Return at most n indices of range(N), in increasing order, always the same ones.

    They are random, because evenly spaced rows of periodic data may all be of one kind.
    """
    if n >= N:
        return np.arange(N)
    return np.sort(np.random.RandomState(0).permutation(N)[:n])


def scan_rows(X: Rows) -> tuple[float, RowLengths]:
    """Return the largest absolute value of X, and its row lengths, in one pass over the rows.

    The values are not finite if X is not, or if the squares of its entries overflow.
    """
    N, p = X.shape
    largest, longest, total = 0.0, 0.0, 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in blocks(N, max(1, SCAN_ENTRIES // p)):
            block = X[rows]
            values = block.data if scipy.sparse.issparse(block) else block
            if not values.size:
                continue
            # The maximum of Python ignores NaN, so the order of the arguments matters.
            largest = max(float(np.maximum(values.max(), -values.min())), largest)
            lengths = np.sqrt(row_squares(block))
            longest = max(float(lengths.max()), longest)
            total += float(lengths.sum())
    if not np.isfinite(total):
        longest = total
    return largest, RowLengths(longest, total / N)


def gram(X: Rows, rows_per_block: int = 4096) -> Array:
    """Compute XᵀX (p, p) in float64."""
    if scipy.sparse.issparse(X):
        X = X.astype(np.float64)
        return np.asarray((X.T @ X).toarray())
    XtX = np.zeros((X.shape[1], X.shape[1]))
    for rows in blocks(X.shape[0], rows_per_block):
        block = np.asarray(X[rows], dtype=np.float64)
        XtX += block.T @ block
    return XtX


def factor_rows(X: Rows, n_threads: int = 1) -> EncoderFactor:
    """Return the factor of XᵀX: direct if that is possible and not too slow, or iterative."""
    if needs_iterative_factor(X):
        return IterativeFactor.of(X, partial(ordered_map, n_threads=n_threads))
    return direct_factor(X)


def direct_factor(X: Rows) -> DirectFactor:
    """Factor XᵀX in float64 through the smaller of its two dimensions."""
    N, p = X.shape
    if p <= N:
        return factor_gram(gram(X), X.dtype)
    return factor_transposed(np.array(dense(X).T, dtype=np.float64, order="F"), X.dtype)


def needs_iterative_factor(X: Rows) -> bool:
    """Return whether XᵀX is too large to be factored. It depends on the shape and kind of X only.

    The result must not depend on the machine, so the free memory does not matter. Products with
    sparse rows are cheap, so that the iterative factor is faster for them in smaller dimensions.
    """
    N, p = X.shape
    size = direct_factor_bytes(N, p)
    if scipy.sparse.issparse(X) and (min(N, p) > MAX_SPARSE_DIRECT or size > MAX_SPARSE_BYTES):
        return True
    return size > MAX_DIRECT_BYTES


def is_wide_stream(p: int) -> bool:
    """Return whether XᵀX of a stream of batches with p features is too large."""
    return direct_factor_bytes(p, p) > MAX_DIRECT_BYTES


class MemoryRows:
    """The row source of an array X (N, p). The codes U (N, m) are updated in place.

    Parameters
    ----------
    X : array or CSR matrix of shape (N, p)
        The rows.
    m : int
        The number of units. The codes are zero at first.
    n_threads : int
        The number of threads.
    lengths : RowLengths, default=None
        The row lengths, if they are known already.
    """

    def __init__(
        self, X: Rows, m: int, *, n_threads: int, lengths: RowLengths | None = None
    ) -> None:
        self.X, self.n_threads = X, n_threads
        self._check_memory(m)
        self.U: Array = np.zeros((X.shape[0], m), dtype=X.dtype)
        self._lengths = lengths
        self._factor: EncoderFactor | None = None

    def _check_memory(self, m: int) -> None:
        """Raise an error if the memory is not sufficient for training."""
        check_training_memory(
            *self.shape,
            m,
            self.dtype,
            iterative=needs_iterative_factor(self.X),
            n_threads=self.n_threads,
        )

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (N, p) of X."""
        N, p = self.X.shape
        return N, p

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The dtype of X."""
        dtype: np.dtype[np.floating] = self.X.dtype
        return dtype

    def row_lengths(self) -> RowLengths:
        """Return the length of the longest row and the mean length."""
        if self._lengths is None:
            _, self._lengths = scan_rows(self.X)
        return self._lengths

    def factor(self) -> EncoderFactor:
        """Return the factorisation of XᵀX, which is computed once."""
        if self._factor is None:
            self._factor = self._compute_factor()
        return self._factor

    def _compute_factor(self) -> EncoderFactor:
        return factor_rows(self.X, self.n_threads)

    def take(self, indices: NDArray[np.intp]) -> Rows:
        """Return the rows with the given indices, in that order."""
        return self.X[indices]

    def take_codes(self, indices: NDArray[np.intp]) -> Array:
        """Return the present codes of the rows with the given indices."""
        return self.U[indices]

    def subset(self, indices: NDArray[np.intp]) -> MemoryRows:
        """Return a row source of a copy of the rows with the given indices; its codes are zero."""
        return MemoryRows(self.X[indices], self.U.shape[1], n_threads=self.n_threads)

    def set_codes(self, C: Array, thresholding: Thresholding) -> None:
        """Set the codes to those of the encoder C."""
        if not C.any():
            self.U[...] = 0
            return
        C = C.astype(self.dtype)
        for rows in chunks(*self.U.shape):
            encode(self.X[rows], C, thresholding, out=self.U[rows])

    def save_codes(self) -> Array:
        """Return a copy of the present codes for ``restore_codes``."""
        return self.U.copy()

    def restore_codes(self, saved: object) -> None:
        """Set the codes to those that ``save_codes`` returned."""
        self.U[...] = np.asarray(saved)

    def stats(self) -> CodeStats:
        """Return the statistics of the present codes."""
        return self._sum(lambda rows: CodeStats.of(self.U[rows], self.X[rows]))

    def update_codes(self, problem: CodeProblem, *, tol: float, max_iter: int) -> CodeStats:
        """Do the U step for all rows and return the statistics of the new codes."""

        def update(rows: slice) -> CodeStats:
            X, U, residual = self.X[rows], self.U[rows], 0.0
            for block in blocks(len(U), max(16, BLOCK_ENTRIES // U.shape[1])):
                codes = code_step(U[block], X[block], problem, tol=tol, max_iter=max_iter)
                U[block], residual = codes.U, max(residual, codes.residual)
            return CodeStats.of(U, X, residual)

        return self._sum(update)

    def code_residual(self, problem: CodeProblem) -> float:
        """Return the largest optimality residual of the present codes."""

        def residual(rows: slice) -> float:
            return code_step(self.U[rows], self.X[rows], problem, tol=0.0, max_iter=0).residual

        return max(ordered_map(residual, code_blocks(*self.U.shape), self.n_threads))

    def largest_residuals(self, D: Array, k: int) -> Array:
        """Return X − U D for the (at most) k rows where it is longest, the longest first."""
        if scipy.sparse.issparse(self.X):
            return self._largest_sparse_residuals(D, k)
        D = D.astype(self.dtype)

        def largest(rows: slice) -> Array:
            return _longest_rows(dense(self.X[rows]) - self.U[rows] @ D, k)

        parts = ordered_map(largest, dense_blocks(self.X), self.n_threads)
        return reduce(lambda a, b: _longest_rows(np.vstack([a, b]), k), parts)

    def _largest_sparse_residuals(self, D: Array, k: int) -> Array:
        """Find the rows by ‖x − u D‖² = ‖x‖² − 2⟨x Dᵀ, u⟩ + u D Dᵀ uᵀ, without dense rows."""
        DDt, Dt = D @ D.T, np.ascontiguousarray(D.T)

        def squares(rows: slice) -> Array:
            X, U = self.X[rows].astype(np.float64), self.U[rows].astype(np.float64)
            return np.asarray(row_squares(X) + np.einsum("ij,ij->i", U @ DDt - 2 * (X @ Dt), U))

        lengths = np.concatenate(list(ordered_map(squares, chunks(*self.U.shape), self.n_threads)))
        worst = np.sort(np.argsort(-lengths, kind="stable")[:k])
        return _longest_rows(dense(self.X[worst]) - self.U[worst] @ D.astype(self.dtype), k)

    def _sum(self, stats_of: Callable[[slice], CodeStats]) -> CodeStats:
        return reduce(add, ordered_map(stats_of, chunks(*self.U.shape), self.n_threads))


def _longest_rows(R: Array, k: int) -> Array:
    """Return the k longest rows of R, the longest first; equally long rows keep their order."""
    squares = np.einsum("ij,ij->i", R, R)
    return R[np.argsort(-squares, kind="stable")[:k]]
