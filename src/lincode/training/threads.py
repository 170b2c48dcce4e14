"""Threads: how many are used, and results that do not depend on their number."""

from __future__ import annotations

import _thread
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

MIN_PARALLEL_SIZE = 2048
"""Matrices whose larger dimension is below this are factored on one thread."""


def thread_count(n_jobs: int | None) -> int:
    """Return the number of threads for a value of ``n_jobs``.

    None means the number of threads that the BLAS library uses: all cores on a free machine, and
    fewer if ``OMP_NUM_THREADS``, threadpoolctl or a joblib worker sets a limit. Integers have the
    meaning they have in scikit-learn: −1 means all cores, −2 all but one.
    """
    return _blas_limit.n_threads() if n_jobs is None else int(joblib.effective_n_jobs(n_jobs))


def blas_threads(n_threads: int) -> Any:
    """Return a context in which the BLAS library uses at most ``n_threads`` threads."""
    return _blas_limit(n_threads)


def matrix_threads(size: int, n_threads: int) -> int:
    """Return how many threads to use for matrices of the given size.

    Small matrices are handled by one thread: the others would mostly wait, and they do so by
    spinning, which is slow on a machine with other load.
    """
    return n_threads if size >= MIN_PARALLEL_SIZE else 1


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], n_threads: int
) -> Iterator[Result]:
    """Yield function(item) for each item, in order, computed by ``n_threads`` threads.

    Each thread uses one BLAS thread. At most two results per thread are waiting for an earlier one,
    so the memory is bounded.
    """
    with blas_threads(1):
        if n_threads == 1:
            yield from map(function, items)
            return
        with ThreadPoolExecutor(n_threads) as pool:
            waiting: deque[Future[Result]] = deque()
            try:
                for item in items:
                    waiting.append(pool.submit(function, item))
                    if len(waiting) > 2 * n_threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:  # after an error, or if the caller stops iterating
                for future in waiting:
                    future.cancel()


def threaded_map(
    function: Callable[[Item], Result], items: Sequence[Item], n_threads: int
) -> list[Result]:
    """Return [function(item) for item in items], computed by ``n_threads`` threads.

    Each thread uses one BLAS thread. The calling thread is one of them. It does not wait for a
    thread that has no item yet, because on a busy machine this may start much later.
    """
    waiting, changed = iter(enumerate(items)), threading.Condition()
    results: dict[int, Result] = {}
    errors: list[BaseException] = []
    n_running = 0

    def work() -> None:
        nonlocal n_running
        while True:
            with changed:
                task = None if errors else next(waiting, None)
                if task is None:
                    return
                n_running += 1
            try:
                results[task[0]] = function(task[1])
            except BaseException as error:
                errors.append(error)
            finally:
                with changed:
                    n_running -= 1
                    changed.notify_all()

    with blas_threads(1):
        try:
            for _ in range(min(n_threads, len(items)) - 1):
                _thread.start_new_thread(work, ())  # Thread.start would wait until it runs
            work()
            with changed:
                changed.wait_for(lambda: n_running == 0)
        except BaseException as error:
            errors.append(error)  # so that the other threads stop
            raise
    if errors:
        raise errors[0]
    return [results[i] for i in range(len(items))]


def prefetch(items: Iterator[Item]) -> Iterator[Item]:
    """Yield the items, each of which is computed in a thread while the one before it is used."""
    end = object()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(next, items, end)
        while (item := future.result()) is not end:
            future = pool.submit(next, items, end)
            yield item  # type: ignore[misc]
            del item  # so that at most two items exist while the next one is awaited


class _BlasLimit:
    """The limit on BLAS threads, which is global to the process.

    Several callers may be inside at the same time, in one thread or in several. The smallest of
    their limits applies, and the original setting is restored when the last caller leaves.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.limits: list[int] = []
        self.original_threads = 0

    def n_threads(self) -> int:
        """Return the number of BLAS threads, without the limits that are set here."""
        with self.lock:
            return self.original_threads if self.limits else self._current_threads()

    @staticmethod
    def _current_threads() -> int:
        threads = [library.num_threads for library in _blas().lib_controllers]
        return max(threads) if threads else int(joblib.cpu_count())

    @contextmanager
    def __call__(self, n_threads: int) -> Iterator[None]:
        with self.lock:
            if not self.limits:
                self.original_threads = self._current_threads()
                self.original = _set_limit(min(n_threads, self.original_threads))
            elif n_threads < min(self.limits):
                _set_limit(min(n_threads, self.original_threads))
            self.limits.append(n_threads)
        try:
            yield
        finally:
            with self.lock:
                self.limits.remove(n_threads)
                if not self.limits:
                    _allow_any_thread_to_set_limits()
                    self.original.restore_original_limits()
                    _allow_any_thread_to_set_limits()
                elif n_threads < min(self.limits):
                    _set_limit(min(*self.limits, self.original_threads))


_blas_limit = _BlasLimit()


@cache
def _blas() -> ThreadpoolController:
    """Return the BLAS libraries of this process. Finding them takes longer than a small product."""
    return ThreadpoolController().select(user_api="blas")


def _set_limit(n_threads: int) -> Any:
    """Limit the BLAS threads; return an object that restores the present setting."""
    _allow_any_thread_to_set_limits()
    return _blas().limit(limits=n_threads)


def _allow_any_thread_to_set_limits() -> None:
    """Undo the rule of threadpoolctl 3.8 that only the first Python thread may change the limit."""
    for library in _blas().lib_controllers:
        clear = getattr(library, "clear_controlling_thread", None)
        if clear is not None:
            clear(force=True)
