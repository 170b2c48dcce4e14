"""Split signs and compressed rows, compared with NumPy and SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from lincode.core.threshold import compress_rows, split_signs

DTYPES = (np.float32, np.float64)
VALUES = (-2.5, -0.0, 0.0, 1.0)


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


@given(
    st.integers(1, 9).flatmap(
        lambda m: st.lists(
            st.lists(st.sampled_from([-2.5, -0.0, 0.0, 1.0]), min_size=m, max_size=m)
        )
    )
)
def test_small_codes(rows: list[list[float]]) -> None:
    U = np.array(rows)
    check(U if U.ndim == 2 else np.empty((0, 1)))


def test_values_that_are_not_finite_are_kept() -> None:
    U = np.array([[0, np.inf, -np.inf, 0, np.nan]])
    counts, columns, values = compress_rows(U, split=False)
    assert_array_equal(counts, [3])
    assert_array_equal(columns, [1, 2, 4])
    assert_array_equal(values, [np.inf, -np.inf, np.nan])


def test_buffers_that_are_part_of_a_larger_array(rng: np.random.Generator) -> None:
    large = np.zeros((30, 12))
    U = rng.standard_normal((10, 6))
    split_signs(U, large[10:20])
    assert_array_equal(large[10:20], parts(U))
    assert not large[:10].any()
    assert not large[20:].any()
