"""Coordinate descent for sparse rows: which rows it receives, and the accuracy of its codes."""

import subprocess
import sys
from typing import Any

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lincode.core import code_step as code_step_module
from lincode.core import compiler, coordinate_descent
from lincode.core.code_step import (
    MAX_SPARSE_DENSITY,
    MIN_UNITS_FOR_COORDINATE_DESCENT,
    CodeProblem,
    _Iterate,
    code_step,
    code_violation,
)
from lincode.core.coordinate_descent import MAX_DENSITY, _solve_rows, solve_rows


def sparse_problem(
    eta: float, *, lam: float = 8.0, m: int = 80, positive: bool = False, dtype: Any = np.float64
) -> tuple[Any, CodeProblem]:
    """Return rows that are combinations of few atoms, so that their codes are sparse."""
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
def test_every_row_reaches_its_tolerance(positive: bool, dtype: Any) -> None:
    X, problem = sparse_problem(0.0, positive=positive, dtype=dtype)
    b = X @ problem.W.T
    scale = np.abs(b).max(axis=1)
    start = np.zeros_like(b)
    U = solve_rows(start, b, problem, 1e-4 * scale)
    assert U.dtype == dtype
    assert not start.any(), "the start must not be overwritten"
    assert 0 < np.mean(U != 0) < MAX_SPARSE_DENSITY
    assert (worst_violation(U, b, problem) <= 1.1e-4 * scale).all()
    assert not positive or (U >= 0).all()


def test_positive_codes_stay_positive_from_any_start() -> None:
    """The minimiser over all codes would be negative for the units that the start uses."""
    X, problem = sparse_problem(0.0, positive=True)
    b = X @ problem.W.T
    start = np.zeros_like(b)
    lowest = np.argsort(b, axis=1)[:, :3]
    np.put_along_axis(start, lowest, 1.0, axis=1)
    assert (np.take_along_axis(b, lowest, axis=1)[:, 0] < -problem.tau).any()
    tolerance = 1e-6 * np.abs(b).max(axis=1)
    U = solve_rows(start, b, problem, tolerance)
    assert (U >= 0).all()
    assert (worst_violation(U, b, problem) <= 1.1 * tolerance).all()


