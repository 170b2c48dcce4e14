"""Threads: the order of results, and the limit on the threads of the BLAS library."""

import threading
import time
from collections.abc import Iterator

import joblib
import pytest
from lincode.rows.threads import (
    MIN_PARALLEL_SIZE,
    blas_threads,
    matrix_threads,
    ordered_map,
    thread_count,
    threaded_map,
)
from threadpoolctl import threadpool_info, threadpool_limits


def present_limit() -> list[int]:
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]


@pytest.fixture
def four_blas_threads() -> Iterator[None]:
    with threadpool_limits(4, user_api="blas"):
        yield


@pytest.mark.parametrize("n_threads", [1, 4])
def test_results_are_in_the_order_of_the_items(n_threads: int) -> None:
    def slow_first(i: int) -> int:
        time.sleep(0.02 if i == 0 else 0)
        return i * i

    assert list(ordered_map(slow_first, range(6), n_threads)) == [0, 1, 4, 9, 16, 25]


def test_few_items_are_computed_ahead_of_a_slow_one() -> None:
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


@pytest.mark.usefixtures("four_blas_threads")
def test_each_thread_uses_one_blas_thread_and_the_limit_is_restored() -> None:
    before = present_limit()
    barrier = threading.Barrier(2, timeout=10)  # passes only if two threads run at once

    def meet(_: int) -> list[int]:
        barrier.wait()
        return present_limit()

    for inside in ordered_map(meet, range(2), 2):
        assert all(n == 1 for n in inside)
    assert present_limit() == before


@pytest.mark.usefixtures("four_blas_threads")
def test_error_in_a_thread_is_raised_and_the_limit_is_restored() -> None:
    before = present_limit()

    def fail(i: int) -> int:
        raise ValueError(f"item {i}")

    with pytest.raises(ValueError, match="item 0"):
        list(ordered_map(fail, range(3), 2))
    assert present_limit() == before


@pytest.mark.usefixtures("four_blas_threads")
def test_overlapping_maps_do_not_reset_the_limit_of_each_other() -> None:
    before = present_limit()
    first, second = ordered_map(abs, [1, 2], 1), ordered_map(abs, [1, 2], 1)
    next(first), next(second)
    assert all(n == 1 for n in present_limit())
    list(first)  # the first to enter is the first to leave
    assert all(n == 1 for n in present_limit())
    list(second)
    assert present_limit() == before


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("n_items", [0, 1, 2, 7])
def test_threaded_map_returns_the_results_in_the_order_of_the_items(
    n_threads: int, n_items: int
) -> None:
    def slow_first(i: int) -> int:
        time.sleep(0.02 if i == 0 else 0)
        return i * i

    assert threaded_map(slow_first, range(n_items), n_threads) == [i * i for i in range(n_items)]


@pytest.mark.usefixtures("four_blas_threads")
def test_threaded_map_uses_the_calling_thread_and_one_blas_thread_per_thread() -> None:
    before = present_limit()
    barrier = threading.Barrier(3, timeout=10)  # passes only if three threads run at once

    def meet(_: int) -> tuple[int, list[int]]:
        barrier.wait()
        return threading.get_ident(), present_limit()

    threads, limits = zip(*threaded_map(meet, range(3), 3), strict=True)
    assert len(set(threads)) == 3
    assert threading.get_ident() in threads
    assert all(n == 1 for inside in limits for n in inside)
    assert present_limit() == before
    assert threaded_map(lambda _: threading.get_ident(), range(4), 1) == 4 * [threading.get_ident()]


@pytest.mark.usefixtures("four_blas_threads")
@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("kind", [ValueError, StopIteration, KeyboardInterrupt])
def test_threaded_map_raises_an_error_and_starts_no_further_item(
    n_threads: int, kind: type[BaseException]
) -> None:
    before, n_before = present_limit(), threading.active_count()
    started: list[int] = []

    def fail_third(i: int) -> int:
        started.append(i)
        time.sleep(0.02)
        if i == 2:
            raise kind("third")
        return i

    with pytest.raises(kind, match="third"):
        threaded_map(fail_third, range(50), n_threads)
    assert len(started) <= 3 + n_threads
    assert present_limit() == before
    assert threading.active_count() == n_before


