"""The rows of X and their codes: what training needs of them, and rows in memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property, partial, reduce
from operator import add
from typing import Protocol

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from lincode.core.arrays import (
    Array,
    RowLengths,
    Rows,
    blocks,
    dense,
    dense_blocks,
    gram,
    row_squares,
    scan_rows,
)
from lincode.core.energy import CodeStats
from lincode.core.lasso import CodeProblem, Codes, code_step
from lincode.core.ridge import EncoderFactor, factor_gram, factor_transposed
from lincode.core.threshold import Thresholding, encode
from lincode.core.wide import IterativeFactor
from lincode.exceptions import InvalidInputError
from lincode.training.threads import ordered_map

BLOCK_ENTRIES = 500_000
"""The maximum number of codes (rows times units) solved together, so that they fit in the cache."""
MIN_THREAD_ENTRIES = 100_000
"""The minimum number of codes for which a separate thread is faster."""
CHUNK_ROWS = 2048
"""The number of rows whose statistics are computed by one matrix product."""
MAX_DIRECT_BYTES = 2**31
"""If the factorisation of XᵀX would need more memory, the C step is iterative. The limit is fixed,
so that the result does not depend on the machine."""
MAX_SPARSE_DIRECT, MAX_SPARSE_BYTES = 2048, 2**29
"""The largest smaller dimension of sparse rows, and the largest memory, for which XᵀX is
factored."""
WEIGHT_ARRAYS = 14
"""The number of float64 arrays of shape (m, p) that exist at the same time in an iteration."""
MIN_CHECKED_BYTES = 2**28
"""Smaller requirements are not compared with the available memory."""


class RowSource(Protocol):
    """The rows of X, of shape (N, p), and their codes U, of shape (N, m).

    Training never sees X itself: everything goes through the methods below, and only small
    matrices are returned. To train on rows in a new place, write one class with these methods.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (N, p) of X."""

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The dtype of X, which is also that of the codes: float32 or float64."""

    def row_lengths(self) -> RowLengths:
        """Return the length of the longest row and the mean length."""

    def factor(self) -> EncoderFactor:
        """Return the factorisation of XᵀX."""

    def take(self, indices: NDArray[np.intp]) -> Rows:
        """Return the rows with the given indices, in that order, as an array or CSR matrix."""

    def take_codes(self, indices: NDArray[np.intp]) -> Array:
        """Return the present codes of the rows with the given indices."""

    def subset(self, indices: NDArray[np.intp]) -> RowSource:
        """Return a row source in memory of the rows with the given indices; its codes are zero."""

    def set_codes(self, C: Array, thresholding: Thresholding) -> None:
        """Set the codes to those of the encoder C."""

    def save_codes(self) -> object:
        """Return a copy of the present codes for ``restore_codes``."""

    def restore_codes(self, saved: object) -> None:
        """Set the codes to those that ``save_codes`` returned."""

    def stats(self) -> CodeStats:
        """Return the statistics of the present codes."""

    def update_codes(self, problem: CodeProblem, *, tol: float, max_iter: int) -> CodeStats:
        """Do the U step for all rows and return the statistics of the new codes.

        They must be summed in an order that does not depend on the number of threads or workers.
        """

    def code_residual(self, problem: CodeProblem) -> float:
        """Return the largest optimality residual of the present codes."""

    def largest_residuals(self, D: Array, k: int) -> Array:
        """Return X − U D for the (at most) k rows where it is longest, the longest first."""


