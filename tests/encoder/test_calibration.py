"""Calibration of the encoder: leave-one-out outputs, threshold, gains and decoder."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import nnls
from sklearn.linear_model import Ridge

from lincode.core.energy import CodeStats
from lincode.core.ridge import encoder_step
from lincode.core.threshold import Thresholding
from lincode.encoder.calibration import (
    DECODER_RIDGE,
    GAIN_RIDGE,
    CodedRows,
    fit_decoder,
    fit_gains,
    leave_one_out_outputs,
)
from lincode.training.rows import factor_rows

SHAPES = [(40, 10), (14, 30)]


def rows_and_codes(rng: np.random.Generator, shape: tuple[int, int], m: int = 6) -> Any:
    X = rng.standard_normal(shape) * rng.uniform(0.3, 2, shape[1])
    U = X @ rng.standard_normal((shape[1], m)) / 3 + rng.standard_normal((shape[0], m))
    return X, U * (np.abs(U) > 1)


def loo(X: Any, U: Any, ratio: float) -> Any:
    """The leave-one-out outputs for all rows."""
    factor = factor_rows(X).with_ridge(ratio)
    stats = CodeStats.of(U, X)
    C = encoder_step(stats.UtX, factor)
    return leave_one_out_outputs(X, U, C, stats.UtX, stats.n, factor)


# Leave-one-out outputs


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ratio", [0.01, 0.3, 10.0])
@pytest.mark.parametrize("kind", ["dense", "csr", "float32"])
def test_leave_one_out_is_a_refit_without_the_row(
    rng: np.random.Generator, shape: tuple[int, int], ratio: float, kind: str
) -> None:
    X, U = rows_and_codes(rng, shape)
    ridge = ratio * np.sum(X**2) / min(shape)
    expected = np.empty_like(U)
    for i in range(shape[0]):
        kept = np.arange(shape[0]) != i
        model = Ridge(alpha=ridge, fit_intercept=False, solver="cholesky").fit(X[kept], U[kept])
        expected[i] = model.predict(X[[i]])[0]
    rows = scipy.sparse.csr_matrix(X) if kind == "csr" else X
    if kind == "float32":
        rows, U = X.astype(np.float32), U.astype(np.float32)
    atol = 1e-4 if kind == "float32" else 1e-9
    assert_allclose(loo(rows, U, ratio), expected, atol=atol)


def test_leave_one_out_without_a_ridge(rng: np.random.Generator) -> None:
    X, U = rows_and_codes(rng, (40, 10))
    expected = np.empty_like(U)
    for i in range(40):
        kept = np.arange(40) != i
        expected[i] = X[i] @ np.linalg.lstsq(X[kept], U[kept], rcond=None)[0]
    assert_allclose(loo(X, U, 0.0), expected, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sparse", [False, True])
def test_leave_one_out_of_an_interpolating_encoder(
    rng: np.random.Generator, dtype: Any, sparse: bool
) -> None:
    """The outputs are the codes, so u − z and 1 − h are 0, but their ratio is not."""
    X, U = rows_and_codes(rng, (14, 30))
    X, U = X.astype(dtype), U.astype(dtype)
    X64, U64 = X.astype(float), U.astype(float)
    K = np.linalg.inv(X64 @ X64.T)
    expected = U64 - (K @ U64) / np.diag(K)[:, None]
    for i in (0, 5):  # the formula itself is a refit without the row
        kept = np.arange(14) != i
        C = np.linalg.lstsq(X64[kept], U64[kept], rcond=None)[0]
        assert_allclose(expected[i], X64[i] @ C, atol=1e-9)
    Z = loo(scipy.sparse.csr_matrix(X) if sparse else X, U, 0.0)
    assert_allclose(Z, expected, atol=1e-5)


@pytest.mark.parametrize("ratio", [0.0, 0.1])
def test_a_row_with_a_feature_of_its_own(rng: np.random.Generator, ratio: float) -> None:
    """Without this row nothing is known about the feature, so its leave-one-out output lacks it."""
    X, U = rows_and_codes(rng, (40, 10))
    X[:, 9] = 0
    X[7, 9] = 2.0
    ridge = ratio * np.sum(X**2) / 10
    kept = np.arange(40) != 7
    A = X[kept][:, :9]
    C = np.linalg.solve(A.T @ A + ridge * np.eye(9), A.T @ U[kept])
    assert_allclose(loo(X, U, ratio)[7], X[7, :9] @ C, atol=1e-5)


# Threshold


def coded_rows(rng: np.random.Generator, N: int, m: int, p: int) -> tuple[Any, Any, Any]:
    S = rng.standard_normal((N, m)) * (rng.random((N, m)) < 0.5)
    D = rng.standard_normal((m, p))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    return S, D, rng.standard_normal((N, p)) + 0.5 * S @ D


def sums(S: Any, X: Any) -> CodedRows:
    return CodedRows(StS=S.T @ S, StX=S.T @ X, X2=float(np.sum(X**2)))


def quadratic(S: Any, D: Any, X: Any) -> tuple[Any, Any]:
    """A and r of the error ‖X − S diag(g) D‖² = gᵀA g − 2 rᵀg + ‖X‖², from a design matrix."""
    design = np.stack([np.outer(S[:, j], D[j]).ravel() for j in range(len(D))], axis=1)
    return design.T @ design, design.T @ X.ravel()


@pytest.mark.parametrize("with_prior", [False, True])
def test_gains_satisfy_the_optimality_conditions(with_prior: bool) -> None:
    n_at_bound = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        N, m, p = (int(n) for n in rng.integers(2, 20, 3))
        S, D, X = coded_rows(rng, N, m, p)
        X -= 0.5 * (seed % 2) * S @ D  # codes that explain nothing give gains at the bound
        A, r = quadratic(S, D, X)
        prior, weight = (rng.uniform(0, 2, m), 0.7) if with_prior else (None, 0.0)
        gains = fit_gains(sums(S, X), D, prior, weight)
        common = r.sum() / A.sum()
        start = np.full(m, common if common > 0 else 1.0) if prior is None else prior
        kappa = max(weight, GAIN_RIDGE) * np.diag(A)[np.diag(A) > 0].mean()
        gradient = A @ gains - r + kappa * (gains - start)
        scale = np.abs(r).max() + kappa
        assert (gains >= 0).all()
        assert_allclose(gradient[gains > 0], 0, atol=1e-9 * scale)
        assert (gradient[gains == 0] >= -1e-9 * scale).all()
        root = np.linalg.cholesky(A + kappa * np.eye(m)).T
        expected, _ = nnls(root, np.linalg.solve(root.T, r + kappa * start))
        assert_allclose(gains, expected, atol=1e-8)
        n_at_bound += int((gains == 0).any())
    assert n_at_bound > 10  # otherwise the constraint was not tested


def test_gains_of_units_without_a_code(rng: np.random.Generator) -> None:
    S, D, X = coded_rows(rng, 60, 8, 5)
    S[:, [2, 5]] = 0
    A, r = quadratic(S, D, X)
    gains = fit_gains(sums(S, X), D)
    assert_allclose(gains[[2, 5]], r.sum() / A.sum())
    prior = rng.uniform(0.5, 2, 8)
    with_prior = fit_gains(sums(S, X), D, prior, 1.0)
    assert_allclose(with_prior[[2, 5]], prior[[2, 5]])
    assert not np.allclose(with_prior[0], prior[0])
    # Without any code the gains are the prior, or 1.
    assert_array_equal(fit_gains(sums(0 * S, X), D), np.ones(8))
    kept = fit_gains(sums(0 * S, X), D, prior, 1.0)
    assert_array_equal(kept, prior)
    assert kept is not prior


def test_gains_of_codes_with_the_wrong_sign(rng: np.random.Generator) -> None:
    """The best common gain would be negative; gains are not."""
    S, D, _ = coded_rows(rng, 30, 8, 5)
    gains = fit_gains(sums(S, -S @ D), D)
    assert (gains >= 0).all()
    assert np.isfinite(gains).all()


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_gains_do_not_depend_on_units(rng: np.random.Generator, scale: float) -> None:
    S, D, X = coded_rows(rng, 30, 8, 5)
    expected = fit_gains(sums(S, X), D)
    assert_allclose(fit_gains(sums(scale * S, scale * X), D), expected, rtol=1e-6, atol=1e-9)
    assert_allclose(fit_gains(sums(S, scale * X), D), scale * expected, rtol=1e-6, atol=1e-9)


# Sums, fraction and decoder


@pytest.mark.parametrize("mode", ["soft", "hard", "top_k"])
@pytest.mark.parametrize("sparse", [False, True])
def test_coded_rows(rng: np.random.Generator, mode: str, sparse: bool) -> None:
    Z, X = rng.standard_normal((30, 6)), rng.standard_normal((30, 4))
    D = rng.standard_normal((6, 4))
    before = Z.copy()
    thresholding = Thresholding(mode, 0.5, k=2, gains=np.full(6, 7.0))
    coded = CodedRows.of(Z, scipy.sparse.csr_matrix(X) if sparse else X, thresholding)
    assert_array_equal(Z, before)
    S = Thresholding(mode, 0.5, k=2).apply(Z.copy())  # the gains are left out
    assert_allclose(coded.StS, S.T @ S)
    assert_allclose(coded.StX, S.T @ X)
    assert_allclose(coded.X2, np.sum(X**2))
    gains = rng.uniform(0, 2, 6)
    expected = 1 - np.sum((X - (S * gains) @ D) ** 2) / np.sum(X**2)
    assert_allclose(coded.r2(gains, D), expected)
    assert CodedRows.of(Z, np.zeros((30, 4)), thresholding).r2(gains, D) == 0


@pytest.mark.parametrize("n_unused", [0, 2])
def test_decoder_satisfies_its_normal_equations(rng: np.random.Generator, n_unused: int) -> None:
    S, D, X = coded_rows(rng, 50, 8, 5)
    S[:, :n_unused] = 0
    gains = rng.uniform(0.5, 2, 8)
    decoder = fit_decoder(sums(S, X), gains, D)
    G = S * gains
    kappa = DECODER_RIDGE * np.mean(np.sum(G[:, n_unused:] ** 2, axis=0))
    gradient = G.T @ (G @ decoder - X) + kappa * (decoder - D)
    assert_allclose(gradient, 0, atol=1e-9)
    assert_allclose(decoder[:n_unused], D[:n_unused], atol=1e-12)
    best = np.linalg.lstsq(G, X, rcond=None)[0]
    error, least = np.sum((X - G @ decoder) ** 2), np.sum((X - G @ best) ** 2)
    assert least <= error <= 1.0001 * least
    assert error <= np.sum((X - G @ D) ** 2)