def test_thread_count_none_follows_the_limit_of_blas() -> None:
    with threadpool_limits(1, user_api="blas"):
        assert thread_count(None) == 1
    with threadpool_limits(3, user_api="blas"):
        assert thread_count(None) == max(present_limit())
    assert thread_count(3) == 3
    assert thread_count(-1) == joblib.cpu_count()
    assert thread_count(-2) == max(joblib.cpu_count() - 1, 1)


@pytest.mark.usefixtures("four_blas_threads")
def test_thread_count_none_ignores_the_limits_of_the_library() -> None:
    before = thread_count(None)
    with blas_threads(1):
        assert thread_count(None) == before
    assert thread_count(None) == before


def test_no_item_is_started_after_a_failure() -> None:
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


@pytest.mark.parametrize("n_threads", [1, 3])
def test_limit_is_restored_if_the_caller_stops_iterating(n_threads: int) -> None:
    with threadpool_limits(2, user_api="blas"):
        before = present_limit()
        results = ordered_map(abs, range(100), n_threads)
        next(results)
        assert all(n == 1 for n in present_limit())
        results.close()  # type: ignore[attr-defined]
        assert present_limit() == before


@pytest.mark.usefixtures("four_blas_threads")
def test_smallest_of_nested_limits_applies() -> None:
    before = present_limit()
    with blas_threads(3):
        assert max(present_limit()) == min(3, max(before))
        with blas_threads(1):
            assert max(present_limit()) == 1
            with blas_threads(2):
                assert max(present_limit()) == 1
            assert max(present_limit()) == 1
        assert max(present_limit()) == min(3, max(before))
    assert present_limit() == before


def test_limit_never_exceeds_that_of_the_caller() -> None:
    with threadpool_limits(1, user_api="blas"):
        with blas_threads(4):
            assert max(present_limit()) == 1
            with blas_threads(8):
                assert max(present_limit()) == 1
            assert max(present_limit()) == 1
        assert max(present_limit()) == 1


def test_limit_is_restored_if_another_thread_leaves_last() -> None:
    """threadpoolctl 3.8 ignores all threads but the first that sets a limit."""
    before = present_limit()
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with blas_threads(1):
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=hold)
    with threadpool_limits(3, user_api="blas"):
        three = present_limit()
        with blas_threads(1):
            thread.start()
            assert entered.wait(10)
        assert max(present_limit()) == 1
        leave.set()
        thread.join(10)
        assert present_limit() == three
    assert present_limit() == before


def test_any_thread_may_set_a_limit_after_the_first_one() -> None:
    with threadpool_limits(3, user_api="blas"):
        before = present_limit()
        with blas_threads(2):
            pass
        seen: list[list[int]] = []

        def observe() -> None:
            with blas_threads(1):
                seen.append(present_limit())

        thread = threading.Thread(target=observe)
        thread.start()
        thread.join(10)
        assert max(seen[0]) == 1
        assert present_limit() == before


@pytest.mark.usefixtures("four_blas_threads")
@pytest.mark.parametrize("first_out", [0, 1])
@pytest.mark.parametrize("limits", [(1, 2), (2, 1), (2, 2)])
def test_overlapping_limits_of_two_threads(limits: tuple[int, int], first_out: int) -> None:
    before = present_limit()
    entered = [threading.Event(), threading.Event()]
    leave = [threading.Event(), threading.Event()]

    def hold(k: int) -> None:
        with blas_threads(limits[k]):
            entered[k].set()
            leave[k].wait(10)

    threads = [threading.Thread(target=hold, args=(k,)) for k in range(2)]
    for thread, event in zip(threads, entered, strict=True):
        thread.start()
        assert event.wait(10)
    assert max(present_limit()) == min(limits)
    leave[first_out].set()
    threads[first_out].join(10)
    assert max(present_limit()) == limits[1 - first_out]
    leave[1 - first_out].set()
    threads[1 - first_out].join(10)
    assert present_limit() == before


@pytest.mark.usefixtures("four_blas_threads")
def test_limit_is_restored_after_an_error() -> None:
    before = present_limit()
    with pytest.raises(ZeroDivisionError), blas_threads(1):
        raise ZeroDivisionError
    assert present_limit() == before


def test_small_matrices_use_one_thread() -> None:
    assert matrix_threads(MIN_PARALLEL_SIZE - 1, 8) == 1
    assert matrix_threads(MIN_PARALLEL_SIZE, 8) == 8
    assert matrix_threads(MIN_PARALLEL_SIZE, 1) == 1
