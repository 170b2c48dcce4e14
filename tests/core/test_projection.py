"""Least-squares codes on a given support: numpy's solution, dependent atoms, positive codes."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from lincode.core import projection
from lincode.core.projection import project_codes


def atoms(m: int, p: int, dtype: Any = np.float64, seed: int = 0) -> Any:
    D = np.random.default_rng(seed).standard_normal((m, p))
    return (D / np.linalg.norm(D, axis=1, keepdims=True)).astype(dtype)


def project(U: Any, X: Any, D: Any, positive: bool = False) -> Any:
    V = U.copy()
    project_codes(V, X, D, D @ D.T, positive=positive)
    return V


def least_squares(U: Any, X: Any, D: Any) -> Any:
    V = np.zeros(U.shape)
    for i in range(len(U)):
        support = U[i] != 0
        V[i, support] = np.linalg.lstsq(D[support].T.astype(float), X[i].astype(float), rcond=None)[
            0
        ]
    return V


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n", [1, 15, 16, 50])
def test_codes_are_those_of_least_squares(dtype: Any, sparse: bool, n: int) -> None:
    """The supports have all sizes from 0 to 30, in any order."""
    rng = np.random.default_rng(1)
    D, X = atoms(70, 60, dtype), rng.standard_normal((n, 60)).astype(dtype)
    X *= rng.random((n, 60)) < 0.3
    sizes = rng.integers(0, 31, (n, 1))
    U = (rng.random((n, 70)).argsort(axis=1) < sizes).astype(dtype)
    V = project(U, scipy.sparse.csr_matrix(X) if sparse else X, D)
    assert V.dtype == dtype
    assert not V[U == 0].any()
    assert_allclose(V, least_squares(U, X, D), atol=1e-12 if dtype == np.float64 else 2e-5)


@pytest.mark.parametrize("max_units", [0, 512])
@pytest.mark.parametrize("positive", [False, True])
def test_large_supports_have_the_same_codes(
    max_units: int, positive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(2)
    D, X = atoms(40, 50) * rng.uniform(0.1, 10, (40, 1)), rng.standard_normal((20, 50))
    U = (rng.random((20, 40)) < 0.7).astype(float)
    expected = project(U, X, D, positive)
    monkeypatch.setattr(projection, "MAX_UNITS", max_units)
    assert_allclose(project(U, X, D, positive), expected, atol=1e-11)


@given(st.integers(0, 10**6), st.sampled_from([np.float64, np.float32]), st.booleans())
def test_residual_is_orthogonal_to_the_support(seed: int, dtype: Any, positive: bool) -> None:
    """Atoms are repeated or 0, have any length, and may be more than the features."""
    rng = np.random.default_rng(seed)
    m, p = rng.integers(1, 40, 2)
    D = rng.standard_normal((m, p)) * 10 ** rng.uniform(-1, 1, (m, 1))
    D[rng.random(m) < 0.2] = D[0]
    D[rng.random(m) < 0.1] = 0
    D, X = D.astype(dtype), rng.standard_normal((20, p)).astype(dtype)
    U = (rng.random((20, m)) < rng.random()).astype(dtype)
    V = project(U, X, D, positive)
    assert np.isfinite(V).all()
    assert not V[U == 0].any()
    assert not V[:, (D == 0).all(axis=1)].any()
    assert not (positive and V.min() < 0)
    residual = X - V @ D
    correlations = np.abs(residual @ D.T) / np.maximum(np.linalg.norm(D, axis=1), 1e-30)
    solved = V != 0 if positive else U != 0
    assert (correlations[solved] <= (1e-6 if dtype == np.float64 else 5e-2)).all()


@pytest.mark.parametrize("max_units", [0, 512])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dependent_atoms_get_the_code_zero(
    max_units: int, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projection, "MAX_UNITS", max_units)
    D = np.vstack([atoms(5, 8), 3 * atoms(5, 8), np.zeros((1, 8))]).astype(dtype)
    X = np.random.default_rng(3).standard_normal((6, 8)).astype(dtype)
    V = project(np.ones((6, 11), dtype), X, D)
    assert_array_equal(np.count_nonzero(V, axis=1), 5)
    expected = X @ np.linalg.pinv(D[:5]) @ D[:5]
    assert_allclose(V @ D, expected, atol=1e-12 if dtype == np.float64 else 1e-5)


def test_more_units_than_features() -> None:
    D, X = atoms(30, 6), np.random.default_rng(4).standard_normal((20, 6))
    V = project(np.ones((20, 30)), X, D)
    assert (np.count_nonzero(V, axis=1) == 6).all()
    assert_allclose(V @ D, X, atol=1e-9)


def test_units_leave_until_no_code_is_negative() -> None:
    """One unit with the lowest code leaves at a time."""
    rng = np.random.default_rng(5)
    D, X = atoms(30, 20), rng.standard_normal((40, 20))
    U = (rng.random((40, 30)) < 0.3).astype(float)
    expected = U.copy()
    for i in range(40):
        while True:
            v = least_squares(expected[i : i + 1], X[i : i + 1], D)[0]
            if v.min() >= 0:
                break
            expected[i, v.argmin()] = 0
        expected[i] = v
    V = project(U, X, D, positive=True)
    assert V.any()
    assert_allclose(V, expected, atol=1e-10)


def test_empty_supports_and_no_rows() -> None:
    D = atoms(10, 4)
    assert not project(np.zeros((3, 10)), np.ones((3, 4)), D).any()
    assert project(np.zeros((0, 10)), np.zeros((0, 4)), D).shape == (0, 10)


def test_codes_do_not_depend_on_the_other_rows() -> None:
    rng = np.random.default_rng(6)
    D, X = atoms(50, 30, np.float32), rng.standard_normal((40, 30)).astype(np.float32)
    U = (rng.random((40, 50)) < rng.random((40, 1)) * 0.4).astype(np.float32)
    V = project(U, X, D)
    for i in range(40):
        assert_array_equal(project(U[i : i + 1], X[i : i + 1], D)[0], V[i])


@pytest.mark.parametrize("size", [1e-12, 1e12])
def test_codes_scale_with_rows_and_inversely_with_atoms(size: float) -> None:
    rng = np.random.default_rng(7)
    D, X = atoms(30, 20, np.float32), rng.standard_normal((20, 20)).astype(np.float32)
    U = (rng.random((20, 30)) < 0.3).astype(np.float32)
    factor, plain = np.float32(size), project(U, X, D)
    assert_allclose(project(U, X * factor, D) / factor, plain, rtol=1e-3, atol=1e-5)
    assert_allclose(project(U, X, D * factor) * factor, plain, rtol=1e-3, atol=1e-5)
