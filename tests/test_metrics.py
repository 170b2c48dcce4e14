from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from lincode.exceptions import InvalidInputError
from lincode.metrics import energy, rms_error, sparsity, sparsity_curve


def test_rms_error_is_the_root_mean_square_difference() -> None:
    assert_allclose(rms_error(np.zeros((2, 3)), np.full((2, 3), 2.0)), 2.0)
    assert_allclose(rms_error([[3.0, 0.0]], [[0.0, 4.0]]), np.sqrt(12.5))
    assert_allclose(rms_error(scipy.sparse.csr_array([[3.0, 0.0]]), [[0.0, 4.0]]), np.sqrt(12.5))


def test_energy_is_that_of_the_definition(rng: np.random.Generator) -> None:
    X, U = rng.standard_normal((7, 3)), rng.standard_normal((7, 5)) * (rng.random((7, 5)) < 0.5)
    D, C = rng.standard_normal((2, 5, 3))
    expected = ((X - U @ D) ** 2).sum() / 3 + 2 * 0.3 / 5 * np.abs(U).sum()
    expected += 0.5 / 5 * ((U - X @ C.T) ** 2).sum()
    for form in (np.asarray, scipy.sparse.csr_matrix, scipy.sparse.csc_array):
        assert_allclose(energy(form(X), form(U), D, C, 0.3, 0.5), expected / 7)


def test_sparsity_counts_small_coefficients_of_either_sign() -> None:
    U = np.array([[0.0, 0.2, -0.2, -3.0], [0.0, 0.0, 0.1, 5.0]])
    assert sparsity(U) == 3 / 8
    for form in (np.asarray, scipy.sparse.csr_array, scipy.sparse.lil_array):
        assert sparsity(form(U), threshold=0.2) == 6 / 8
        assert_allclose(sparsity_curve(form(U), [9.0, 0.0, 0.1, -1.0]), [1, 3 / 8, 4 / 8, 0])
    assert sparsity_curve(U).shape == (51,)
    assert sparsity(np.array([[-128, 0]], dtype=np.int8), 1.0) == 0.5


def test_thresholds_have_the_precision_of_the_codes() -> None:
    U = np.array([[0.1, 0.2, 0.0]], dtype=np.float32)
    assert_allclose(sparsity_curve(U, [0.1, 0.2]), [2 / 3, 1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rms_error([[1.0], [2.0]], [[1.0]]), r"same shape .* \(2, 1\) and \(1, 1\)"),
        (lambda: rms_error([[np.nan]], [[1.0]]), "must be finite"),
        (
            lambda: energy(np.ones((2, 3)), np.ones((2, 4)), np.ones((5, 3)), np.ones((5, 3)), 1.0),
            r"shapes \(n_samples, 5\) and \(n_samples, 3\), .* got \(2, 4\) and \(2, 3\)",
        ),
        (lambda: sparsity(scipy.sparse.csr_array((0, 3))), "at least one entry"),
    ],
)
def test_bad_input_is_refused(call: Callable[[], float], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()
