from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from lincode.core.encoder_step import encoder_step, factor_data
from lincode.core.optimality import encoder_residual
from lincode.core.stats import CodeStats


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
def test_is_the_minimum_norm_least_squares_solution(
    rng: np.random.Generator, kind: str, sparse: bool
) -> None:
    X = data(rng, kind)
    U = rng.standard_normal((len(X), 5))
    Xs = scipy.sparse.csr_array(X) if sparse else X
    factor = factor_data(Xs)
    C = encoder_step(CodeStats.of(U, Xs).UtX, factor)
    assert_allclose(C, np.linalg.lstsq(X, U, rcond=None)[0].T, atol=1e-8)
    assert encoder_residual(C, CodeStats.of(U, Xs), factor) < 1e-10


@pytest.mark.parametrize("shape", [(40, 12), (12, 40)])
def test_the_span_of_the_data_is_all_that_counts(
    rng: np.random.Generator, shape: tuple[int, int]
) -> None:
    X = rng.standard_normal(shape)
    X[:, 2] = X[:, 1]
    C = rng.standard_normal((3, shape[1]))
    C_span = factor_data(X).span(C)
    assert_allclose(X @ C_span.T, X @ C.T, atol=1e-8)
    assert np.linalg.norm(C_span) < np.linalg.norm(C)


def test_blocks_change_nothing(rng: np.random.Generator) -> None:
    for shape in ((50, 6), (6, 50)):
        X, UtX = rng.standard_normal(shape), rng.standard_normal((4, shape[1]))
        whole, small = factor_data(X), factor_data(X, block_rows=7)
        assert_allclose(encoder_step(UtX, small), encoder_step(UtX, whole), atol=1e-9)
        assert_allclose(whole.trace, (X**2).sum())


def test_residual_is_the_largest_cosine_left(rng: np.random.Generator) -> None:
    X, U = rng.standard_normal((20, 6)), rng.standard_normal((20, 3))
    X[:, 4] = 0
    C = rng.standard_normal((3, 6))
    left = U - X @ C.T
    lengths = np.outer(np.linalg.norm(U, axis=0), np.linalg.norm(X, axis=0))
    cosine = np.abs(left.T @ X)[:, [0, 1, 2, 3, 5]] / lengths[:, [0, 1, 2, 3, 5]]
    stats, factor = CodeStats.of(U, X), factor_data(X)
    assert_allclose(encoder_residual(C, stats, factor), cosine.max())
    scale = 10.0 ** np.arange(-3, 3)  # features of another scale leave it as it is
    scaled = factor_data(X * scale)
    assert_allclose(
        encoder_residual(C / scale, CodeStats.of(U, X * scale), scaled), cosine.max(), rtol=1e-6
    )
    assert encoder_residual(np.zeros((3, 6)), CodeStats.of(0 * U, X), factor) == 0


def test_data_of_zeros_give_a_zero_encoder() -> None:
    factor = factor_data(np.zeros((5, 3)))
    assert not encoder_step(np.zeros((2, 3)), factor).any()


def test_float32_rows_are_summed_in_float64(rng: np.random.Generator) -> None:
    X = (100 + rng.standard_normal((5000, 3))).astype(np.float32)
    exact = X.astype(np.float64).T @ X.astype(np.float64)
    factor = factor_data(X)
    assert_allclose((factor.V * factor.s2) @ factor.V.T, exact, rtol=1e-12)
