import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from lincode.core import dictionary_step as module
from lincode.core.dictionary_dual import solve_dual
from lincode.core.dictionary_step import dictionary_step, dictionary_sweep, objective
from lincode.core.optimality import dictionary_residual
from lincode.core.stats import CodeStats


def problem(seed: int, m: int, p: int, share: float = 0.5) -> tuple[Any, CodeStats]:
    rng = np.random.default_rng(seed)
    U = rng.standard_normal((30, m)) * (rng.random((30, m)) < share)
    D = rng.standard_normal((m, p))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    return D, CodeStats.of(U, rng.standard_normal((30, p)))


@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_a_general_solver(seed: int) -> None:
    m, p = 4, 3
    D, stats = problem(seed, m, p)
    ours, residual = dictionary_step(D, stats, tol=1e-12, max_sweeps=10_000)
    assert residual <= 1e-12
    general = minimize(
        lambda d: objective(d.reshape(m, p), stats),
        D.ravel(),
        jac=lambda d: 2 * (stats.UtU @ d.reshape(m, p) - stats.UtX).ravel(),
        constraints={"type": "ineq", "fun": lambda d: 1 - (d.reshape(m, p) ** 2).sum(axis=1)},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert_allclose(objective(ours, stats), general.fun, rtol=1e-9)
    assert_allclose(ours, general.x.reshape(m, p), atol=1e-5)


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 6), st.floats(0.01, 1))
def test_the_dual_finds_what_sweeps_find(seed: int, m: int, p: int, size: float) -> None:
    D, stats = problem(seed, m, p, share=1.0)
    stats = dataclasses.replace(stats, UtX=size * stats.UtX)  # small: constraints that are slack
    swept = D
    for _ in range(3000):
        swept = dictionary_sweep(swept, stats)
    at_once = solve_dual(D, stats.UtU, stats.UtX, 1e-12)
    assert at_once is not None
    assert dictionary_residual(at_once, stats) <= 1e-9
    assert_allclose(objective(at_once, stats), objective(swept, stats), rtol=1e-9)


def test_where_the_dual_fails_sweeps_do_the_work(rng: np.random.Generator) -> None:
    """More atoms than rows: UtU is singular and atoms inside the balls are many."""
    U, X = rng.standard_normal((5, 12)), 0.1 * rng.standard_normal((5, 4))
    D = rng.standard_normal((12, 4))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    stats = CodeStats.of(U, X)
    new, residual = dictionary_step(D, stats, tol=1e-8, max_sweeps=100_000)
    assert residual <= 1e-8
    assert objective(new, stats) < objective(D, stats)
    assert_allclose(objective(new, stats), -(X**2).sum(), rtol=1e-6)  # they fit X exactly


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 6))
def test_the_step_never_raises(seed: int, m: int, p: int) -> None:
    D, stats = problem(seed, m, p, share=0.1)
    for max_sweeps in (0, 1, 50):
        new, residual = dictionary_step(D, stats, tol=1e-6, max_sweeps=max_sweeps)
        assert objective(new, stats) <= objective(D, stats) + 1e-12 * abs(objective(D, stats))
        assert (np.linalg.norm(new, axis=1) <= 1 + 1e-12).all()
        assert_allclose(residual, dictionary_residual(new, stats))


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 6))
def test_a_sweep_never_raises_and_stays_in_the_balls(seed: int, m: int, p: int) -> None:
    D, stats = problem(seed, m, p, share=0.3)
    new = dictionary_sweep(D, stats)
    assert objective(new, stats) <= objective(D, stats) + 1e-12 * abs(objective(D, stats))
    assert (np.linalg.norm(new, axis=1) <= 1 + 1e-12).all()


def test_blocks_of_atoms_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    D, stats = problem(0, 20, 7)
    whole = dictionary_sweep(D, stats)
    monkeypatch.setattr(module, "BLOCK_ATOMS", 1)
    assert_allclose(dictionary_sweep(D, stats), whole, atol=1e-12)


def test_one_sweep_is_the_closed_form_atom_by_atom() -> None:
    D, stats = problem(1, 9, 5)
    expected = D.copy()
    for j in range(9):
        expected[j] += (stats.UtX[j] - stats.UtU[j] @ expected) / stats.UtU[j, j]
        expected[j] /= max(np.linalg.norm(expected[j]), 1)
    assert_allclose(dictionary_sweep(D, stats), expected, atol=1e-12)


def test_atoms_no_row_uses_are_left_alone(rng: np.random.Generator) -> None:
    U = rng.standard_normal((10, 3))
    U[:, 1] = 0
    D = rng.standard_normal((3, 4)) / 4
    stats = CodeStats.of(U, rng.standard_normal((10, 4)))
    new, _ = dictionary_step(D, stats)
    assert_allclose(new[1], D[1])
    assert not np.allclose(new[0], D[0])


def test_residual_tells_how_far() -> None:
    D, stats = problem(2, 6, 4)
    assert dictionary_residual(D, stats) > 0.05
    best, _ = dictionary_step(D, stats, tol=1e-10, max_sweeps=10_000)
    assert dictionary_residual(best, stats) <= 1e-10
    assert dictionary_residual(D, CodeStats.of(np.zeros((3, 6)), np.ones((3, 4)))) == 0
