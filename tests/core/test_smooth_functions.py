"""Activations and penalties: derivatives against finite differences, and the upper bound."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lincode.core.smooth import ACTIVATIONS, L1_SMOOTHING, PENALTIES

Z = np.linspace(-4, 4, 81)  # includes 0
STEP = 1e-6


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_derivative_of_activations(name: str) -> None:
    phi = ACTIVATIONS[name]
    numeric = (phi.value(Z + STEP) - phi.value(Z - STEP)) / (2 * STEP)
    assert_allclose(phi.derivative_from_output(phi.value(Z)), numeric, rtol=1e-6, atol=1e-9)
    assert phi.value(Z) is not Z


def test_activations_match_their_formulas() -> None:
    assert_allclose(ACTIVATIONS["sigmoid"].value(Z), 1 / (1 + np.exp(-Z)))
    assert_allclose(ACTIVATIONS["tanh"].value(Z), np.tanh(Z))
    assert_array_equal(ACTIVATIONS["linear"].value(Z), Z)
    assert ACTIVATIONS["sigmoid"].value(np.array([-1e4, 1e4])).tolist() == [0, 1]


@pytest.mark.parametrize("name", PENALTIES)
def test_penalties_have_the_right_derivative_and_lie_below_the_parabola(name: str) -> None:
    g = PENALTIES[name]
    numeric = (g.value(Z + STEP) - g.value(Z - STEP)) / (2 * STEP)
    assert_allclose(g.derivative(Z), numeric, rtol=1e-6, atol=1e-7)
    assert g.value(np.zeros(1)) == 0
    assert_allclose(g.value(Z), g.value(-Z))
    assert (np.diff(g.value(Z[Z >= 0])) > 0).all()
    a0, a = Z[:, None], Z[None, :]
    parabola = g.value(a0) + 0.5 * g.weight(a0) * (a**2 - a0**2)
    assert (g.value(a) <= parabola + 1e-12).all()
    assert_allclose(g.sum(Z), g.value(Z).sum())


def test_penalties_match_their_formulas() -> None:
    assert_allclose(PENALTIES["log"].value(Z), np.log(1 + Z**2))
    assert_allclose(PENALTIES["exp"].value(Z), 1 - np.exp(-(Z**2)))
    assert_allclose(PENALTIES["l1"].value(Z), np.abs(Z), atol=1.1 * L1_SMOOTHING)
