"""Rows on a worker of a Dask cluster, and the tasks that run there.

A chunk is the result of a Dask task: some rows of X, together with their codes. The codes are a
cache, because Dask could not compute them again from the task that made the chunk. Each state of
the codes of all rows has a version number, and every task names the version that it starts from. If
a chunk was made again after its worker was lost, it does not have that version. Then the codes
follow from the rows alone, by a ``Recipe``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from lincode.core.arrays import Array, Rows, canonical_rows
from lincode.core.code_step import CodeProblem
from lincode.core.encoder_step import Thresholding
from lincode.core.energy import CodeStats
from lincode.rows.memory import CHUNK_ROWS, MemoryRows, blocks, gram, scan_rows
from lincode.rows.protocol import RowLengths
from lincode.rows.threads import blas_threads

LOST_TOL, MAX_LOST_STEPS = 1e-12, 20_000
"""The tolerance and the largest number of accelerated steps of codes that were lost. They are
solved so accurately that their energy is not above that of the lost codes."""


@dataclass(frozen=True)
class Recipe:
    """How codes follow from the rows alone: those of an encoder, or the solution of a problem."""

    C: Array | None = None
    """The encoder; None means codes of zero"""
    thresholding: Thresholding | None = None
    problem: CodeProblem | None = None

    @property
    def exact(self) -> bool:
        """Whether the codes are the same as before, and not only within a tolerance."""
        return self.problem is None

    def apply(self, rows: MemoryRows) -> None:
        """Set the codes of the rows, which are zero."""
        if self.problem is not None:
            solve_lost_codes(rows, self.problem)
        elif self.C is not None and self.thresholding is not None:
            rows.set_codes(self.C, self.thresholding)


class ChunkRows(MemoryRows):
    """The rows of a chunk, processed by one thread."""

    def __init__(self, X: Rows, m: int) -> None:
        super().__init__(X, m, n_threads=1)

    def _check_memory(self, m: int) -> None:
        """Do nothing: a worker does not train, and Dask limits its memory."""

    def _sum(self, stats_of: Callable[[slice], CodeStats]) -> CodeStats:
        # The blocks of MemoryRows are smaller if there are few rows, so that threads can share
        # them, and each costs the time to add two matrices.
        with blas_threads(1):
            return reduce(add, map(stats_of, blocks(len(self.U), CHUNK_ROWS)))


class Versions(NamedTuple):
    """The versions of the codes that a task needs and makes."""

    base: int
    """The version to start from"""
    new: int = -1
    """The version of the result"""
    kept: int = -1
    """An older version that may be restored"""


class StoredCodes(NamedTuple):
    """The codes of one version."""

    U: Array
    residual: float


class Chunk:
    """Some consecutive rows of X with one or two versions of their codes.

    Arrays are replaced and never changed in place, because Dask may be sending the chunk to another
    worker at the same time. The codes are sent with the rows.
    """

    def __init__(self, X: Rows, m: int) -> None:
        self.X, self.m = X, m
        self.codes: dict[int, StoredCodes] = {}

    def __sizeof__(self) -> int:
        """Return the bytes of the rows and of one version of the codes, for Dask's accounting."""
        X = self.X
        arrays = [X.data, X.indices, X.indptr] if scipy.sparse.issparse(X) else [X]
        n_codes = X.shape[0] * self.m
        return int(sum(A.nbytes for A in arrays) + n_codes * X.dtype.itemsize)

    def rows(self, version: int, recipe: Recipe | None) -> MemoryRows | None:
        """Return the rows with a version of the codes, or None if there is no way to it.

        The codes of the result may be changed in place.
        """
        rows = ChunkRows(self.X, self.m)
        stored = self.codes.get(version)
        if stored is not None:
            rows.U = stored.U.copy()
        elif recipe is not None:
            recipe.apply(rows)
        else:
            return None
        return rows

    def store(self, versions: Versions, U: Array, residual: float) -> None:
        """Store the new version, and forget all others but the one to keep."""
        codes = {v: stored for v, stored in self.codes.items() if v == versions.kept}
        self.codes = codes | {versions.new: StoredCodes(U, residual)}


def solve_lost_codes(rows: MemoryRows, problem: CodeProblem) -> CodeStats:
    """Solve codes that were lost, starting from those of the encoder, as accurately as possible."""
    rows.U[...] = 0
    if problem.mu > 0:
        # W = D/p + η C/m, the atoms of the problem are D/√p, and μ = η/m.
        C = (problem.W - problem.D / problem.D.shape[1] ** 0.5) / problem.mu
        rule = Thresholding("soft", problem.tau / problem.mu, positive=problem.positive)
        rows.set_codes(C, rule)
    return rows.update_codes(problem, tol=LOST_TOL, max_iter=MAX_LOST_STEPS)


# Tasks. The first argument is a chunk.


