"""Work on blocks of rows over threads, with an answer that does not depend on their number."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

import joblib
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")


def thread_count(n_jobs: int | None) -> int:
    """Threads that ``n_jobs`` stands for.

    None is what the BLAS library would use: all cores on a free machine, fewer where
    ``OMP_NUM_THREADS``, ``threadpoolctl`` or a joblib worker has set a limit. Integers are
    scikit-learn's: −1 for all cores, −2 for all but one.
    """
    if n_jobs is not None:
        return int(joblib.effective_n_jobs(n_jobs))
    threads = [library["num_threads"] for library in _blas().info()]
    return max(threads) if threads else int(joblib.cpu_count())


def ordered_map(
    f: Callable[[Item], Result], items: Iterable[Item], n_threads: int
) -> Iterator[Result]:
    """F of each item, in the order of the items; each thread with one BLAS thread.

    The items and their order, not the number of threads, fix every sum made of the results.
    At most two results a thread wait behind a slow one, so that memory stays bounded.
    """
    with _one_blas_thread():
        if n_threads == 1:
            yield from map(f, items)
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                waiting: deque[Future[Result]] = deque()
                try:
                    for item in items:
                        waiting.append(pool.submit(f, item))
                        if len(waiting) > 2 * n_threads:
                            yield waiting.popleft().result()
                    while waiting:
                        yield waiting.popleft().result()
                finally:  # after an error, or when nobody asks any more
                    for future in waiting:
                        future.cancel()


class _OneBlasThread:
    """BLAS on one thread while anybody is inside.

    The limit is one for the whole process, so who is first in sets it and who is last out
    takes it back: fits that overlap in several threads do not undo each other.
    """

    def __init__(self) -> None:
        self.lock, self.inside = threading.Lock(), 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self.lock:
            if self.inside == 0:
                self.limit = _blas().limit(limits=1)
            self.inside += 1
        try:
            yield
        finally:
            with self.lock:
                self.inside -= 1
                if self.inside == 0:
                    self.limit.restore_original_limits()


_one_blas_thread = _OneBlasThread()


@cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries of this process: looking for them takes longer than a small product."""
    return ThreadpoolController().select(user_api="blas")
