import threading
import time

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from lincode.rows.threads import ordered_map, thread_count


def blas_threads() -> list[int]:
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]


@pytest.mark.parametrize("n_threads", [1, 4])
def test_results_come_in_the_order_of_the_items(n_threads: int) -> None:
    def slow_first(i: int) -> int:
        time.sleep(0.02 if i == 0 else 0)
        return i * i

    assert list(ordered_map(slow_first, range(6), n_threads)) == [0, 1, 4, 9, 16, 25]


def test_few_results_wait_behind_a_slow_one() -> None:
    started = []
    release = threading.Event()

    def slow_first(i: int) -> int:
        started.append(i)
        if i == 0:
            release.wait(10)
        return i

    results = ordered_map(slow_first, range(100), 2)
    threading.Timer(0.2, release.set).start()
    assert next(results) == 0
    assert max(started) <= 5
    assert list(results) == list(range(1, 100))


def test_threads_are_used_each_with_one_blas_thread_and_all_is_put_back() -> None:
    before = blas_threads()
    barrier = threading.Barrier(2, timeout=10)  # passes only if two run at once

    def meet(_: int) -> list[int]:
        barrier.wait()
        return blas_threads()

    for inside in ordered_map(meet, range(2), 2):
        assert all(n == 1 for n in inside)
    assert blas_threads() == before


def test_an_error_in_a_thread_is_raised_and_all_is_put_back() -> None:
    before = blas_threads()

    def fail(i: int) -> int:
        raise ValueError(f"item {i}")

    with pytest.raises(ValueError, match="item 0"):
        list(ordered_map(fail, range(3), 2))
    assert blas_threads() == before


def test_overlapping_users_do_not_undo_each_other() -> None:
    before = blas_threads()
    first, second = ordered_map(abs, [1, 2], 1), ordered_map(abs, [1, 2], 1)
    next(first), next(second)
    assert all(n == 1 for n in blas_threads())
    list(first)  # the first in is the first out
    assert all(n == 1 for n in blas_threads())
    list(second)
    assert blas_threads() == before


def test_none_follows_the_limits_of_blas() -> None:
    with threadpool_limits(1, user_api="blas"):
        assert thread_count(None) == 1
    assert thread_count(3) == 3
    assert thread_count(-1) >= 1


def test_after_a_failure_nothing_new_is_begun() -> None:
    started: list[int] = []

    def fail_first(i: int) -> int:
        started.append(i)
        time.sleep(0.05)
        if i == 0:
            raise ValueError("first")
        return i

    with pytest.raises(ValueError, match="first"):
        list(ordered_map(fail_first, range(50), 2))
    assert len(started) <= 4
