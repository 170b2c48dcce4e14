"""Proximal operators: each is the argmin that its docstring states."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar

from lincode.core.accelerated import soft_threshold_along
from lincode.core.lasso import code_violation
from lincode.core.dictionary import project_unit_ball
from lincode.core.threshold import soft_threshold


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("z", [-2.0, -0.7, -0.1, 0.0, 0.3, 0.7, 3.0])
def test_soft_threshold_is_the_argmin_in_its_docstring(z: float, positive: bool) -> None:
    t = 0.7
    grid = np.linspace(0 if positive else -4, 4, 80_001)
    best = grid[np.argmin(0.5 * (grid - z) ** 2 + t * np.abs(grid))]
    assert_allclose(soft_threshold(np.array([z]), t, positive=positive), [best], atol=1e-4)


def test_soft_threshold_at_zero_is_the_identity_and_out_is_written(
    rng: np.random.Generator,
) -> None:
    Z = rng.standard_normal((5, 4))
    assert_allclose(soft_threshold(Z, 0.0), Z)
    expected = soft_threshold(Z, 0.5)
    assert soft_threshold(Z, 0.5, out=Z) is Z
    assert_allclose(Z, expected)


def test_soft_threshold_keeps_float32() -> None:
    assert soft_threshold(np.ones(3, dtype=np.float32), 0.5).dtype == np.float32


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


@given(
    seed=st.integers(0, 10**6),
    m=st.integers(1, 30),
    rho=st.sampled_from([0.5, 8.0, 1000.0]),
    t=st.sampled_from([0.0, 0.3, 2.0]),
    positive=st.booleans(),
    dtype=st.sampled_from([np.float64, np.float32]),
)
def test_soft_threshold_along_is_the_argmin_in_its_docstring(
    seed: int, m: int, rho: float, t: float, positive: bool, dtype: Any
) -> None:
    """The optimality conditions hold for any initial estimate of the slope."""
    rng = np.random.default_rng(seed)
    Z, at = rng.standard_normal((20, m)).astype(dtype), 2 * rng.standard_normal(20).astype(dtype)
    v = rng.standard_normal(m)
    v = (v / np.linalg.norm(v)).astype(dtype)
    slope = rng.uniform(1, 1 + rho, 20).astype(dtype)
    V = soft_threshold_along(Z, t, v, rho, at, slope=slope, positive=positive, rtol=0.0)
    assert V.dtype == dtype
    assert not (positive and (V < 0).any())
    V, Z, v, at = (A.astype(np.float64) for A in (V, Z, v, at))
    gradient = V - Z + rho * (V @ v - at)[:, None] * v
    worst = code_violation(V, gradient, t, positive=positive).max()
    assert worst <= 50 * np.finfo(dtype).eps * (1 + rho) * np.abs(at).max()


def test_soft_threshold_along_is_accurate_to_its_tolerance(
    rng: np.random.Generator,
) -> None:
    Z, v = rng.standard_normal((200, 50)), np.full(50, 50**-0.5)
    at, slope = rng.standard_normal(200), np.full(200, 5.0)
    V = soft_threshold_along(Z, 0.5, v, 8.0, at, slope=slope)
    kappa = V @ v - at
    gradient = V - Z + 8 * kappa[:, None] * v
    violation = code_violation(V, gradient, 0.5)
    assert (violation <= 8 * 0.12 * np.abs(kappa) / 50**0.5 + 1e-12).all()
    assert_allclose(slope, 1 + 8 * (V != 0).mean(axis=1), rtol=0.5)


def test_soft_threshold_along_treats_rows_independently(
    rng: np.random.Generator,
) -> None:
    Z, at, v = rng.standard_normal((30, 12)), rng.standard_normal(30), np.full(12, 12**-0.5)
    together = soft_threshold_along(Z, 0.4, v, 20.0, at, slope=np.ones(30))
    for n in range(30):
        row = slice(n, n + 1)
        alone = soft_threshold_along(Z[row], 0.4, v, 20.0, at[row], slope=np.ones(1))
        assert_allclose(alone, together[row], atol=1e-13)
