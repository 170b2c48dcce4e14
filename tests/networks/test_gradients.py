"""Every gradient against finite differences, and energies against their formulas."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lincode.core.conjugate_gradient import smooth_energy
from lincode.core.penalties import PENALTIES
from lincode.networks.ascnn import ASCNNEnergy
from lincode.networks.saann import SAANNEnergy

rng = np.random.default_rng(0)
X, Z = rng.standard_normal((7, 5)), rng.standard_normal((7, 4))
D, C = rng.standard_normal((4, 5)), rng.standard_normal((4, 5))


def numeric(f: Callable[[Any], float], A: Any, step: float = 1e-5) -> Any:
    """Central differences of f at A."""
    G = np.empty_like(A)
    for index in np.ndindex(A.shape):
        E = np.zeros_like(A)
        E[index] = step
        G[index] = (f(A + E) - f(A - E)) / (2 * step)
    return G


def close(found: Any, expected: Any) -> None:
    assert np.linalg.norm(found - expected) < 1e-7 * np.linalg.norm(expected)


@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "linear"])
@pytest.mark.parametrize("lam", [0.0, 0.7])
def test_saann(activation: str, lam: float) -> None:
    energy = SAANNEnergy(lam, activation)
    gradient = energy.gradient(X, D, C)
    close(gradient.D, numeric(lambda A: energy.value(X, A, C), D))
    close(gradient.C, numeric(lambda A: energy.value(X, D, A), C))


@pytest.mark.parametrize("activation", ["tanh", "linear"])
@pytest.mark.parametrize("lam", [0.0, 0.7])
def test_ascnn(activation: str, lam: float) -> None:
    energy = ASCNNEnergy(lam, 0.6, activation)
    bottom = energy.bottom_gradient(X, Z, D)
    close(bottom.Z, numeric(lambda A: energy.bottom(X, A, D), Z))
    close(bottom.D, numeric(lambda A: energy.bottom(X, Z, A), D))
    gradient = energy.gradient(X, D, C)
    close(gradient.D, numeric(lambda A: energy.value(X, A, C), D))
    close(gradient.C, numeric(lambda A: energy.value(X, D, A), C))


@pytest.mark.parametrize("penalty", PENALTIES)
def test_sparsenet(penalty: str) -> None:
    g, U = PENALTIES[penalty], Z
    slope = (U @ D - X) @ D.T + 0.7 / 0.3 * g.slope(U / 0.3)
    close(slope, numeric(lambda A: smooth_energy(X, A, D, 0.7, 0.3, g), U))
    close(-U.T @ (X - U @ D), numeric(lambda A: smooth_energy(X, U, A, 0.7, 0.3, g), D))


def test_energies_are_the_papers() -> None:
    U = 1 / (1 + np.exp(-X @ C.T))
    expected = 0.5 * np.sum((X - U @ D) ** 2) + 0.7 * np.sum(np.log(1 + U**2))
    assert_allclose(SAANNEnergy(0.7).value(X, D, C), expected)
    expected = 0.5 * np.sum((X - np.tanh(Z) @ D) ** 2) + 0.7 * np.sum(np.log(1 + (Z / 2) ** 2))
    assert_allclose(ASCNNEnergy(0.7, 2.0).bottom(X, Z, D), expected)
    assert_allclose(
        ASCNNEnergy(0.7, 2.0).value(X, D, C), ASCNNEnergy(0.7, 2.0).bottom(X, X @ C.T, D)
    )
