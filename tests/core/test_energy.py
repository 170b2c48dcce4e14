"""The energy from its definition and from the statistics; alpha_max."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from lincode.core.arrays import scan_rows
from lincode.core.energy import CodeStats, energy, energy_from_stats, lam_max, rounding_of_energy
from lincode.training.rows import factor_rows


def brute_force(X: Any, U: Any, D: Any, C: Any, lam: float, eta: float) -> float:
    """Equation 6 of the paper with explicit sums."""
    (N, p), m = X.shape, len(D)
    reconstruction = sum(
        (X[n, i] - sum(U[n, h] * D[h, i] for h in range(m))) ** 2
        for n in range(N)
        for i in range(p)
    )
    encoder = sum(
        (U[n, j] - sum(X[n, h] * C[j, h] for h in range(p))) ** 2
        for n in range(N)
        for j in range(m)
    )
    l1 = sum(abs(U[n, h]) for n in range(N) for h in range(m))
    return float(reconstruction / p + eta * encoder / m + 2 * lam / m * l1)


@pytest.mark.parametrize("shape", [(7, 5, 3), (3, 6, 4), (1, 4, 6)])
@pytest.mark.parametrize("sparse", [False, True])
def test_energy_from_arrays_and_from_stats_is_that_of_the_paper(
    rng: np.random.Generator, shape: tuple[int, int, int], sparse: bool
) -> None:
    N, p, m = shape
    X = rng.standard_normal((N, p)) * (rng.random((N, p)) < 0.6)
    U, D, C = rng.standard_normal((N, m)), rng.standard_normal((m, p)), rng.standard_normal((m, p))
    expected = brute_force(X, U, D, C, 0.3, 0.7)
    Xs = scipy.sparse.csr_array(X) if sparse else X
    assert_allclose(energy(X, U, D, C, 0.3, 0.7), expected, rtol=1e-12)
    by_stats = energy_from_stats(CodeStats.of(U, Xs), D, C, factor_rows(Xs), 0.3, 0.7)
    assert_allclose(by_stats, expected, rtol=1e-11)


def test_stats_are_additive(rng: np.random.Generator) -> None:
    X, U = rng.standard_normal((9, 4)), rng.standard_normal((9, 3))
    U[:, 1] = 0
    whole = CodeStats.of(U, X, 0.5)
    parts = CodeStats.of(U[:4], X[:4], 0.5) + CodeStats.of(U[4:], X[4:], 0.1)
    for name in ("UtU", "UtX", "l1", "used", "n", "residual"):
        assert_allclose(getattr(parts, name), getattr(whole, name))
    assert list(whole.used) == [9, 0, 9]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_of_sparse_codes(rng: np.random.Generator, dtype: Any) -> None:
    X = np.asfortranarray(rng.standard_normal((50, 7)).astype(dtype))
    U = (rng.standard_normal((50, 90)) * (rng.random((50, 90)) < 0.03)).astype(dtype)
    U[3] = 0
    stats = CodeStats.of(U, X)
    U, tol = U.astype(np.float64), 10 * np.finfo(dtype).eps
    assert_allclose(stats.UtU, U.T @ U, rtol=tol, atol=tol)
    assert_allclose(stats.UtX, U.T @ X, rtol=tol, atol=tol)


def test_stats_of_float32_rows_are_float64() -> None:
    stats = CodeStats.of(np.ones((3, 2), np.float32), np.ones((3, 4), np.float32))
    assert stats.UtU.dtype == stats.UtX.dtype == np.float64


def test_lam_max_equals_the_largest_gradient_at_zero(
    rng: np.random.Generator,
) -> None:
    X = rng.standard_normal((20, 6))
    m = 4
    longest = X[np.argmax(np.linalg.norm(X, axis=1))]
    atom = longest / np.linalg.norm(longest)
    gradient = np.abs(X @ atom / 6).max()  # for the best possible atom, at U = C = 0
    for given in (X, scipy.sparse.csr_array(X)):
        _, lengths = scan_rows(given)
        assert_allclose(lam_max(lengths.longest, m, 6) / m, gradient)


def test_stats_with_weights_and_without_units(rng: np.random.Generator) -> None:
    X, U = rng.standard_normal((9, 4)), rng.standard_normal((9, 3))
    stats = CodeStats.of(U, X, 0.5)
    half = stats.weighted(0.5)
    for name in ("UtU", "UtX", "l1", "used", "n"):
        assert_allclose(getattr(half, name), 0.5 * getattr(stats, name))
    assert half.residual == stats.residual
    remaining = stats.without(np.array([1]))
    V = U * [1, 0, 1]
    assert_allclose(remaining.UtU, V.T @ V, atol=1e-14)
    assert_allclose(remaining.UtX, V.T @ X, atol=1e-14)
    assert list(remaining.used) == [9, 0, 9]
    assert remaining.l1 == stats.l1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounding_bound_covers_the_error_of_the_energy(dtype: Any) -> None:
    """If X = U D and U = X Cᵀ, the energy is a difference of large, nearly equal terms."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        D = np.linalg.qr(rng.standard_normal((6, 6)))[0]
        U = 100 * rng.standard_normal((200, 6)).astype(dtype)
        X = (U @ D.astype(dtype)).astype(dtype)
        stats, factor = CodeStats.of(U, X), factor_rows(X)
        error = abs(energy_from_stats(stats, D, D, factor, 0.0) - energy(X, U, D, D, 0.0))
        bound = rounding_of_energy(stats, D, D, factor, 1.0, np.dtype(dtype))
        assert error <= bound
        assert bound < 1e3 * np.finfo(dtype).eps * factor.trace
