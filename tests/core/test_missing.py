"""Missing entries: the X step, codes of observed entries, and the linear prediction."""

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Lasso

from lincode.core.energy import CodeStats, energy
from lincode.core.missing import (
    FILL_RIDGE,
    KAPPA,
    MissingProblem,
    PatternProblem,
    SecondMoments,
    patterns,
    penalty_factors,
    predict_missing,
    prediction_error,
)
from lincode.encoder.calibration import ObservedRows

LAM = 0.05


def example(m: int = 6, p: int = 5, n: int = 8) -> tuple[Any, ...]:
    """Return X, U, D, C, a prediction of the missing entries and which entries are missing."""
    rng = np.random.default_rng(0)
    X, U = rng.standard_normal((n, p)), rng.standard_normal((n, m))
    D = rng.standard_normal((m, p))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    C = 0.5 * rng.standard_normal((m, p))
    missing = rng.random((n, p)) < 0.5
    prediction = np.where(missing, rng.standard_normal((n, p)), X)
    return X, U, D, C, prediction, missing


def full_energy(X: Any, U: Any, D: Any, C: Any, prediction: Any, eta: float) -> float:
    total = energy(X, U, D, C, LAM, eta) + prediction_error(X, prediction) / D.shape[1]
    return float(total)


@pytest.mark.parametrize("eta", [1.0, 0.0, 5.0])
@pytest.mark.parametrize(("m", "p"), [(6, 5), (2, 9)])
def test_gradient_of_missing_entries_equals_finite_differences(eta: float, m: int, p: int) -> None:
    X, U, D, C, prediction, missing = example(m, p)
    G = MissingProblem(D, C, eta, X.dtype).gradient(X, U, prediction, missing)
    for i, k in np.ndindex(X.shape):
        plus, minus = X.copy(), X.copy()
        plus[i, k] += 1e-5
        minus[i, k] -= 1e-5
        arguments = U, D, C, prediction, eta
        slope = (full_energy(plus, *arguments) - full_energy(minus, *arguments)) / 2e-5
        assert_allclose(2 * G[i, k], slope if missing[i, k] else 0, atol=1e-8)


@pytest.mark.parametrize("eta", [1.0, 0.0])
@pytest.mark.parametrize(("m", "p"), [(6, 5), (2, 9)])  # with CᵀC, and with two products
def test_missing_step_decreases_the_energy_to_its_minimum(eta: float, m: int, p: int) -> None:
    X, U, D, C, prediction, missing = example(m, p)
    problem = MissingProblem(D, C, eta, X.dtype)
    energies, observed = [full_energy(X, U, D, C, prediction, eta)], X[~missing].copy()
    for _ in range(8):
        problem.step(X, U, prediction, missing)
        energies.append(full_energy(X, U, D, C, prediction, eta))
    assert_array_equal(X[~missing], observed)
    assert np.all(np.diff(energies) <= 1e-14)
    A = (1 + KAPPA) / p * np.eye(p) + eta / m * C.T @ C
    for x, u, guess, holes in zip(X, U, prediction, missing, strict=True):
        b = u @ D / p + KAPPA / p * guess + eta / m * u @ C
        seen, gone = np.flatnonzero(~holes), np.flatnonzero(holes)
        solution = np.linalg.solve(A[np.ix_(gone, gone)], b[gone] - A[np.ix_(gone, seen)] @ x[seen])
        assert_allclose(x[gone], solution, atol=1e-8)


def test_penalties_are_one_for_complete_rows_and_smaller_otherwise() -> None:
    missing = np.array([[False, False], [True, False]])
    assert_allclose(penalty_factors(missing), [1, (1 + KAPPA / (1 + KAPPA)) / 2])


def oracle_lasso(x: Any, D: Any, alpha: float) -> Any:
    """Minimise ½‖x − u D‖² + α‖u‖₁ by scikit-learn."""
    p = len(x)
    solver = Lasso(alpha / p, fit_intercept=False, tol=1e-12, max_iter=200_000)
    return solver.fit(D.T, x).coef_


def test_codes_without_encoder_are_lasso_codes_of_observed_entries() -> None:
    X, _, D, C, _, missing = example(m=6, p=12)
    m, p = D.shape
    for x, holes in zip(X, missing, strict=True):
        seen = np.flatnonzero(~holes)
        U = np.empty((1, m))
        problem = PatternProblem.of(D, C, 0.0, seen)
        assert problem.solve(x[None, seen], U, LAM, positive=False, tol=1e-9, max_iter=5000) == 0
        expected = oracle_lasso(x[seen], D[:, seen], len(seen) / p * LAM * p / m)
        assert_allclose(U[0], expected, atol=1e-6)


