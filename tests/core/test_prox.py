import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar

from lincode.core.prox import project_unit_ball, soft_threshold


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("z", [-2.0, -0.7, -0.1, 0.0, 0.3, 0.7, 3.0])
def test_soft_threshold_is_the_argmin_in_its_docstring(z: float, positive: bool) -> None:
    t = 0.7
    grid = np.linspace(0 if positive else -4, 4, 80_001)
    best = grid[np.argmin(0.5 * (grid - z) ** 2 + t * np.abs(grid))]
    assert_allclose(soft_threshold(np.array([z]), t, positive=positive), [best], atol=1e-4)


def test_soft_threshold_at_zero_is_the_identity_and_writes_where_told(
    rng: np.random.Generator,
) -> None:
    Z = rng.standard_normal((5, 4))
    assert_allclose(soft_threshold(Z, 0.0), Z)
    expected = soft_threshold(Z, 0.5)
    assert soft_threshold(Z, 0.5, out=Z) is Z
    assert_allclose(Z, expected)


def test_soft_threshold_keeps_float32() -> None:
    assert soft_threshold(np.ones(3, dtype=np.float32), 0.5).dtype == np.float32


def test_projection_is_the_nearest_point_of_the_ball(rng: np.random.Generator) -> None:
    D = np.vstack([3 * rng.standard_normal((4, 6)), 0.1 * rng.standard_normal((2, 6)), np.zeros(6)])
    V = project_unit_ball(D)
    assert (np.linalg.norm(V, axis=1) <= 1 + 1e-12).all()
    assert_allclose(V[4:], D[4:])  # inside: left alone
    for d, v in zip(D[:4], V[:4], strict=True):  # outside: the nearest multiple of d in the ball
        shrunk = minimize_scalar(
            lambda s, d=d: np.linalg.norm(s * d - d), bounds=(0, 1 / np.linalg.norm(d)),
            method="bounded", options={"xatol": 1e-10},
        ).x  # fmt: skip
        assert_allclose(v, shrunk * d, atol=1e-6)
