"""Rows in memory, a row source of another kind, threads and the memory that is needed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import reduce
from operator import add
from typing import Any

import joblib
import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from threadpoolctl import threadpool_info, threadpool_limits

from lincode import SCNN, MiniBatchSCNN
from lincode.core.arrays import Array, RowLengths, Rows, gram, sample_indices, scan_rows
from lincode.core.dictionary import start_from_data
from lincode.core.energy import CodeStats
from lincode.core.lasso import CodeProblem, code_step
from lincode.core.ridge import EncoderFactor, encoder_step, factor_gram
from lincode.core.threshold import Thresholding, encode, soft_threshold
from lincode.exceptions import InvalidInputError
from lincode.training import rows as rows_module
from lincode.training.alternation import EnergyWeights, SCNNTraining
from lincode.training.loop import Outcome, train
from lincode.training.rows import (
    MemoryRows,
    RowSource,
    chunks,
    code_blocks,
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
    X = rng.standard_normal((6000, 10)) * (rng.random((6000, 10)) < 0.5)
    assert len(chunks(6000, 40)) >= 2
    rows, other = (MemoryRows(convert(X), 40, n_threads=n) for n in (1, 3))
    stats = rows.update_codes(problem, tol=1e-8, max_iter=5000)
    same = other.update_codes(problem, tol=1e-8, max_iter=5000)
    assert_array_equal(other.U, rows.U)
    assert_array_equal(same.UtU, stats.UtU)
    assert_array_equal(same.UtX, stats.UtX)
    whole = code_step(np.zeros((6000, 40)), X, problem, tol=1e-8, max_iter=5000)
    assert_allclose(rows.U, whole.U, atol=1e-7)
    assert_allclose(stats.UtU, rows.U.T @ rows.U)
    assert_allclose(stats.UtX, rows.U.T @ X, atol=1e-9)
    assert_allclose(rows.stats().UtX, stats.UtX)
    assert_array_equal(stats.used, np.count_nonzero(rows.U, axis=0))
    assert_allclose(rows.code_residual(problem), stats.residual)
    assert 0 < stats.residual <= 1e-8


@either_kind
def test_largest_residuals_are_the_longest_in_order(
    rng: np.random.Generator, convert: Any
) -> None:
    X, U, D = rng.standard_normal((300, 4)), rng.standard_normal((300, 3)), np.eye(3, 4)
    R = X - U @ D
    rows = MemoryRows(convert(X), 3, n_threads=2)
    rows.U[...] = U
    expected = R[np.argsort(-np.linalg.norm(R, axis=1))[:5]]
    assert_allclose(rows.largest_residuals(D, 5), expected, atol=1e-12)
    assert len(rows.subset(np.arange(2)).largest_residuals(D, 5)) == 2


@pytest.mark.parametrize(("n", "m"), [(1, 1), (15, 10_000), (60_000, 100)])
def test_every_row_is_in_one_block(n: int, m: int) -> None:
    for partition in (chunks(n, m), code_blocks(n, m)):
        assert [i for part in partition for i in range(part.start, part.stop)] == list(range(n))


@pytest.mark.parametrize(("N", "n"), [(1, 1), (10, 3), (10, 100), (10_001, 10_000)])
def test_sample_indices_are_different_rows_in_order(N: int, n: int) -> None:
    indices = sample_indices(N, n)
    assert len(indices) == min(N, n)
    assert (np.diff(indices) > 0).all()
    assert 0 <= indices[0] <= indices[-1] < N
    if N > 20:  # rows of every kind of periodic data
        assert 0.4 < (sample_indices(N, n // 2) % 2).mean() < 0.6


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
def test_sums_of_float32_are_those_of_float64(rng: np.random.Generator, convert: Any) -> None:
    X = (100 + rng.standard_normal((30_000, 7))).astype(np.float32)
    X[5_000:20_000] = 0
    exact = X.astype(np.float64)
    assert_allclose(gram(convert(X)), exact.T @ exact, rtol=1e-12)
    lengths = MemoryRows(convert(X), 3, n_threads=1).row_lengths()
    assert_allclose(lengths.longest, np.linalg.norm(exact, axis=1).max(), rtol=1e-12)
    assert_allclose(lengths.mean, np.linalg.norm(exact, axis=1).mean(), rtol=1e-12)


@either_kind
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200])
def test_scan_is_not_finite_if_a_square_is_not(convert: Any, value: float) -> None:
    for row in (0, 59_999):  # in different blocks
        X = np.ones((60_000, 5))
        X[row, 3] = value
        _, lengths = scan_rows(convert(X))
        assert not np.isfinite(lengths.mean)
        assert not np.isfinite(lengths.longest)


@either_kind
@pytest.mark.parametrize("positive", [False, True])
def test_codes_are_set_by_the_encoder(
    rng: np.random.Generator, convert: Any, positive: bool
) -> None:
    X, C = rng.standard_normal((60_000, 5)), rng.standard_normal((4, 5))
    rows = MemoryRows(convert(X), 4, n_threads=1)
    rule = Thresholding("soft", 0.5, positive=positive)
    rows.set_codes(C, rule)
    assert_allclose(rows.U, soft_threshold(X @ C.T, 0.5, positive=positive), atol=1e-12)
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


# A row source of another kind


class ListOfChunks:
    """Rows in a list of arrays of different lengths, each with its own array of codes."""

    def __init__(self, parts: list[Array], m: int) -> None:
        self.parts = parts
        self.codes: list[Array] = [np.zeros((len(part), m), dtype=part.dtype) for part in parts]

    @property
    def shape(self) -> tuple[int, int]:
        return sum(map(len, self.parts)), self.parts[0].shape[1]

    @property
    def dtype(self) -> np.dtype[np.floating]:
        return np.dtype(self.parts[0].dtype)

    def row_lengths(self) -> RowLengths:
        norms = np.concatenate([np.linalg.norm(part, axis=1) for part in self.parts])
        return RowLengths(float(norms.max()), float(norms.mean()))

    def factor(self) -> EncoderFactor:
        return factor_gram(reduce(add, (part.T @ part for part in self.parts)), self.dtype)

    def take(self, indices: NDArray[np.intp]) -> Rows:
        return np.vstack(self.parts)[indices]

    def take_codes(self, indices: NDArray[np.intp]) -> Array:
        return np.asarray(np.vstack(self.codes)[indices])

    def subset(self, indices: NDArray[np.intp]) -> RowSource:
        return MemoryRows(self.take(indices), self.codes[0].shape[1], n_threads=1)

    def set_codes(self, C: Array, thresholding: Thresholding) -> None:
        for part, U in zip(self.parts, self.codes, strict=True):
            U[...] = encode(part, C.astype(self.dtype), thresholding)

    def save_codes(self) -> object:
        return [U.copy() for U in self.codes]

    def restore_codes(self, saved: object) -> None:
        assert isinstance(saved, list)
        self.codes = saved

    def stats(self) -> CodeStats:
        return reduce(add, map(CodeStats.of, self.codes, self.parts))

    def update_codes(self, problem: CodeProblem, *, tol: float, max_iter: int) -> CodeStats:
        parts = []
        for k, part in enumerate(self.parts):
            solved = code_step(self.codes[k], part, problem, tol=tol, max_iter=max_iter)
            self.codes[k] = solved.U
            parts.append(CodeStats.of(solved.U, part, solved.residual))
        return reduce(add, parts)

    def code_residual(self, problem: CodeProblem) -> float:
        return max(
            code_step(U, part, problem, tol=0.0, max_iter=0).residual
            for part, U in zip(self.parts, self.codes, strict=True)
        )

    def largest_residuals(self, D: Array, k: int) -> Array:
        R = np.vstack(self.parts) - np.vstack(self.codes) @ D
        order = np.argsort(-np.einsum("ij,ij->i", R, R), kind="stable")
        return np.asarray(R[order[:k]])


@pytest.mark.parametrize("eta", [1.0, 0.0])
def test_training_on_a_list_of_chunks_equals_training_in_memory(digits: Any, eta: float) -> None:
    X, m = digits[:400], 12
    D = start_from_data(lambda indices: X[indices], X.shape, m, np.random.RandomState(0)).D
    D[:2] = 0  # these atoms are unused at first, so that they are replaced

    def run(rows: RowSource) -> tuple[Outcome, SCNNTraining]:
        weights = EnergyWeights(0.1, eta, ridge=None)
        training = SCNNTraining(rows, D, np.zeros_like(D), weights, tol=1e-6)
        return train(training, max_iter=25, tol=1e-6), training

    chunked, in_memory = ListOfChunks(np.split(X, [1, 37, 300]), m), MemoryRows(X, m, n_threads=1)
    (expected, reference), (outcome, training) = run(in_memory), run(chunked)
    assert_allclose(outcome.energy_path, expected.energy_path, rtol=1e-8)
    assert_allclose(training.D, reference.D, atol=1e-6)
    assert training.n_replaced == reference.n_replaced >= 2
    assert_allclose(np.vstack(chunked.codes), in_memory.U, atol=1e-6)
    residuals = (network.result().optimality["joint"] for network in (training, reference))
    assert_allclose(*residuals, rtol=1e-3, atol=1e-7)


def test_protocol_has_no_further_methods() -> None:
    """Training may use only what the protocol lists."""
    required = {name for name in vars(RowSource) if not name.startswith("_")}
    assert {name for name in vars(ListOfChunks) if not name.startswith("_")} == required


# Threads


def present_limit() -> int:
    return max(lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas")


@pytest.fixture
def four_blas_threads() -> Iterator[None]:
    with threadpool_limits(4, user_api="blas"):
        yield
        assert present_limit() == 4, "the limit is restored"


both_maps = pytest.mark.parametrize("map_in_threads", [ordered_map, threaded_map])


@both_maps
@pytest.mark.parametrize("n_threads", [1, 4])
def test_results_are_in_the_order_of_the_items(map_in_threads: Any, n_threads: int) -> None:
    def slow_first(i: int) -> int:
        time.sleep(0.02 if i == 0 else 0)
        return i * i

    assert list(map_in_threads(slow_first, range(6), n_threads)) == [0, 1, 4, 9, 16, 25]
    assert list(map_in_threads(slow_first, [], n_threads)) == []


@both_maps
@pytest.mark.usefixtures("four_blas_threads")
def test_each_thread_uses_one_blas_thread(map_in_threads: Any) -> None:
    barrier = threading.Barrier(3, timeout=10)  # passes only if three threads run at once

    def meet(_: int) -> int:
        barrier.wait()
        return present_limit()

    assert list(map_in_threads(meet, range(3), 3)) == [1, 1, 1]


@both_maps
@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
@pytest.mark.usefixtures("four_blas_threads")
def test_an_error_is_raised_and_no_further_item_is_started(
    map_in_threads: Any, kind: type[BaseException]
) -> None:
    started: list[int] = []

    def fail_third(i: int) -> int:
        started.append(i)
        time.sleep(0.02)
        if i == 2:
            raise kind("third")
        return i

    with pytest.raises(kind, match="third"):
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


def test_too_large_requirements_are_refused_and_change_nothing(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X takes no memory, because all of its rows are the same."""
    X = rng.standard_normal((300, 8))
    scnn = SCNN(4, random_state=0, warm_start=True).fit(X)
    before = scnn.transform(X)
    monkeypatch.setattr(rows_module, "MIN_CHECKED_BYTES", 0)
    large: Any = np.broadcast_to(X[0], (100_000, 8))
    monkeypatch.setattr(rows_module.os, "sysconf", lambda name: 1000)
    monkeypatch.setattr("builtins.open", lambda *args: iter(["MemAvailable: 1000 kB"]))
    for model in (scnn, MiniBatchSCNN(4, batch_size=100_000)):
        with pytest.raises(InvalidInputError, match="use MiniBatchSCNN, fewer units"):
            model.fit(large)
    with pytest.raises(InvalidInputError, match="set sparse_output=True, or transform fewer"):
        scnn.transform(large)
    monkeypatch.undo()
    assert_array_equal(scnn.transform(X), before)


@pytest.mark.parametrize(
    ("shape", "dense", "sparse"),
    [
        ((5000, 2048), False, False),
        ((2048, 60_000), True, True),
        ((1500, 50_000), False, True),
        ((5000, 2049), False, True),
        ((20_000, 50_000), True, True),
    ],
)
def test_choice_of_the_factor_depends_on_sizes_only(
    shape: tuple[int, int], dense: bool, sparse: bool
) -> None:
    assert needs_iterative_factor(np.broadcast_to(np.float32(0), shape)) == dense
    assert needs_iterative_factor(scipy.sparse.csr_array(shape, dtype=np.float32)) == sparse
