"""The active-set method for sparse rows: optimality, difficult problems, which rows it gets."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lincode.core.active_set import solve_rows
from lincode.core.lasso import CodeProblem, code_step
from tests.core.optimality import code_violation


class Solved(NamedTuple):
    U: Any
    finished: Any
    violation: Any
    value: Any


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


def lasso_problem(
    D: Any, tau: float, *, positive: bool = False, dtype: Any = np.float64
) -> CodeProblem:
    """Return the problem min_u ½‖x − u D‖² + τ‖u‖₁, divided by the number of features."""
    lam = tau * D.shape[0] / D.shape[1]
    return CodeProblem.of(D, 0 * D, lam, 0.0, positive=positive, dtype=np.dtype(dtype))


def solve(
    problem: CodeProblem, b: Any, *, start: Any = None, tol: float = 1e-9, max_units: int = 60
) -> Solved:
    U = np.zeros_like(b) if start is None else start.copy()
    violation, value = np.zeros(len(b), b.dtype), np.zeros(len(b), b.dtype)
    finished = solve_rows(
        U,
        b,
        np.arange(len(b)),
        problem,
        tol=tol,
        scale=np.abs(b).max(axis=1),
        max_units=max_units,
        violation=violation,
        value=value,
    )
    return Solved(U, finished, violation, value)


def objective(U: Any, b: Any, problem: CodeProblem) -> Any:
    U, b, H = (np.asarray(A, np.float64) for A in (U, b, problem.H))
    return 0.5 * ((U @ H - 2 * b) * U).sum(axis=1) + problem.tau * np.abs(U).sum(axis=1)


def violations(U: Any, b: Any, problem: CodeProblem) -> Any:
    """Compute the violations relative to max|b| in float64."""
    U, b, H = (np.asarray(A, np.float64) for A in (U, b, problem.H))
    found = code_violation(U, U @ H - b, problem.tau, positive=problem.positive)
    return found / np.maximum(np.abs(b).max(axis=1), np.finfo(float).tiny)


@pytest.mark.parametrize("eta", [0.0, 1.0])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_row_is_optimal(positive: bool, dtype: Any, eta: float) -> None:
    X, problem = sparse_problem(eta, positive=positive, dtype=dtype)
    b = X @ problem.W.T
    solved = solve(problem, b, max_units=80)
    assert solved.U.dtype == dtype
    assert solved.finished.all()
    assert 0 < np.mean(solved.U != 0) < (0.9 if eta > 0 else 0.3)
    assert violations(solved.U, b, problem).max() <= (1e-6 if dtype == np.float32 else 1e-9)
    assert not positive or (solved.U >= 0).all()
    scale = np.abs(b).max(axis=1)
    rounding = 20 * np.finfo(dtype).eps
    assert_allclose(solved.violation / scale, violations(solved.U, b, problem), atol=rounding)
    assert_allclose(solved.value, objective(solved.U, b, problem), rtol=1e-4)


def test_positive_codes_stay_positive_from_any_start() -> None:
    """The minimiser over all codes would be negative for the units that the start uses."""
    X, problem = sparse_problem(0.0, positive=True)
    b = X @ problem.W.T
    start = np.zeros_like(b)
    lowest = np.argsort(b, axis=1)[:, :3]
    np.put_along_axis(start, lowest, [[1.0, 1.0, -1.0]], axis=1)
    assert (np.take_along_axis(b, lowest, axis=1)[:, 0] < -problem.tau).any()
    solved = solve(problem, b, start=start)
    assert solved.finished.all()
    assert (solved.U >= 0).all()
    assert violations(solved.U, b, problem).max() <= 1e-9


@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([0.3, 3.0, 20.0]))
def test_any_start_leads_to_the_same_optimum(seed: int, positive: bool, size: float) -> None:
    X, problem = sparse_problem(0.0, positive=positive)
    b = X @ problem.W.T
    rng = np.random.default_rng(seed)
    start = size * rng.standard_normal(b.shape) * (rng.random(b.shape) < rng.random() * 0.4)
    start = np.abs(start) if positive else start
    cold, warm = solve(problem, b), solve(problem, b, start=start)
    assert warm.finished.all()
    assert_allclose(warm.U, cold.U, atol=1e-6)


@given(
    seed=st.integers(0, 10**6),
    max_units=st.integers(0, 20),
    tau=st.sampled_from([0.0, 0.01, 0.3]),
    dtype=st.sampled_from([np.float64, np.float32]),
)
def test_rows_that_are_given_up_are_not_worse_than_the_start(
    seed: int, max_units: int, tau: float, dtype: Any
) -> None:
    rng = np.random.default_rng(seed)
    D = rng.standard_normal((30, 8))
    D[10:20] = D[:10] + 1e-4 * rng.standard_normal((10, 8))
    problem = lasso_problem(D, tau, dtype=dtype)
    b = (rng.standard_normal((20, 8)) @ D.T).astype(dtype)
    start = (rng.standard_normal(b.shape) * (rng.random(b.shape) < 0.2)).astype(dtype)
    solved = solve(problem, b, start=start, max_units=max_units)
    before, after = objective(start, b, problem), objective(solved.U, b, problem)
    assert (after <= before + 1e-5 * np.abs(before).max()).all()
    assert (np.count_nonzero(solved.U[solved.finished], axis=1) <= max_units).all()
    tol = 1e-4 if dtype == np.float32 else 1e-8
    assert (violations(solved.U, b, problem)[solved.finished] <= tol).all()


def test_dense_rows_are_finished_by_accelerated_steps() -> None:
    X, problem = sparse_problem(1.0, lam=1e-3)
    b = X @ problem.W.T
    assert not solve(problem, b, max_units=16).finished.any()
    solved = code_step(np.zeros_like(b), X, problem, tol=1e-6, max_iter=20_000)
    assert solved.n_unfinished == 0
    assert solved.residual <= 1e-6


DICTIONARIES: dict[str, Callable[[np.random.Generator], Any]] = {
    "repeated": lambda rng: np.repeat(rng.standard_normal((20, 12)), 4, axis=0),
    "opposite": lambda rng: np.vstack([A := rng.standard_normal((40, 12)), -A]),
    "more atoms than features": lambda rng: rng.standard_normal((80, 3)),
    "nearly repeated": lambda rng: (
        np.repeat(rng.standard_normal((20, 12)), 4, axis=0) + 1e-6 * rng.standard_normal((80, 12))
    ),
    "low rank": lambda rng: rng.standard_normal((80, 2)) @ rng.standard_normal((2, 12)),
    "one feature": lambda rng: rng.standard_normal((80, 1)),
    "zeros": lambda rng: rng.standard_normal((80, 12)) * (np.arange(80) % 2)[:, None],
    "different lengths": lambda rng: (
        rng.standard_normal((80, 12)) * 10.0 ** rng.uniform(-3, 1, (80, 1))
    ),
    "common direction": lambda rng: rng.standard_normal((80, 12)) + 20,
}


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("tau", [0.3, 1e-3])
@pytest.mark.parametrize("name", DICTIONARIES)
def test_difficult_dictionaries(name: str, tau: float, positive: bool) -> None:
    """The whole U step is optimal, and its objective equals that of coordinate descent."""
    rng = np.random.default_rng(0)
    D = DICTIONARIES[name](rng)
    X: Any = rng.standard_normal((25, D.shape[1]))
    X[0] = 0
    tau *= np.abs(X @ D.T).max()
    for dtype, tol in ((np.float64, 1e-7), (np.float32, 1e-4)):
        problem = lasso_problem(D, tau, positive=positive, dtype=dtype)
        solved = code_step(
            np.zeros((25, 80), dtype), X.astype(dtype), problem, tol=1e-8, max_iter=20_000
        )
        assert np.isfinite(solved.U).all()
        assert not positive or (solved.U >= 0).all()
        assert not solved.U[0].any()
        b = X.astype(dtype) @ problem.W.T
        assert violations(solved.U, b, problem).max() <= tol
        assert solved.n_unfinished == 0


def test_dependent_atom_replaces_an_active_one() -> None:
    """Two features and a small penalty: every third atom depends on two active ones."""
    rng = np.random.default_rng(0)
    D = rng.standard_normal((80, 2)) * rng.uniform(0.5, 1, (80, 1))
    problem = lasso_problem(D, 1e-4)
    b = rng.standard_normal((200, 2)) @ D.T / 2
    solved = solve(problem, b, max_units=2)
    assert solved.finished.all(), "an exchange keeps two units"
    assert violations(solved.U, b, problem).max() <= 1e-9


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_codes_with_as_many_units_as_features(dtype: Any) -> None:
    """With a small penalty, atoms that depend on the active ones enter all the time."""
    rng = np.random.default_rng(0)
    D = rng.standard_normal((120, 24)) + 2  # with a common direction, so that H is ill-conditioned
    problem = lasso_problem(D, 1e-4, dtype=dtype)
    b = (rng.standard_normal((60, 24)) @ D.T / 24).astype(dtype)
    solved = solve(problem, b, max_units=24)
    assert np.count_nonzero(solved.U, axis=1).mean() > 20
    assert solved.finished.mean() > (0.95 if dtype == np.float64 else 0.5)
    tol = 1e-9 if dtype == np.float64 else 1e-4
    assert (violations(solved.U, b, problem)[solved.finished] <= tol).all()


def test_overflow_does_not_count_as_finished() -> None:
    X, problem = sparse_problem(0.0)
    problem = replace(problem, H=problem.H * 1e-300, tau=1e-10)
    b = X @ problem.W.T * 1e200
    with np.errstate(over="ignore", invalid="ignore"):
        solved = solve(problem, b)
    assert not solved.finished.any()


def test_atom_of_length_zero_is_never_used() -> None:
    X, problem = sparse_problem(0.0)
    H, W = problem.H.copy(), problem.W.copy()
    H[7], H[:, 7], W[7] = 0, 0, 0
    solved = solve(replace(problem, H=H, W=W), X @ W.T)
    assert solved.finished.all()
    assert not solved.U[:, 7].any()


def test_tolerance_zero_is_limited_by_rounding() -> None:
    for dtype in (np.float32, np.float64):
        X, problem = sparse_problem(0.0, dtype=dtype)
        solved = solve(problem, X @ problem.W.T, tol=0.0)
        assert solved.finished.all()


@given(seed=st.integers(0, 10**6), tol=st.sampled_from([0.5, 0.1, 0.01]), positive=st.booleans())
def test_objective_never_increases_with_a_large_tolerance(
    seed: int, tol: float, positive: bool
) -> None:
    """Starts with dependent atoms or many units, whose objective is nearly optimal."""
    rng = np.random.default_rng(seed)
    D = rng.standard_normal((30, 8)) * 10 ** rng.uniform(-2, 2, (30, 1))
    D[10:20] = D[:10]
    problem = lasso_problem(D, 0.1, positive=positive)
    X = rng.standard_normal((20, 8))
    b = X @ problem.W.T
    best = code_step(np.zeros((20, 30)), X, problem, tol=1e-9, max_iter=1000).U
    best[:, 10:20] = best[:, :10] = (best[:, 10:20] + best[:, :10]) / 2
    noise = 1e-3 * rng.standard_normal(best.shape) * np.abs(best).max()
    for start in (best, np.abs(best + noise) if positive else best + noise):
        after = code_step(start, X, problem, tol=tol, max_iter=100).U
        values = objective(start, b, problem), objective(after, b, problem)
        assert (values[1] <= values[0] + 1e-12 * np.abs(values[0])).all()
