from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from lincode.core.code_problem import CodeProblem
from lincode.core.stats import CodeStats
from lincode.rows import memory
from lincode.rows.memory import MemoryRows, chunks, code_blocks


@pytest.fixture
def problem(rng: np.random.Generator) -> tuple[Any, CodeProblem]:
    X = rng.standard_normal((500, 10))
    D = rng.standard_normal((8, 10)) / 4
    C = rng.standard_normal((8, 10)) / 4
    return X, CodeProblem.of(D, C, 0.3, 1.0, positive=False, dtype=X.dtype)


def solve(X: Any, problem: CodeProblem, n_threads: int = 1) -> tuple[Any, CodeStats]:
    U = np.zeros((X.shape[0], len(problem.H)))
    stats = MemoryRows(X, U, n_threads=n_threads).update_codes(problem, tol=1e-8, max_iter=5000)
    return U, stats


def test_threads_change_no_bit(
    problem: tuple[Any, CodeProblem], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "THREAD_ENTRIES", 200)
    assert len(chunks(500, 8)) >= 8
    U1, one = solve(*problem, n_threads=1)
    U3, three = solve(*problem, n_threads=3)
    assert (U1 == U3).all()
    assert (one.UtU == three.UtU).all()
    assert (one.UtX == three.UtX).all()


@pytest.mark.parametrize(("entries", "chunk"), [(1, 1), (100, 60), (10**6, 10**6)])
def test_blocks_and_chunks_change_nothing(
    problem: tuple[Any, CodeProblem], monkeypatch: pytest.MonkeyPatch, entries: int, chunk: int
) -> None:
    U, stats = solve(*problem)
    monkeypatch.setattr(memory, "BLOCK_ENTRIES", entries)
    monkeypatch.setattr(memory, "CHUNK_ROWS", chunk)
    U_other, other = solve(*problem)
    assert_allclose(U_other, U, atol=1e-10)
    assert_allclose(other.UtU, stats.UtU, atol=1e-9)
    assert_allclose(other.used, stats.used)


def test_stats_are_those_of_the_codes_left_behind(problem: tuple[Any, CodeProblem]) -> None:
    X, code_problem = problem
    U, stats = solve(X, code_problem)
    rows = MemoryRows(X, U, n_threads=1)
    assert_allclose(stats.UtU, U.T @ U)
    assert_allclose(stats.UtX, U.T @ X)
    assert_allclose(rows.stats().UtX, U.T @ X)
    assert_allclose(rows.code_residual(code_problem), stats.residual)
    assert 0 < stats.residual <= 1e-8


def test_sparse_rows_give_the_same(problem: tuple[Any, CodeProblem]) -> None:
    X, code_problem = problem
    X = X * (X > 0.5)
    U, stats = solve(X, code_problem)
    U_sparse, sparse = solve(scipy.sparse.csr_array(X), code_problem)
    assert_allclose(U_sparse, U, atol=1e-10)
    assert_allclose(sparse.UtX, stats.UtX, atol=1e-9)


def test_worst_residuals_are_the_longest_in_order(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "BLOCK_ENTRIES", 60)
    X, U = rng.standard_normal((300, 4)), rng.standard_normal((300, 3))
    D = rng.standard_normal((3, 4))
    R = X - U @ D
    expected = R[np.argsort(-np.linalg.norm(R, axis=1))[:5]]
    assert_allclose(MemoryRows(X, U, n_threads=2).worst_residuals(D, 5), expected, atol=1e-12)
    assert len(MemoryRows(X[:2], U[:2], n_threads=1).worst_residuals(D, 5)) == 2


@pytest.mark.parametrize("n", [1, 15, 1000, 60_000])
@pytest.mark.parametrize("m", [1, 100, 10_000])
def test_every_row_is_in_one_block(n: int, m: int) -> None:
    for partition in (chunks(n, m), code_blocks(n, m)):
        assert [i for part in partition for i in range(part.start, part.stop)] == list(range(n))
