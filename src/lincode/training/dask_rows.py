"""Rows on the workers of a Dask cluster.

A chunk is the result of an ordinary Dask task: consecutive rows of X. Dask decides where it is, and
computes it again if its worker is lost. The codes of a chunk are a cache in it, because no
task could compute them again. Each state of the codes has a version number, which is passed to
every task. If a chunk does not have this version, its codes are computed from the rows alone, by a
recipe.
"""

from __future__ import annotations

import copy
import ctypes
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial, reduce
from operator import add
from typing import Any

import dask
import numpy as np
import scipy.sparse
from distributed import Client, Future, KilledWorker, get_worker, wait
from numpy.typing import NDArray

from lincode.core import missing, wide
from lincode.core.arrays import Array, RowLengths, Rows, canonical_rows, gram, scan_rows, stack
from lincode.core.energy import CodeStats
from lincode.core.lasso import CodeProblem
from lincode.core.ridge import EncoderFactor, factor_gram
from lincode.core.threshold import Thresholding
from lincode.exceptions import ClusterError, InvalidInputError
from lincode.training.rows import MemoryRows, factor_rows, is_too_large, longest_rows
from lincode.training.threads import blas_threads

WAIT_SECONDS, MAX_SECONDS = 60.0, 86_400.0
"""How long a cluster may be without workers or answers, and how long one step may take."""
ADD = partial(reduce, add)
"""The sum of arrays, statistics or lists, in their order"""
FAN_IN = 16
"""The number of results that one task combines."""
LOST_TOL, MAX_LOST_STEPS = 1e-12, 20_000
"""The tolerance and the largest number of steps of codes that were lost. They are solved so
accurately that their energy is not above that of the lost codes."""


@dataclass
class Chunk:
    """Some consecutive rows of X with one or two versions of their codes.

    Arrays are replaced and never changed in place, because Dask may be sending the chunk to another
    worker at the same time. The codes are sent with the rows.
    """

    X: Rows
    m: int
    n_empty: int = 0
    """The number of rows without observed entries, which were dropped"""
    penalties: Array | None = None
    codes: dict[int, Array] = field(default_factory=dict)

    def __sizeof__(self) -> int:
        """Return the bytes of the rows and of one version of the codes, for Dask's accounting."""
        n_values = 2 * self.X.nnz if scipy.sparse.issparse(self.X) else self.X.size
        return int((n_values + self.X.shape[0] * self.m) * self.X.dtype.itemsize)


class ChunkRows(MemoryRows):
    """The rows of a chunk with a version of their codes, which is computed when it is needed."""

    def __init__(self, chunk: Chunk, version: int, recipe: Any) -> None:
        # The memory is not checked, because Dask limits that of a worker.
        self.X, self.m, self.penalties, self.n_threads = chunk.X, chunk.m, chunk.penalties, 1
        self.chunk, self.version, self.recipe = chunk, version, recipe

    @cached_property
    def U(self) -> Array:
        """A copy of the codes."""
        _reuse_memory()
        if self.version in self.chunk.codes:
            return self.chunk.codes[self.version].copy()
        self.U = np.zeros((self.shape[0], self.m), self.dtype)
        if self.recipe is not None:
            self.recipe(self)
            self.chunk.codes = self.chunk.codes | {self.version: self.U.copy()}
        return self.U

    def step(self, new: int, kept: int, recipe: Any, options: Any) -> CodeStats:
        """Do the U step to a new version of the codes. One other version is kept."""
        if new in self.chunk.codes:  # Dask runs a task again if its result was lost
            rows = ChunkRows(self.chunk, new, recipe)
            return replace(rows.stats(), residual=rows.code_residual(recipe.keywords["problem"]))
        stats = self.update_codes(**recipe.keywords | options)
        others = {v: U for v, U in self.chunk.codes.items() if v == kept}
        self.chunk.codes = others | {new: self.U}
        return stats

    def scan(self) -> list[tuple[Any, ...]]:
        """Return the numbers of rows and of dropped rows, the kind of the rows, and their scale."""
        n, is_sparse = self.shape[0], scipy.sparse.issparse(self.X)
        largest, lengths = scan_rows(self.X) if n else (0.0, RowLengths(0.0, 0.0))
        is_incomplete = not is_sparse and np.isnan(largest)
        if is_incomplete:
            largest = float(np.fmax.reduce(np.abs(self.X), axis=None))
        return [(n, self.chunk.n_empty, is_sparse, is_incomplete, largest, lengths)]


