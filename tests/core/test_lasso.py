"""The U step: the optimality conditions, and agreement with scikit-learn's Lasso."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.linear_model import Lasso

from lincode.core import lasso as code_step_module
from lincode.core.energy import energy
from lincode.core.lasso import CodeProblem, _leading_eigenvalues, code_step


@pytest.fixture(autouse=True, params=["with the active-set method", "without"])
def solver(request: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run every test with the active-set method for any number of units, and without it."""
    monkeypatch.setattr(code_step_module, "MIN_UNITS_FOR_ACTIVE_SET", 1)
    if request.param == "without":
        monkeypatch.setattr(code_step_module._Block, "solve_sparse", lambda self, rows: rows)
    return request.param


def random_problem(
    seed: int, N: int, p: int, m: int, lam: float, eta: float, positive: bool, dtype: Any
) -> tuple[Any, Any, Any, Any, CodeProblem]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, p)).astype(dtype)
    D = rng.standard_normal((m, p))
    D /= np.maximum(np.linalg.norm(D, axis=1, keepdims=True), 1)
    C = 0.3 * rng.standard_normal((m, p))
    problem = CodeProblem.of(D, C, lam, eta, positive=positive, dtype=np.dtype(dtype))
    U = np.abs(rng.standard_normal((N, m))).astype(dtype)
    return X, U, D, C, problem


problems = st.builds(
    random_problem,
    seed=st.integers(0, 10**6),
    N=st.integers(1, 30),
    p=st.integers(1, 12),
    m=st.integers(1, 15),
    lam=st.sampled_from([0.0, 0.01, 0.3, 5.0]),
    eta=st.sampled_from([0.0, 0.1, 1.0, 20.0]),
    positive=st.booleans(),
    dtype=st.sampled_from([np.float64, np.float32]),
)


def residual_in_float64(X: Any, U: Any, problem: CodeProblem) -> float:
    """Compute the optimality residual independently of the library."""
    X, U, H, W = (np.asarray(A, dtype=np.float64) for A in (X, U, problem.H, problem.W))
    b = X @ W.T
    G = U @ H - b
    violation = np.where(
        U != 0,
        np.abs(G + problem.tau * np.sign(U)),
        np.maximum((-G if problem.positive else np.abs(G)) - problem.tau, 0),
    )
    scale = np.abs(b).max(axis=1)
    return float((violation.max(axis=1) / np.where(scale > 0, scale, 1)).max())


@given(problems)
def test_codes_are_optimal_and_the_residual_is_correct(problem_and_data: Any) -> None:
    X, U, _, _, problem = problem_and_data
    solved = code_step(U, X, problem, tol=1e-4, max_iter=20_000)
    assert solved.n_unfinished == 0
    assert solved.U.dtype == X.dtype
    assert not (problem.positive and (solved.U < 0).any())
    truth = residual_in_float64(X, solved.U, problem)
    slack = 2e-3 if X.dtype == np.float32 else 1e-12  # rounding of G in float32
    assert truth <= 1e-4 + slack
    assert_allclose(solved.residual, truth, atol=slack)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_many_units_from_zero_and_from_the_codes_of_another_dictionary(
    rng: np.random.Generator, dtype: Any
) -> None:
    X, _, D, C, problem = random_problem(0, 60, 100, 700, 10.0, 1.0, False, dtype)
    U = code_step(np.zeros((60, 700), dtype), X, problem, tol=1e-3, max_iter=500).U
    assert 0 < (U != 0).mean() < 0.2
    assert residual_in_float64(X, U, problem) <= 1e-3
    D = D + 0.1 * rng.standard_normal(D.shape) / D.shape[1] ** 0.5
    problem = CodeProblem.of(D, C, 10.0, 1.0, positive=False, dtype=np.dtype(dtype))
    U = code_step(U, X, problem, tol=1e-3, max_iter=500).U
    assert residual_in_float64(X, U, problem) <= 1e-3


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_objective_of_no_row_increases(dtype: Any) -> None:
    """Start near the optimum, where momentum overshoots, and do few steps."""
    for seed in range(20):
        X, U, D, C, problem = random_problem(seed, 30, 8, 12, 0.1, 0.05, False, dtype)
        best = code_step(U, X, problem, tol=1e-9, max_iter=20_000).U
        rng = np.random.default_rng(seed)
        near = best + (1e-2 * rng.standard_normal(best.shape)).astype(dtype)
        after = code_step(near, X, problem, tol=0.0, max_iter=10).U
        for n in range(30):
            row = slice(n, n + 1)
            before = energy(X[row], near[row], D, C, 0.1, 0.05)
            assert energy(X[row], after[row], D, C, 0.1, 0.05) <= before + 50 * np.finfo(dtype).eps


