"""Rows in memory: results do not depend on blocks, threads or the kind of matrix."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from lincode.core.code_step import CodeProblem
from lincode.core.encoder_step import DirectFactor, Thresholding, encoder_step
from lincode.rows.batches import BatchRows
from lincode.rows.memory import (
    MemoryRows,
    chunks,
    code_blocks,
    dense,
    dense_blocks,
    factor_rows,
    gram,
    sample_indices,
    scan_rows,
)
from numpy.testing import assert_allclose, assert_array_equal

from lincode.core.energy import CodeStats
from lincode.core.threshold import soft_threshold
from lincode.rows import memory


@pytest.fixture
def problem(rng: np.random.Generator) -> tuple[Any, CodeProblem]:
    X = rng.standard_normal((500, 10))
    D = rng.standard_normal((8, 10)) / 4
    C = rng.standard_normal((8, 10)) / 4
    return X, CodeProblem.of(D, C, 0.3, 1.0, positive=False, dtype=X.dtype)


def solve(X: Any, problem: CodeProblem, n_threads: int = 1) -> tuple[Any, CodeStats]:
    rows = MemoryRows(X, len(problem.H), n_threads=n_threads)
    stats = rows.update_codes(problem, tol=1e-8, max_iter=5000)
    return rows.U, stats


def test_threads_do_not_change_a_single_bit(
    problem: tuple[Any, CodeProblem], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "MIN_THREAD_ENTRIES", 200)
    assert len(chunks(500, 8)) >= 8
    U1, one = solve(*problem, n_threads=1)
    U3, three = solve(*problem, n_threads=3)
    assert (U1 == U3).all()
    assert (one.UtU == three.UtU).all()
    assert (one.UtX == three.UtX).all()


@pytest.mark.parametrize(("entries", "chunk"), [(1, 1), (100, 60), (10**6, 10**6)])
def test_codes_do_not_depend_on_blocks_and_chunks(
    problem: tuple[Any, CodeProblem], monkeypatch: pytest.MonkeyPatch, entries: int, chunk: int
) -> None:
    U, stats = solve(*problem)
    monkeypatch.setattr(memory, "MIN_THREAD_ENTRIES", entries)
    monkeypatch.setattr(memory, "BLOCK_ENTRIES", entries)
    monkeypatch.setattr(memory, "CHUNK_ROWS", chunk)
    U_other, other = solve(*problem)
    assert_allclose(U_other, U, atol=1e-10)
    assert_allclose(other.UtU, stats.UtU, atol=1e-9)
    assert_allclose(other.used, stats.used)


def test_stats_are_those_of_the_codes(problem: tuple[Any, CodeProblem]) -> None:
    X, code_problem = problem
    rows = MemoryRows(X, 8, n_threads=1)
    stats = rows.update_codes(code_problem, tol=1e-8, max_iter=5000)
    assert_allclose(stats.UtU, rows.U.T @ rows.U)
    assert_allclose(stats.UtX, rows.U.T @ X)
    assert_allclose(rows.stats().UtX, rows.U.T @ X)
    assert_allclose(rows.code_residual(code_problem), stats.residual)
    assert 0 < stats.residual <= 1e-8


def test_sparse_rows_have_the_same_codes(problem: tuple[Any, CodeProblem]) -> None:
    X, code_problem = problem
    X = X * (X > 0.5)
    U, stats = solve(X, code_problem)
    U_sparse, sparse = solve(scipy.sparse.csr_array(X), code_problem)
    assert_allclose(U_sparse, U, atol=1e-10)
    assert_allclose(sparse.UtX, stats.UtX, atol=1e-9)


@pytest.mark.parametrize("sparse", [False, True])
def test_largest_residuals_are_the_longest_in_order(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, sparse: bool
) -> None:
    monkeypatch.setattr(memory, "DENSE_ENTRIES", 60)
    X, U = rng.standard_normal((300, 4)), rng.standard_normal((300, 3))
    D = rng.standard_normal((3, 4))
    R = X - U @ D
    expected = R[np.argsort(-np.linalg.norm(R, axis=1))[:5]]
    rows = MemoryRows(scipy.sparse.csr_matrix(X) if sparse else X, 3, n_threads=2)
    rows.U[...] = U
    assert_allclose(rows.largest_residuals(D, 5), expected, atol=1e-12)
    few = MemoryRows(X[:2], 3, n_threads=1)
    assert len(few.largest_residuals(D, 5)) == 2


@pytest.mark.parametrize("n", [1, 15, 1000, 60_000])
@pytest.mark.parametrize("m", [1, 100, 10_000])
def test_every_row_is_in_one_block(n: int, m: int) -> None:
    for partition in (chunks(n, m), code_blocks(n, m)):
        assert [i for part in partition for i in range(part.start, part.stop)] == list(range(n))


def test_dense_blocks_are_small_and_cover_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "DENSE_ENTRIES", 100)
    X = scipy.sparse.csr_array(np.arange(330.0).reshape(33, 10))
    parts = [dense(X[rows]) for rows in dense_blocks(X)]
    assert max(part.size for part in parts) <= 100
    assert_array_equal(np.vstack(parts), X.toarray())
    # A single row may exceed the limit.
    monkeypatch.setattr(memory, "DENSE_ENTRIES", 5)
    assert len(dense_blocks(X)) == 33


@pytest.mark.parametrize(("N", "n"), [(1, 1), (10, 3), (10, 10), (10, 100), (10_001, 10_000)])
def test_sample_indices_are_different_rows_in_order(N: int, n: int) -> None:
    indices = sample_indices(N, n)
    assert len(indices) == min(N, n)
    assert (np.diff(indices) > 0).all()
    assert 0 <= indices[0] <= indices[-1] < N
    assert (indices == sample_indices(N, n)).all()


def test_sample_of_periodic_data_has_rows_of_every_kind() -> None:
    kinds = sample_indices(20_000, 10_000) % 2
    assert 0.4 < kinds.mean() < 0.6


@pytest.mark.parametrize("shape", [(50, 6), (6, 50)])
@pytest.mark.parametrize("sparse", [False, True])
def test_gram_and_factor_are_those_of_xtx(
    rng: np.random.Generator, shape: tuple[int, int], sparse: bool
) -> None:
    X, UtX = rng.standard_normal(shape), rng.standard_normal((4, shape[1]))
    given = scipy.sparse.csr_matrix(X) if sparse else X
    assert_allclose(gram(given), X.T @ X)
    assert_allclose(gram(given, rows_per_block=7), X.T @ X)
    factor = factor_rows(given)
    assert_allclose(factor.trace, (X**2).sum())
    expected = UtX @ np.linalg.pinv(X.T @ X, rcond=1e-12)
    assert_allclose(encoder_step(UtX, factor), expected, atol=1e-9)


def test_gram_of_float32_is_summed_in_float64(rng: np.random.Generator) -> None:
    X = (100 + rng.standard_normal((5000, 3))).astype(np.float32)
    exact = X.astype(np.float64).T @ X.astype(np.float64)
    assert_allclose(gram(X), exact, rtol=1e-12)
    assert_allclose(gram(scipy.sparse.csr_array(X)), exact, rtol=1e-12)


def test_factor_is_computed_once(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def count(X: Any, n_threads: int, weights: Any) -> Any:
        calls.append(1)
        return factor_rows(X, n_threads, weights)

    monkeypatch.setattr(memory, "factor_rows", count)
    rows = MemoryRows(rng.standard_normal((20, 4)), 3, n_threads=1)
    assert rows.factor() is rows.factor()
    assert len(calls) == 1


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_row_lengths(rng: np.random.Generator, sparse: bool, dtype: Any) -> None:
    X = (rng.standard_normal((300, 7)) * (rng.random((300, 7)) < 0.3)).astype(dtype)
    X[5] = 0
    norms = np.linalg.norm(X.astype(np.float64), axis=1)
    rows = MemoryRows(scipy.sparse.csr_matrix(X) if sparse else X, 3, n_threads=1)
    lengths = rows.row_lengths()
    assert_allclose(lengths.longest, norms.max(), rtol=1e-12)
    assert_allclose(lengths.mean, np.mean(norms), rtol=1e-12)
    assert rows.row_lengths() is lengths


@pytest.mark.parametrize("sparse", [False, True])
def test_scan_does_not_depend_on_the_block_size(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, sparse: bool
) -> None:
    X = rng.standard_normal((100, 7))
    X[60:80] = 0  # blocks without a stored value
    given = scipy.sparse.csr_array(X) if sparse else X
    largest, lengths = scan_rows(given)
    assert largest == np.abs(X).max()
    monkeypatch.setattr(memory, "SCAN_ENTRIES", 20)
    largest_of_blocks, lengths_of_blocks = scan_rows(given)
    assert largest_of_blocks == largest
    assert lengths_of_blocks.longest == lengths.longest
    assert_allclose(lengths_of_blocks.mean, lengths.mean, rtol=1e-14)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200])
@pytest.mark.parametrize("row", [0, 50, 99])
def test_scan_is_not_finite_if_a_square_is_not(
    monkeypatch: pytest.MonkeyPatch, sparse: bool, value: float, row: int
) -> None:
    monkeypatch.setattr(memory, "SCAN_ENTRIES", 20)
    X = np.ones((100, 7))
    X[row, 3] = value
    _, lengths = scan_rows(scipy.sparse.csr_array(X) if sparse else X)
    assert not np.isfinite(lengths.mean)
    assert not np.isfinite(lengths.longest)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("positive", [False, True])
def test_codes_are_set_by_the_encoder(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, sparse: bool, positive: bool
) -> None:
    monkeypatch.setattr(memory, "MIN_THREAD_ENTRIES", 60)
    X, C = rng.standard_normal((100, 5)), rng.standard_normal((4, 5))
    rows = MemoryRows(scipy.sparse.csr_matrix(X) if sparse else X, 4, n_threads=1)
    assert not rows.U.any()
    rule = Thresholding("soft", 0.5, positive=positive)
    rows.set_codes(C, rule)
    assert_allclose(rows.U, soft_threshold(X @ C.T, 0.5, positive=positive))
    assert rows.U.any()
    rows.set_codes(np.zeros((4, 5)), rule)
    assert not rows.U.any()


def test_rows_are_taken_in_the_given_order(rng: np.random.Generator) -> None:
    X = rng.standard_normal((20, 3)).astype(np.float32)
    rows = MemoryRows(X, 2, n_threads=1)
    assert rows.shape == (20, 3)
    assert rows.dtype == rows.U.dtype == np.float32
    assert_array_equal(rows.take(np.array([7, 2, 2])), X[[7, 2, 2]])


def test_batch_adds_the_statistics_of_earlier_batches(digits: Any) -> None:
    U = np.abs(digits[:, :5])
    first = MemoryRows(digits[:100], 5, n_threads=1)
    first.U[...] = U[:100]
    past, XtX = first.stats(), gram(digits)
    batch = BatchRows(digits[100:], 5, past, XtX, precision=digits.dtype, n_threads=1)
    batch.U[...] = U[100:]
    both = batch.stats()
    assert_allclose(both.UtX, U.T @ digits)
    assert both.n == len(digits)
    assert_allclose(both.used, np.count_nonzero(U, axis=0))
    factor = batch.factor()
    assert isinstance(factor, DirectFactor)
    assert_allclose((factor.V * factor.s2) @ factor.V.T, XtX, atol=1e-9 * factor.s2.max())
    alone = BatchRows(digits[:100], 5, None, XtX, precision=digits.dtype, n_threads=1)
    alone.U[...] = U[:100]
    assert_allclose(alone.stats().UtX, past.UtX)