def make_chunk(block: Any, m: int, dtype: Any) -> Chunk:
    """Return the chunk of an array or sparse matrix, without rows that have no observed entry."""
    if scipy.sparse.issparse(block):
        return Chunk(canonical_rows(scipy.sparse.csr_matrix(block, dtype=dtype)), m)
    X = np.ascontiguousarray(np.ma.filled(block, np.nan), dtype=dtype)
    empty = np.isnan(X).all(axis=1)
    return Chunk(X[~empty] if empty.any() else X, m, int(empty.sum()))


def fill_chunk(chunk: Chunk, moments: missing.SecondMoments) -> Chunk:
    """Return the chunk with a prediction of missing entries."""
    X, penalties = missing.fill_rows(chunk.X, moments)
    return Chunk(X, chunk.m, penalties=penalties)


@cache
def _reuse_memory() -> None:
    """Let the C library keep freed memory for the next arrays, up to 128 MiB.

    Dask starts workers with a setting by which it returns memory at once. The U step would spend
    half of its time waiting for new memory.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(-3, 32 * 2**20)  # M_MMAP_THRESHOLD
        mallopt(-1, 128 * 2**20)  # M_TRIM_THRESHOLD


def _of_X(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the task that applies a function to the rows X of a chunk."""
    return lambda rows, *arguments: function(rows.X, *arguments)


def run_task(task: Any, chunk: Chunk, version: int, recipe: Any, *arguments: Any) -> Any:
    """Apply a function to the rows of a chunk; also return the worker that has their codes."""
    with blas_threads(1):
        return task(ChunkRows(chunk, version, recipe), *arguments), [get_worker().address]


def combine_parts(combine: Callable[[Any], Any], *parts: Any) -> Any:
    """Combine the results of consecutive chunks."""
    values, homes = zip(*parts, strict=True)
    return combine(values), ADD(homes)


@contextmanager
def cluster_errors(client: Client) -> Iterator[None]:
    """Raise a ClusterError if the cluster fails. Errors of tasks are not changed."""
    try:
        yield
    except (KilledWorker, MemoryError) as error:
        raise ClusterError(
            f"a task failed repeatedly on the Dask cluster: {error} Its workers may need more"
            " memory, or X smaller chunks."
        ) from error
    except Exception as error:
        if isinstance(error, CancelledError) or client.status != "running":
            raise ClusterError(
                "the connection to the Dask scheduler was lost, or the computation was cancelled,"
                f" or scattered data were lost: {error}"
            ) from error
        raise


def results(client: Client, futures: list[Future]) -> list[Any]:
    """Return the results of futures, or raise an error after a limited time.

    Dask itself computes lost results again. The limit of the transfer is doubled if it was too
    short.
    """
    deadline, n_idle, seconds = time.monotonic() + MAX_SECONDS, 0, WAIT_SECONDS
    while time.monotonic() < deadline and n_idle < 4:
        try:
            wait(futures, timeout=WAIT_SECONDS / 4)
            gather = partial(client.gather, futures, asynchronous=True)
            return list(client.sync(gather, callback_timeout=seconds))
        except TimeoutError:
            if any(future.status == "error" for future in futures):
                raise  # by a task
        seconds *= 2 if all(future.done() for future in futures) else 1
        try:
            info = client.sync(client.scheduler.identity, callback_timeout=WAIT_SECONDS)
        except TimeoutError as error:
            raise ClusterError(f"the scheduler did not answer for {WAIT_SECONDS:.0f} s.") from error
        # A worker without free memory is paused and runs no tasks.
        running = any(worker["status"] == "running" for worker in info["workers"].values())
        n_idle = 0 if running else n_idle + 1
    raise ClusterError(
        f"the Dask cluster has had no running workers for {WAIT_SECONDS:.0f} seconds, or one step"
        f" took {MAX_SECONDS / 3600:.0f} hours; start workers and try again. If they"
        " reached their memory limit, give them more memory."
    )


