"""The iterative factor of wide data against the direct factorisation of XᵀX."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from lincode.core import wide as iterative_factor
from lincode.core.energy import CodeStats
from lincode.core.ridge import choose_ridge, encoder_residual, encoder_step
from lincode.core.wide import IterativeFactor
from lincode.encoder.calibration import fold_outputs
from lincode.training.rows import factor_rows

SHAPES = [(60, 25), (25, 60), (40, 40), (3, 1), (1, 3), (1, 1)]


def sparse_data(rng: np.random.Generator, shape: tuple[int, int]) -> Any:
    X = rng.standard_normal(shape) * (rng.random(shape) < 0.5)
    X[0, 0] = 1.0
    return X * 10.0 ** rng.uniform(-1, 1, shape[1])


def problem(rng: np.random.Generator, shape: tuple[int, int], m: int = 5) -> Any:
    X = sparse_data(rng, shape)
    U = rng.standard_normal((shape[0], m))
    return X, U, CodeStats.of(U, X)


def objective(C: Any, stats: CodeStats, factor: Any) -> float:
    return float(factor.quadratic(C) - 2 * np.vdot(stats.UtX, C))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ratio", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("sparse", [False, True])
def test_encoder_is_that_of_the_direct_factor(
    rng: np.random.Generator, shape: tuple[int, int], ratio: float, sparse: bool
) -> None:
    X, _, stats = problem(rng, shape)
    direct = factor_rows(X)
    given = scipy.sparse.csr_array(X) if sparse else X
    factor = IterativeFactor.of(given)
    factor = replace(factor, ridge=ratio * direct.mean_eigenvalue)
    direct = direct.with_ridge(ratio)
    assert_allclose(factor.trace, direct.trace)
    assert_allclose(factor.column_norms, direct.column_norms)
    C = encoder_step(stats.UtX, factor, tol=1e-12)
    expected = encoder_step(stats.UtX, direct)
    assert_allclose(C, expected, atol=1e-6 * np.abs(expected).max())
    assert encoder_residual(C, stats.UtU, stats.UtX, factor) < 1e-8
    other = rng.standard_normal(C.shape)
    if ratio or shape[0] >= shape[1]:  # otherwise the direct factor ignores a part of C
        projected = direct.project(other)
        assert_allclose(factor.quadratic(projected), direct.quadratic(projected), rtol=1e-9)
        assert_allclose(
            factor.product(projected),
            direct.product(projected),
            atol=1e-9 * np.abs(factor.product(projected)).max(),
        )


def test_repeated_columns_and_zero_ridge_give_the_minimum_norm_solution(
    rng: np.random.Generator,
) -> None:
    X = rng.standard_normal((40, 12))
    X[:, 5], X[:, 7] = X[:, 2], 0
    U = rng.standard_normal((40, 3))
    factor = IterativeFactor.of(X)
    C = encoder_step((U.T @ X), factor, tol=1e-12)
    assert_allclose(C, np.linalg.lstsq(X, U, rcond=None)[0].T, atol=1e-8)
    start = rng.standard_normal(C.shape)
    projected = factor.project(start)
    assert_allclose(projected, factor_rows(X).project(start), atol=1e-8)
    again = encoder_step(U.T @ X, factor, projected, tol=1e-12)
    assert_allclose(again, C, atol=1e-8)


@pytest.mark.parametrize("max_steps", [0, 1, 2, 5])
@pytest.mark.parametrize("ratio", [0.0, 0.1])
def test_no_step_increases_the_objective(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, max_steps: int, ratio: float
) -> None:
    X, _, stats = problem(rng, (30, 80))
    factor = IterativeFactor.of(scipy.sparse.csr_array(X)).with_ridge(ratio)
    monkeypatch.setattr(iterative_factor, "MAX_STEPS", max_steps)
    C = factor.project(rng.standard_normal((5, 80)))
    start, values = C.copy(), [objective(C, stats, factor)]
    for _ in range(4):
        C = encoder_step(stats.UtX, factor, C, tol=0.0)
        values.append(objective(C, stats, factor))
    assert np.all(np.diff(values) <= 1e-9 * abs(values[0]))
    assert max_steps == 0 or values[-1] < values[0]
    assert max_steps > 0 or np.array_equal(C, start)


def test_float32_rows_are_solved_to_their_precision(rng: np.random.Generator) -> None:
    X, U, _ = problem(rng, (200, 300))
    X32 = scipy.sparse.csr_array(X.astype(np.float32))
    stats = CodeStats.of(U.astype(np.float32), X32)
    factor = IterativeFactor.of(X32).with_ridge(0.3)
    C = encoder_step(stats.UtX, factor, tol=0.0)
    assert C.dtype == np.float64
    assert encoder_residual(C, stats.UtU, stats.UtX, factor) < 1e-5
    expected = encoder_step(stats.UtX, factor_rows(X32).with_ridge(0.3))
    assert_allclose(C, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("shape", [(5, 3), (3, 5)])
@pytest.mark.parametrize("ratio", [0.0, 0.5])
def test_zero_data_give_a_zero_encoder(shape: tuple[int, int], ratio: float) -> None:
    for X in (np.zeros(shape), scipy.sparse.csr_array(np.zeros(shape))):
        factor = IterativeFactor.of(X).with_ridge(ratio)
        assert factor.mean_eigenvalue == 1
        assert factor.n_parameters(0.5) == 0
        assert not encoder_step(np.zeros((2, shape[1])), factor).any()


def test_estimated_traces_are_close(rng: np.random.Generator) -> None:
    X = sparse_data(rng, (400, 700))
    factor, direct = IterativeFactor.of(scipy.sparse.csr_array(X)), factor_rows(X)
    for ratio in (0.01, 0.1, 1.0):
        ridge = ratio * direct.mean_eigenvalue
        assert_allclose(factor.n_parameters(ridge), direct.n_parameters(ridge), rtol=0.05)


@pytest.mark.parametrize("m", [4, 40])
def test_ridge_is_that_of_the_direct_factor(rng: np.random.Generator, m: int) -> None:
    X = rng.standard_normal((150, 120))
    W = rng.standard_normal((m, 120))
    for noise in (0.1, 10.0, 100.0):
        U = X @ W.T + noise * rng.standard_normal((150, m))
        stats = CodeStats.of(U, X)
        chosen = [
            choose_ridge(stats.UtU, stats.UtX, 150, factor)
            for factor in (IterativeFactor.of(X), factor_rows(X))
        ]
        assert chosen[0] == chosen[1]


@pytest.mark.parametrize("ratio", [0.1, 1.0])
def test_fold_outputs_are_those_of_refits(rng: np.random.Generator, ratio: float) -> None:
    X, U, stats = problem(rng, (40, 60))
    factor = IterativeFactor.of(scipy.sparse.csr_array(X)).with_ridge(ratio)
    C = encoder_step(stats.UtX, factor, tol=1e-10)
    for n_rows in (40, 10):  # all rows, or the first of them
        Z = fold_outputs(X[:n_rows], U[:n_rows], C, stats.UtX, 40, factor)
        n_folds = 10 if n_rows == 40 else 3
        folds = np.array_split(np.random.RandomState(0).permutation(n_rows), n_folds)
        for fold in folds:
            kept = np.setdiff1d(np.arange(40), fold)
            A = X[kept].T @ X[kept] + factor.ridge * np.eye(60)
            expected = X[fold] @ np.linalg.solve(A, X[kept].T @ U[kept])
            assert_allclose(Z[fold], expected, atol=0.05 * np.abs(expected).max())


# Streams