def test_code_of_a_zero_row_is_zero() -> None:
    _, _, _, _, problem = random_problem(0, 1, 4, 3, 0.1, 1.0, False, np.float64)
    start = np.ones((1, 3))
    assert code_step(start, np.zeros((1, 4)), problem, tol=1e-6, max_iter=0).residual == 1
    solved = code_step(start, np.zeros((1, 4)), problem, tol=1e-6, max_iter=5000)
    assert not solved.U.any()
    assert solved.residual == 0
    # This also holds without an ℓ1 penalty, where the steps alone only approach zero.
    _, _, _, _, problem = random_problem(0, 1, 4, 3, 0.0, 0.0, False, np.float64)
    assert not code_step(start, np.zeros((1, 4)), problem, tol=1e-6, max_iter=10).U.any()


@pytest.mark.parametrize("lam", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("eta", [0.2, 1.0])
@pytest.mark.parametrize(("p", "m"), [(12, 8), (8, 20)])
@pytest.mark.parametrize("positive", [False, True])
def test_codes_agree_with_the_lasso_of_the_stacked_design(
    rng: np.random.Generator, lam: float, eta: float, p: int, m: int, positive: bool
) -> None:
    X, _, D, C, problem = random_problem(3, 10, p, m, lam, eta, positive, np.float64)
    U = code_step(np.zeros((10, m)), X, problem, tol=1e-10, max_iter=50_000).U
    design = np.vstack([D.T / np.sqrt(p), np.sqrt(eta / m) * np.eye(m)])
    # The square has the factor 1/(2 n) in scikit-learn's Lasso, for n rows of the design.
    weight = lam / m / (p + m)
    lasso = Lasso(alpha=weight, fit_intercept=False, tol=1e-14, max_iter=200_000, positive=positive)
    for x, u in zip(X, U, strict=True):
        target = np.concatenate([x / np.sqrt(p), np.sqrt(eta / m) * (C @ x)])
        assert_allclose(u, lasso.fit(design, target).coef_, atol=1e-6)


def test_rows_are_independent_of_each_other() -> None:
    X, U, _, _, problem = random_problem(5, 40, 10, 15, 0.1, 1.0, False, np.float64)
    together = code_step(U, X, problem, tol=1e-8, max_iter=10_000).U
    alone = np.vstack(
        [code_step(U[[n]], X[[n]], problem, tol=1e-8, max_iter=10_000).U for n in range(40)]
    )
    assert_allclose(together, alone, atol=1e-12)


def test_few_steps_suffice_if_atoms_share_a_direction(rng: np.random.Generator) -> None:
    """The largest eigenvalue of H is much larger than the second."""
    D = rng.standard_normal((40, 60)) / 60**0.5 + 1.0
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    X = rng.standard_normal((50, 60)) + 1
    problem = CodeProblem.of(D, 0 * D, 0.02, 1.0, positive=False, dtype=X.dtype)
    w = np.linalg.eigvalsh(problem.H)
    assert_allclose([problem.L, problem.norm], w[-2:], rtol=1e-5)
    assert w[-1] > 5 * w[-2]
    M = problem.L * np.eye(40) + problem.sigma * np.outer(problem.v, problem.v)
    assert np.linalg.eigvalsh(M - problem.H)[0] >= -1e-12
    solved = code_step(np.zeros((50, 40)), X, problem, tol=1e-6, max_iter=60)
    assert solved.n_unfinished == 0
    assert residual_in_float64(X, solved.U, problem) <= 1e-6


@pytest.mark.parametrize(("m", "p"), [(1, 5), (5, 1), (2, 2), (7, 3), (3, 7)])
def test_metric_bounds_the_hessian_for_any_shape(rng: np.random.Generator, m: int, p: int) -> None:
    D = rng.standard_normal((m, p)) + 1
    problem = CodeProblem.of(D, 0 * D, 0.1, 0.0, positive=False, dtype=np.dtype(np.float64))
    M = problem.L * np.eye(m) + problem.sigma * np.outer(problem.v, problem.v)
    assert np.linalg.eigvalsh(M - problem.H)[0] >= -1e-12 * problem.norm
    assert problem.L > 0


def test_start_is_not_overwritten_and_optimal_codes_are_unchanged() -> None:
    X, U, _, _, problem = random_problem(2, 20, 8, 10, 0.2, 1.0, False, np.float64)
    given = U.copy()
    solved = code_step(U, X, problem, tol=1e-8, max_iter=10_000)
    assert_allclose(U, given)
    again = code_step(solved.U, X, problem, tol=1e-8, max_iter=10_000)
    assert (again.U == solved.U).all()


def test_zero_dictionary_without_encoder_gives_zero_codes() -> None:
    Z = np.zeros((3, 4))
    problem = CodeProblem.of(Z, Z, 0.1, 0.0, positive=False, dtype=np.dtype(np.float64))
    solved = code_step(np.ones((2, 3)), np.ones((2, 4)), problem, tol=1e-6, max_iter=100)
    assert not solved.U.any()


REPEATED = {
    "identity": np.eye(12, 20),
    "more atoms than features": np.vstack([np.eye(6), np.eye(6), np.eye(6)]),
    "one atom repeated": np.repeat(np.eye(1, 9), 15, axis=0),
    "two distinct eigenvalues": np.diag([3.0] * 5 + [1.0] * 30),
    "largest eigenvalue is single": np.diag([3.0] + [1.0] * 30),
    "zeros": np.zeros((7, 5)),
    "one atom": np.ones((1, 4)),
    "one feature": np.ones((4, 1)),
}


@pytest.mark.parametrize("name", REPEATED)
def test_leading_eigenvalues_of_repeated_spectra(name: str) -> None:
    D = REPEATED[name]
    exact = np.linalg.eigvalsh(D @ D.T)
    first, second, v = _leading_eigenvalues(D, 1000.0)
    assert_allclose(first, max(exact[-1], 0), atol=1e-12)
    largest_but_one = exact[-2] if len(exact) > 1 else 0.0
    assert second >= largest_but_one - 1e-12
    if first == second:
        assert not v.any()
    else:
        assert_allclose(D @ (D.T @ v), first * v, atol=1e-10)
        assert_allclose(np.linalg.norm(v), 1)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("noise", [0.1, 0.03, 0.01])
@pytest.mark.parametrize("m", [2, 3])
def test_nearly_parallel_atoms_in_float32(m: int, noise: float, positive: bool) -> None:
    """Rounding errors of the steps stay below the tolerance, so the steps end."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        D = rng.standard_normal(3) + noise * rng.standard_normal((m, 3))
        D /= np.linalg.norm(D, axis=1, keepdims=True)
        X = rng.standard_normal((30, 3)).astype(np.float32)
        problem = CodeProblem.of(D, 0 * D, m / 3, 0.0, positive=positive, dtype=X.dtype)
        solved = code_step(np.zeros((30, m), np.float32), X, problem, tol=1e-6, max_iter=2000)
        assert solved.n_unfinished == 0
        assert residual_in_float64(X, solved.U, problem) <= 1e-5
