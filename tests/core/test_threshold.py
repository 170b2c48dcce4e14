"""Thresholds, and the layouts of codes, against their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from lincode.core.threshold import (
    Thresholding,
    compress_rows,
    matching_threshold,
    soft_threshold,
    split_signs,
)
from lincode.exceptions import InvalidInputError

MODES = ("soft", "hard", "top_k")
DTYPES = (np.float32, np.float64)


def outputs(rng: np.random.Generator, dtype: Any, shape: tuple[int, int] = (40, 9)) -> Any:
    """Random outputs of an encoder, with zeros, equal magnitudes and a row of zeros."""
    Z = rng.standard_normal(shape)
    Z[rng.random(shape) < 0.2] = 0
    Z[3] = 0
    Z[5] = np.sign(Z[5])
    return Z.astype(dtype)


def soft(z: float, t: float, positive: bool) -> float:
    """The minimiser of ½ (u − z)² + t |u|, over u ≥ 0 if positive."""
    if z > t:
        return z - t
    return z + t if z < -t and not positive else 0.0


def hard(z: float, t: float, positive: bool) -> float:
    """The value z if its magnitude (its value, if positive) exceeds t."""
    return z if (z if positive else abs(z)) > t else 0.0


def top_k(row: Any, k: int, positive: bool) -> Any:
    """The k largest magnitudes of a row by a stable sort; ties keep the first ones."""
    magnitude = row if positive else np.abs(row)
    kept = np.argsort(-magnitude, kind="stable")[:k]
    codes = np.zeros_like(row)
    codes[kept] = np.where(magnitude[kept] > 0, row[kept], 0)
    return codes


def apply_top_k(Z: Any, k: int, positive: bool) -> Any:
    return Thresholding("top_k", k=k, positive=positive).apply(Z)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("threshold", [0.0, 0.4, 1.0, 1e30])
def test_soft_and_hard_are_their_definitions(
    rng: np.random.Generator, dtype: Any, positive: bool, threshold: float
) -> None:
    Z = outputs(rng, dtype)
    t = float(dtype(threshold))
    for mode, definition in (("soft", soft), ("hard", hard)):
        expected = np.array([[definition(float(z), t, positive) for z in row] for row in Z])
        codes = Thresholding(mode, threshold, positive=positive).apply(Z.copy())
        assert codes.dtype == dtype
        assert_allclose(codes, expected, rtol=4 * np.finfo(dtype).eps)
        assert_array_equal(codes == 0, expected == 0)


@given(
    row=st.lists(st.integers(-3, 3), min_size=1, max_size=12),
    k=st.integers(1, 14),
    positive=st.booleans(),
)
def test_top_k_with_many_equal_entries(row: list[int], k: int, positive: bool) -> None:
    Z = np.array([row, row[::-1], [0] * len(row)], dtype=float)
    expected = np.array([top_k(z, k, positive) for z in Z])
    codes = apply_top_k(Z.copy(), k, positive)
    assert_array_equal(codes, expected)
    useful = (Z > 0) if positive else (Z != 0)
    assert_array_equal(
        np.count_nonzero(codes, axis=1), np.minimum(k, np.count_nonzero(useful, axis=1))
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("m", [1, 2, 63, 400])
def test_top_k_of_many_kinds_of_rows(
    rng: np.random.Generator, dtype: Any, positive: bool, m: int
) -> None:
    """Rows of very different scales follow each other, so the threshold of one is a bad guess."""
    rows = [
        rng.standard_normal(m),
        rng.standard_normal(m) * 1e-30,
        rng.laplace(size=m) ** 5,
        10.0 ** rng.uniform(-30, 30, m),  # bisection alone would need many steps
        1 + 1e-6 * rng.standard_normal(m),  # nearly equal
        np.round(rng.standard_normal(m)),  # many equal magnitudes
        np.where(rng.random(m) < 0.9, 0, rng.standard_normal(m)),
        np.zeros(m),
        -np.zeros(m),
        -np.abs(rng.standard_normal(m)),
        np.full(m, np.finfo(dtype).max),  # the sum of magnitudes overflows
        np.full(m, np.finfo(dtype).tiny),
        np.eye(m)[m // 2] + np.finfo(dtype).eps,
    ]
    Z = np.array(rows, dtype)
    Z = Z[rng.permutation(np.repeat(np.arange(len(Z)), 3))]
    for k in {1, 2, max(1, m // 10), max(1, m // 2), m - 1 or 1, m}:
        expected = np.array([top_k(row, k, positive) for row in Z])
        codes = apply_top_k(Z.copy(), k, positive)
        assert_array_equal(codes, expected)
        alone = [apply_top_k(row[None].copy(), k, positive)[0] for row in Z]
        assert_array_equal(codes, alone)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", DTYPES)
def test_outputs_that_are_not_finite_raise_an_error(
    rng: np.random.Generator, mode: str, value: float, dtype: Any
) -> None:
    """The product of large finite numbers can overflow."""
    Z = rng.standard_normal((6, 50)).astype(dtype)
    thresholding = Thresholding(mode, 0.5, k=3)
    Z[3, 7] = value
    with pytest.raises(InvalidInputError, match=f"too large for {Z.dtype}"):
        thresholding.apply(Z)


@pytest.mark.parametrize("mode", ["soft", "hard"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threshold", [np.inf, 1e308])
def test_huge_thresholds_give_zero_codes(
    rng: np.random.Generator, mode: str, dtype: Any, threshold: float
) -> None:
    """A threshold that float32 cannot represent must not overflow to NaN."""
    Z = (1e30 * rng.standard_normal((10, 4))).astype(dtype)
    codes = Thresholding(mode, threshold).apply(Z)
    assert_array_equal(codes, np.zeros((10, 4)))


def parts(U: Any) -> Any:
    return np.hstack([np.maximum(U, 0), np.maximum(-U, 0)])


def check(U: Any) -> None:
    """Compare both layouts of U with their definitions."""
    out = np.full((len(U), 2 * U.shape[1]), np.nan, U.dtype)
    split_signs(U, out)
    assert_array_equal(out, parts(U))
    assert not np.signbit(out).any()
    for split in (False, True):
        expected = scipy.sparse.csr_matrix(parts(U) if split else U)
        counts, columns, values = compress_rows(U.copy(), split=split)
        assert_array_equal(np.cumsum(counts), expected.indptr[1:])
        assert_array_equal(columns, expected.indices)
        assert_array_equal(values, expected.data)
        assert values.dtype == U.dtype


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (7, 1), (1, 300), (50, 17), (3, 400), (0, 4)])
@pytest.mark.parametrize("density", [0.0, 0.1, 0.9, 1.0])
def test_random_codes(
    rng: np.random.Generator, dtype: Any, shape: tuple[int, int], density: float
) -> None:
    U = rng.standard_normal(shape) * (rng.random(shape) < density)
    check(U.astype(dtype))
    check(np.abs(U).astype(dtype))
    check(-np.abs(U).astype(dtype))  # with negative zeros


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("density", [0.0, 0.05, 0.3, 0.45, 1.0, 2.0])
def test_matching_threshold(rng: np.random.Generator, positive: bool, density: float) -> None:
    Z = rng.standard_normal((300, 7))
    threshold = matching_threshold(Z, density, positive=positive)
    rule = Thresholding("hard", positive=positive).matched(Z, density)
    assert rule == Thresholding("hard", threshold, positive=positive)
    codes = rule.apply(Z.copy())
    assert threshold >= 0
    possible = np.mean(Z > 0) if positive else 1.0
    expected = min(density, possible)
    assert abs(np.count_nonzero(codes) / codes.size - expected) <= 1 / codes.size + 1e-9


def test_matched_top_k_is_the_same_rule(rng: np.random.Generator) -> None:
    rule = Thresholding("top_k", k=3)
    assert rule.matched(rng.standard_normal((30, 7)), 0.1) == rule


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
