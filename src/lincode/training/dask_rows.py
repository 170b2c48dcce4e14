"""Rows on the workers of a Dask cluster.

A chunk is the result of an ordinary Dask task: consecutive rows of X. Dask decides where it is, and
computes it again if its worker is lost. The codes of a chunk are a cache inside of it, because no
task could compute them again. Each state of the codes has a version number, which every task names.
If a chunk does not have this version, its codes follow from the rows alone, by a ``Recipe``.
"""

from __future__ import annotations

import ctypes
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from lincode.training.rows import MAX_DIRECT_BYTES, MemoryRows, direct_factor_bytes
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
"""The tolerance and the largest number of accelerated steps of codes that were lost. They are
solved so accurately that their energy is not above that of the lost codes."""


class Recipe(NamedTuple):
    """How codes follow from the rows alone: those of an encoder, or the solution of a problem."""

    C: Array | None = None
    """The encoder; None means codes of zero"""
    thresholding: Thresholding | None = None
    problem: CodeProblem | None = None


class Scan(NamedTuple):
    """What is known of the rows of one chunk before training."""

    n: int
    p: int
    largest: float
    """The largest absolute value; not finite if X is not"""
    lengths: RowLengths


class ChunkRows(MemoryRows):
    """The rows of a chunk and a version of their codes, processed by one thread."""

    def __init__(self, X: Rows, U: Array) -> None:
        _reuse_memory()
        # The memory is not checked, because Dask limits that of a worker.
        self.X, self.U, self.penalties, self.n_threads = X, U, None, 1

    def scan(self) -> list[Scan]:
        """Read the rows once."""
        n, p = self.shape
        return [Scan(n, p, *(scan_rows(self.X) if n else (0.0, RowLengths(0.0, 0.0))))]

    def gram(self) -> Array:
        """Compute XᵀX."""
        with blas_threads(1):
            return gram(self.X)

    def apply(self, recipe: Recipe) -> float:
        """Set the codes, which are zero, by a recipe; return the residual of a solution."""
        C, rule, problem = recipe
        if problem is not None and problem.mu > 0:
            # W = D/p + η C/m, the atoms of the problem are D/√p, and μ = η/m.
            C = (problem.W - problem.D / problem.D.shape[1] ** 0.5) / problem.mu
            rule = Thresholding("soft", problem.tau / problem.mu, positive=problem.positive)
        if C is not None and rule is not None:
            self.set_codes(C, rule)
        if problem is None:
            return 0.0
        return self.update_codes(problem, tol=LOST_TOL, max_iter=MAX_LOST_STEPS).residual


class Chunk:
    """Some consecutive rows of X with one or two versions of their codes.

    Arrays are replaced and never changed in place, because Dask may be sending the chunk to another
    worker at the same time. The codes are sent with the rows.
    """

    def __init__(self, X: Rows, m: int) -> None:
        self.X, self.m = X, m
        self.codes: dict[int, tuple[Array, float]] = {}
        """The codes of each version and their residual"""

    def __sizeof__(self) -> int:
        """Return the bytes of the rows and of one version of the codes, for Dask's accounting."""
        X = self.X
        arrays = [X.data, X.indices, X.indptr] if scipy.sparse.issparse(X) else [X]
        return int(sum(A.nbytes for A in arrays) + X.shape[0] * self.m * X.dtype.itemsize)

    def rows(self, version: int, recipe: Recipe) -> ChunkRows:
        """Return the rows with a version of the codes, which may be changed in place."""
        if version in self.codes:
            return ChunkRows(self.X, self.codes[version][0].copy())
        rows = ChunkRows(self.X, np.zeros((self.X.shape[0], self.m), self.X.dtype))
        residual = rows.apply(recipe)
        if recipe.problem is not None:  # the solution takes long
            self.codes = self.codes | {version: (rows.U.copy(), residual)}
        return rows


@cache
def _reuse_memory() -> None:
    """Let the C library keep freed memory for the next arrays, up to 128 MiB.

    Dask starts workers with a setting by which it returns memory at once. The U step then spends
    half of its time waiting for new memory.
    """
    if sys.platform == "linux":
        try:
            mallopt = ctypes.CDLL(None).mallopt
        except AttributeError:  # not glibc
            return
        mallopt(-3, 32 * 2**20)  # M_MMAP_THRESHOLD
        mallopt(-1, 128 * 2**20)  # M_TRIM_THRESHOLD


class Part(NamedTuple):
    """A result for some chunks, and the addresses of the workers that have their codes."""

    value: Any
    homes: tuple[str, ...]


def call(method: str, chunk: Chunk, version: int, recipe: Recipe, *arguments: Any) -> Part:
    """Call a method of ``ChunkRows`` with a version of the codes."""
    rows = chunk.rows(version, recipe)
    return Part(getattr(rows, method)(*arguments), (get_worker().address,))