@pytest.mark.parametrize("eta", [1.0, 0.2])
def test_exact_codes_minimise_the_energy_together_with_the_missing_entries(eta: float) -> None:
    """The oracle solves a lasso problem and a linear system in turn until nothing changes."""
    X, _, D, C, _, missing = example(m=6, p=7)
    m, p = D.shape
    A = np.eye(p) / p + eta / m * C.T @ C
    for x, holes in zip(X, missing, strict=True):
        seen, gone = np.flatnonzero(~holes), np.flatnonzero(holes)
        f = len(seen) / p
        filled = np.where(holes, 0.0, x)
        for _ in range(3000):
            atoms = np.hstack([D / p**0.5, (eta / m) ** 0.5 * np.eye(m)])
            data = np.hstack([filled / p**0.5, (eta / m) ** 0.5 * filled @ C.T])
            u, before = oracle_lasso(data, atoms, f * LAM / m), filled.copy()
            b = u @ (D / p + eta / m * C)
            filled[gone] = np.linalg.solve(
                A[np.ix_(gone, gone)], b[gone] - A[np.ix_(gone, seen)] @ filled[seen]
            )
            if np.abs(filled - before).max() < 1e-9:
                break
        U = np.empty((1, m))
        problem = PatternProblem.of(D, C, eta, seen)
        problem.solve(x[None, seen], U, LAM, positive=False, tol=1e-10, max_iter=5000)
        assert_allclose(U[0], u, atol=1e-4)
        expected = energy(filled[None], u[None], D, C, LAM, eta, penalties=np.array([f]))
        assert_allclose(problem.energies(x[None, seen], U, LAM), [expected], rtol=1e-6)


def test_patterns_group_rows_with_the_same_observed_entries() -> None:
    X = np.ones((5, 3))
    X[[0, 3], 1] = X[4] = np.nan
    found = {tuple(observed): list(rows) for observed, rows in patterns(X, np.array([0, 3, 4]))}
    assert found == {(0, 2): [0, 3], (): [4]}


@pytest.mark.parametrize("k", [3, 20])
def test_prediction_is_ridge_regression_on_the_observed_entries(k: int) -> None:
    rng = np.random.default_rng(0)
    F, X = rng.standard_normal((k, 8)), rng.standard_normal((10, 8))
    missing = rng.random(X.shape) < 0.4
    missing[0] = True
    moments = SecondMoments.of_factor(F)
    assert moments.is_factor == (k == 3)
    filled = X.copy()
    predict_missing(filled, missing, moments)
    assert_array_equal(filled[~missing], X[~missing])
    assert_array_equal(filled[0], 0)
    G = F.T @ F
    ridge = FILL_RIDGE * np.trace(G) / 8
    for x, y, holes in zip(X, filled, missing, strict=True):
        seen, gone = np.flatnonzero(~holes), np.flatnonzero(holes)
        w = np.linalg.solve(G[np.ix_(seen, seen)] + ridge * np.eye(len(seen)), x[seen])
        assert_allclose(y[gone], w @ G[np.ix_(seen, gone)], atol=1e-8)


def test_gains_and_decoder_depend_on_observed_entries_only() -> None:
    rng = np.random.default_rng(0)
    S, D = rng.standard_normal((200, 4)), rng.standard_normal((4, 6))
    gains = np.array([0.5, 1.0, 1.5, 2.0])
    X = S * gains @ D
    missing = rng.random(X.shape) < 0.5
    wrong = np.where(missing, 100.0, X)
    observed = ObservedRows(S, wrong, missing)
    assert_allclose(observed.r2(gains, D), 1)
    # A small regularisation pulls the gains towards each other.
    assert_allclose(observed.fit_gains(np.ones(4), D, gains, 0.1), gains, rtol=1e-2)
    assert_allclose(observed.fit_decoder(gains, D), D, atol=1e-2)


def test_weighted_statistics_are_those_of_repeated_rows() -> None:
    rng = np.random.default_rng(0)
    U, X = rng.standard_normal((6, 3)), rng.standard_normal((6, 4))
    U[U < 0] = 0
    counts = np.array([1, 3, 2, 1, 1, 2])
    f = rng.random(6)
    weighted = CodeStats.of(U, X, weights=counts.astype(float), penalties=f)
    rows = np.repeat(np.arange(6), counts)
    repeated = CodeStats.of(U[rows], X[rows], penalties=f[rows])
    for name in ("UtU", "UtX", "l1", "used", "n"):
        assert_allclose(getattr(weighted, name), getattr(repeated, name))
    assert_allclose(
        energy(X, U, np.eye(3, 4), np.eye(3, 4), 0.1, weights=counts, penalties=f),
        energy(X[rows], U[rows], np.eye(3, 4), np.eye(3, 4), 0.1, penalties=f[rows]),
    )


def test_codes_if_the_encoder_is_so_large_that_its_gram_matrix_is_singular(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    D, C, observed = rng.standard_normal((7, 5)), rng.standard_normal((7, 5)), np.array([0, 2, 3])
    large = PatternProblem.of(D, 1e67 * C, 1.0, observed)
    assert np.isfinite(large.atoms).all()
    assert np.isfinite(large.T).all()
    expected = PatternProblem.of(D, C, 1.0, observed)

    def fail(*_: object, **__: object) -> None:
        raise np.linalg.LinAlgError("not positive definite")

    monkeypatch.setattr(scipy.linalg, "cholesky", fail)
    problem = PatternProblem.of(D, C, 1.0, observed)  # the same lasso problem, rotated
    assert_allclose(problem.atoms @ problem.atoms.T, expected.atoms @ expected.atoms.T)
    assert_allclose(problem.T @ problem.atoms.T, expected.T @ expected.atoms.T)
