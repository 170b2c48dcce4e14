"""What transform returns does not depend on blocks, threads and layouts. X must be finite."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from lincode.estimators.coding import encoder_blocks
from lincode.estimators.output import Buffers
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context, get_config
from sklearn.utils.validation import check_array

from lincode import SCNN, SparseCoder, sparse_encode
from lincode.estimators import coding
from lincode.exceptions import InvalidInputError

MODES = ("soft", "hard", "top_k")
N, P, M = 203, 64, 24


@pytest.fixture(scope="module")
def networks(digits: Any) -> dict[Any, SCNN]:
    """Networks for each threshold mode and dtype."""
    return {
        (mode, dtype): SCNN(
            M, 0.1, threshold_mode=mode, random_state=0, tol=1e-1, fit_gains=True
        ).fit(digits.astype(dtype))
        for mode in MODES
        for dtype in (np.float32, np.float64)
    }


def changed(network: SCNN, **parameters: Any) -> SCNN:
    other = copy.deepcopy(network)
    other.set_params(**parameters)
    return other


def use_small_blocks(monkeypatch: pytest.MonkeyPatch, rows: int = 9) -> None:
    monkeypatch.setattr(coding, "MIN_BLOCK_ROWS", rows)
    monkeypatch.setattr(coding, "MIN_BLOCK_PRODUCTS", 1)
    monkeypatch.setattr(coding, "BLOCK_ENTRIES", 1)


def dense(codes: Any) -> Any:
    return codes.toarray() if scipy.sparse.issparse(codes) else codes


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("split", [False, True])
def test_codes_do_not_depend_on_threads_and_blocks(
    networks: Any,
    digits: Any,
    mode: str,
    dtype: Any,
    sparse: bool,
    split: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X = digits[:N].astype(dtype)
    plain = changed(networks[mode, dtype], n_jobs=1)
    whole = plain.transform(X)
    use_small_blocks(monkeypatch)
    assert len(encoder_blocks(N, M, P)) == 16
    codes = plain.transform(X)
    # Another block may be multiplied by another kernel of the BLAS library.
    assert_allclose(codes, whole, atol=1e-5 if dtype == np.float32 else 1e-13)
    expected = np.hstack([np.maximum(codes, 0), np.maximum(-codes, 0)]) if split else codes
    for n_jobs in (1, 2, 3, None):
        network = changed(plain, n_jobs=n_jobs, sparse_output=sparse, split_sign=split)
        result = network.transform(X)
        assert scipy.sparse.issparse(result) == sparse
        assert result.dtype == dtype
        assert_array_equal(dense(result), expected)
        if sparse:
            assert result.has_sorted_indices
            assert result.data.all()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("n", [1, 2, N])
def test_layouts_of_the_samples(
    networks: Any, digits: Any, sparse: bool, split: bool, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = changed(networks["hard", np.float64], sparse_output=sparse, split_sign=split)
    X = digits[:n].copy()
    X[0] = 0
    expected = dense(network.transform(X))
    read_only = X.copy()
    read_only.flags.writeable = False
    wide = np.zeros((2 * n, 2 * P))
    wide[::2, ::2] = X
    use_small_blocks(monkeypatch)
    for samples in (
        np.asfortranarray(X),
        wide[::2, ::2],
        X[::-1][::-1],
        read_only,
        scipy.sparse.csr_matrix(X),
        scipy.sparse.csr_array(X),
        X.tolist(),
        X.astype(">f8"),
        pd.DataFrame(X),
    ):
        codes = dense(network.transform(samples))
        assert_allclose(codes, expected, atol=1e-13)
        assert not codes[0].any()


@pytest.mark.parametrize("algorithm", ["exact", "lasso"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("split", [False, True])
def test_layouts_of_codes_by_optimisation(
    networks: Any, digits: Any, algorithm: str, sparse: bool, split: bool
) -> None:
    network = changed(networks["hard", np.float64], transform_algorithm=algorithm, n_jobs=2)
    codes = network.transform(digits)
    network.set_params(sparse_output=sparse, split_sign=split)
    expected = np.hstack([np.maximum(codes, 0), np.maximum(-codes, 0)]) if split else codes
    assert_array_equal(dense(network.transform(digits)), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("small_blocks", [False, True])
def test_samples_with_missing_entries_are_found(
    networks: Any, digits: Any, dtype: Any, small_blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are found by the output of the encoder, whatever its weights are."""
    network = changed(networks["hard", dtype], n_jobs=2)
    network.encoder_[:, 5] = 0  # a feature that the encoder ignores
    network.encoder_[0] = 0  # a unit that ignores all features
    if small_blocks:
        use_small_blocks(monkeypatch)
    complete = digits[:N].astype(dtype)
    expected = network.transform(complete)
    for feature in (5, 0, 63, 30):
        X = complete.copy()
        X[7, feature] = np.nan
        codes = network.transform(X)
        assert np.isfinite(codes).all()
        if feature == 5:  # its prediction does not matter
            np.testing.assert_allclose(codes[7], expected[7], rtol=1e-5)
        others = np.arange(N) != 7
        np.testing.assert_array_equal(codes[others], expected[others])


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 40, N])
@pytest.mark.parametrize("small_blocks", [False, True])
def test_samples_that_are_not_finite_are_found(
    networks: Any,
    digits: Any,
    bad: float,
    dtype: Any,
    n: int,
    small_blocks: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are found by the output of the encoder, whatever its weights are."""
    network = changed(networks["hard", dtype], n_jobs=2)
    network.encoder_[:, 5] = 0  # a feature that the encoder ignores
    network.encoder_[0] = 0  # a unit that ignores all features
    if small_blocks:
        use_small_blocks(monkeypatch)
    rng = np.random.default_rng(0)
    for feature in (5, 0, 63, 30):
        X = digits[:n].astype(dtype)
        X[rng.integers(n), feature] = bad
        with pytest.raises(ValueError, match="infinity") as expected:
            check_array(X, input_name="X", estimator=network, dtype=dtype)
        kinds = [X, np.asfortranarray(X), pd.DataFrame(X), scipy.sparse.csr_matrix(X)]
        for samples in kinds:
            with pytest.raises(InvalidInputError) as raised:
                network.transform(samples)
            assert str(raised.value) == str(expected.value)
            with pytest.raises(InvalidInputError, match=r"NaN|infinity"):
                network.reconstruct(samples)


def test_outputs_that_overflow_do_not_mean_that_the_samples_are_not_finite(
    networks: Any, digits: Any
) -> None:
    network = networks["hard", np.float32]
    X = np.full((3, P), np.finfo(np.float32).max, dtype=np.float32)
    with pytest.raises(InvalidInputError, match="the codes of some samples are too large"):
        network.transform(X)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.ones((3, P - 1)), f"X has {P - 1} features, but SCNN is expecting {P} features"),
        (np.ones((3, P + 1), np.float32), f"X has {P + 1} features"),
        (np.ones(P), "Expected 2D array, got 1D array"),
        (np.ones((0, P)), "0 sample"),
        (np.ones((2, 3, P)), "dim 3"),
        (np.ones((2, P), complex), "Complex data not supported"),
        (np.full((2, P), "text"), "X must contain numbers"),
    ],
)
def test_invalid_samples(networks: Any, samples: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        networks["hard", np.float64].transform(samples)


def test_arrays_are_compared_with_the_names_of_the_training_features(digits: Any) -> None:
    frame = pd.DataFrame(digits, columns=[f"pixel {i}" for i in range(P)])
    network = SCNN(8, 0.1, random_state=0, tol=1e-1).fit(frame)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        network.transform(digits)


@pytest.mark.parametrize("n_rows", [1, 511, 512, 1000, 1024, 4096, 20_000, 60_000, 1_000_003])
@pytest.mark.parametrize(("m", "p"), [(1, 1), (128, 64), (400, 784), (1024, 256), (50_000, 10)])
def test_blocks_cover_all_rows_and_are_balanced(n_rows: int, m: int, p: int) -> None:
    blocks = encoder_blocks(n_rows, m, p)
    assert [rows.start for rows in blocks] == [0, *(rows.stop for rows in blocks[:-1])]
    assert blocks[-1].stop == n_rows
    sizes = [rows.stop - rows.start for rows in blocks]
    assert min(sizes) > 0
    if len(blocks) > 1:
        assert sizes[0] >= coding.MIN_BLOCK_ROWS
        assert len(blocks) in (2, 4) or len(blocks) % 8 == 0 or len(blocks) > 1000
        assert sizes[0] < 2 * max(coding.MIN_BLOCK_ROWS, coding.BLOCK_ENTRIES // m)
        assert max(sizes) - min(sizes) < len(blocks)


def test_buffers_are_used_again_and_never_by_two_blocks() -> None:
    buffers = Buffers(3, np.dtype(np.float32))
    first, second = buffers.take(slice(0, 5)), buffers.take(slice(5, 10))
    assert not np.shares_memory(first, second)
    buffers.give_back(first)
    third = buffers.take(slice(10, 14))
    assert third.shape == (4, 3)
    assert np.shares_memory(first, third)
    buffers.give_back(third)
    assert buffers.take(slice(14, 20)).shape == (6, 3)


SPARSE = (scipy.sparse.csr_array, scipy.sparse.csr_matrix)


@pytest.mark.parametrize("convert", [*SPARSE, scipy.sparse.coo_array, scipy.sparse.csc_matrix])
@pytest.mark.parametrize("algorithm", ["encoder", "lasso"])
def test_sparse_codes_are_of_the_kind_of_the_samples(
    networks: Any, digits: Any, convert: Any, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sparse array has codes that are a sparse array, and a matrix has a matrix."""
    X = convert(digits[:N])
    kind = SPARSE[0] if isinstance(X, scipy.sparse.sparray) else SPARSE[1]
    network = changed(networks["hard", np.float64], sparse_output=True)
    network.set_params(transform_algorithm=algorithm)
    use_small_blocks(monkeypatch)
    D = network.components_
    coder = SparseCoder(D, transform_algorithm="lasso", sparse_output=True)
    for codes in (
        network.transform(X),
        changed(network, split_sign=True).transform(X),
        coder.fit_transform(X),
        sparse_encode(X, D, sparse_output=True),
    ):
        assert type(codes) is kind
    expected = network.transform(digits[:N])
    # The product with sparse samples is rounded differently.
    assert_allclose(network.transform(X).toarray(), expected.toarray(), atol=1e-12)
    samples = network.inverse_transform(network.transform(X))
    assert type(samples) is np.ndarray
    assert_allclose(samples, network.inverse_transform(expected), atol=1e-12)


def test_sparse_codes_of_dense_samples(networks: Any, digits: Any) -> None:
    """The setting of scikit-learn decides, if there is one."""
    network = changed(networks["hard", np.float64], sparse_output=True)
    assert type(network.transform(digits[:N])) is scipy.sparse.csr_matrix
    if "sparse_interface" in get_config():
        with config_context(sparse_interface="sparray"):
            assert type(network.transform(digits[:N])) is scipy.sparse.csr_array
            codes = sparse_encode(digits[:N], network.components_, sparse_output=True)
            assert type(codes) is scipy.sparse.csr_array
