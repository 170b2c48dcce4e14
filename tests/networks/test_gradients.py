"""All gradients against finite differences, and the energies against their formulas."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lincode.core.conjugate_gradient import smooth_penalty_energy
from lincode.core.smooth_functions import PENALTIES
from lincode.networks.ascnn import ASCNNEnergy
from lincode.networks.saann import SAANNEnergy
from numpy.testing import assert_allclose

rng = np.random.default_rng(0)
X, Z = rng.standard_normal((7, 5)), rng.standard_normal((7, 4))
D, C = rng.standard_normal((4, 5)), rng.standard_normal((4, 5))


def numeric_gradient(f: Callable[[Any], float], A: Any, step: float = 1e-5) -> Any:
    """Return the central differences of f at A."""
    G = np.empty_like(A)
    for index in np.ndindex(A.shape):
        E = np.zeros_like(A)
        E[index] = step
        G[index] = (f(A + E) - f(A - E)) / (2 * step)
    return G


def assert_close(found: Any, expected: Any) -> None:
    assert np.linalg.norm(found - expected) < 1e-7 * np.linalg.norm(expected)


@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "linear"])
@pytest.mark.parametrize("lam", [0.0, 0.7])
def test_gradient_of_saann(activation: str, lam: float) -> None:
    energy = SAANNEnergy(lam, activation)
    gradient = energy.gradient(X, D, C)
    assert_close(gradient.D, numeric_gradient(lambda A: energy.value(X, A, C), D))
    assert_close(gradient.C, numeric_gradient(lambda A: energy.value(X, D, A), C))


@pytest.mark.parametrize("activation", ["tanh", "linear"])
@pytest.mark.parametrize("lam", [0.0, 0.7])
def test_gradients_of_ascnn(activation: str, lam: float) -> None:
    energy = ASCNNEnergy(lam, 0.6, activation)
    first_stage = energy.first_stage_gradient(X, Z, D)
    assert_close(first_stage.Z, numeric_gradient(lambda A: energy.first_stage_value(X, A, D), Z))
    assert_close(first_stage.D, numeric_gradient(lambda A: energy.first_stage_value(X, Z, A), D))
    gradient = energy.gradient(X, D, C)
    assert_close(gradient.D, numeric_gradient(lambda A: energy.value(X, A, C), D))
    assert_close(gradient.C, numeric_gradient(lambda A: energy.value(X, D, A), C))


@pytest.mark.parametrize("penalty", PENALTIES)
def test_gradients_of_sparsenet(penalty: str) -> None:
    g, U = PENALTIES[penalty], Z
    dU = (U @ D - X) @ D.T + 0.7 / 0.3 * g.derivative(U / 0.3)
    assert_close(dU, numeric_gradient(lambda A: smooth_penalty_energy(X, A, D, 0.7, 0.3, g), U))
    assert_close(
        -U.T @ (X - U @ D),
        numeric_gradient(lambda A: smooth_penalty_energy(X, U, A, 0.7, 0.3, g), D),
    )


def test_energies_match_the_formulas_of_the_paper() -> None:
    U = 1 / (1 + np.exp(-X @ C.T))
    expected = 0.5 * np.sum((X - U @ D) ** 2) + 0.7 * np.sum(np.log(1 + U**2))
    assert_allclose(SAANNEnergy(0.7).value(X, D, C), expected)
    expected = 0.5 * np.sum((X - np.tanh(Z) @ D) ** 2) + 0.7 * np.sum(np.log(1 + (Z / 2) ** 2))
    assert_allclose(ASCNNEnergy(0.7, 2.0).first_stage_value(X, Z, D), expected)
    assert_allclose(
        ASCNNEnergy(0.7, 2.0).value(X, D, C), ASCNNEnergy(0.7, 2.0).first_stage_value(X, X @ C.T, D)
    )