def code_blocks(n: int, m: int) -> list[slice]:
    """Return the blocks in which the codes of n rows are solved."""
    return blocks(n, max(MIN_THREAD_ENTRIES // m, min(BLOCK_ENTRIES // m, -(-n // 8)), 16))


def chunks(N: int, m: int) -> list[slice]:
    """Return the partition of N rows that determines the order of every sum.

    It depends on N and m only, so results do not depend on the number of threads. There are at
    least eight chunks if each of them is large enough for a thread, and for the sums of m² numbers.
    """
    return blocks(N, max(MIN_THREAD_ENTRIES // m, min(CHUNK_ROWS, max(-(-N // 8), m // 4)), 16))


def direct_factor_bytes(N: int, p: int) -> int:
    """Return the memory that the direct factorisation of XᵀX needs."""
    return 3 * 8 * p * min(N, p)


def is_too_large(N: int, p: int, *, is_sparse: bool) -> bool:
    """Return whether XᵀX is too large to be factored. It depends on the shape and kind of X only.

    Products with sparse rows are cheap, so that the iterative factor is faster for them in smaller
    dimensions.
    """
    size = direct_factor_bytes(N, p)
    if is_sparse and (min(N, p) > MAX_SPARSE_DIRECT or size > MAX_SPARSE_BYTES):
        return True
    return size > MAX_DIRECT_BYTES


def needs_iterative_factor(X: Rows) -> bool:
    """Return whether XᵀX of these rows is too large to be factored."""
    return is_too_large(*X.shape, is_sparse=scipy.sparse.issparse(X))


def is_wide_stream(p: int) -> bool:
    """Return whether XᵀX of a stream of batches with p features is too large."""
    return direct_factor_bytes(p, p) > MAX_DIRECT_BYTES


def factor_rows(X: Rows, n_threads: int = 1) -> EncoderFactor:
    """Return the factor of XᵀX: direct, through the smaller of its dimensions, or iterative."""
    if needs_iterative_factor(X):
        return IterativeFactor.of(X, partial(ordered_map, n_threads=n_threads))
    if X.shape[1] <= X.shape[0]:
        return factor_gram(gram(X), X.dtype)
    return factor_transposed(np.array(dense(X).T, dtype=np.float64, order="F"), X.dtype)


def check_memory(needed: int, what: str, advice: str) -> None:
    """Raise an error if something needs more memory than is available."""
    if needed < MIN_CHECKED_BYTES:
        return
    try:
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
        with open("/proc/meminfo") as lines:
            available = next(1024 * int(s.split()[1]) for s in lines if s.startswith("MemAvail"))
    except (AttributeError, OSError, StopIteration, ValueError):  # not Linux
        available = None
    if available is not None and needed > available:
        raise InvalidInputError(
            f"{what} need {needed / 1e9:.1f} GB of memory, but {available / 1e9:.1f} GB are"
            f" available; {advice}."
        )


def _check_training_memory(X: Rows, m: int, *, with_codes: bool) -> None:
    """Raise an error if the weights, or with ``with_codes`` all of training, need too much."""
    N, p = X.shape
    needed = WEIGHT_ARRAYS * 8 * m * p
    if with_codes:
        factor = 0 if needs_iterative_factor(X) else direct_factor_bytes(N, p)
        needed += 2 * N * m * X.dtype.itemsize + factor
    check_memory(
        needed,
        f"{N} samples with {p} features and {m} units",
        "use MiniBatchSCNN, fewer units, fewer features or float32",
    )


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
    penalties : array of shape (N,), default=None
        A factor of λ for each row; see ``core/missing.py``.
    """

    def __init__(
        self,
        X: Rows,
        m: int,
        *,
        n_threads: int,
        lengths: RowLengths | None = None,
        penalties: Array | None = None,
    ) -> None:
        _check_training_memory(X, m, with_codes=False)
        self.X, self.m, self.n_threads = X, m, n_threads
        self.penalties = penalties
        self._lengths = lengths
        self._factor: EncoderFactor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (N, p) of X."""
        N, p = self.X.shape
        return N, p

    @cached_property
    def U(self) -> Array:
        """The codes. They need memory only if rows are trained on."""
        _check_training_memory(self.X, self.m, with_codes=True)
        return np.zeros((self.X.shape[0], self.m), dtype=self.dtype)

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
            self._factor = factor_rows(self.X, self.n_threads)
        return self._factor

    def take(self, indices: NDArray[np.intp]) -> Rows:
        """Return the rows with the given indices, in that order."""
        return self.X[indices]

    def take_codes(self, indices: NDArray[np.intp]) -> Array:
        """Return the present codes of the rows with the given indices."""
        return self.U[indices]

    def subset(self, indices: NDArray[np.intp]) -> MemoryRows:
        """Return a row source of a copy of the rows with the given indices; its codes are zero."""
        penalties = None if self.penalties is None else self.penalties[indices]
        return MemoryRows(self.X[indices], self.m, n_threads=self.n_threads, penalties=penalties)

    def set_codes(self, C: Array, thresholding: Thresholding) -> None:
        """Set the codes to those of the encoder C."""
        if not C.any():
            self.U[...] = 0
            return
        C = C.astype(self.dtype)
        for rows in chunks(*self.U.shape):
            encode(self.X[rows], C, thresholding, out=self.U[rows])

    def save_codes(self) -> object:
        """Return a copy of the present codes for ``restore_codes``."""
        return self.U.copy()

    def restore_codes(self, saved: object) -> None:
        """Set the codes to those that ``save_codes`` returned."""
        self.U[...] = np.asarray(saved)

    def stats(self) -> CodeStats:
        """Return the statistics of the present codes."""
        return self._sum(self._stats_of)

    def update_codes(self, problem: CodeProblem, *, tol: float, max_iter: int) -> CodeStats:
        """Do the U step for all rows and return the statistics of the new codes."""

        def update(rows: slice) -> CodeStats:
            X, U, residual = self.X[rows], self.U[rows], 0.0
            f = None if self.penalties is None else self.penalties[rows].astype(self.dtype)
            for block in blocks(len(U), max(16, BLOCK_ENTRIES // U.shape[1])):
                codes = _penalised_code_step(
                    U[block],
                    X[block],
                    problem,
                    None if f is None else f[block],
                    tol=tol,
                    max_iter=max_iter,
                )
                U[block], residual = codes.U, max(residual, codes.residual)
            return self._stats_of(rows, residual)

        return self._sum(update)

    def code_residual(self, problem: CodeProblem) -> float:
        """Return the largest optimality residual of the present codes."""

        def residual(rows: slice) -> float:
            f = None if self.penalties is None else self.penalties[rows].astype(self.dtype)
            U, X = self.U[rows], self.X[rows]
            return _penalised_code_step(U, X, problem, f, tol=0.0, max_iter=0).residual

        return max(ordered_map(residual, code_blocks(*self.U.shape), self.n_threads))

    def largest_residuals(self, D: Array, k: int) -> Array:
        """Return X − U D for the (at most) k rows where it is longest, the longest first."""
        if scipy.sparse.issparse(self.X):
            return self._largest_sparse_residuals(D, k)
        D = D.astype(self.dtype)

        def largest(rows: slice) -> Array:
            return longest_rows(dense(self.X[rows]) - self.U[rows] @ D, k)

        parts = ordered_map(largest, dense_blocks(self.X), self.n_threads)
        return reduce(lambda a, b: longest_rows(np.vstack([a, b]), k), parts)

    def _largest_sparse_residuals(self, D: Array, k: int) -> Array:
        """Find the rows by ‖x − u D‖² = ‖x‖² − 2⟨x Dᵀ, u⟩ + u D Dᵀ uᵀ, without dense rows."""
        DDt, Dt = D @ D.T, np.ascontiguousarray(D.T)

        def squares(rows: slice) -> Array:
            X, U = self.X[rows].astype(np.float64), self.U[rows].astype(np.float64)
            return np.asarray(row_squares(X) + np.einsum("ij,ij->i", U @ DDt - 2 * (X @ Dt), U))

        lengths = np.concatenate(list(ordered_map(squares, chunks(*self.U.shape), self.n_threads)))
        worst = np.sort(np.argsort(-lengths, kind="stable")[:k])
        return longest_rows(dense(self.X[worst]) - self.U[worst] @ D.astype(self.dtype), k)

    def _stats_of(self, rows: slice, residual: float = 0.0) -> CodeStats:
        f = None if self.penalties is None else self.penalties[rows]
        return CodeStats.of(self.U[rows], self.X[rows], residual, penalties=f)

    def _sum(self, stats_of: Callable[[slice], CodeStats]) -> CodeStats:
        return reduce(add, ordered_map(stats_of, chunks(*self.U.shape), self.n_threads))


def _penalised_code_step(
    U: Array, X: Rows, problem: CodeProblem, f: Array | None, *, tol: float, max_iter: int
) -> Codes:
    """Do the U step for rows whose penalties are multiplied by the factors f, shape (n,).

    The code of the row x with the penalty f τ is f times the code of x/f with the penalty τ.
    """
    if f is None:
        return code_step(U, X, problem, tol=tol, max_iter=max_iter)
    f = f[:, None]
    codes = code_step(U / f, X / f, problem, tol=tol, max_iter=max_iter)
    return codes._replace(U=f * codes.U)


def longest_rows(R: Array, k: int) -> Array:
    """Return the k longest rows of R, the longest first; equally long rows keep their order."""
    squares = np.einsum("ij,ij->i", R, R)
    return R[np.argsort(-squares, kind="stable")[:k]]
