"""The first atoms, and the D step: optimality, a general solver, and its two methods compared."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize, minimize_scalar

from lincode.core.dictionary import (
    Start,
    dictionary_objective,
    dictionary_residual,
    dictionary_step,
    dictionary_sweep,
    nonnegative_atoms,
    project_unit_ball,
    solve_dual,
    start_from_data,
    start_from_dictionary,
)
from lincode.core.energy import CodeStats


def problem(seed: int, m: int, p: int, density: float = 0.5) -> tuple[Any, CodeStats]:
    rng = np.random.default_rng(seed)
    U = rng.standard_normal((30, m)) * (rng.random((30, m)) < density)
    D = rng.standard_normal((m, p))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    return D, CodeStats.of(U, rng.standard_normal((30, p)))


@pytest.mark.parametrize("seed", range(3))
def test_step_agrees_with_a_general_solver(seed: int) -> None:
    m, p = 4, 3
    D, stats = problem(seed, m, p)
    ours, residual = dictionary_step(D, stats, tol=1e-12, max_sweeps=10_000)
    assert residual <= 1e-12
    general = minimize(
        lambda d: dictionary_objective(d.reshape(m, p), stats),
        D.ravel(),
        jac=lambda d: 2 * (stats.UtU @ d.reshape(m, p) - stats.UtX).ravel(),
        constraints={"type": "ineq", "fun": lambda d: 1 - (d.reshape(m, p) ** 2).sum(axis=1)},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert_allclose(dictionary_objective(ours, stats), general.fun, rtol=1e-9)
    assert_allclose(ours, general.x.reshape(m, p), atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_positive_step_agrees_with_a_general_solver(seed: int) -> None:
    m, p = 4, 3
    D, stats = problem(seed, m, p)
    D = np.abs(D)
    ours, residual = dictionary_step(D, stats, tol=1e-12, max_sweeps=10_000, positive=True)
    assert residual <= 1e-12
    assert (ours >= 0).all()
    general = minimize(
        lambda d: dictionary_objective(d.reshape(m, p), stats),
        D.ravel(),
        jac=lambda d: 2 * (stats.UtU @ d.reshape(m, p) - stats.UtX).ravel(),
        bounds=[(0, None)] * (m * p),
        constraints={"type": "ineq", "fun": lambda d: 1 - (d.reshape(m, p) ** 2).sum(axis=1)},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert_allclose(dictionary_objective(ours, stats), general.fun, rtol=1e-9)


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 6), st.floats(0.01, 1))
def test_dual_method_agrees_with_sweeps(seed: int, m: int, p: int, size: float) -> None:
    D, stats = problem(seed, m, p, density=1.0)
    stats = dataclasses.replace(
        stats, UtX=size * stats.UtX
    )  # if small, some constraints are inactive
    swept = D
    for _ in range(3000):
        swept = dictionary_sweep(swept, stats)
        if dictionary_residual(swept, stats) <= 1e-12:
            break
    solved = solve_dual(D, stats.UtU, stats.UtX, 1e-12)
    assert solved is not None
    assert dictionary_residual(solved, stats) <= 1e-9
    assert_allclose(
        dictionary_objective(solved, stats), dictionary_objective(swept, stats), rtol=1e-9
    )


def test_sweeps_are_used_if_the_dual_method_fails(rng: np.random.Generator) -> None:
    """With more atoms than rows UtU is singular, and many atoms are inside their balls."""
    U, X = rng.standard_normal((5, 12)), 0.1 * rng.standard_normal((5, 4))
    D = rng.standard_normal((12, 4))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    stats = CodeStats.of(U, X)
    new, residual = dictionary_step(D, stats, tol=1e-8, max_sweeps=100_000)
    assert residual <= 1e-8
    assert dictionary_objective(new, stats) < dictionary_objective(D, stats)
    assert_allclose(
        dictionary_objective(new, stats), -(X**2).sum(), rtol=1e-6
    )  # the fit of X is exact


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 6))
def test_step_never_increases_the_objective(seed: int, m: int, p: int) -> None:
    D, stats = problem(seed, m, p, density=0.1)
    for max_sweeps in (0, 1, 50):
        new, residual = dictionary_step(D, stats, tol=1e-6, max_sweeps=max_sweeps)
        assert dictionary_objective(new, stats) <= dictionary_objective(D, stats) + 1e-12 * abs(
            dictionary_objective(D, stats)
        )
        assert (np.linalg.norm(new, axis=1) <= 1 + 1e-12).all()
        assert_allclose(residual, dictionary_residual(new, stats))


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 6))
def test_sweep_never_increases_the_objective_and_satisfies_the_constraints(
    seed: int, m: int, p: int
) -> None:
    D, stats = problem(seed, m, p, density=0.3)
    new = dictionary_sweep(D, stats)
    assert dictionary_objective(new, stats) <= dictionary_objective(D, stats) + 1e-12 * abs(
        dictionary_objective(D, stats)
    )
    assert (np.linalg.norm(new, axis=1) <= 1 + 1e-12).all()


def test_sweep_updates_each_atom_by_the_closed_form() -> None:
    D, stats = problem(1, 9, 5)
    expected = D.copy()
    for j in range(9):
        expected[j] += (stats.UtX[j] - stats.UtU[j] @ expected) / stats.UtU[j, j]
        expected[j] /= max(np.linalg.norm(expected[j]), 1)
    assert_allclose(dictionary_sweep(D, stats), expected, atol=1e-12)


def test_unused_atoms_are_unchanged(rng: np.random.Generator) -> None:
    U = rng.standard_normal((10, 3))
    U[:, 1] = 0
    D = rng.standard_normal((3, 4)) / 4
    stats = CodeStats.of(U, rng.standard_normal((10, 4)))
    new, _ = dictionary_step(D, stats)
    assert_allclose(new[1], D[1])
    assert not np.allclose(new[0], D[0])


def test_residual_is_zero_only_at_the_optimum() -> None:
    D, stats = problem(2, 6, 4)
    assert dictionary_residual(D, stats) > 0.05
    best, _ = dictionary_step(D, stats, tol=1e-10, max_sweeps=10_000)
    assert dictionary_residual(best, stats) <= 1e-10
    assert dictionary_residual(D, CodeStats.of(np.zeros((3, 6)), np.ones((3, 4)))) == 0


def start_from(X: Any, m: int, seed: int) -> Start:
    def take(indices: Any) -> Any:
        return X[indices].toarray() if scipy.sparse.issparse(X) else X[indices]

    return start_from_data(take, X.shape, m, np.random.RandomState(seed))


def test_atoms_from_data_are_distinct_rows_of_length_one(rng: np.random.Generator) -> None:
    X = rng.standard_normal((30, 5))
    start = start_from(X, 12, 0)
    cosines = start.D @ (X / np.linalg.norm(X, axis=1, keepdims=True)).T
    assert_allclose(cosines.max(axis=1), 1)
    assert len(set(cosines.argmax(axis=1))) == 12
    assert not start.C.any()


@pytest.mark.parametrize("zeros", [0, 27, 30])
def test_missing_atoms_are_random_directions(rng: np.random.Generator, zeros: int) -> None:
    X = rng.standard_normal((30, 5))
    X[:zeros] = 0
    D = start_from(X, 40, 0).D
    assert D.shape == (40, 5)
    assert_allclose(np.linalg.norm(D, axis=1), 1)
    assert len(np.unique(D.round(12), axis=0)) == 40


def test_sparse_rows_give_the_same_start(rng: np.random.Generator) -> None:
    X = rng.standard_normal((30, 5)) * (rng.random((30, 5)) < 0.3)
    assert_allclose(start_from(scipy.sparse.csr_matrix(X), 9, 1).D, start_from(X, 9, 1).D)


def test_few_rows_are_read_if_they_are_not_zero(rng: np.random.Generator) -> None:
    X, read = 1 + rng.random((1000, 5)), []

    def take(indices: Any) -> Any:
        read.append(len(indices))
        return X[indices]

    start_from_data(take, X.shape, 12, np.random.RandomState(0))
    assert read == [12]


def test_given_dictionary_is_copied_and_projected() -> None:
    D = np.array([[3.0, 4.0], [0.1, 0.0]])
    start = start_from_dictionary(D)
    assert_allclose(start.D, [[0.6, 0.8], [0.1, 0.0]])
    assert not start.C.any()
    assert_allclose(D[0], [3, 4])


def test_nonnegative_atoms_keep_what_is_positive() -> None:
    D = np.array([[0.0, 0.3], [3.0, -4.0], [-1.0, -2.0], [0.0, 0.0]])
    signed = np.array([[0.0, 0.3], [0.0, 1.0], [5**-0.5, 2 * 5**-0.5], [0.0, 0.0]])
    unsigned = np.array([[0.0, 0.3], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    assert_allclose(nonnegative_atoms(D, signed=True), signed)
    assert_allclose(nonnegative_atoms(D, signed=False), unsigned)


def test_projection_is_the_nearest_point_in_the_ball(rng: np.random.Generator) -> None:
    D = np.vstack([3 * rng.standard_normal((4, 6)), 0.1 * rng.standard_normal((2, 6)), np.zeros(6)])
    V = project_unit_ball(D)
    assert (np.linalg.norm(V, axis=1) <= 1 + 1e-12).all()
    assert_allclose(V[4:], D[4:])  # rows inside the ball are unchanged
    for d, v in zip(D[:4], V[:4], strict=True):  # outside: the nearest multiple of d
        shrunk = minimize_scalar(
            lambda s, d=d: np.linalg.norm(s * d - d),
            bounds=(0, 1 / np.linalg.norm(d)),
            method="bounded",
            options={"xatol": 1e-10},
        ).x
        assert_allclose(v, shrunk * d, atol=1e-6)
