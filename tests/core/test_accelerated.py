"""Proximal steps with momentum: each step is the argmin in its docstring, and all rows finish."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lincode.core.accelerated import measure_rows, step_rows
from lincode.core.lasso import CodeProblem, code_step
from tests.core.optimality import code_violation


def shared_direction(eta: float, *, positive: bool = False, dtype: Any = np.float64) -> Any:
    """Return rows and a problem whose atoms share a direction."""
    rng = np.random.default_rng(0)
    D = rng.standard_normal((40, 60)) + 1.0
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    X = (rng.standard_normal((30, 60)) + 1).astype(dtype)
    return X, CodeProblem.of(D, D, 0.02, eta, positive=positive, dtype=X.dtype)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("rho", [0.0, 6.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_step_satisfies_the_optimality_conditions(dtype: Any, rho: float, positive: bool) -> None:
    rng = np.random.default_rng(1)
    U, U_old, UH, UH_old, b = (rng.standard_normal((50, 30)).astype(dtype) for _ in range(5))
    v = rng.standard_normal(30)
    v = (v / np.linalg.norm(v)).astype(dtype)
    alpha, beta, gamma = (rng.uniform(0.1, 1, 50).astype(dtype) for _ in range(3))
    V, tau = U_old.copy(), 0.4
    slope = np.ones(50, dtype)
    uphill = step_rows((U, V, UH, UH_old, b), v, rho, alpha, (beta, gamma), tau, positive, slope)
    Y = U + beta[:, None] * (U - U_old)
    G = UH + gamma[:, None] * (UH - UH_old) - b
    kappa = (V - Y) @ v
    gradient = alpha[:, None] * G + V - Y + rho * kappa[:, None] * v
    scaled = gradient / alpha[:, None]
    violation = code_violation(V, scaled, tau, positive=positive) * alpha
    # κ is accurate to a tenth of its value.
    assert (violation <= 0.12 * rho * np.abs(kappa) * np.abs(v).max() + 1e-5).all()
    expected = ((Y - V) * (V - U)).sum(axis=1) + rho * ((Y - V) @ v) * ((V - U) @ v)
    assert_allclose(uphill, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_measures_agree_with_their_definitions(dtype: Any, positive: bool) -> None:
    rng = np.random.default_rng(2)
    U = np.where(rng.random((20, 33)) < 0.5, rng.standard_normal((20, 33)), 0).astype(dtype)
    U = np.abs(U) if positive else U
    UH, b = (rng.standard_normal((20, 33)).astype(dtype) for _ in range(2))
    violation, value, l1, norm = measure_rows(U, UH, b, 0.3, positive=positive)
    rtol = 1e-5
    assert_allclose(violation, code_violation(U, UH - b, 0.3, positive=positive), rtol=rtol)
    assert_allclose(l1, np.abs(U).sum(axis=1), rtol=rtol)
    assert_allclose(norm, np.linalg.norm(U, axis=1), rtol=rtol)
    expected = 0.5 * (U * UH).sum(axis=1) - (U * b).sum(axis=1) + 0.3 * l1
    assert_allclose(value, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_product_through_few_features_equals_the_product_with_the_hessian(dtype: Any) -> None:
    rng = np.random.default_rng(3)
    D, U = rng.standard_normal((50, 6)), rng.standard_normal((20, 50)).astype(dtype)
    problem = CodeProblem.of(D, 0 * D, 0.1, 0.7, positive=False, dtype=U.dtype)
    out = np.empty_like(U)
    assert problem.times_H(U, out=out) is out
    assert_allclose(out, U @ problem.H, rtol=1e-4, atol=1e-4 if dtype == np.float32 else 1e-12)
    assert "_atoms" in vars(problem)  # the short way was used


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("eta", [0.0, 1e-3, 1.0])
@pytest.mark.parametrize(("p", "m"), [(1, 1), (5, 1), (1, 3), (2, 2)])
def test_tiny_problems_finish(p: int, m: int, eta: float, dtype: Any) -> None:
    """Dictionaries of rank one or two, to a tolerance that float32 may not reach."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = (rng.standard_normal((20, p)) * 10 ** rng.uniform(-1, 1)).astype(dtype)
        D = rng.standard_normal((m, p))
        D /= np.maximum(np.linalg.norm(D, axis=1, keepdims=True), 1)
        C = rng.standard_normal((m, p))
        for lam in (0.0, 0.1):
            problem = CodeProblem.of(D, C, lam, eta, positive=False, dtype=X.dtype)
            solved = code_step(np.zeros((20, m), dtype), X, problem, tol=1e-6, max_iter=20_000)
            assert solved.n_unfinished == 0
