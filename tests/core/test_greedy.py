"""Greedy codes: the choice of atoms, least squares on the chosen ones, difficult dictionaries."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.linear_model import orthogonal_mp_gram

from lincode.core.greedy import MatchingProblem


def unit_atoms(m: int, p: int, seed: int = 0, dtype: Any = np.float64) -> Any:
    D = np.random.default_rng(seed).standard_normal((m, p))
    return (D / np.linalg.norm(D, axis=1, keepdims=True)).astype(dtype)


def greedy(D: Any, X: Any, n_nonzero: int, tol: float = 0.0, least_squares: bool = False) -> Any:
    U = np.full((len(X), len(D)), np.nan, dtype=D.dtype)
    MatchingProblem.of(D).write_codes(
        U,
        X @ D.T,
        (X**2).sum(axis=1),
        n_nonzero=n_nonzero,
        tol=tol,
        least_squares=least_squares,
    )
    return U


def reference(D: Any, x: Any, n_nonzero: int, least_squares: bool) -> Any:
    """Choose atoms by definition, with a least-squares problem for every candidate."""
    lengths, u = np.linalg.norm(D, axis=1), np.zeros(len(D))
    chosen: list[int] = []

    def fit(atoms: list[int]) -> Any:
        return np.linalg.lstsq(D[atoms].T, x, rcond=None)[0]

    for _ in range(n_nonzero):
        residual = x - u @ D
        if least_squares:
            others = [j for j in range(len(D)) if j not in chosen]
            errors = [np.linalg.norm(x - fit([*chosen, j]) @ D[[*chosen, j]]) for j in others]
            chosen.append(others[int(np.argmin(errors))])
        else:
            chosen.append(int(np.argmax(np.abs(D @ residual) / lengths)))
        u[:] = 0
        u[chosen] = fit(chosen)
    return u


@pytest.mark.parametrize("least_squares", [False, True])
@pytest.mark.parametrize("n_nonzero", [1, 2, 5])
@pytest.mark.parametrize("different_lengths", [False, True])
def test_atoms_are_chosen_by_definition(
    least_squares: bool, n_nonzero: int, different_lengths: bool
) -> None:
    rng = np.random.default_rng(1)
    D = unit_atoms(30, 8)
    if different_lengths:
        D *= 10 ** rng.uniform(-2, 2, (30, 1))
    X = rng.standard_normal((20, 8))
    expected = [reference(D, x, n_nonzero, least_squares) for x in X]
    U = greedy(D, X, n_nonzero, least_squares=least_squares)
    assert_allclose(U * np.linalg.norm(D, axis=1), expected * np.linalg.norm(D, axis=1), atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_codes_equal_those_of_scikit_learn(dtype: Any) -> None:
    D, X = unit_atoms(100, 40), np.random.default_rng(2).standard_normal((50, 40))
    expected = orthogonal_mp_gram(D @ D.T, D @ X.T, n_nonzero_coefs=12).T
    U = greedy(D.astype(dtype), X.astype(dtype), 12)
    assert U.dtype == dtype
    assert_allclose(U, expected, atol=1e-9 if dtype == np.float64 else 1e-3)


@pytest.mark.parametrize("least_squares", [False, True])
def test_planted_atoms_are_found(least_squares: bool) -> None:
    D, rng = unit_atoms(128, 64), np.random.default_rng(3)
    planted = np.zeros((40, 128))
    for u in planted:
        u[rng.choice(128, 4, replace=False)] = rng.choice([-1, 1], 4) * rng.uniform(1, 2, 4)
    U = greedy(D, planted @ D, 4, least_squares=least_squares)
    assert np.mean(np.abs(U - planted).max(axis=1) < 1e-9) > 0.9


@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([np.float64, np.float32]))
def test_residual_is_orthogonal_to_the_chosen_atoms(
    seed: int, least_squares: bool, dtype: Any
) -> None:
    rng = np.random.default_rng(seed)
    m, p = rng.integers(1, 40, 2)
    D = rng.standard_normal((m, p)) * 10 ** rng.uniform(-1, 1, (m, 1))
    X = rng.standard_normal((10, p)).astype(dtype)
    D[rng.random(m) < 0.2] = D[0]  # repeated atoms
    D[rng.random(m) < 0.1] = 0
    D = D.astype(dtype)
    n_nonzero = int(rng.integers(1, m + 1))
    U = greedy(D, X, n_nonzero, least_squares=least_squares)
    assert (np.count_nonzero(U, axis=1) <= n_nonzero).all()
    assert not U[:, (D == 0).all(axis=1)].any()
    correlations = np.abs((X - U @ D) @ D.T)[U != 0]
    lengths = np.broadcast_to(np.linalg.norm(D, axis=1), U.shape)[U != 0]
    assert (correlations <= lengths * (1e-8 if dtype == np.float64 else 1e-2)).all()


def test_rows_end_at_the_tolerance() -> None:
    D, X = unit_atoms(60, 20), np.random.default_rng(5).standard_normal((50, 20))
    tol = 3.0
    U = greedy(D, X, 60, tol=tol)
    assert (((X - U @ D) ** 2).sum(axis=1) <= tol * (1 + 1e-9)).all()
    counts = np.count_nonzero(U, axis=1)
    for x, k in zip(X, counts, strict=True):
        if k > 0:  # with one atom less the residual is too large
            shorter = greedy(D, x[None], k - 1)[0] if k > 1 else np.zeros(60)
            assert np.sum((x - shorter @ D) ** 2) > tol


def test_rows_end_when_they_are_reconstructed() -> None:
    """No atom is left then, and all scores are zero, whatever the sign of the last code."""
    D = unit_atoms(60, 6)
    X = np.random.default_rng(6).standard_normal((3000, 6))
    for least_squares in (False, True):
        U = greedy(D, X, 60, least_squares=least_squares)
        assert (np.count_nonzero(U, axis=1) <= 6).all()
        assert_allclose(U @ D, X, atol=1e-9)


def test_zero_rows_and_no_rows() -> None:
    D = unit_atoms(10, 4)
    assert not greedy(D, np.zeros((3, 4)), 2).any()
    assert greedy(D, np.zeros((0, 4)), 2).shape == (0, 10)


@pytest.mark.parametrize(
    ("dtype", "size"), [(np.float64, 1e-100), (np.float64, 1e100), (np.float32, 1e14)]
)
def test_codes_scale_with_rows_and_inversely_with_atoms(dtype: Any, size: float) -> None:
    D, X = unit_atoms(30, 8), np.random.default_rng(7).standard_normal((20, 8))
    D, X, size = D.astype(dtype), X.astype(dtype), dtype(size)
    plain = greedy(D, X, 4)
    assert_allclose(greedy(D, X * size, 4) / size, plain, rtol=1e-3)
    assert_allclose(greedy(D * size, X, 4) * size, plain, rtol=1e-3)
