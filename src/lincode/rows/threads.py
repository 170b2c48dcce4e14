"""Work on blocks of rows over threads, with an answer that does not depend on their number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
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
    """
    with _blas().limit(limits=1):
        if n_threads == 1:
            yield from map(f, items)
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                yield from pool.map(f, items)


@cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries of this process: looking for them takes longer than a small product."""
    return ThreadpoolController().select(user_api="blas")
