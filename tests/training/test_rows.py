"""Rows in memory, threads, and the memory that is needed."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import joblib
import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

from lincode import SCNN
from lincode.core.arrays import gram, scan_rows
from lincode.core.lasso import CodeProblem, code_step
from lincode.core.ridge import encoder_step
from lincode.core.threshold import Thresholding, soft_threshold
from lincode.exceptions import InvalidInputError
from lincode.training.rows import (
    MemoryRows,
    chunks,
    factor_rows,
    needs_iterative_factor,
)
from lincode.training.threads import (
    MIN_PARALLEL_SIZE,
    blas_threads,
    matrix_threads,
    ordered_map,
    thread_count,
    threaded_map,
)

either_kind = pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_array])

# Rows in memory


@pytest.fixture
def problem(rng: np.random.Generator) -> CodeProblem:
    D, C = rng.standard_normal((2, 40, 10)) / 4
    return CodeProblem.of(D, C, 0.3, 1.0, positive=False, dtype=D.dtype)


@either_kind
def test_codes_and_their_statistics(
    rng: np.random.Generator, problem: CodeProblem, convert: Any
) -> None:
    """They do not depend on threads, and are those of one call of the U step."""
    X = rng.standard_normal((3500, 10)) * (rng.random((3500, 10)) < 0.5)
    assert len(chunks(3500, 40)) >= 2
    rows, other = (MemoryRows(convert(X), 40, n_threads=n) for n in (1, 3))
    stats = rows.update_codes(problem, tol=1e-8, max_iter=5000)
    same = other.update_codes(problem, tol=1e-8, max_iter=5000)
    assert_array_equal(other.U, rows.U)
    assert_array_equal(same.UtU, stats.UtU)
    assert_array_equal(same.UtX, stats.UtX)
    whole = code_step(np.zeros((3500, 40)), X, problem, tol=1e-8, max_iter=5000)
    assert_allclose(rows.U, whole.U, atol=1e-7)
    assert_allclose(stats.UtU, rows.U.T @ rows.U)
    assert_allclose(stats.UtX, rows.U.T @ X, atol=1e-9)
    assert_allclose(rows.stats().UtX, stats.UtX)
    assert_array_equal(stats.used, np.count_nonzero(rows.U, axis=0))
    assert_allclose(rows.code_residual(problem), stats.residual)
    assert 0 < stats.residual <= 1e-8


@either_kind
def test_largest_residuals_are_the_longest_in_order(rng: np.random.Generator, convert: Any) -> None:
    X, U, D = rng.standard_normal((300, 4)), rng.standard_normal((300, 3)), np.eye(3, 4)
    R = X - U @ D
    rows = MemoryRows(convert(X), 3, n_threads=2)
    rows.U[...] = U
    expected = R[np.argsort(-np.linalg.norm(R, axis=1))[:5]]
    assert_allclose(rows.largest_residuals(D, 5), expected, atol=1e-12)
    assert len(rows.subset(np.arange(2)).largest_residuals(D, 5)) == 2


@pytest.mark.parametrize("shape", [(50, 6), (6, 50)])
@either_kind
def test_gram_and_factor_are_those_of_xtx(
    rng: np.random.Generator, shape: tuple[int, int], convert: Any
) -> None:
    X, UtX = rng.standard_normal(shape), rng.standard_normal((4, shape[1]))
    assert_allclose(gram(convert(X)), X.T @ X, atol=1e-12)
    assert_allclose(gram(convert(X), rows_per_block=7), X.T @ X, atol=1e-12)
    factor = factor_rows(convert(X))
    assert_allclose(factor.trace, (X**2).sum())
    expected = UtX @ np.linalg.pinv(X.T @ X, rcond=1e-12)
    assert_allclose(encoder_step(UtX, factor), expected, atol=1e-9)


@either_kind
def test_scan_is_not_finite_if_a_square_is_not(convert: Any) -> None:
    for row, value in ((0, np.nan), (59_999, np.nan), (0, -np.inf), (59_999, 1e200)):
        X = np.ones((60_000, 5))
        X[row, 3] = value
        _, lengths = scan_rows(convert(X))
        assert not np.isfinite(lengths.mean)
        assert not np.isfinite(lengths.longest)


@either_kind
def test_codes_are_set_by_the_encoder(rng: np.random.Generator, convert: Any) -> None:
    X, C = rng.standard_normal((60_000, 5)), rng.standard_normal((4, 5))
    rows = MemoryRows(convert(X), 4, n_threads=1)
    rule = Thresholding("soft", 0.5, positive=True)
    rows.set_codes(C, rule)
    assert_allclose(rows.U, soft_threshold(X @ C.T, 0.5, positive=True), atol=1e-12)
    saved = rows.save_codes()
    rows.set_codes(np.zeros((4, 5)), rule)
    assert not rows.U.any()
    rows.restore_codes(saved)
    assert rows.U.any()


def test_penalties_of_rows(rng: np.random.Generator, problem: CodeProblem) -> None:
    """A row with the penalty factor f has f times the code of the row divided by f."""
    X = rng.standard_normal((50, 10))
    f = rng.uniform(0.2, 1, 50)
    rows = MemoryRows(X, 40, n_threads=1, penalties=f)
    stats = rows.update_codes(problem, tol=1e-10, max_iter=5000)
    plain = MemoryRows(X / f[:, None], 40, n_threads=1)
    plain.update_codes(problem, tol=1e-10, max_iter=5000)
    assert_allclose(rows.U, f[:, None] * plain.U, atol=1e-8)
    assert_allclose(stats.UtX, rows.U.T @ X)
    subset = rows.subset(np.array([3, 7]))
    subset.update_codes(problem, tol=1e-10, max_iter=5000)
    assert_allclose(subset.U, rows.U[[3, 7]], atol=1e-8)


# Threads


def present_limit() -> int:
    return max(int(lib["num_threads"]) for lib in threadpool_info() if lib["user_api"] == "blas")


@pytest.fixture
def four_blas_threads() -> Iterator[None]:
    with threadpool_limits(4, user_api="blas"):
        yield
        assert present_limit() == 4, "the limit is restored"


both_maps = pytest.mark.parametrize("map_in_threads", [ordered_map, threaded_map])


@both_maps
def test_results_are_in_the_order_of_the_items(map_in_threads: Any) -> None:
    def slow_first(i: int) -> int:
        time.sleep(0.02 if i == 0 else 0)
        return i * i

    for n_threads in (1, 4):
        assert list(map_in_threads(slow_first, range(6), n_threads)) == [0, 1, 4, 9, 16, 25]
        assert list(map_in_threads(slow_first, [], n_threads)) == []


def test_items_do_not_wait_for_a_thread_that_does_not_start(monkeypatch: Any) -> None:
    monkeypatch.setattr("_thread.start_new_thread", lambda *_: None)
    assert threaded_map(abs, [-1, 2, -3], 2) == [1, 2, 3]


@both_maps
@pytest.mark.usefixtures("four_blas_threads")
def test_each_thread_uses_one_blas_thread(map_in_threads: Any) -> None:
    barrier = threading.Barrier(3, timeout=10)  # passes only if three threads run at once

    def meet(_: int) -> int:
        barrier.wait()
        return present_limit()

    assert list(map_in_threads(meet, range(3), 3)) == [1, 1, 1]


@both_maps
@pytest.mark.usefixtures("four_blas_threads")
def test_an_error_is_raised_and_no_further_item_is_started(map_in_threads: Any) -> None:
    started: list[int] = []

    def fail_third(i: int) -> int:
        started.append(i)
        time.sleep(0.02)
        if i == 2:
            raise KeyboardInterrupt("third")
        return i

    with pytest.raises(KeyboardInterrupt, match="third"):
        list(map_in_threads(fail_third, range(50), 2))
    assert len(started) <= 8


@pytest.mark.usefixtures("four_blas_threads")
def test_few_items_are_computed_ahead_and_the_caller_may_stop() -> None:
    started: list[int] = []
    results = ordered_map(started.append, range(100), 2)
    next(results)
    time.sleep(0.05)
    assert len(started) <= 5
    assert present_limit() == 1
    results.close()  # type: ignore[attr-defined]


def test_thread_count() -> None:
    for n in (1, 3):
        with threadpool_limits(n, user_api="blas"):
            assert thread_count(None) == present_limit() == n
            with blas_threads(1):  # the limits of the library do not count
                assert thread_count(None) == n
    assert thread_count(3) == 3
    assert thread_count(-1) == joblib.cpu_count()
    assert matrix_threads(MIN_PARALLEL_SIZE - 1, 8) == 1
    assert matrix_threads(MIN_PARALLEL_SIZE, 8) == 8


@pytest.mark.usefixtures("four_blas_threads")
def test_smallest_of_nested_limits_applies() -> None:
    with blas_threads(3):
        assert present_limit() == 3
        with blas_threads(1):
            with blas_threads(2):
                assert present_limit() == 1
            assert present_limit() == 1
        assert present_limit() == 3
    with blas_threads(8):
        assert present_limit() == 4


@pytest.mark.usefixtures("four_blas_threads")
@pytest.mark.parametrize("first_out", [0, 1])
@pytest.mark.parametrize("limits", [(1, 2), (2, 1)])
def test_overlapping_limits_of_two_threads(limits: tuple[int, int], first_out: int) -> None:
    """threadpoolctl 3.8 by itself ignores all threads but the first that sets a limit."""
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
    assert present_limit() == min(limits)
    for k, remaining in ((first_out, limits[1 - first_out]), (1 - first_out, 4)):
        leave[k].set()
        threads[k].join(10)
        assert present_limit() == remaining


# Memory


@pytest.mark.skipif(sys.platform != "linux", reason="the available memory is not known")
def test_too_large_requirements_are_refused_and_change_nothing(rng: np.random.Generator) -> None:
    X = rng.standard_normal((300, 8))
    scnn = SCNN(4, random_state=0).fit(X)
    before = scnn.transform(X)
    with pytest.raises(InvalidInputError, match=r"300 samples .* GB are available; use MiniBatch"):
        scnn.set_params(n_components=10**11).fit(X)
    repeated: Any = np.broadcast_to(X[0], (10**12, 8))  # it needs the memory of one row
    with pytest.raises(InvalidInputError, match="set sparse_output=True, or transform fewer"):
        scnn.transform(repeated)
    assert_array_equal(scnn.transform(X), before)


def test_choice_of_the_factor_depends_on_sizes_only() -> None:
    for shape, dense, sparse in (
        ((5000, 2048), False, False),
        ((2048, 60_000), True, True),
        ((1500, 50_000), False, True),
        ((5000, 2049), False, True),
    ):
        assert needs_iterative_factor(np.broadcast_to(np.float32(0), shape)) == dense
        assert needs_iterative_factor(scipy.sparse.csr_array(shape, dtype=np.float32)) == sparse