def update_codes(
    chunk: Chunk, versions: tuple[int, int, int], base: Recipe, new: Recipe, tol: float, steps: int
) -> Part:
    """Do the U step from one version to the next, and keep a third version."""
    before, after, kept = versions
    if after in chunk.codes:  # Dask runs a task again if its result was lost
        stats = replace(chunk.rows(after, new).stats(), residual=chunk.codes[after][1])
    else:
        rows = chunk.rows(before, base)
        assert new.problem is not None
        stats = rows.update_codes(new.problem, tol=tol, max_iter=steps)
        saved = {version: codes for version, codes in chunk.codes.items() if version == kept}
        chunk.codes = saved | {after: (rows.U, stats.residual)}
    return Part(stats, (get_worker().address,))


def combine_parts(combine: Callable[[list[Any]], Any], *parts: Part) -> Part:
    """Combine the results of consecutive chunks."""
    values, homes = zip(*parts, strict=True)
    return Part(combine(list(values)), sum(homes, ()))


def add_all(parts: list[Any]) -> Any:
    """Return the sum of arrays, statistics or lists, in their order."""
    return reduce(add, parts)


def longest_rows(k: int, parts: list[Array]) -> Array:
    """Return the k longest rows. Of equally long rows, those of an earlier chunk come first."""
    R = np.concatenate(parts)
    return R[np.argsort(-np.einsum("ij,ij->i", R, R), kind="stable")[:k]]


def results(client: Client, futures: list[Future]) -> list[Any]:
    """Return the results of futures, or raise an error after a limited time.

    Dask itself computes lost results again. The limit of the transfer is doubled if it was too
    short.
    """
    deadline, n_idle, seconds = time.monotonic() + MAX_SECONDS, 0, WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            wait(futures, timeout=WAIT_SECONDS / 4)
            gather = partial(client.gather, futures, asynchronous=True)
            return list(client.sync(gather, callback_timeout=seconds))
        except TimeoutError:
            if any(future.status == "error" for future in futures):
                raise  # by a task
        seconds *= 2 if all(future.done() for future in futures) else 1
        n_idle = 0 if _has_workers(client) else n_idle + 1
        if n_idle == 4:
            raise ClusterError(
                f"the Dask cluster has had no running workers for {WAIT_SECONDS:.0f} seconds; start"
                " workers, or workers with more memory, and try again."
            )
    raise ClusterError(f"the Dask cluster did not finish in {MAX_SECONDS / 3600:.0f} hours.")


def _has_workers(client: Client) -> bool:
    """Return whether a worker runs tasks, which one without free memory does not."""
    try:
        info = client.sync(client.scheduler.identity, callback_timeout=WAIT_SECONDS)
    except TimeoutError as error:
        raise ClusterError(f"the scheduler did not answer for {WAIT_SECONDS:.0f} s.") from error
    return any(worker["status"] == "running" for worker in info["workers"].values())


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


