"""What transform returns: layouts, signs, sparse codes, single rows and blocks."""

from __future__ import annotations

import copy
import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context, get_config

from lincode import SCNN, SparseCoder, sparse_encode
from lincode.estimators.codes import encoder_blocks
from lincode.exceptions import InvalidInputError

P, M = 64, 24
ALGORITHMS = ("encoder", "projection", "exact", "lasso", "omp")


@pytest.fixture(scope="module")
def network(digits: Any) -> SCNN:
    scnn: SCNN = SCNN(M, alpha=0.1, random_state=0, tol=1e-1, refine=False).fit(digits)
    return scnn


@pytest.fixture(scope="module")
def many(digits: Any) -> Any:
    """Enough samples for several blocks."""
    scales = np.random.default_rng(0).uniform(0.5, 2, (110, 1, 1))
    X = (scales * digits).reshape(-1, P)
    assert len(encoder_blocks(len(X), M, P)) >= 2
    return X


def changed(network: SCNN, **parameters: Any) -> SCNN:
    other: SCNN = copy.deepcopy(network).set_params(**parameters)
    return other


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_split_signs_are_the_positive_and_negative_parts(
    network: SCNN, digits: Any, algorithm: str
) -> None:
    network = changed(network, transform_algorithm=algorithm)
    codes = network.transform(digits)
    assert (codes < 0).any()
    parts = np.hstack([np.maximum(codes, 0), np.maximum(-codes, 0)])
    split = network.set_params(split_sign=True).transform(digits)
    assert_array_equal(split, parts)
    assert_allclose(network.inverse_transform(split), codes @ network.components_)
    sparse = network.set_params(sparse_output=True).transform(digits)
    assert_array_equal(sparse.toarray(), parts)
    assert_allclose(network.inverse_transform(sparse), codes @ network.components_)
    assert_allclose(network.reconstruct(digits), codes @ network.components_)


@pytest.mark.parametrize(
    ("parameters", "dtype"),
    [
        ({"transform_algorithm": "paper"}, np.float64),
        ({"density": 0.2}, np.float32),
        ({"density": 4}, np.float64),
    ],
)
def test_sparse_codes_are_the_dense_codes(
    digits: Any, many: Any, parameters: Any, dtype: Any
) -> None:
    network = SCNN(M, random_state=0, tol=1e-1, refine=False, **parameters)
    network.fit(digits.astype(dtype))
    many = many.astype(dtype)
    expected = network.transform(many)
    codes = network.set_params(sparse_output=True).transform(many)
    assert codes.format == "csr"
    assert codes.has_canonical_format
    assert codes.dtype == expected.dtype == dtype
    assert codes.nnz == np.count_nonzero(expected)
    assert_array_equal(codes.toarray(), expected)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_single_sample_has_the_same_codes_as_among_many(
    network: SCNN, many: Any, algorithm: str
) -> None:
    many = many[:5000]
    network = changed(network, transform_algorithm=algorithm)
    codes = network.transform(many)
    for rows in ([7], [0, 4999]):
        # Another kernel of the BLAS library may multiply fewer rows.
        assert_allclose(network.transform(many[rows]), codes[rows], atol=1e-5)
    assert not network.transform(np.zeros((1, P))).any()


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [("csr_array", "lasso"), ("csr_matrix", "lasso"), ("coo_array", "encoder")],
)
def test_sparse_codes_are_of_the_kind_of_the_samples(
    network: SCNN, digits: Any, name: str, algorithm: str
) -> None:
    """A sparse array has codes that are a sparse array, and a matrix has a matrix."""
    X = getattr(scipy.sparse, name)(digits)
    kind = scipy.sparse.csr_array if "array" in name else scipy.sparse.csr_matrix
    network = changed(network, sparse_output=True, transform_algorithm=algorithm)
    codes = network.transform(X)
    coder = SparseCoder(network.components_, transform_algorithm="lasso", sparse_output=True)
    assert type(codes) is type(coder.fit_transform(X)) is kind
    assert type(sparse_encode(X, network.components_, sparse_output=True)) is kind
    assert_allclose(codes.toarray(), network.transform(digits).toarray(), atol=1e-9)
    assert type(network.inverse_transform(codes)) is np.ndarray


def test_sparse_codes_of_dense_samples(network: SCNN, digits: Any) -> None:
    """The setting of scikit-learn decides, if there is one."""
    network = changed(network, sparse_output=True)
    assert type(network.transform(digits)) is scipy.sparse.csr_matrix
    if "sparse_interface" in get_config():
        with config_context(sparse_interface="sparray"):
            assert type(network.transform(digits)) is scipy.sparse.csr_array


def test_sparse_output_needs_no_dense_array_of_all_codes(digits: Any) -> None:
    n = 400_000
    X = np.tile(np.linspace(0, 1, 4, dtype=np.float32), (n, 1))
    network = SCNN(M, density=1, random_state=0, n_jobs=1).fit(digits[:, 20:24])
    network.set_params(sparse_output=True)
    tracemalloc.start()
    codes = network.transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    stored = codes.data.nbytes + codes.indices.nbytes + codes.indptr.nbytes
    assert peak - 3 * stored < 0.4 * n * M * 4


@pytest.mark.parametrize(("n", "dtype"), [(1, np.float32), (66_000, np.float64)])
def test_samples_that_are_not_finite_are_found(
    network: SCNN, many: Any, n: int, dtype: Any
) -> None:
    """They are found by the output of the encoder, whatever its weights are."""
    network = changed(network, n_jobs=2)
    network.encoder_[:, 5] = 0  # a feature that the encoder ignores
    network.encoder_[0] = 0  # a unit that ignores all features
    complete = many[:n].astype(dtype)
    expected, row = network.transform(complete), n - 1
    for feature in (5, 30):
        X = complete.copy()
        X[row, feature] = -np.inf
        for samples in (X, scipy.sparse.csr_matrix(X)):
            with pytest.raises(InvalidInputError, match=f"row {row}, column {feature};"):
                network.transform(samples)
        # A missing entry is predicted, and other samples are not affected.
        X[row, feature] = np.nan
        codes = network.transform(X)
        assert np.isfinite(codes).all()
        assert_array_equal(codes[:row], expected[:row])
        if feature == 5:  # its prediction does not matter
            assert_allclose(codes[row], expected[row], rtol=1e-5)
