"""Rows held in one array (in memory, memory-mapped or CSR), in blocks over threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add

import numpy as np

from lincode.core.blocks import blocks, dense, dense_blocks
from lincode.core.code_problem import CodeProblem
from lincode.core.code_step import code_step
from lincode.core.stats import CodeStats
from lincode.core.types import Array, Rows
from lincode.rows.threads import ordered_map

BLOCK_ENTRIES = 500_000
"""Codes (rows times units) solved together at most: few enough to stay in cache."""
THREAD_ENTRIES = 100_000
"""Codes that are worth a thread of their own."""
CHUNK_ROWS = 2048
"""Rows whose statistics are summed by one product: many enough to make the sum cheap."""


def code_blocks(n: int, m: int) -> list[slice]:
    """The blocks in which the codes of n rows are solved."""
    return blocks(n, max(THREAD_ENTRIES // m, min(BLOCK_ENTRIES // m, -(-n // 8)), 16))


def chunks(N: int, m: int) -> list[slice]:
    """The partition of N rows that fixes the order of every sum, whatever the threads.

    Eight chunks or more where each can fill a block of codes: with less to do, a thread
    costs more than it brings.
    """
    return blocks(N, max(THREAD_ENTRIES // m, min(CHUNK_ROWS, -(-N // 8)), 16))


class MemoryRows:
    """X (N, p) and the codes U (N, m) of its rows; U is updated in place."""

    def __init__(self, X: Rows, U: Array, *, n_threads: int) -> None:
        self.X, self.U, self.n_threads = X, U, n_threads

    def stats(self) -> CodeStats:
        """The statistics of the codes as they are."""
        return self._sum(lambda rows: CodeStats.of(self.U[rows], self.X[rows]))

    def update_codes(self, problem: CodeProblem, *, tol: float, max_iter: int) -> CodeStats:
        """The U step for all rows; the statistics of the new codes."""

        def update(rows: slice) -> CodeStats:
            X, U, residual = self.X[rows], self.U[rows], 0.0
            for block in blocks(len(U), max(16, BLOCK_ENTRIES // U.shape[1])):
                solved = code_step(U[block], X[block], problem, tol=tol, max_iter=max_iter)
                U[block], residual = solved.U, max(residual, solved.residual)
            return CodeStats.of(U, X, residual)

        return self._sum(update)

    def code_residual(self, problem: CodeProblem) -> float:
        """The worst optimality residual of the codes as they are."""

        def residual(rows: slice) -> float:
            return code_step(self.U[rows], self.X[rows], problem, tol=0.0, max_iter=0).residual

        return max(ordered_map(residual, code_blocks(*self.U.shape), self.n_threads))

    def worst_residuals(self, D: Array, k: int) -> Array:
        """X − U D of the (at most) k rows where it is longest, longest first."""
        D = D.astype(self.X.dtype)

        def worst_of(rows: slice) -> Array:
            return _longest(dense(self.X[rows]) - self.U[rows] @ D, k)

        longest = ordered_map(worst_of, dense_blocks(self.X), self.n_threads)
        return reduce(lambda a, b: _longest(np.vstack([a, b]), k), longest)

    def _sum(self, stats_of: Callable[[slice], CodeStats]) -> CodeStats:
        return reduce(add, ordered_map(stats_of, chunks(*self.U.shape), self.n_threads))


def _longest(R: Array, k: int) -> Array:
    """The k longest rows of R, longest first; of equals, the first."""
    length = np.einsum("ij,ij->i", R, R)
    return R[np.argsort(-length, kind="stable")[:k]]
