import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from lincode.metrics import rms_error, sparsity


def test_rms_error_is_the_root_of_the_mean_square() -> None:
    assert_allclose(rms_error(np.zeros((2, 3)), np.full((2, 3), 2.0)), 2.0)
    assert_allclose(rms_error([[3.0, 0.0]], [[0.0, 4.0]]), np.sqrt(12.5))
    assert_allclose(rms_error(scipy.sparse.csr_array([[3.0, 0.0]]), [[0.0, 4.0]]), np.sqrt(12.5))
    with pytest.raises(ValueError, match=r"one shape, got \(2, 1\) and \(1, 1\)"):
        rms_error([[1.0], [2.0]], [[1.0]])


def test_sparsity_counts_small_coefficients_of_either_sign() -> None:
    U = np.array([[0.0, 0.2, -0.2, -3.0], [0.0, 0.0, 0.1, 5.0]])
    assert sparsity(U) == 3 / 8
    assert sparsity(U, threshold=0.2) == 6 / 8
    assert sparsity(U, threshold=9) == 1
    assert sparsity(scipy.sparse.csr_array(U), threshold=0.2) == 6 / 8
    assert sparsity(np.zeros((2, 2))) == 1
    assert sparsity([[np.nan, 0.0]]) == 0.5
