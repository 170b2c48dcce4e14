"""Rows on the workers of a Dask cluster.

A chunk is the result of an ordinary Dask task: consecutive rows of X. Dask decides where it is, and
computes it again if its worker is lost. The codes of a chunk are a cache inside of it, because no
task could compute them again. Each state of the codes has a version number, which every task names.
If a chunk does not have this version, its codes follow from the rows alone, by a ``Recipe``.
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
from dataclasses import replace
from functools import cache, partial, reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from distributed import Client, Future, KilledWorker, get_worker, wait
from numpy.typing import NDArray

from lincode.core.arrays import Array, RowLengths, Rows, dense, gram, scan_rows, stack
from lincode.core.energy import CodeStats
from lincode.core.lasso import CodeProblem
from lincode.core.ridge import EncoderFactor, factor_gram, factor_transposed
from lincode.core.threshold import Thresholding
from lincode.exceptions import ClusterError, InvalidInputError
from lincode.training.rows import (
    MAX_DIRECT_BYTES,
    MemoryRows,
    direct_factor_bytes,
    longest_rows,
)
from lincode.training.threads import blas_threads

WAIT_SECONDS = 60.0
"""How long a cluster may be without workers, or a scheduler without an answer."""
MAX_SECONDS = 86_400.0
"""How long one step may take."""
FAN_IN = 16
"""The number of results that one task combines."""
MESSAGE_BYTES = 8_000_000
"""Larger arguments are sent in several messages. Dask warns about messages above 10 MB."""
LOST_TOL, MAX_LOST_STEPS = 1e-12, 20_000
"""The tolerance and the largest number of steps of codes that were lost. They are solved so
accurately that their energy is not above that of the lost codes."""


class Recipe(NamedTuple):
    """How codes follow from the rows alone: by an encoder (or zero), or as a solution."""

    C: Array | None = None
    rule: Thresholding | None = None
    problem: CodeProblem | None = None


class Chunk(MemoryRows):
    """Some consecutive rows of X with one or two versions of their codes.

    Arrays are replaced and never changed in place, because Dask may be sending the chunk to another
    worker at the same time. The codes are sent with the rows.
    """

    def __init__(self, X: Rows, m: int, penalties: Array | None = None) -> None:
        # The memory is not checked, because Dask limits that of a worker.
        self.X, self.penalties, self.n_threads = X, penalties, 1
        self.U = np.zeros((0, m), X.dtype)
        self.codes: dict[int, Array] = {}

    def __sizeof__(self) -> int:
        """Return the bytes of the rows and of one version of the codes, for Dask's accounting."""
        X, U = self.X, self.U
        arrays = [X.data, X.indices, X.indptr] if scipy.sparse.issparse(X) else [X]
        return int(sum(A.nbytes for A in arrays) + X.shape[0] * U.shape[1] * U.itemsize)

    def at(self, version: int, recipe: Recipe) -> Chunk:
        """Return a copy of the chunk whose U is a version of the codes."""
        _reuse_memory()
        rows = copy.copy(self)
        if version in self.codes:
            rows.U = self.codes[version].copy()
            return rows
        rows.U = np.zeros((self.X.shape[0], self.U.shape[1]), self.X.dtype)
        C, rule, problem = recipe
        if problem is not None and problem.mu > 0:  # the encoder of the problem
            # W = D/p + η C/m, the atoms of the problem are D/√p, and μ = η/m.
            C = (problem.W - problem.D / problem.D.shape[1] ** 0.5) / problem.mu
            rule = Thresholding("soft", problem.tau / problem.mu, positive=problem.positive)
        if C is not None and rule is not None:
            rows.set_codes(C, rule)
        if problem is not None:
            rows.update_codes(problem, tol=LOST_TOL, max_iter=MAX_LOST_STEPS)
            self.codes = self.codes | {version: rows.U.copy()}
        return rows

    def scan(self) -> list[tuple[int, float, RowLengths]]:
        """Return the number of rows, the largest absolute value and the lengths."""
        n = self.shape[0]
        return [(n, *(scan_rows(self.X) if n else (0.0, RowLengths(0.0, 0.0))))]

    def gram(self) -> Array:
        """Compute XᵀX."""
        with blas_threads(1):
            return gram(self.X)


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


class Part(NamedTuple):
    """A result for some chunks, and the addresses of the workers that have their codes."""

    value: Any
    homes: tuple[str, ...]


def call(method: str, chunk: Chunk, version: int, recipe: Recipe, *arguments: Any) -> Part:
    """Call a method of a chunk for a version of the codes."""
    rows = chunk.at(version, recipe)
    return Part(getattr(rows, method)(*arguments), (get_worker().address,))


