from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from lincode.exceptions import InvalidInputError
from lincode.metrics import energy, rms_error


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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rms_error([[1.0], [2.0]], [[1.0]]), r"same shape .* \(2, 1\) and \(1, 1\)"),
        (lambda: rms_error([[np.nan]], [[1.0]]), "must be finite"),
        (
            lambda: energy(np.ones((2, 3)), np.ones((2, 4)), np.ones((5, 3)), np.ones((5, 3)), 1.0),
            r"shapes \(n_samples, 5\) and \(n_samples, 3\), .* got \(2, 4\) and \(2, 3\)",
        ),
    ],
)
def test_bad_input_is_refused(call: Callable[[], float], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()
