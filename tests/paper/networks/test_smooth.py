"""Energies and gradients against finite differences, and codes with a smooth penalty."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from paper.networks.ascnn import ASCNNEnergy
from paper.networks.base import Layers
from paper.networks.saann import SAANNEnergy
from paper.networks.smooth import (
    ACTIVATIONS,
    L1_SMOOTHING,
    PENALTIES,
    smooth_penalty_codes,
    smooth_penalty_energy,
)
from sklearn.linear_model import Lasso

rng = np.random.default_rng(0)
X, Z = rng.standard_normal((7, 5)), rng.standard_normal((7, 4))
D, C = rng.standard_normal((4, 5)), rng.standard_normal((4, 5))


def assert_gradient(G: Any, f: Callable[[Any], float], A: Any, step: float = 1e-5) -> None:
    """Compare a gradient with the central differences of f at A."""
    expected = np.empty_like(A)
    for index in np.ndindex(A.shape):
        E = np.zeros_like(A)
        E[index] = step
        expected[index] = (f(A + E) - f(A - E)) / (2 * step)
    assert np.linalg.norm(G - expected) < 1e-7 * np.linalg.norm(expected)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("energy_class", [SAANNEnergy, ASCNNEnergy])
def test_gradients_of_two_layers(energy_class: Any, activation: str) -> None:
    energy = energy_class(0.7, activation=activation)
    gradient = energy.gradient(X, Layers(D, C))
    assert_gradient(gradient.D, lambda A: energy.value(X, Layers(A, C)), D)
    assert_gradient(gradient.C, lambda A: energy.value(X, Layers(D, A)), C)


def test_gradients_of_the_first_stage_of_ascnn() -> None:
    energy = ASCNNEnergy(0.7, 0.6)
    dZ, dD = energy.first_stage_gradient(X, Z, D)
    assert_gradient(dZ, lambda A: energy.first_stage_value(X, A, D), Z)
    assert_gradient(dD, lambda A: energy.first_stage_value(X, Z, A), D)


@pytest.mark.parametrize("name", PENALTIES)
def test_penalties_have_the_right_derivative_and_lie_below_the_parabola(name: str) -> None:
    g = PENALTIES[name]
    assert_gradient(g.derivative(Z), g.sum, Z)
    a0, a = Z.reshape(-1, 1), Z.reshape(1, -1)
    parabola = g.value(a0) + 0.5 * g.weight(a0) * (a**2 - a0**2)
    assert (g.value(a) <= parabola + 1e-12).all()


def test_energies_match_the_formulas_of_the_paper() -> None:
    U = 1 / (1 + np.exp(-X @ C.T))
    expected = 0.5 * np.sum((X - U @ D) ** 2) + 0.7 * np.sum(np.log(1 + U**2))
    assert_allclose(SAANNEnergy(0.7).value(X, Layers(D, C)), expected)
    expected = 0.5 * np.sum((X - np.tanh(Z) @ D) ** 2) + 0.7 * np.sum(np.log(1 + (Z / 2) ** 2))
    assert_allclose(ASCNNEnergy(0.7, 2.0).first_stage_value(X, Z, D), expected)


@pytest.mark.parametrize("name", PENALTIES)
def test_codes_are_stationary_and_no_step_increases_the_energy(name: str) -> None:
    g = PENALTIES[name]
    codes = smooth_penalty_codes(X, D, 0.5, 0.3, g, tol=1e-6, max_iter=5000)
    assert codes.n_not_converged == 0
    G = (codes.U @ D - X) @ D.T + 0.5 / 0.3 * g.derivative(codes.U / 0.3)
    assert (np.linalg.norm(G, axis=1) <= 2e-6 * np.linalg.norm(X @ D.T, axis=1)).all()
    for row in X:
        path = [
            smooth_penalty_energy(
                row[None],
                smooth_penalty_codes(row[None], D, 0.5, 0.3, g, tol=0.0, max_iter=steps).U,
                D,
                0.5,
                0.3,
                g,
            )
            for steps in range(8)
        ]
        assert all(after <= before * (1 + 1e-12) for before, after in pairwise(path))


def test_l1_codes_match_the_lasso_up_to_the_smoothing() -> None:
    lam = 1.5
    U = smooth_penalty_codes(X, D, lam, 1.0, PENALTIES["l1"], tol=1e-5, max_iter=20_000).U
    lasso = Lasso(alpha=lam / X.shape[1], fit_intercept=False, tol=1e-10, max_iter=100_000)
    expected = np.array([lasso.fit(D.T, x).coef_ for x in X])
    found, best = (0.5 * np.square(X - V @ D).sum() + lam * np.abs(V).sum() for V in (U, expected))
    # The smooth penalty is at most L1_SMOOTHING below |a|.
    assert best <= found <= best + lam * L1_SMOOTHING * U.size


def test_rows_that_reach_max_iter_are_counted_and_zero_rows_and_atoms_have_zero_codes() -> None:
    X0, D0 = X.copy(), D.copy()
    X0[3], D0[2] = 0, 0
    codes = smooth_penalty_codes(X0, D0, 0.1, 0.5, PENALTIES["log"], tol=1e-9, max_iter=1)
    assert codes.n_not_converged == len(X0) - 1
    assert not codes.U[3].any()
    assert not codes.U[:, 2].any()
