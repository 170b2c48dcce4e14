"""The C step: ridge regression with a factor of XᵀX, and the choice of the ridge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

from lincode.core.energy import CodeStats, energy, energy_from_stats
from lincode.core.ridge import (
    RIDGE_RATIOS,
    DirectFactor,
    choose_ridge,
    conjugate_gradient,
    encoder_residual,
    encoder_step,
    factor_gram,
    factor_transposed,
)
from lincode.training.rows import factor_rows

SHAPES = [(60, 12), (12, 40), (12, 12)]
"""More rows than features, fewer, and equally many."""


def problem(rng: np.random.Generator, shape: tuple[int, int], m: int = 5) -> tuple[Any, Any]:
    """Rows with features of different scale, and sparse codes that depend on them."""
    X = rng.standard_normal(shape) * rng.uniform(0.1, 3, shape[1])
    U = X @ rng.standard_normal((shape[1], m)) + rng.standard_normal((shape[0], m))
    return X, U * (rng.random(U.shape) < 0.5)


def as_rows(X: Any, kind: str) -> Any:
    if kind == "float32":
        return X.astype(np.float32)
    return scipy.sparse.csr_matrix(X) if kind == "csr" else X


# The C step


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ratio", [0.01, 0.3, 10.0])
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_encoder_step_is_ridge_regression(
    rng: np.random.Generator, shape: tuple[int, int], ratio: float, kind: str
) -> None:
    X, U = problem(rng, shape)
    rows = as_rows(X, kind)
    factor = factor_rows(rows).with_ridge(ratio)
    C = encoder_step(CodeStats.of(U, rows).UtX, factor)
    assert_allclose(factor.ridge, ratio * np.sum(X**2) / min(shape))
    gradient = (X @ C.T - U).T @ X + factor.ridge * C
    assert_allclose(gradient, 0, atol=1e-10 * np.abs(U.T @ X).max())
    reference = Ridge(alpha=factor.ridge, fit_intercept=False, solver="cholesky").fit(X, U)
    assert_allclose(C, reference.coef_, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ratio", [0.0, 0.1, 10.0])
def test_encoder_residual_certifies_the_minimum(
    rng: np.random.Generator, shape: tuple[int, int], ratio: float
) -> None:
    X, U = problem(rng, shape)
    X[:, 3], U[:, 1] = 0, 0
    stats = CodeStats.of(U, X)
    factor = factor_rows(X).with_ridge(ratio)
    C = encoder_step(stats.UtX, factor)
    assert encoder_residual(C, stats.UtU, stats.UtX, factor) < 1e-10
    worse = C + 0.01 * factor.project(rng.standard_normal(C.shape))
    gradient = np.abs((X @ worse.T - U).T @ X + factor.ridge * worse)
    norms = np.outer(np.linalg.norm(U, axis=0), np.linalg.norm(X, axis=0))
    cosine = (gradient[norms > 0] / norms[norms > 0]).max()
    assert_allclose(encoder_residual(worse, stats.UtU, stats.UtX, factor), cosine)
    # The minimum for another ridge is not the minimum for this one.
    other = encoder_step(stats.UtX, factor.with_ridge(ratio + 1))
    assert encoder_residual(other, stats.UtU, stats.UtX, factor) > 1e-3


@pytest.mark.parametrize("shape", SHAPES)
def test_ridge_is_noise_on_the_input(rng: np.random.Generator, shape: tuple[int, int]) -> None:
    """With noise of variance ρ/N, the expected squared error is that of the ridge regression."""
    X, U = problem(rng, shape)
    N, p = shape
    factor = factor_rows(X).with_ridge(0.2)
    variance = factor.ridge / N
    C = encoder_step(U.T @ X, factor)
    # Noise ±s in one feature at a time, scaled to the variance, has exactly the covariance of
    # independent noise. The mean over these 2p copies of the rows is therefore the expectation.
    noise = np.sqrt(variance * p) * np.vstack([np.eye(p), -np.eye(p)])
    copies = np.vstack([X + e for e in noise])
    expected = np.linalg.lstsq(copies, np.tile(U, (2 * p, 1)), rcond=None)[0].T
    assert_allclose(C, expected, atol=1e-8)
    # The normal equations: E (X + noise)ᵀ(X + noise) = XᵀX + N variance I.
    assert_allclose(copies.T @ copies / (2 * p), X.T @ X + N * variance * np.eye(p), atol=1e-8)


# Generalised cross-validation


@pytest.mark.parametrize("shape", [(60, 12), (30, 25), (12, 40)])
@pytest.mark.parametrize("kind", ["dense", "csr", "float32"])
def test_choose_ridge_is_brute_force_gcv(
    rng: np.random.Generator, shape: tuple[int, int], kind: str
) -> None:
    N, p = shape
    chosen = []
    for noise in np.geomspace(0.1, 30, 12):
        X = rng.standard_normal(shape) * rng.uniform(0.3, 3, p)
        U = X @ rng.standard_normal((p, 4)) + noise * rng.standard_normal((N, 4))
        rows = as_rows(X, kind)
        stats = CodeStats.of(U.astype(rows.dtype), rows)
        errors = []
        for ratio in RIDGE_RATIOS:
            ridge = ratio * np.sum(X**2) / min(shape)
            hat = X @ np.linalg.solve(X.T @ X + ridge * np.eye(p), X.T)
            errors.append(np.sum((U - hat @ U) ** 2) / (1 - np.trace(hat) / N) ** 2)
        chosen.append(choose_ridge(stats.UtU, stats.UtX, N, factor_rows(rows)))
        assert chosen[-1] == RIDGE_RATIOS[int(np.argmin(errors))]
    assert len(set(chosen)) >= 3  # otherwise the test could not fail


# The energy


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ratio", [0.0, 0.1, 10.0])
@pytest.mark.parametrize("eta", [0.0, 0.5, 3.0])
def test_energy_from_stats_is_energy_from_arrays(
    rng: np.random.Generator, shape: tuple[int, int], ratio: float, eta: float
) -> None:
    X, U = problem(rng, shape)
    D = rng.standard_normal((5, shape[1]))
    factor = factor_rows(X).with_ridge(ratio)
    C = factor.project(rng.standard_normal(D.shape))
    m, p = D.shape
    by_hand = (
        np.sum((X - U @ D) ** 2) / p
        + eta / m * (np.sum((U - X @ C.T) ** 2) + factor.ridge * np.sum(C**2))
        + 2 * 0.3 / m * np.abs(U).sum()
    )
    from_stats = energy_from_stats(CodeStats.of(U, X), D, C, factor, 0.3, eta)
    assert_allclose(from_stats, by_hand)
    assert_allclose(energy(X, U, D, C, 0.3, eta, ridge=factor.ridge), by_hand)
    if ratio and eta:
        without = energy_from_stats(CodeStats.of(U, X), D, C, factor.with_ridge(0.0), 0.3, eta)
        assert_allclose(by_hand - without, eta / m * factor.ridge * np.sum(C**2))


# Training


def data(rng: np.random.Generator, kind: str) -> Any:
    X = rng.standard_normal((40, 12))
    if kind == "wide":
        X = rng.standard_normal((8, 30))
    if kind == "constant columns":
        X[:, 3], X[:, 7] = 0, -1
    if kind == "repeated columns":
        X[:, 5] = X[:, 2]
    return X


@pytest.mark.parametrize("kind", ["tall", "wide", "constant columns", "repeated columns"])
@pytest.mark.parametrize("sparse", [False, True])
def test_encoder_is_the_minimum_norm_least_squares_solution(
    rng: np.random.Generator, kind: str, sparse: bool
) -> None:
    X = data(rng, kind)
    U = rng.standard_normal((len(X), 5))
    Xs = scipy.sparse.csr_array(X) if sparse else X
    factor, stats = factor_rows(Xs), CodeStats.of(U, Xs)
    C = encoder_step(stats.UtX, factor)
    assert_allclose(C, np.linalg.lstsq(X, U, rcond=None)[0].T, atol=1e-8)
    assert encoder_residual(C, stats.UtU, stats.UtX, factor) < 1e-10


def test_residual_is_the_largest_cosine(rng: np.random.Generator) -> None:
    X, U = rng.standard_normal((20, 6)), rng.standard_normal((20, 3))
    X[:, 4] = 0
    C = rng.standard_normal((3, 6))
    difference = U - X @ C.T
    lengths = np.outer(np.linalg.norm(U, axis=0), np.linalg.norm(X, axis=0))
    cosine = np.abs(difference.T @ X)[:, [0, 1, 2, 3, 5]] / lengths[:, [0, 1, 2, 3, 5]]

    def residual(C: Any, U: Any, X: Any) -> float:
        stats = CodeStats.of(U, X)
        return encoder_residual(C, stats.UtU, stats.UtX, factor_rows(X))

    assert_allclose(residual(C, U, X), cosine.max())
    scale = 10.0 ** np.arange(-3, 3)  # the residual does not depend on the scale of the features
    assert_allclose(residual(C / scale, U, X * scale), cosine.max(), rtol=1e-6)
    assert residual(np.zeros((3, 6)), 0 * U, X) == 0


@pytest.mark.parametrize("shape", [(5, 3), (3, 5)])
def test_zero_data_give_a_zero_encoder(shape: tuple[int, int]) -> None:
    factor = factor_rows(np.zeros(shape))
    assert isinstance(factor, DirectFactor)
    assert factor.V.shape == (shape[1], 0)
    assert not encoder_step(np.zeros((2, shape[1])), factor).any()


def one_row_scaled(rng: np.random.Generator, scale: float) -> Any:
    X = rng.standard_normal((12, 40))
    X[3] *= scale
    return X


def one_hot(rng: np.random.Generator, N: int = 25, p: int = 60) -> Any:
    return np.eye(p)[rng.integers(0, p, N)]


WIDE: dict[str, Any] = {
    "one row 1e6 times longer": lambda rng: one_row_scaled(rng, 1e6),
    "one row 1e5 times longer": lambda rng: one_row_scaled(rng, 1e5),
    "nearly constant": lambda rng: 1 + 1e-4 * rng.standard_normal((12, 40)),
    "one-hot": one_hot,
    "one-hot with few columns used": lambda rng: np.hstack(
        [one_hot(rng, 25, 5), np.zeros((25, 60))]
    ),
    "repeated rows": lambda rng: np.repeat(rng.standard_normal((4, 40)), 3, axis=0),
    "all singular values equal": lambda rng: np.linalg.qr(rng.standard_normal((40, 12)))[0].T,
}


def assert_factor_is_exact(factor: Any, X: Any) -> None:
    """Compare with the singular values of X and with XᵀX itself."""
    V, s2 = factor.V, factor.s2
    assert_allclose(V.T @ V, np.eye(len(s2)), atol=1e-10)
    s = np.linalg.svd(X, compute_uv=False)
    assert_allclose(np.sort(s2)[::-1], s[: len(s2)] ** 2, rtol=1e-9, atol=1e-13 * s[0] ** 2)
    rank = np.linalg.matrix_rank(X, tol=1e-6 * s[0])
    assert len(s2) >= rank, "a direction above the rounding error is missing"
    XtX = X.T @ X
    assert_allclose((V * s2) @ V.T, XtX, atol=1e-11 * s[0] ** 2)
    assert_allclose(factor.trace, np.trace(XtX))
    assert_allclose(factor.column_norms, np.linalg.norm(X, axis=0), rtol=1e-12)


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("seed", range(5))
def test_factor_of_wide_data_is_orthonormal_and_reproduces_xtx(name: str, seed: int) -> None:
    X = WIDE[name](np.random.default_rng(seed))
    assert X.shape[0] < X.shape[1]
    assert_factor_is_exact(factor_rows(X), X)
    assert_factor_is_exact(factor_rows(scipy.sparse.csr_matrix(X)), X)
    transposed = np.array(X.T, order="F")
    assert_factor_is_exact(factor_transposed(transposed, X.dtype), X)


@pytest.mark.parametrize("name", WIDE)
def test_both_factorisations_give_the_same_encoder(name: str, rng: np.random.Generator) -> None:
    X = WIDE[name](rng)
    UtX = rng.standard_normal((3, len(X))) @ X
    by_gram = factor_gram(X.T @ X, X.dtype)
    by_rows = factor_rows(X)
    codes = [X @ encoder_step(UtX, factor).T for factor in (by_gram, by_rows)]
    expected = X @ np.linalg.lstsq(X.T @ X, UtX.T, rcond=1e-13)[0]
    scale = np.abs(expected).max()
    for U in codes:
        assert_allclose(U, expected, atol=1e-3 * scale)
    assert_allclose(by_gram.quadratic(UtX), np.sum((X @ UtX.T) ** 2), rtol=1e-9)
    assert_allclose(by_rows.quadratic(UtX), np.sum((X @ UtX.T) ** 2), rtol=1e-9)


def test_conjugate_gradient_solves_each_row_without_increasing_its_objective(
    rng: np.random.Generator,
) -> None:
    root = rng.standard_normal((30, 12))
    A, B = root.T @ root, rng.standard_normal((5, 12))
    B[2] = 0
    X, values = np.zeros_like(B), []
    for _ in range(8):
        values.append(0.5 * np.sum((X @ A) * X, axis=1) - np.sum(B * X, axis=1))
        conjugate_gradient(
            lambda P: P @ A, X, B - X @ A, n_steps=4, precondition=lambda R: R / np.diag(A)
        )
    assert (np.diff(values, axis=0) <= 1e-12).all()
    conjugate_gradient(lambda P: P @ A, X, B - X @ A, n_steps=20)
    assert_allclose(X, np.linalg.solve(A, B.T).T, atol=1e-10)
    assert not X[2].any()
