"""Tasks on the chunks of a Dask cluster: where they run, and what happens if a worker is lost.

Every task runs on the worker that has its chunk, because the codes of the chunk are there. Without
this restriction Dask would move tasks to idle workers. If a worker is lost, Dask makes its chunks
again on other workers, and the tasks of these chunks are submitted again.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from distributed import Client, Future, wait

from lincode.exceptions import ClusterError

WAIT_SECONDS = 50.0
"""How long a cluster may be without workers."""
POLL_SECONDS = 0.5
"""How often the list of workers is read during a computation."""
MAX_RESTARTS = 10
"""How often one computation is submitted again because workers were lost."""
FAN_IN = 8
"""The number of results that one task of the reduction tree combines."""
MESSAGE_BYTES = 8_000_000
"""Larger arguments are sent in several messages. Dask warns about messages above 10 MB."""


class Chunks:
    """The chunks of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
        The client.
    futures : list of Future
        One chunk each.
    """

    def __init__(self, client: Client, futures: list[Future]) -> None:
        self.client, self.futures = client, futures
        self.weights = [1] * len(futures)
        """The number of rows of each chunk, by which chunks are distributed"""
        self.homes: list[str] = [""] * len(futures)
        """The address of the worker that has each chunk"""
        self._workers: set[str] = set()

    def keep(self, indices: Sequence[int], weights: Sequence[int]) -> None:
        """Drop all chunks but the given ones, and set their weights."""
        self.futures = [self.futures[i] for i in indices]
        self.homes = [self.homes[i] for i in indices]
        self.weights = list(weights)
        self._workers = set()

    def broadcast(self, value: Any) -> Future:
        """Return the future of a small task whose result is the value.

        The value is an argument of the task, so that Dask can compute it again, which is not
        possible for scattered data.
        """
        data = pickle.dumps(value, protocol=5)
        parts: list[Any] = [data[i : i + MESSAGE_BYTES] for i in range(0, len(data), MESSAGE_BYTES)]
        with self._connected():
            if len(parts) > 1:
                parts = [self.client.submit(_identity, part, pure=False) for part in parts]
            return self.client.submit(_unpickle, *parts, pure=False)

    def each(self, task: Callable[..., Any], arguments: dict[int, tuple[Any, ...]]) -> list[Any]:
        """Return task(chunk i, *arguments[i]) for some chunks, in the order of ``arguments``."""
        with self._connected():
            return self._each(task, arguments)

    def _each(self, task: Callable[..., Any], arguments: dict[int, tuple[Any, ...]]) -> list[Any]:
        results: dict[int, Any] = {}
        for _ in range(MAX_RESTARTS):
            self._place()
            futures = {
                i: self.client.submit(
                    task, self.futures[i], *args, workers=[self.homes[i]], pure=False
                )
                for i, args in arguments.items()
                if i not in results
            }
            homes = {self.homes[i] for i in futures}
            self._wait(list(futures.values()), homes)
            done = {i: future for i, future in futures.items() if future.done()}
            results |= dict(zip(done, self._gather(list(done.values())), strict=True))
            if len(results) == len(arguments):
                return [results[i] for i in arguments]
        raise _lost_too_often()

    def reduce(
        self,
        task: Callable[..., Any],
        arguments: Callable[[int], tuple[Any, ...]],
        combine: Callable[..., Any],
    ) -> Any:
        """Return combine(*results) of task(chunk i, *arguments(i)) for all chunks.

        The results of a worker are combined there, those of the workers by a tree of tasks. The
        order therefore depends on where the chunks are.
        """
        with self._connected():
            return self._reduce(task, arguments, combine)

    def _reduce(
        self,
        task: Callable[..., Any],
        arguments: Callable[[int], tuple[Any, ...]],
        combine: Callable[..., Any],
    ) -> Any:
        groups: list[tuple[str, list[int], Future]] = []
        waiting = list(range(len(self.futures)))
        for _ in range(MAX_RESTARTS):
            self._place()
            new: dict[str, list[int]] = {}
            for i in waiting:
                new.setdefault(self.homes[i], []).append(i)
            for worker, chunks in new.items():
                future = self._submit_group(worker, chunks, task, arguments, combine)
                groups.append((worker, chunks, future))
            total = self._tree([future for _, _, future in groups], combine)
            if self._wait([total], {worker for worker, _, _ in groups}):
                return self._gather([total])[0]
            alive = self._alive()
            waiting = [i for worker, chunks, _ in groups if worker not in alive for i in chunks]
            groups = [group for group in groups if group[0] in alive]
        raise _lost_too_often()

    def _submit_group(
        self,
        worker: str,
        chunks: list[int],
        task: Callable[..., Any],
        arguments: Callable[[int], tuple[Any, ...]],
        combine: Callable[..., Any],
    ) -> Future:
        """Submit the tasks of one worker, and their combination in steps that need little memory.

        Tasks that are submitted earlier run earlier.
        """
        submit, at = self.client.submit, {"workers": [worker], "pure": False}
        total: list[Future] = []
        for start in range(0, len(chunks), FAN_IN):
            parts = [
                submit(task, self.futures[i], *arguments(i), **at)
                for i in chunks[start : start + FAN_IN]
            ]
            total = [submit(combine, *total, *parts, **at)]
        return total[0]

    def _tree(self, futures: list[Future], combine: Callable[..., Any]) -> Future:
        while len(futures) > 1:
            futures = [
                self.client.submit(combine, *futures[i : i + FAN_IN], pure=False)
                for i in range(0, len(futures), FAN_IN)
            ]
        return futures[0]

    # Waiting, and where chunks are

    def wait_for(self, futures: list[Future]) -> None:
        """Wait for tasks that may run on any worker."""
        self._wait(futures, set())
        for future in futures:
            if future.status == "error":
                self._gather([future])  # raises the error

    def _wait(self, futures: list[Future], workers: set[str]) -> bool:
        """Wait until futures are done (True), or until one of the workers is lost (False)."""
        while True:
            try:
                wait(futures, timeout=POLL_SECONDS)
                return True
            except TimeoutError:
                if not workers <= self._alive().keys():
                    return False

    def _gather(self, futures: list[Future]) -> list[Any]:
        return [future.result() for future in futures]

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Raise a clear error if the scheduler is lost. Errors of tasks are not changed."""
        try:
            yield
        except ClusterError:
            raise
        except CancelledError as error:
            raise _disconnected() from error
        except Exception as error:
            if self.client.status != "running":
                raise _disconnected() from error
            raise

    def _alive(self) -> dict[str, int]:
        """Return the number of threads of each worker, and wait if there are no workers."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            workers: dict[str, int] = self.client.nthreads()
            if workers:
                return workers
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"the Dask cluster has had no workers for {WAIT_SECONDS:.0f} seconds; start"
                    " workers and call fit again."
                )
            time.sleep(POLL_SECONDS)

    def _place(self) -> None:
        """Update ``homes``, and use workers that have joined."""
        while True:
            alive = self._alive()
            lost = [i for i, home in enumerate(self.homes) if home not in alive]
            if lost:  # Dask makes them again
                self.wait_for([self.futures[i] for i in lost])
                self._find(lost, alive)
                continue
            if set(alive) == self._workers:
                return
            self._workers = set(alive)
            moves = balance(self.homes, self.weights, alive)
            for i, worker in moves.items():
                # The result has another key, so that only the copy on the new worker is kept.
                self.futures[i] = self.client.submit(
                    _identity,
                    self.futures[i],
                    workers=[worker],
                    allow_other_workers=True,
                    pure=False,
                )
            self.wait_for([self.futures[i] for i in moves])
            self._find(moves, alive)

    def _find(self, chunks: Iterable[int], alive: dict[str, int]) -> None:
        """Ask the scheduler where some chunks are."""
        keys = {i: self.futures[i] for i in chunks}
        holders = self.client.who_has(list(keys.values())) if keys else {}
        for i, future in keys.items():
            found = [worker for worker in holders.get(future.key, ()) if worker in alive]
            self.homes[i] = min(found, default="")


def balance(
    homes: Sequence[str], weights: Sequence[int], threads: dict[str, int]
) -> dict[int, str]:
    """Return which chunks should move to which worker, so that all have about the same load.

    The load of a worker is the weight of its chunks per thread. A chunk of the worker with the
    largest load moves to another worker if the load of that worker is then smaller.

    Examples
    --------
    >>> balance(["a", "a", "a"], [10, 10, 10], {"a": 1, "b": 1})
    {2: 'b'}
    """
    chunks: dict[str, list[int]] = {worker: [] for worker in threads}
    for i, home in enumerate(homes):
        chunks.setdefault(home, []).append(i)
    total = {worker: sum(weights[i] for i in chunks[worker]) for worker in threads}
    moves: dict[int, str] = {}

    def larger_load(i: int, source: str, target: str) -> float:
        """Return the larger load of two workers after a move."""
        remaining = (total[source] - weights[i]) / threads[source]
        return max(remaining, (total[target] + weights[i]) / threads[target])

    while True:
        most = max(threads, key=lambda worker: total[worker] / threads[worker])
        load = total[most] / threads[most]
        smallest = min((weights[i] for i in chunks[most]), default=0)
        target = min(threads, key=lambda worker: (total[worker] + smallest) / threads[worker])
        better = [i for i in chunks[most] if (total[target] + weights[i]) / threads[target] < load]
        if not better:
            return moves
        _, _, last = min((larger_load(i, most, target), weights[i], -i) for i in better)
        i = -last
        moves[i] = target
        chunks[most].remove(i)
        chunks[target].append(i)
        total[most] -= weights[i]
        total[target] += weights[i]


def _identity(value: Any) -> Any:
    return value


def _unpickle(*parts: bytes) -> Any:
    return pickle.loads(b"".join(parts))


def _lost_too_often() -> ClusterError:
    return ClusterError(
        f"workers of the Dask cluster were lost {MAX_RESTARTS} times during one computation; they"
        " may need more memory, or X smaller chunks."
    )


def _disconnected() -> ClusterError:
    return ClusterError(
        "the connection to the Dask scheduler was lost, or the computation was cancelled; connect"
        " a new client and call fit again."
    )
