from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from lincode.exceptions import InvalidInputError
from lincode.metrics import error_rate, rms_error, sparsity, sparsity_area, sparsity_curve


def test_rms_error_is_the_root_mean_square_difference() -> None:
    assert_allclose(rms_error(np.zeros((2, 3)), np.full((2, 3), 2.0)), 2.0)
    assert_allclose(rms_error([[3.0, 0.0]], [[0.0, 4.0]]), np.sqrt(12.5))
    assert_allclose(rms_error(scipy.sparse.csr_array([[3.0, 0.0]]), [[0.0, 4.0]]), np.sqrt(12.5))
    with pytest.raises(ValueError, match=r"same shape .* got shapes \(2, 1\) and \(1, 1\)"):
        rms_error([[1.0], [2.0]], [[1.0]])


def test_sparsity_counts_small_coefficients_of_either_sign() -> None:
    U = np.array([[0.0, 0.2, -0.2, -3.0], [0.0, 0.0, 0.1, 5.0]])
    assert sparsity(U) == 3 / 8
    assert sparsity(U, threshold=0.2) == 6 / 8
    assert sparsity(U, threshold=9) == 1
    assert sparsity(scipy.sparse.csr_array(U), threshold=0.2) == 6 / 8
    assert sparsity(np.zeros((2, 2))) == 1
    assert sparsity([[np.nan, 0.0]]) == 0.5


def test_sparsity_curve_is_the_sparsity_at_each_threshold(rng: np.random.Generator) -> None:
    U = rng.standard_normal((20, 10)) * (rng.random((20, 10)) < 0.4)
    thresholds = [0.5, 0.0, 0.1, 9.0]
    expected = [sparsity(U, t) for t in thresholds]
    assert_allclose(sparsity_curve(U, thresholds), expected)
    assert_allclose(sparsity_curve(scipy.sparse.csr_array(U), thresholds), expected)
    assert sparsity_curve(U).shape == (51,)
    assert_allclose(sparsity_curve(scipy.sparse.lil_array(U), thresholds), expected)


def test_thresholds_have_the_precision_of_the_codes() -> None:
    U = np.array([0.1, 0.2, 0.0], dtype=np.float32)
    assert_allclose(sparsity_curve(U, [0.1, 0.2]), [2 / 3, 1])
    assert sparsity(U, 0.1) == sparsity_curve(U, [0.1])[0]
    assert sparsity_curve(np.array([0, 1, 2]), [0.5, 1.0]).tolist() == [1 / 3, 2 / 3]


def test_sparsity_area_of_uniform_codes_is_one_half() -> None:
    U = (np.arange(100_000) + 0.5) / 200_000  # uniform over [0, 0.5]
    assert_allclose(sparsity_area(U), 0.5, atol=1e-4)
    assert sparsity_area(np.zeros((3, 3))) == 1
    assert sparsity_area(np.ones((3, 3))) == 0
    assert_allclose(sparsity_area([[0.0, 1.0]]), 0.5)
    with pytest.raises(ValueError, match="at least two numbers in increasing order"):
        sparsity_area(U, [0.5, 0.1])


@pytest.mark.parametrize(
    "labels",
    [
        pd.DataFrame({"a": pd.array([1.0, None], dtype="Float64")}),
        pd.Series([1, None], dtype="Int64"),
        [1.0, np.nan],
        ["a", None],
        np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"),
    ],
)
def test_error_rate_refuses_missing_labels(labels: Any) -> None:
    with pytest.raises(InvalidInputError, match="y_true must not contain missing labels"):
        error_rate(labels, labels)
    known = np.zeros(np.shape(labels))
    with pytest.raises(InvalidInputError, match="y_predicted must not contain missing labels"):
        error_rate(known, labels)


def test_error_rate_counts_wrong_labels() -> None:
    assert error_rate(["a", "b"], ["a", "c"]) == 0.5
    with pytest.raises(ValueError, match="same shape and at least one label"):
        error_rate([1, 2], [1])
    with pytest.raises(ValueError, match="same shape and at least one label"):
        error_rate([], [])


@pytest.mark.parametrize(
    "call",
    [
        lambda: rms_error(np.empty((0, 3)), np.empty((0, 3))),
        lambda: sparsity(np.empty((0, 3))),
        lambda: sparsity(scipy.sparse.csr_array((0, 3))),
        lambda: sparsity_area([[1.0]], [0.1]),
        lambda: error_rate([1], [1, 2]),
    ],
)
def test_bad_input_raises_invalid_input_error(call: Callable[[], float]) -> None:
    with pytest.raises(InvalidInputError, match=r"must (have|be)"):
        call()