class DaskRows:
    """The row source of chunks on a Dask cluster. The codes stay on the workers.

    Parameters
    ----------
    client : distributed.Client
        The client.
    chunks : list of Future
        Futures of ``Chunk``, in the order of the rows. Empty chunks are dropped.
    m : int
        The number of units. The codes are zero at first.
    n_threads : int
        The number of threads of the client that process a ``subset``.
    """

    def __init__(
        self, client: Client, chunks: list[Future], m: int, dtype: Any, n_threads: int
    ) -> None:
        self.client, self.m, self.n_threads = client, m, n_threads
        self.dtype: np.dtype[np.floating] = np.dtype(dtype)
        self._factor: EncoderFactor | None = None
        self._n_versions, self._kept = 0, -1
        self._codes: Any = (0, self._send(Recipe()))
        """The present version of the codes, and the future of its recipe"""
        self.chunks, self.homes = chunks, [""] * len(chunks)
        scans: list[Scan] = self._run("scan")
        kept = [i for i, scan in enumerate(scans) if scan.n]
        self.chunks, self.homes = [chunks[i] for i in kept], [self.homes[i] for i in kept]
        self.scans = [scans[i] for i in kept]
        if not kept:
            raise InvalidInputError("X has no rows; a minimum of 1 is required.")
        if len({scan.p for scan in self.scans}) > 1:
            raise InvalidInputError("all blocks of X must have the same number of columns.")
        self.ends = np.cumsum([scan.n for scan in self.scans])
        self.shape = int(self.ends[-1]), self.scans[0].p

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
    ) -> Any:
        """Return the combination of the results for all chunks, in the order of the chunks.

        The task is a function of a chunk, or a method of ``ChunkRows`` for the present codes.
        """
        if isinstance(task, str):
            task, arguments = partial(call, task), (*self._codes, *arguments)
        chosen = list(range(len(self.chunks)))
        with cluster_errors(self.client):
            futures = self._submit(task, chosen, [[a] * len(chosen) for a in arguments])
            while len(futures) > 1:
                groups = [futures[i : i + FAN_IN] for i in range(0, len(futures), FAN_IN)]
                submit = partial(self.client.submit, combine_parts, combine, pure=False, retries=2)
                futures = [submit(*group) for group in groups]
            return self._received(chosen, results(self.client, futures)[0])

    def _received(self, chosen: list[int], part: Part) -> Any:
        """Return a value, and remember which workers have the codes.

        Dask keeps a copy where a moved chunk was before, with older codes or none. With a new key
        there is only one chunk.
        """
        for i, home in zip(chosen, part.homes, strict=True):
            if home != self.homes[i]:
                self.homes[i] = home
                [self.chunks[i]] = self._submit(_identity, [i], [])
        return part.value

    def _submit(
        self, task: Callable[..., Any], chosen: list[int], arguments: list[list[Any]]
    ) -> list[Future]:
        """Submit the tasks of some chunks, with one message for each worker that has codes.

        The worker is a preference: another worker receives the codes with the chunk, or solves
        them again.
        """
        futures: dict[int, Future] = {}
        for home in dict.fromkeys(self.homes[i] for i in chosen):
            places = [k for k, i in enumerate(chosen) if self.homes[i] == home]
            columns = [[self.chunks[i] for i in chosen], *arguments]
            where = {"workers": [home], "allow_other_workers": True} if home else {}
            submitted = self.client.map(
                task, *([column[k] for k in places] for column in columns),
                pure=False, retries=2, **where,
            )  # fmt: skip
            futures |= dict(zip(places, submitted, strict=True))
        return [futures[k] for k in range(len(chosen))]

    def row_lengths(self) -> RowLengths:
        """Return the length of the longest row and the mean length."""
        longest = np.max([scan.lengths.longest for scan in self.scans])
        total = sum(scan.n * scan.lengths.mean for scan in self.scans)
        return RowLengths(float(longest), float(total / self.shape[0]))

    def factor(self) -> EncoderFactor:
        """Return the factorisation of XᵀX, which is computed once."""
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
        """Return the rows with the given indices, in that order."""
        return self._take("take", indices)

    def take_codes(self, indices: NDArray[np.intp]) -> Array:
        """Return the present codes of the rows with the given indices."""
        return np.asarray(self._take("take_codes", indices))

    def _take(self, method: str, indices: NDArray[np.intp]) -> Rows:
        chunk = np.searchsorted(self.ends, indices, side="right")
        chosen = np.unique(chunk).tolist()
        own = [indices[chunk == i] - (self.ends[i] - self.scans[i].n) for i in chosen]
        codes: Any = self._codes if method == "take_codes" else (-1, Recipe())
        arguments = [*([a] * len(chosen) for a in codes), own]
        with cluster_errors(self.client):
            parts = results(
                self.client, self._submit(partial(call, method), chosen, arguments)
            )
        rows = self._received(chosen, combine_parts(stack, *parts))
        return rows[np.argsort(np.argsort(chunk, kind="stable"))]

    def subset(self, indices: NDArray[np.intp]) -> MemoryRows:
        """Return a row source in the client of the rows with the given indices."""
        return MemoryRows(self.take(indices), self.m, n_threads=self.n_threads)

    def set_codes(self, C: Array, thresholding: Thresholding) -> None:
        """Set the codes to those of the encoder C, which are computed when they are needed."""
        self._n_versions += 1
        recipe = Recipe(C, thresholding) if C.any() else Recipe()
        self._codes = self._n_versions, self._send(recipe)

    def save_codes(self) -> object:
        """Return the present version of the codes. The workers keep one such version."""
        self._kept = self._codes[0]
        return self._codes

    def restore_codes(self, saved: object) -> None:
        """Set the codes to a version that ``save_codes`` returned."""
        self._codes = saved

    def stats(self) -> CodeStats:
        """Return the statistics of the present codes."""
        stats: CodeStats = self._run("stats")
        return stats

    def update_codes(self, problem: CodeProblem, *, tol: float, max_iter: int) -> CodeStats:
        """Do the U step for all rows and return the statistics of the new codes."""
        self._n_versions += 1
        version, recipe = self._codes
        versions, new = (version, self._n_versions, self._kept), self._send(Recipe(problem=problem))
        stats: CodeStats = self._run(update_codes, versions, recipe, new, tol, max_iter)
        self._codes = self._n_versions, new
        return stats

    def code_residual(self, problem: CodeProblem) -> float:
        """Return the largest optimality residual of the present codes."""
        return float(self._run("code_residual", self._send(problem), combine=max))

    def largest_residuals(self, D: Array, k: int) -> Array:
        """Return X − U D for the (at most) k rows where it is longest, the longest first."""
        combine = partial(longest_rows, k)
        return np.asarray(self._run("largest_residuals", self._send(D), k, combine=combine))


def _identity(chunk: Chunk) -> Any:
    return chunk


def _unpickle(*parts: bytes) -> Any:
    return pickle.loads(b"".join(parts))
