"""Sparse rows by coordinate descent: which rows, to what optimum, and when they come back."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lincode.core import code_descent
from lincode.core import code_step as code_step_module
from lincode.core.code_descent import _descend_rows, descend, sparse_rows
from lincode.core.code_problem import CodeProblem
from lincode.core.code_step import code_step
from lincode.core.optimality import code_violation

pytest.importorskip("numba")


def sparse_problem(
    eta: float, *, lam: float = 8.0, m: int = 80, positive: bool = False, dtype: Any = np.float64
) -> tuple[Any, CodeProblem]:
    """Rows made of few of many atoms, so that their codes are sparse."""
    rng = np.random.default_rng(1)
    D = rng.standard_normal((m, 60))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    U = 20 * rng.standard_normal((40, m)) * (rng.random((40, m)) < 0.05)
    C = 0.3 * rng.standard_normal((m, 60))
    problem = CodeProblem.of(D, C, lam, eta, positive=positive, dtype=np.dtype(dtype))
    return (U @ D).astype(dtype), problem


def worst_violation(U: Any, b: Any, problem: CodeProblem) -> Any:
    return code_violation(U, U @ problem.H - b, problem.tau, positive=problem.positive)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_end_at_enough(positive: bool, dtype: Any) -> None:
    X, problem = sparse_problem(0.0, positive=positive, dtype=dtype)
    b = X @ problem.W.T
    scale = np.abs(b).max(axis=1)
    start = np.zeros_like(b)
    U = descend(start, b, problem, 1e-4 * scale)
    assert U.dtype == dtype
    assert not start.any(), "the start is left alone"
    assert 0 < np.mean(U != 0) < code_descent.SPARSE
    assert (worst_violation(U, b, problem) <= 1.1e-4 * scale).all()
    assert not positive or (U >= 0).all()


@pytest.mark.parametrize("eta", [0.0, 1.0])
@pytest.mark.parametrize("positive", [False, True])
def test_with_and_without_numba_the_codes_are_the_same(
    eta: float, positive: bool, monkeypatch: Any
) -> None:
    X, problem = sparse_problem(eta, positive=positive)
    start = np.zeros((len(X), 80))
    compiled = code_step(start, X, problem, tol=1e-10, max_iter=5000)
    monkeypatch.setattr(code_descent, "_compiled", lambda: None)
    plain = code_step(start, X, problem, tol=1e-10, max_iter=5000)
    assert compiled.n_open == plain.n_open == 0
    assert_allclose(compiled.U, plain.U, atol=1e-6 * np.abs(plain.U).max())


def test_machine_code_does_what_the_source_says() -> None:
    X, problem = sparse_problem(0.0)
    b = X[:5] @ problem.W.T
    enough = 1e-6 * np.abs(b).max(axis=1)
    U = np.zeros_like(b)
    _descend_rows(U, b, problem.H, problem.tau, False, enough, int(code_descent.WIDE * 80))
    assert_allclose(descend(np.zeros_like(b), b, problem, enough), U, rtol=1e-9, atol=1e-12)


def test_rows_that_become_wide_come_back_no_worse(monkeypatch: Any) -> None:
    X, problem = sparse_problem(0.0, lam=1e-3)
    b = X @ problem.W.T
    U = descend(np.zeros_like(b), b, problem, np.zeros(len(b)))
    assert (np.count_nonzero(U, axis=1) <= code_descent.WIDE * 80).all()
    value = 0.5 * ((U @ problem.H - 2 * b) * U).sum(axis=1) + problem.tau * np.abs(U).sum(axis=1)
    assert (value <= 0).all(), "zero, where they started, is worth 0"
    # and the accelerated steps finish them
    solved = code_step(np.zeros_like(b), X, problem, tol=1e-6, max_iter=20_000)
    assert solved.n_open == 0
    assert solved.residual <= 1e-6


def test_which_rows_are_handed_over() -> None:
    _, plain = sparse_problem(0.0)
    _, curved = sparse_problem(1.0)
    U = np.zeros((3, 80))
    U[1, :5] = 1
    U[2, :40] = 1
    assert_array_equal(sparse_rows(U, plain), [True, True, False])
    assert_array_equal(sparse_rows(U, curved), [False, True, False])
    assert not sparse_rows(U[:, : code_descent.FEWEST_UNITS - 1], plain).any()
    assert sparse_rows(U[:0], plain).shape == (0,)


def test_an_atom_of_length_zero_is_never_used() -> None:
    X, problem = sparse_problem(0.0)
    H, W = problem.H.copy(), problem.W.copy()
    H[7], H[:, 7], W[7] = 0, 0, 0
    fields = {**vars(problem), "H": H, "W": W}
    U = descend(np.zeros((len(X), 80)), X @ W.T, CodeProblem(**fields), np.full(len(X), 1e-8))
    assert np.isfinite(U).all()
    assert not U[:, 7].any()


def test_numba_is_loaded_only_when_there_is_something_to_compile() -> None:
    code = (
        "import sys, numpy, lincode; "
        "lincode.SCNN(5, encoder_weight=0, max_iter=2, threshold='match').fit(numpy.eye(9)); "
        "print('numba' in sys.modules)"
    )
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "False"


@pytest.mark.parametrize("eta", [0.0, 1.0])
def test_each_sparse_row_is_handed_over_once(eta: float, monkeypatch: Any) -> None:
    """Rows that come back wide, or not solved, are not tried again."""
    X, problem = sparse_problem(eta)
    seen: list[Any] = []

    def spy(U: Any, b: Any, problem: CodeProblem, enough: Any) -> Any:
        seen.extend(map(bytes, b))
        return U  # comes back as it was

    monkeypatch.setattr(code_step_module, "descend", spy)
    start = np.zeros((len(X), 80))
    start[:, :3] = 1e-3
    solved = code_step(start, X, problem, tol=1e-8, max_iter=20_000)
    assert solved.residual <= 1e-8
    assert len(seen) > 0
    assert len(set(seen)) == len(seen)
    if eta == 0:  # with curvature, a few accelerated steps come first
        assert len(seen) == len(X)


def test_what_descent_finds_is_kept(monkeypatch: Any) -> None:
    """Rows it solves need no accelerated step at all."""
    X, problem = sparse_problem(0.0)
    monkeypatch.setattr(code_step_module._Run, "advance", None)
    solved = code_step(np.zeros((len(X), 80)), X, problem, tol=1e-6, max_iter=100)
    assert solved.residual <= 1e-6


def test_without_a_folder_to_keep_it_in_the_kernel_is_compiled_anew(monkeypatch: Any) -> None:
    import numba

    njit = numba.njit

    def no_cache(**options: Any) -> Any:
        if options.pop("cache", False):
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**options)

    monkeypatch.setattr(numba, "njit", no_cache)
    assert code_descent._compiled.__wrapped__() is not None


def test_no_more_is_asked_than_rounding_allows(monkeypatch: Any) -> None:
    X, problem = sparse_problem(0.0, dtype=np.float32)
    asked: list[Any] = []

    def spy(U: Any, b: Any, problem: CodeProblem, enough: Any) -> Any:
        asked.append(enough / np.abs(b).max(axis=1))
        return descend(U, b, problem, enough)

    monkeypatch.setattr(code_step_module, "descend", spy)
    code_step(np.zeros((len(X), 80), np.float32), X, problem, tol=0.0, max_iter=50)
    assert min(map(np.min, asked)) > np.finfo(np.float32).eps
