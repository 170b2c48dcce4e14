"""Codes with a smooth penalty: stationarity, decreasing energy, and known solutions."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.linear_model import Lasso

from lincode.core.smooth import L1_SMOOTHING, PENALTIES, smooth_penalty_codes, smooth_penalty_energy


def problem(seed: int = 0, N: int = 20, m: int = 12, p: int = 9) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((N, p)), rng.standard_normal((m, p))


def gradient(X: Any, U: Any, D: Any, lam: float, sigma: float, name: str) -> Any:
    return (U @ D - X) @ D.T + lam / sigma * PENALTIES[name].derivative(U / sigma)


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("lam", [0.0, 0.1, 2.0])
def test_codes_are_stationary(name: str, lam: float) -> None:
    X, D = problem()
    codes = smooth_penalty_codes(X, D, lam, 0.5, PENALTIES[name], tol=1e-6, max_iter=5000)
    assert codes.n_not_converged == 0
    G = gradient(X, codes.U, D, lam, 0.5, name)
    assert (np.linalg.norm(G, axis=1) <= 2e-6 * np.linalg.norm(X @ D.T, axis=1)).all()


@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(list(PENALTIES)),
    lam=st.sampled_from([0.0, 0.01, 1.0, 50.0]),
    sigma=st.sampled_from([0.01, 0.3, 10.0]),
)
def test_no_step_increases_the_energy_of_any_row(
    seed: int, name: str, lam: float, sigma: float
) -> None:
    X, D = problem(seed, N=5)
    g = PENALTIES[name]

    def energies(steps: int) -> Any:
        U = smooth_penalty_codes(X, D, lam, sigma, g, tol=0.0, max_iter=steps).U
        return np.array(
            [smooth_penalty_energy(X[i : i + 1], U[i : i + 1], D, lam, sigma, g) for i in range(5)]
        )

    path = [energies(steps) for steps in range(8)]
    for before, after in pairwise(path):
        assert (after <= before * (1 + 1e-12) + 1e-12).all()


def test_codes_without_a_penalty_are_the_least_squares_solution() -> None:
    X, D = problem(m=5, p=9)
    U = smooth_penalty_codes(X, D, 0.0, 1.0, PENALTIES["log"], tol=1e-12, max_iter=200).U
    assert_allclose(U, X @ np.linalg.pinv(D), atol=1e-9)


def test_l1_codes_match_the_lasso_up_to_the_smoothing() -> None:
    X, D = problem(N=3)
    lam = 1.5
    U = smooth_penalty_codes(X, D, lam, 1.0, PENALTIES["l1"], tol=1e-5, max_iter=20_000).U
    lasso = Lasso(alpha=lam / X.shape[1], fit_intercept=False, tol=1e-10, max_iter=100_000)
    expected = np.array([lasso.fit(D.T, x).coef_ for x in X])
    found, best = (0.5 * np.square(X - V @ D).sum() + lam * np.abs(V).sum() for V in (U, expected))
    # The smooth penalty is at most L1_SMOOTHING below |a|.
    assert best <= found <= best + lam * L1_SMOOTHING * U.size


def test_rows_that_reach_max_iter_are_counted_and_zero_rows_and_atoms_have_zero_codes() -> None:
    X, D = problem()
    X[3], D[2] = 0, 0
    codes = smooth_penalty_codes(X, D, 0.1, 0.5, PENALTIES["log"], tol=1e-9, max_iter=1)
    assert codes.n_not_converged == len(X) - 1
    assert np.isfinite(codes.U).all()
    assert not codes.U[3].any()
    assert not codes.U[:, 2].any()
    initial = smooth_penalty_codes(X, D, 0.1, 0.5, PENALTIES["log"], tol=1.0, max_iter=0)
    assert initial.n_not_converged <= len(X)