def update_codes(
    chunk: Chunk, version: int, recipe: Recipe, new: int, kept: int, update: Recipe, options: Any
) -> Part:
    """Do the U step from a version of the codes to a new one, and keep another version."""
    assert update.problem is not None
    if new in chunk.codes:  # Dask runs a task again if its result was lost
        rows = chunk.at(new, update)
        stats = replace(rows.stats(), residual=rows.code_residual(update.problem))
    else:
        rows = chunk.at(version, recipe)
        stats = rows.update_codes(update.problem, **options)
        chunk.codes = {v: U for v, U in chunk.codes.items() if v == kept} | {new: rows.U}
    return Part(stats, (get_worker().address,))


def combine_parts(combine: Callable[[list[Any]], Any], *parts: Part) -> Part:
    """Combine the results of consecutive chunks."""
    values, homes = zip(*parts, strict=True)
    return Part(combine(list(values)), sum(homes, ()))


def add_all(parts: list[Any]) -> Any:
    """Return the sum of arrays, statistics or lists, in their order."""
    return reduce(add, parts)


def longest_of(k: int, parts: list[Array]) -> Array:
    """Return the k longest rows."""
    return longest_rows(np.concatenate(parts), k)


def _unpickle(*parts: bytes) -> Any:
    return pickle.loads(b"".join(parts))


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
                f" or data that no task can compute again were lost: {error}"
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
        n_idle = 0 if _has_workers(client) else n_idle + 1
    raise ClusterError(
        f"the Dask cluster has had no running workers for {WAIT_SECONDS:.0f} seconds, or one step"
        f" took {MAX_SECONDS / 3600:.0f} hours; start workers, with more memory if they stop at"
        " their limit, and try again."
    )


def _has_workers(client: Client) -> bool:
    """Return whether a worker runs tasks, which one without free memory does not."""
    try:
        info = client.sync(client.scheduler.identity, callback_timeout=WAIT_SECONDS)
    except TimeoutError as error:
        raise ClusterError(f"the scheduler did not answer for {WAIT_SECONDS:.0f} s.") from error
    return any(worker["status"] == "running" for worker in info["workers"].values())


