"""Activations, penalties and Adam: slopes against finite differences, bounds, descent."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lincode.core.activations import ACTIVATIONS
from lincode.core.adam import Adam
from lincode.core.penalties import PENALTIES

Z = np.linspace(-4, 4, 81)  # with 0 in it
STEP = 1e-6


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_slope_of_an_activation(name: str) -> None:
    phi = ACTIVATIONS[name]
    numeric = (phi.of(Z + STEP) - phi.of(Z - STEP)) / (2 * STEP)
    assert_allclose(phi.slope(phi.of(Z)), numeric, rtol=1e-6, atol=1e-9)
    assert phi.of(Z) is not Z


def test_activations_are_what_they_are_called() -> None:
    assert_allclose(ACTIVATIONS["sigmoid"].of(Z), 1 / (1 + np.exp(-Z)))
    assert_allclose(ACTIVATIONS["tanh"].of(Z), np.tanh(Z))
    assert_array_equal(ACTIVATIONS["linear"].of(Z), Z)
    assert ACTIVATIONS["sigmoid"].of(np.array([-1e4, 1e4])).tolist() == [0, 1]


@pytest.mark.parametrize("name", PENALTIES)
def test_slope_of_a_penalty_and_the_parabola_above_it(name: str) -> None:
    g = PENALTIES[name]
    numeric = (g.of(Z + STEP) - g.of(Z - STEP)) / (2 * STEP)
    assert_allclose(g.slope(Z), numeric, rtol=1e-6, atol=1e-7)
    assert g.of(np.zeros(1)) == 0
    assert_allclose(g.of(Z), g.of(-Z))
    assert (np.diff(g.of(Z[Z >= 0])) > 0).all()
    at, a = Z[:, None], Z[None, :]
    above = g.of(at) + 0.5 * g.weight(at) * (a**2 - at**2)
    assert (g.of(a) <= above + 1e-12).all()
    assert_allclose(g.sum(Z), g.of(Z).sum())


def test_penalties_are_those_of_the_paper_and_of_olshausen_and_field() -> None:
    assert_allclose(PENALTIES["log"].of(Z), np.log(1 + Z**2))
    assert_allclose(PENALTIES["exp"].of(Z), 1 - np.exp(-(Z**2)))
    assert_allclose(PENALTIES["l1"].of(Z), np.abs(Z), atol=1.1e-3)


def test_adam_finds_a_minimum_whatever_the_scale_of_the_gradient() -> None:
    target = np.array([3.0, -2.0, 0.5])
    found = []
    for scale in (1e-12, 1.0, 1e12):
        adam = Adam(np.zeros(3))
        for step in range(2000):
            adam.step(scale * (adam.weights - target), 0.05 * (1 - step / 2000))
        found.append(adam.weights)
    assert_allclose(found[1], target, atol=1e-3)
    assert_allclose(found[0], found[1], rtol=1e-9)
    assert_allclose(found[2], found[1], rtol=1e-9)


def test_adam_leaves_weights_without_gradient_and_old_arrays_alone() -> None:
    start = np.ones(2)
    adam = Adam(start)
    adam.step(np.array([0.0, 1.0]), 0.1)
    assert_array_equal(start, 1)
    assert adam.weights[0] == 1
    assert_allclose(adam.weights[1], 0.9)


def test_adam_takes_no_leap_where_float32_underflows() -> None:
    """A gradient whose square is no float32 is as good as none; it must not be a step of 1e12."""
    for size in 10.0 ** np.arange(-18, -41, -2):
        adam = Adam(np.zeros(1, dtype=np.float32))
        for _ in range(5):
            adam.step(np.full(1, size, dtype=np.float32), 1e-2)
        assert abs(adam.weights[0]) <= 0.2