class DaskRows:
    """The row source of the blocks of a Dask array, which are delayed arrays or sparse matrices.

    Empty blocks are dropped. ``n_threads`` is the number of threads of the client that process a
    ``subset``.
    """

    def __init__(
        self, client: Client, blocks: Any, m: int, p: int, dtype: Any, n_threads: int
    ) -> None:
        self.client, self.m, self.n_threads = client, m, n_threads
        self.dtype: np.dtype[np.floating] = np.dtype(dtype)
        self._codes: Any = (0, None)
        """The present version of the codes, and the future of its recipe"""
        self._n_versions, self._kept = 0, -1
        with cluster_errors(client):
            chunks = [dask.delayed(make_chunk, pure=False)(block, m, dtype) for block in blocks]
            self.chunks, self.homes = client.compute(chunks, retries=2), [""] * len(chunks)
        found = self._run(ChunkRows.scan)
        sizes, n_empty, sparse, incomplete, largest, lengths = zip(*found, strict=True)
        kept = np.flatnonzero(sizes)
        if not kept.size:
            empty = "all entries of X are NaN; at least one must be observed."
            raise InvalidInputError(
                empty if any(n_empty) else "X has no rows; at least one is needed."
            )
        self.chunks, self.homes = ([items[i] for i in kept] for items in (self.chunks, self.homes))
        self.sizes, self.largest = np.array(sizes)[kept], np.array(largest)[kept]
        lengths_of_blocks = np.add(sizes, n_empty)
        ends = np.cumsum(lengths_of_blocks)
        self.spans = np.column_stack([ends - lengths_of_blocks, ends])[kept]
        """The first row of each block in X, and that behind its last one"""
        self.ends, self.n_empty = np.cumsum(self.sizes), sum(n_empty)
        self.is_sparse, self.is_incomplete = any(sparse), any(incomplete)
        self.shape = int(self.ends[-1]), p
        self._set_lengths([lengths[i] for i in kept])

    def _set_lengths(self, lengths: list[RowLengths]) -> None:
        mean = sum(n * part.mean for n, part in zip(self.sizes, lengths, strict=True))
        self._lengths = RowLengths(max(part.longest for part in lengths), mean / self.shape[0])

    def _send(self, value: Any) -> Future:
        """Return the future of a task with the value, so that Dask can compute it again."""
        with (
            cluster_errors(self.client),
            dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}),
        ):
            return self.client.submit(pickle.loads, pickle.dumps(value), pure=False)

    def _run(
        self, task: Callable[..., Any], *arguments: Any, combine: Any = ADD, own: Any = None
    ) -> Any:
        """Apply a function to all chunks; return the results, combined in the order of the chunks.

        With ``own`` it is applied to some chunks, with an argument for each.
        """
        chosen = list(range(len(self.chunks)) if own is None else own)
        columns = [[self.chunks[i] for i in chosen], *([a] * len(chosen) for a in self._codes)]
        columns += [[a] * len(chosen) for a in arguments] + ([list(own.values())] if own else [])
        submit = partial(self.client.submit, pure=False, retries=2)
        with cluster_errors(self.client):
            futures = self.client.map(partial(run_task, task), *columns, pure=False, retries=2)
            while own is None and len(futures) > 1:
                parts = [futures[i : i + FAN_IN] for i in range(0, len(futures), FAN_IN)]
                futures = [submit(combine_parts, combine, *part) for part in parts]
            value, homes = combine_parts(combine, *results(self.client, futures))
            for i, home in zip(chosen, homes, strict=True):
                if self.homes[i] and home != self.homes[i]:
                    # Where the chunk was before there is a copy without the new codes. A new key
                    # makes the chunk that has them the only one.
                    where = {"workers": [home], "allow_other_workers": True}
                    self.chunks[i] = submit(copy.copy, self.chunks[i], **where)
                self.homes[i] = home
        return value

    # Missing entries

    def observed_sums(self) -> Any:
        """Return the ``ObservedSums`` of all rows."""
        return self._run(_of_X(missing.ObservedSums.of))

    def fill(self, observed: missing.ObservedSums) -> None:
        """Replace missing entries by a linear prediction, from a sample of the rows."""
        squares = self._send(observed.mean_squares)
        self._set_lengths(
            self._run(lambda rows, squares: [missing.observed_lengths(rows.X, squares)], squares)
        )
        sample = self.take(missing.moment_rows(*self.shape))
        moments = self._send(missing.estimate_moments(sample, observed.means))
        with cluster_errors(self.client):
            self.chunks = self.client.map(
                fill_chunk, self.chunks, [moments] * len(self.chunks), pure=False, retries=2
            )

    # The methods of RowSource

    def row_lengths(self) -> RowLengths:
        return self._lengths

    @cached_property
    def _factor(self) -> EncoderFactor:
        N, p = self.shape
        if is_too_large(N, p, is_sparse=self.is_sparse):
            return wide.IterativeFactor.of_products(
                lambda V, exact: self._run(_of_X(wide.gram_product), self._send(V), exact),
                lambda V: self._run(_of_X(wide.product_square), self._send(V)),
                self.dtype,
                self._run(_of_X(wide.column_sums)),
            )
        if p > N:
            return factor_rows(self.take(np.arange(N)))
        return factor_gram(self._run(_of_X(gram)), self.dtype)

    def factor(self) -> EncoderFactor:
        return self._factor

    def take(self, indices: NDArray[np.intp]) -> Rows:
        return self._take(ChunkRows.take, indices)

    def take_codes(self, indices: NDArray[np.intp]) -> Array:
        return np.asarray(self._take(ChunkRows.take_codes, indices))

    def _take(self, task: Callable[..., Any], indices: NDArray[np.intp]) -> Rows:
        chunk = np.searchsorted(self.ends, indices, side="right")
        starts = self.ends - self.sizes
        own = {int(i): indices[chunk == i] - starts[i] for i in np.unique(chunk)} or {0: indices}
        rows = self._run(task, combine=stack, own=own)
        return rows[np.argsort(np.argsort(chunk, kind="stable"))]

    def subset(self, indices: NDArray[np.intp]) -> MemoryRows:
        X, penalties = self.take(indices), None
        if self.is_incomplete:
            penalties = self._take(lambda rows, i: rows.penalties[i], indices)
        return MemoryRows(X, self.m, n_threads=self.n_threads, penalties=penalties)

    def set_codes(self, C: Array, thresholding: Thresholding) -> None:
        self._n_versions += 1
        recipe = partial(ChunkRows.set_codes, C=C, thresholding=thresholding)
        self._codes = self._n_versions, self._send(recipe) if C.any() else None

    def save_codes(self) -> object:
        self._kept = self._codes[0]
        return self._codes

    def restore_codes(self, saved: object) -> None:
        self._codes, self._kept = saved, -1

    def stats(self) -> Any:
        return self._run(ChunkRows.stats)

    def update_codes(self, problem: CodeProblem, *, tol: float, max_iter: int) -> Any:
        self._n_versions += 1
        update: Any = ChunkRows.update_codes
        lost = partial(update, problem=problem, tol=LOST_TOL, max_iter=MAX_LOST_STEPS)
        new, options = (self._n_versions, self._send(lost)), {"tol": tol, "max_iter": max_iter}
        stats = self._run(ChunkRows.step, new[0], self._kept, new[1], options)
        self._codes = new
        return stats

    def code_residual(self, problem: CodeProblem) -> float:
        return float(self._run(ChunkRows.code_residual, self._send(problem), combine=max))

    def largest_residuals(self, D: Array, k: int) -> Array:
        task, longest = ChunkRows.largest_residuals, lambda parts: longest_rows(np.vstack(parts), k)
        return np.asarray(self._run(task, self._send(D), k, combine=longest))