class DaskRows:
    """The row source of chunks on a Dask cluster: futures of ``Chunk``, in the order of the rows.

    Empty chunks are dropped. ``n_threads`` is the number of threads of the client that process a
    ``subset``.
    """

    def __init__(
        self, client: Client, chunks: list[Future], m: int, p: int, dtype: Any, n_threads: int
    ) -> None:
        self.client, self.m, self.n_threads = client, m, n_threads
        self.dtype: np.dtype[np.floating] = np.dtype(dtype)
        self._factor: EncoderFactor | None = None
        self._n_versions, self._kept = 0, -1
        self._codes: Any = (0, self._send(Recipe()))
        """The present version of the codes, and the future of its recipe"""
        self.chunks, self.homes = chunks, [""] * len(chunks)
        sizes, largest, lengths = zip(*self._run("scan"), strict=True)
        kept = np.flatnonzero(sizes)
        if not kept.size:
            raise InvalidInputError("X has no rows; a minimum of 1 is required.")
        self.chunks, self.homes = ([items[i] for i in kept] for items in (self.chunks, self.homes))
        self.sizes, self.largest = np.array(sizes)[kept], np.array(largest)[kept]
        self.ends = np.cumsum(self.sizes)
        self.shape = int(self.ends[-1]), p
        total = sum(n * length.mean for n, length in zip(sizes, lengths, strict=True))
        self.lengths = RowLengths(max(length.longest for length in lengths), total / self.shape[0])

    def _send(self, value: Any) -> Future:
        """Return the future of a task with the value, so that Dask can compute it again."""
        data = pickle.dumps(value, protocol=5)
        parts: list[Any] = [data[i : i + MESSAGE_BYTES] for i in range(0, len(data), MESSAGE_BYTES)]
        with cluster_errors(self.client):
            if len(parts) > 1:
                parts = [self.client.submit(bytes, part, pure=False) for part in parts]
            return self.client.submit(_unpickle, *parts, pure=False)

    def _run(
        self,
        task: str | Callable[..., Part],
        *arguments: Any,
        combine: Callable[[list[Any]], Any] = add_all,
        own: dict[int, Any] | None = None,
    ) -> Any:
        """Return the combined results for the present codes, in the order of the chunks.

        The task is a function of a chunk or a method of ``Chunk``. With ``own`` it runs for
        some chunks, with an argument for each, and the results are combined in the client.
        """
        task = partial(call, task) if isinstance(task, str) else task
        chosen = list(range(len(self.chunks)) if own is None else own)
        columns = [[a] * len(chosen) for a in (*self._codes, *arguments)]
        columns += [] if own is None else [list(own.values())]
        with cluster_errors(self.client):
            futures = self._submit(task, chosen, columns)
            while own is None and len(futures) > 1:
                submit = partial(self.client.submit, combine_parts, combine, pure=False, retries=2)
                futures = [submit(*futures[i : i + FAN_IN]) for i in range(0, len(futures), FAN_IN)]
            total = combine_parts(combine, *results(self.client, futures))
            for i, home in zip(chosen, total.homes, strict=True):
                if home != self.homes[i]:
                    # Where a moved chunk was before there is a copy without the new codes. Only
                    # the moved chunk is kept, because it has a new key.
                    self.homes[i] = home
                    [self.chunks[i]] = self._submit(copy.copy, [i], [])
        return total.value

    def _submit(
        self, task: Callable[..., Any], chosen: list[int], columns: list[list[Any]]
    ) -> list[Future]:
        """Submit the tasks of some chunks, with one message for each worker that has codes.

        The worker is a preference: another worker receives the codes with the chunk, or solves
        them again.
        """
        futures: dict[int, Future] = {}
        columns = [[self.chunks[i] for i in chosen], *columns]
        for home in dict.fromkeys(self.homes[i] for i in chosen):
            places = [k for k, i in enumerate(chosen) if self.homes[i] == home]
            arguments = ([column[k] for k in places] for column in columns)
            where = {"workers": [home], "allow_other_workers": True} if home else {}
            submitted = self.client.map(task, *arguments, pure=False, retries=2, **where)
            futures |= dict(zip(places, submitted, strict=True))
        return [futures[k] for k in range(len(chosen))]

    # The methods of RowSource

    def row_lengths(self) -> RowLengths:
        return self.lengths

    def factor(self) -> EncoderFactor:
        N, p = self.shape
        if direct_factor_bytes(N, p) > MAX_DIRECT_BYTES:
            raise InvalidInputError(
                f"X has {p} features, which is too many for a cluster, because XᵀX is factored"
                " in the client; use lincode.SCNN, or fewer features."
            )
        if self._factor is None and p <= N:
            self._factor = factor_gram(self._run("gram"), self.dtype)
        elif self._factor is None:
            Xt = np.array(dense(self.take(np.arange(N))).T, dtype=np.float64, order="F")
            self._factor = factor_transposed(Xt, self.dtype)
        return self._factor

    def take(self, indices: NDArray[np.intp]) -> Rows:
        return self._take("take", indices)

    def take_codes(self, indices: NDArray[np.intp]) -> Array:
        return np.asarray(self._take("take_codes", indices))

    def _take(self, method: str, indices: NDArray[np.intp]) -> Rows:
        chunk = np.searchsorted(self.ends, indices, side="right")
        starts = self.ends - self.sizes
        own = {int(i): indices[chunk == i] - starts[i] for i in np.unique(chunk)} or {0: indices}
        rows = self._run(method, combine=stack, own=own)
        return rows[np.argsort(np.argsort(chunk, kind="stable"))]

    def subset(self, indices: NDArray[np.intp]) -> MemoryRows:
        return MemoryRows(self.take(indices), self.m, n_threads=self.n_threads)

    def set_codes(self, C: Array, thresholding: Thresholding) -> None:
        self._n_versions += 1
        recipe = Recipe(C, thresholding) if C.any() else Recipe()
        self._codes = self._n_versions, self._send(recipe)

    def save_codes(self) -> object:
        self._kept = self._codes[0]
        return self._codes

    def restore_codes(self, saved: object) -> None:
        self._codes = saved

    def stats(self) -> CodeStats:
        stats: CodeStats = self._run("stats")
        return stats

    def update_codes(self, problem: CodeProblem, *, tol: float, max_iter: int) -> CodeStats:
        self._n_versions += 1
        new, recipe = self._n_versions, self._send(Recipe(problem=problem))
        options = {"tol": tol, "max_iter": max_iter}
        stats: CodeStats = self._run(update_codes, new, self._kept, recipe, options)
        self._codes = new, recipe
        return stats

    def code_residual(self, problem: CodeProblem) -> float:
        return float(self._run("code_residual", self._send(problem), combine=max))

    def largest_residuals(self, D: Array, k: int) -> Array:
        combine = partial(longest_of, k)
        return np.asarray(self._run("largest_residuals", self._send(D), k, combine=combine))
