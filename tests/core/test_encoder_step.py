"""The C step: least squares, the factorisation of XᵀX, and the encoder's codes."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from lincode.core.energy import CodeStats
from lincode.core.threshold import soft_threshold
from lincode.core.ridge import (
    DirectFactor,
    encoder_residual,
    encoder_step,
    factor_gram,
    factor_transposed,
)
from lincode.core.threshold import Thresholding, encode, matching_threshold
from lincode.rows.memory import direct_factor


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
    factor, stats = direct_factor(Xs), CodeStats.of(U, Xs)
    C = encoder_step(stats.UtX, factor)
    assert_allclose(C, np.linalg.lstsq(X, U, rcond=None)[0].T, atol=1e-8)
    assert encoder_residual(C, stats.UtU, stats.UtX, factor) < 1e-10


@pytest.mark.parametrize("shape", [(40, 12), (12, 40)])
def test_projection_does_not_change_the_product_with_the_data(
    rng: np.random.Generator, shape: tuple[int, int]
) -> None:
    X = rng.standard_normal(shape)
    X[:, 2] = X[:, 1]
    C = rng.standard_normal((3, shape[1]))
    projected = direct_factor(X).project(C)
    assert_allclose(X @ projected.T, X @ C.T, atol=1e-8)
    assert np.linalg.norm(projected) < np.linalg.norm(C)


def test_residual_is_the_largest_cosine(rng: np.random.Generator) -> None:
    X, U = rng.standard_normal((20, 6)), rng.standard_normal((20, 3))
    X[:, 4] = 0
    C = rng.standard_normal((3, 6))
    difference = U - X @ C.T
    lengths = np.outer(np.linalg.norm(U, axis=0), np.linalg.norm(X, axis=0))
    cosine = np.abs(difference.T @ X)[:, [0, 1, 2, 3, 5]] / lengths[:, [0, 1, 2, 3, 5]]

    def residual(C: Any, U: Any, X: Any) -> float:
        stats = CodeStats.of(U, X)
        return encoder_residual(C, stats.UtU, stats.UtX, direct_factor(X))

    assert_allclose(residual(C, U, X), cosine.max())
    scale = 10.0 ** np.arange(-3, 3)  # the residual does not depend on the scale of the features
    assert_allclose(residual(C / scale, U, X * scale), cosine.max(), rtol=1e-6)
    assert residual(np.zeros((3, 6)), 0 * U, X) == 0


@pytest.mark.parametrize("shape", [(5, 3), (3, 5)])
def test_zero_data_give_a_zero_encoder(shape: tuple[int, int]) -> None:
    factor = direct_factor(np.zeros(shape))
    assert factor.V.shape == (shape[1], 0)
    assert not encoder_step(np.zeros((2, shape[1])), factor).any()


def test_float32_rows_are_summed_in_float64(rng: np.random.Generator) -> None:
    X = (100 + rng.standard_normal((5000, 3))).astype(np.float32)
    exact = X.astype(np.float64).T @ X.astype(np.float64)
    factor = direct_factor(X)
    assert_allclose((factor.V * factor.s2) @ factor.V.T, exact, rtol=1e-12)


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


def assert_factor_is_exact(factor: DirectFactor, X: Any) -> None:
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
    assert_factor_is_exact(direct_factor(X), X)
    assert_factor_is_exact(direct_factor(scipy.sparse.csr_matrix(X)), X)
    transposed = np.array(X.T, order="F")
    assert_factor_is_exact(factor_transposed(transposed, X.dtype), X)


@pytest.mark.parametrize("name", WIDE)
def test_both_factorisations_give_the_same_encoder(name: str, rng: np.random.Generator) -> None:
    X = WIDE[name](rng)
    UtX = rng.standard_normal((3, len(X))) @ X
    by_gram = factor_gram(X.T @ X, X.dtype)
    by_rows = direct_factor(X)
    codes = [X @ encoder_step(UtX, factor).T for factor in (by_gram, by_rows)]
    expected = X @ np.linalg.lstsq(X.T @ X, UtX.T, rcond=1e-13)[0]
    scale = np.abs(expected).max()
    for U in codes:
        assert_allclose(U, expected, atol=1e-3 * scale)
    assert_allclose(by_gram.quadratic(UtX), np.sum((X @ UtX.T) ** 2), rtol=1e-9)
    assert_allclose(by_rows.quadratic(UtX), np.sum((X @ UtX.T) ** 2), rtol=1e-9)


@pytest.mark.parametrize("name", WIDE)
def test_float32_wide_data_have_an_orthonormal_factor(name: str, rng: np.random.Generator) -> None:
    X = WIDE[name](rng).astype(np.float32)
    factor = direct_factor(X)
    assert_allclose(factor.V.T @ factor.V, np.eye(len(factor.s2)), atol=1e-10)
    exact = X.astype(np.float64).T @ X.astype(np.float64)
    cutoff = (100 * float(np.finfo(np.float32).eps)) ** 2  # directions below it are dropped
    assert_allclose(
        (factor.V * factor.s2) @ factor.V.T,
        exact,
        atol=2 * cutoff * float(np.linalg.norm(exact, 2)),
    )


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("positive", [False, True])
def test_encode_is_a_product_and_a_soft_threshold(
    rng: np.random.Generator, sparse: bool, positive: bool
) -> None:
    X, C = rng.standard_normal((9, 5)), rng.standard_normal((4, 5))
    given = scipy.sparse.csr_array(X) if sparse else X
    expected = soft_threshold(X @ C.T, 0.3, positive=positive)
    rule = Thresholding("soft", 0.3, positive=positive)
    assert_allclose(encode(given, C, rule), expected)
    out = np.full((9, 4), np.nan)
    assert encode(given, C, rule, out=out) is out
    assert_allclose(out, expected)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("density", [0.0, 0.1, 0.4, 1.0])
def test_matching_threshold_gives_the_density(
    rng: np.random.Generator, positive: bool, density: float
) -> None:
    X, C = rng.standard_normal((500, 5)), rng.standard_normal((4, 5))
    threshold = matching_threshold(X @ C.T, density, positive=positive)
    assert threshold >= 0
    reached = np.mean(encode(X, C, Thresholding("soft", threshold, positive=positive)) != 0)
    available = np.mean(X @ C.T > 0) if positive else 1.0
    assert_allclose(reached, min(density, available), atol=2e-3)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize(
    ("outputs", "density", "expected"),
    [
        ([0.5] * 8, 1.0, 1.0),
        ([0.5] * 8, 0.9, 1.0),
        ([0.5] * 8, 0.1, 0.0),
        ([0.5] * 4 + [0.2] * 4, 0.5, 0.5),
        ([0.5] * 4 + [0.2] * 4, 0.9, 1.0),
        ([0.5] * 4 + [0.2] * 4, 0.4, 0.5),
        ([0.0] * 8, 0.5, 0.0),
        ([0.1, 0.2, 0.3, 0.4], 1.0, 1.0),
        ([0.1, 0.2, 0.3, 0.4], 0.75, 0.75),
    ],
)
def test_matching_threshold_with_equal_outputs(
    outputs: list[float], density: float, expected: float, positive: bool
) -> None:
    Z = np.array(outputs)[:, None]
    threshold = matching_threshold(Z, density, positive=positive)
    assert np.mean(threshold < Z) == expected