def make_chunk(parts: Sequence[Any], m: int, dtype: np.dtype[np.floating]) -> Chunk:
    """Return the chunk of consecutive parts of the rows: arrays, sparse matrices or data frames."""
    arrays = [as_rows(part, dtype) for part in parts]
    if len(arrays) == 1:
        return Chunk(arrays[0], m)
    sparse = any(map(scipy.sparse.issparse, arrays))
    return Chunk(scipy.sparse.vstack(arrays, "csr") if sparse else np.concatenate(arrays), m)


def as_rows(block: Any, dtype: np.dtype[np.floating]) -> Rows:
    """Return a block as an array or CSR matrix of the given dtype, without a copy if possible."""
    if scipy.sparse.issparse(block):
        return canonical_rows(scipy.sparse.csr_matrix(block, dtype=dtype))
    if hasattr(block, "columns"):  # a data frame; missing values become NaN
        block = block.to_numpy(dtype=dtype, na_value=np.nan)
    return np.ascontiguousarray(block, dtype=dtype)


class Scan(NamedTuple):
    """What is known of the rows of one chunk before training."""

    n: int
    p: int
    largest: float
    """The largest absolute value"""
    lengths: RowLengths


def scan(chunk: Chunk) -> Scan:
    """Read the rows of a chunk once."""
    n, p = chunk.X.shape
    return Scan(n, p, *(scan_rows(chunk.X) if n else (0.0, RowLengths(0.0, 0.0))))


def gram_of(chunk: Chunk) -> Array:
    """Compute XᵀX of a chunk."""
    with blas_threads(1):
        return gram(chunk.X)


def take_rows(chunk: Chunk, indices: NDArray[np.intp]) -> Rows:
    """Return some rows of a chunk."""
    return chunk.X[indices]


@dataclass(frozen=True)
class ChunkStats:
    """Statistics of codes, and how many chunks had lost their codes."""

    stats: CodeStats
    n_lost: int = 0

    def __add__(self, other: ChunkStats) -> ChunkStats:
        return ChunkStats(self.stats + other.stats, self.n_lost + other.n_lost)


def stats_of(chunk: Chunk, versions: Versions, recipe: Recipe) -> ChunkStats:
    """Return the statistics of a version of the codes."""
    rows = chunk.rows(versions.base, recipe)
    assert rows is not None
    return ChunkStats(rows.stats())


def update_codes(
    chunk: Chunk,
    versions: Versions,
    recipe: Recipe | None,
    update: Recipe,
    tol: float,
    max_iter: int,
) -> ChunkStats:
    """Do the U step for the problem of ``update`` and return the statistics of the new codes.

    ``recipe`` makes the codes to start from if they are still those of an encoder. Other codes may
    be lost.
    """
    problem = update.problem
    assert problem is not None
    done = chunk.codes.get(versions.new)
    if done is not None:  # Dask runs a task again if its result was lost
        rows = chunk.rows(versions.new, None)
        assert rows is not None
        return ChunkStats(replace(rows.stats(), residual=done.residual))
    warm = chunk.rows(versions.base, recipe)
    if warm is not None:
        rows, stats = warm, warm.update_codes(problem, tol=tol, max_iter=max_iter)
    else:
        rows = ChunkRows(chunk.X, chunk.m)
        stats = solve_lost_codes(rows, problem)
    chunk.store(versions, rows.U, stats.residual)
    return ChunkStats(stats, int(warm is None))


def residual_of(chunk: Chunk, versions: Versions, recipe: Recipe, final: Recipe) -> float:
    """Return the largest optimality residual of a version of the codes for another problem."""
    rows = chunk.rows(versions.base, recipe)
    assert rows is not None
    assert final.problem is not None
    return rows.code_residual(final.problem)


def take_codes(
    chunk: Chunk, indices: NDArray[np.intp], versions: Versions, recipe: Recipe
) -> Array:
    """Return some rows of a version of the codes."""
    stored = chunk.codes.get(versions.base)
    if stored is not None:
        return stored.U[indices]
    rows = ChunkRows(chunk.X[indices], chunk.m)
    recipe.apply(rows)
    return rows.U


class LongRows(NamedTuple):
    """Residuals of rows, the longest first, with the number of the chunk of each."""

    R: Array
    chunks: NDArray[np.intp]


def largest_residuals(
    chunk: Chunk, i: int, versions: Versions, recipe: Recipe, D: Array, k: int
) -> LongRows:
    """Return the longest rows of X − U D in chunk i."""
    rows = chunk.rows(versions.base, recipe)
    assert rows is not None
    R = rows.largest_residuals(D, k)
    return LongRows(R, np.full(len(R), i))


# How the results of chunks are combined. The arguments are in the order of the tree.


def add_all(*parts: Any) -> Any:
    """Return the sum of arrays or statistics."""
    return reduce(add, parts)


def largest_of_all(*parts: float) -> float:
    """Return the largest number."""
    return max(parts)


def longest_of_all(k: int, *parts: LongRows) -> LongRows:
    """Return the k longest rows. Of equally long rows, those of an earlier chunk come first."""
    R, chunks = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.lexsort((chunks, -np.einsum("ij,ij->i", R, R)))[:k]
    return LongRows(R[order], chunks[order])
