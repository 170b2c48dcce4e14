"""The ridge of the encoder: the C step, the energy, generalised cross-validation and training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge

from lincode import SCNN, MiniBatchSCNN
from lincode.core.energy import CodeStats, energy, energy_from_stats
from lincode.core.ridge import (
    RIDGE_RATIOS,
    choose_ridge,
    encoder_residual,
    encoder_step,
    factor_gram,
)
from lincode.rows.memory import direct_factor, factor_rows

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


def test_gram_and_rows_give_the_same_ridge(rng: np.random.Generator) -> None:
    """Both factorisations leave out the directions that X does not have."""
    X, U = problem(rng, (12, 40))
    one = direct_factor(X).with_ridge(0.1)
    other = factor_gram(X.T @ X, X.dtype).with_ridge(0.1)
    assert len(one.s2) == len(other.s2) == 12
    assert_allclose(one.ridge, other.ridge)
    assert_allclose(encoder_step(U.T @ X, one), encoder_step(U.T @ X, other), atol=1e-9)


def test_rows_of_zeros() -> None:
    factor = factor_rows(np.zeros((5, 3))).with_ridge(0.5)
    assert_array_equal(encoder_step(np.zeros((2, 3)), factor), np.zeros((2, 3)))
    assert choose_ridge(np.zeros((2, 2)), np.zeros((2, 3)), 5, factor) in RIDGE_RATIOS


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


def test_choose_ridge_follows_the_noise(rng: np.random.Generator) -> None:
    X = rng.standard_normal((100, 60))
    signal = X @ rng.standard_normal((60, 3))
    chosen = []
    for noise in (0.0, 10.0, 1000.0):
        U = signal + noise * rng.standard_normal(signal.shape)
        chosen.append(choose_ridge(U.T @ U, U.T @ X, 100, factor_rows(X)))
    assert chosen == sorted(chosen)
    assert chosen[0] == RIDGE_RATIOS[0]
    assert chosen[-1] == RIDGE_RATIOS[-1]


def test_choose_ridge_does_not_depend_on_units(rng: np.random.Generator) -> None:
    X, U = problem(rng, (40, 15))
    expected = choose_ridge(U.T @ U, U.T @ X, 40, factor_rows(X))
    for a, b in ((1e-6, 1.0), (1e6, 1.0), (1.0, 1e-6), (1.0, 1e6)):
        chosen = choose_ridge(b * b * U.T @ U, a * b * U.T @ X, 40, factor_rows(a * X))
        assert chosen == expected


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


@pytest.mark.parametrize("ridge", [0, 0.1, 10, "auto"])
@pytest.mark.parametrize("n", [40, 300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_training_never_increases_the_energy(
    digits: Any, ridge: float | str, n: int, dtype: Any
) -> None:
    X = digits[:n].astype(dtype)
    scnn = SCNN(20, encoder_ridge=ridge, tol=1e-3, random_state=0).fit(X)
    assert (np.diff(scnn.energy_path_) <= 0).all()
    assert scnn.optimality_["encoder"] < (1e-3 if dtype == np.float32 else 1e-8)
    if ridge == "auto":
        assert scnn.encoder_ridge_ in RIDGE_RATIOS
    else:
        assert scnn.encoder_ridge_ == ridge
    # -score is the energy of the best codes for the final D and C, so it is at most energy_.
    best = -scnn.score(X)
    assert best <= scnn.energy_ * (1 + (1e-5 if dtype == np.float32 else 1e-9))
    assert best > 0.9 * scnn.energy_


@pytest.mark.parametrize("n", [40, 300])
def test_fitted_ridge_is_relative_to_the_mean_eigenvalue(digits: Any, n: int) -> None:
    X = digits[:n]
    scnn = SCNN(20, encoder_ridge=0.3, tol=1e-3, random_state=0).fit(X)
    eigenvalues = np.linalg.svd(X, compute_uv=False) ** 2
    rank = int(np.linalg.matrix_rank(X))
    assert_allclose(scnn.noise_variance_, 0.3 * eigenvalues.sum() / rank / n)
    # A larger ridge gives a smaller encoder.
    norms = [
        np.linalg.norm(SCNN(20, encoder_ridge=r, tol=1e-3, random_state=0).fit(X).encoder_)
        for r in (0.01, 3.0)
    ]
    assert norms[0] > 1.2 * norms[1]


def test_auto_ridge_is_the_same_as_its_value(digits: Any) -> None:
    """Choosing the ridge must not change the start of training."""
    X = digits[:100]
    for init in ("data", "paper"):
        auto = SCNN(15, init=init, max_iter=60, tol=1e-2, random_state=0).fit(X)
        fixed = SCNN(15, init=init, max_iter=60, tol=1e-2, random_state=0)
        fixed.set_params(encoder_ridge=auto.encoder_ridge_).fit(X)
        assert_array_equal(auto.energy_path_, fixed.energy_path_)
        assert_array_equal(auto.encoder_, fixed.encoder_)


@pytest.mark.parametrize("solver", ["auto", "paper"])
def test_energy_is_that_of_its_definition(digits: Any, solver: str) -> None:
    """Training stops at once, so the energy is that of the codes that ``init`` gives."""
    X = digits[:60]
    D = X[:10] / np.linalg.norm(X[:10], axis=1, keepdims=True)
    scnn = SCNN(10, alpha=0.05, encoder_ridge=0.5, init=D, solver=solver, random_state=0)
    scnn.set_params(callback=lambda iteration: True).fit(X)
    zero = np.zeros((60, 10))
    assert_allclose(scnn.energy_path_[0], energy(X, zero, D, 0 * D, 0.05) / 60)
    assert scnn.energy_path_[-1] < scnn.energy_path_[0]


@pytest.mark.parametrize("ridge", [0, 0.1, "auto"])
def test_minibatch_keeps_its_ridge(digits: Any, ridge: float | str) -> None:
    scnn = MiniBatchSCNN(15, encoder_ridge=ridge, random_state=0)
    chosen: list[float] = []
    for batch in np.array_split(digits[:300], 5):
        # Each call checks that no step on the batch increases the energy.
        scnn.partial_fit(batch * (1 + len(chosen)))
        chosen.append(scnn.encoder_ridge_)
        assert (scnn.noise_variance_ > 0) == (ridge != 0)
    assert set(chosen) == {chosen[0]}
    assert chosen[0] in RIDGE_RATIOS if ridge == "auto" else chosen[0] == ridge


def test_minibatch_of_one_batch_has_the_ridge_of_scnn(digits: Any) -> None:
    X = digits[:200]
    whole = SCNN(15, random_state=0, tol=1e-3).fit(X)
    batch = MiniBatchSCNN(15, random_state=0).partial_fit(X)
    assert batch.encoder_ridge_ == whole.encoder_ridge_
    assert_allclose(batch.noise_variance_, whole.noise_variance_)
    assert_allclose(batch.score(X), whole.score(X), rtol=0.02)


def test_energy_of_a_batch_contains_the_ridge(digits: Any) -> None:
    """The energy of a batch before it is learned is that of ``score``."""
    X = digits[:200]
    scnn = MiniBatchSCNN(15, encoder_ridge=3, half_life=np.inf, random_state=0).partial_fit(X)
    expected, penalty = -scnn.score(X), scnn.noise_variance_ * np.sum(scnn.encoder_**2) / 15
    scnn.partial_fit(X)  # ρ/N is the same, because XᵀX and N are twice as large
    assert_allclose(scnn.energy_path_[-1], expected, rtol=1e-3)
    assert penalty > 0.01 * expected