@pytest.mark.parametrize("eta", [0.0, 1.0])
@pytest.mark.parametrize("positive", [False, True])
def test_codes_equal_those_of_accelerated_steps(
    eta: float, positive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, problem = sparse_problem(eta, positive=positive)
    start = np.zeros((len(X), 80))
    compiled = code_step(start, X, problem, tol=1e-10, max_iter=5000)
    monkeypatch.setattr(code_step_module, "MIN_UNITS_FOR_COORDINATE_DESCENT", 1000)
    plain = code_step(start, X, problem, tol=1e-10, max_iter=5000)
    assert compiled.n_unfinished == plain.n_unfinished == 0
    assert_allclose(compiled.U, plain.U, atol=1e-6 * np.abs(plain.U).max())


def test_machine_code_equals_the_python_source() -> None:
    X, problem = sparse_problem(0.0)
    b = X[:5] @ problem.W.T
    tolerance = 1e-6 * np.abs(b).max(axis=1)
    U = np.zeros_like(b)
    source = _solve_rows.py_func  # type: ignore[attr-defined]
    source(U, b, problem.H, problem.tau, False, tolerance, int(MAX_DENSITY * 80))
    compiled = solve_rows(np.zeros_like(b), b, problem, tolerance)
    assert_allclose(compiled, U, rtol=1e-9, atol=1e-12)
    assert U.any()


def test_rows_that_become_dense_are_returned_unfinished_but_not_worse() -> None:
    X, problem = sparse_problem(0.0, lam=1e-3)
    b = X @ problem.W.T
    U = solve_rows(np.zeros_like(b), b, problem, np.zeros(len(b)))
    assert (np.count_nonzero(U, axis=1) <= MAX_DENSITY * 80).all()
    value = 0.5 * ((U @ problem.H - 2 * b) * U).sum(axis=1) + problem.tau * np.abs(U).sum(axis=1)
    assert (value <= 0).all(), "the value at the start is 0"
    # The accelerated steps finish these rows.
    solved = code_step(np.zeros_like(b), X, problem, tol=1e-6, max_iter=20_000)
    assert solved.n_unfinished == 0
    assert solved.residual <= 1e-6


def test_rows_are_selected_by_density_and_convexity() -> None:
    _, not_strongly_convex = sparse_problem(0.0)
    _, strongly_convex = sparse_problem(1.0)
    U = np.zeros((3, 80))
    U[1, :5] = 1
    U[2, :40] = 1

    def selected(U: Any, problem: CodeProblem) -> Any:
        return _Iterate(np.zeros_like(U), U, np.zeros_like(U), problem)._sparse_rows()

    assert_array_equal(selected(U, not_strongly_convex), [True, True, False])
    assert_array_equal(selected(U, strongly_convex), [False, True, False])
    too_few = MIN_UNITS_FOR_COORDINATE_DESCENT - 1
    assert not selected(U[:, :too_few], not_strongly_convex).any()
    assert selected(U[:0], not_strongly_convex).shape == (0,)


def test_atom_of_length_zero_is_never_used() -> None:
    X, problem = sparse_problem(0.0)
    H, W = problem.H.copy(), problem.W.copy()
    H[7], H[:, 7], W[7] = 0, 0, 0
    fields = {**vars(problem), "H": H, "W": W}
    U = solve_rows(np.zeros((len(X), 80)), X @ W.T, CodeProblem(**fields), np.full(len(X), 1e-8))
    assert np.isfinite(U).all()
    assert not U[:, 7].any()


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("pass", id="import"),
        pytest.param(
            "from lincode.core.code_step import CodeProblem, code_step; I = numpy.eye(5); "
            "problem = CodeProblem.of(I, I, 0.1, 0.0, positive=False, dtype=I.dtype); "
            "assert code_step(0 * I, I, problem, tol=1e-6, max_iter=100).U.any()",
            id="few units",
        ),
    ],
)
def test_numba_is_imported_only_when_it_is_needed(code: str) -> None:
    program = f"import sys, numpy, lincode; {code}; print('numba' in sys.modules)"
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "False"


@pytest.mark.parametrize("eta", [0.0, 1.0])
def test_each_sparse_row_is_solved_at_most_once(
    eta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are returned unfinished are not passed to coordinate descent again."""
    X, problem = sparse_problem(eta)
    seen: list[bytes] = []

    def record(U: Any, b: Any, problem: CodeProblem, tolerance: Any) -> Any:
        seen.extend(map(bytes, b))
        return U

    monkeypatch.setattr(coordinate_descent, "solve_rows", record)
    start = np.zeros((len(X), 80))
    start[:, :3] = 1e-3
    solved = code_step(start, X, problem, tol=1e-8, max_iter=20_000)
    assert solved.residual <= 1e-8
    assert len(seen) > 0
    assert len(set(seen)) == len(seen)
    if eta == 0:  # if the problem is strongly convex, a few accelerated steps come first
        assert len(seen) == len(X)


def test_rows_solved_by_coordinate_descent_need_no_accelerated_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, problem = sparse_problem(0.0)
    monkeypatch.setattr(_Iterate, "advance", None)
    solved = code_step(np.zeros((len(X), 80)), X, problem, tol=1e-6, max_iter=100)
    assert solved.residual <= 1e-6


def test_function_is_compiled_without_a_cache_if_no_folder_is_writable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    njit = numba.njit

    def no_cache(**options: Any) -> Any:
        if options.pop("cache", False):
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**options)

    monkeypatch.setattr(numba, "njit", no_cache)

    def add_one(x: Any) -> Any:
        return x + 1

    assert compiler.compiled(add_one)(2) == 3


def test_requested_tolerance_is_not_below_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    X, problem = sparse_problem(0.0, dtype=np.float32)
    requested: list[Any] = []

    def record(U: Any, b: Any, problem: CodeProblem, tolerance: Any) -> Any:
        requested.append(tolerance / np.abs(b).max(axis=1))
        return solve_rows(U, b, problem, tolerance)

    monkeypatch.setattr(coordinate_descent, "solve_rows", record)
    code_step(np.zeros((len(X), 80), np.float32), X, problem, tol=0.0, max_iter=50)
    assert min(map(np.min, requested)) > np.finfo(np.float32).eps
