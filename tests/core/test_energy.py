from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from lincode.core.encoder_step import factor_data
from lincode.core.energy import energy, energy_from_stats, lam_max
from lincode.core.stats import CodeStats


def brute_force(X: Any, U: Any, D: Any, C: Any, lam: float, eta: float) -> float:
    """Paper eq. 6 with its sums spelled out."""
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
def test_energy_from_arrays_and_from_stats_is_the_papers(
    rng: np.random.Generator, shape: tuple[int, int, int], sparse: bool
) -> None:
    N, p, m = shape
    X = rng.standard_normal((N, p)) * (rng.random((N, p)) < 0.6)
    U, D, C = rng.standard_normal((N, m)), rng.standard_normal((m, p)), rng.standard_normal((m, p))
    expected = brute_force(X, U, D, C, 0.3, 0.7)
    Xs = scipy.sparse.csr_array(X) if sparse else X
    assert_allclose(energy(Xs, U, D, C, 0.3, 0.7), expected, rtol=1e-12)
    by_stats = energy_from_stats(CodeStats.of(U, Xs), D, C, factor_data(Xs), 0.3, 0.7)
    assert_allclose(by_stats, expected, rtol=1e-11)


def test_stats_add_up(rng: np.random.Generator) -> None:
    X, U = rng.standard_normal((9, 4)), rng.standard_normal((9, 3))
    U[:, 1] = 0
    whole = CodeStats.of(U, X, 0.5)
    parts = CodeStats.of(U[:4], X[:4], 0.5) + CodeStats.of(U[4:], X[4:], 0.1)
    for name in ("UtU", "UtX", "l1", "used", "n", "residual"):
        assert_allclose(getattr(parts, name), getattr(whole, name))
    assert list(whole.used) == [9, 0, 9]


def test_stats_of_float32_rows_are_float64() -> None:
    stats = CodeStats.of(np.ones((3, 2), np.float32), np.ones((3, 4), np.float32))
    assert stats.UtU.dtype == stats.UtX.dtype == np.float64


def test_lam_max_is_where_the_gradient_at_zero_meets_the_threshold(
    rng: np.random.Generator,
) -> None:
    X = rng.standard_normal((20, 6))
    m = 4
    longest = X[np.argmax(np.linalg.norm(X, axis=1))]
    atom = longest / np.linalg.norm(longest)
    gradient = np.abs(X @ atom / 6).max()  # of the codes of the best atom there is, at U = C = 0
    assert_allclose(lam_max(X, m) / m, gradient)
    assert_allclose(lam_max(scipy.sparse.csr_array(X), m), lam_max(X, m))
