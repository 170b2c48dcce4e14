"""Calibration of the encoder: leave-one-out outputs, threshold and dictionary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge

from lincode.core.energy import CodeStats
from lincode.core.ridge import encoder_step
from lincode.core.threshold import Thresholding
from lincode.encoder.calibration import (
    Network,
    calibrate,
    explained_fraction,
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


# Threshold and dictionary


def coded_rows(rng: np.random.Generator, N: int, m: int, p: int) -> tuple[Any, Any, Any]:
    """Outputs of an encoder that are too small for the rows, atoms of length 1, and the rows."""
    Z = rng.standard_normal((N, m)) ** 3
    D = rng.standard_normal((m, p))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    return Z, D, rng.uniform(2, 5, m) * Z @ D + 0.1 * rng.standard_normal((N, p))


@pytest.mark.parametrize("rule", [Thresholding("hard"), Thresholding("top_k", k=2)])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_calibrated_network(
    rng: np.random.Generator, rule: Thresholding, positive: bool, sparse: bool
) -> None:
    Z, D, X = coded_rows(rng, 500, 8, 12)
    Z, X, rule = (np.abs(Z), np.abs(X), replace(rule, positive=True)) if positive else (Z, X, rule)
    before, C = Z.copy(), rng.standard_normal((8, 5))
    rows = scipy.sparse.csr_array(X) if sparse else X
    result = calibrate(Network(C, D, rule), Z, rows, 0.25, positive_dict=positive)
    network = result.network
    assert_array_equal(Z, before)
    assert_allclose(np.linalg.norm(network.D, axis=1), 1)
    assert (network.D >= 0).all() == positive
    lengths = network.C[:, :1] / C[:, :1]
    assert_allclose(network.C, lengths * C)
    assert (lengths > 0).all()
    S = network.rule.apply(Z * lengths.T)
    # The output at the threshold may be above it by rounding.
    assert_allclose(np.mean(S != 0), 0.25, atol=1.1 / S.size)
    assert_allclose(result.usage, np.mean(S != 0, axis=0), atol=1.1 / len(S))
    assert_allclose(result.r2, 1 - np.sum((X - S @ network.D) ** 2) / np.sum(X**2), rtol=1e-3)
    uncalibrated = rule.matched(Z, 0.25).apply(Z)
    assert result.r2 > explained_fraction(X, uncalibrated, D) + 0.1


def test_dictionary_is_that_of_least_squares(rng: np.random.Generator) -> None:
    """At the density 1 the codes are the outputs, up to the lengths of the atoms."""
    Z, D, X = coded_rows(rng, 5000, 8, 12)
    Z[:, 3] = 0
    best = Z @ np.linalg.lstsq(Z, X, rcond=None)[0]
    result = calibrate(Network(D, D, Thresholding("hard")), Z, X, 1.0)
    lengths = np.linalg.norm(result.network.C, axis=1)
    reconstruction = (Z * lengths) @ result.network.D
    assert_allclose(reconstruction, best, atol=0.03 * np.abs(best).max())
    assert_allclose(result.network.D[3], D[3])  # a unit without codes
    assert_allclose(result.network.C[3], D[3])


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_calibration_does_not_depend_on_units(rng: np.random.Generator, scale: float) -> None:
    Z, D, X = coded_rows(rng, 200, 8, 12)
    one, two = (
        calibrate(Network(D, D, Thresholding("hard")), s * Z, s * X, 0.3) for s in (1.0, scale)
    )
    assert_allclose(two.network.C, one.network.C)
    assert_allclose(two.network.D, one.network.D, atol=1e-9)
    assert_allclose(two.network.rule.threshold, scale * one.network.rule.threshold)
    assert_allclose(two.r2, one.r2)


@pytest.mark.filterwarnings("error")
def test_calibration_without_codes_or_rows(rng: np.random.Generator) -> None:
    Z, D, X = coded_rows(rng, 30, 8, 12)
    for outputs, rows in ((0 * Z, X), (0 * Z, 0 * X), (Z, 0 * X)):
        result = calibrate(Network(D, D, Thresholding("hard")), outputs, rows, 0.3)
        assert np.isfinite([result.network.C, result.network.D]).all()
        assert result.r2 <= 0
