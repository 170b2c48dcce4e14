"""SparseIndex: compressed vectors, compared with exact inner products."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import lincode
from lincode import SparseIndex
from lincode.exceptions import InvalidInputError

P, N = 24, 1500


@pytest.fixture(scope="module")
def X() -> Any:
    """Return sums of four of 60 atoms around a mean, of very different lengths."""
    rng = np.random.default_rng(0)
    codes = np.where(rng.random((N, 60)).argsort(axis=1) < 4, rng.standard_normal((N, 60)), 0)
    lengths = 10 ** rng.uniform(-2, 0, (N, 1))
    return (lengths * (codes @ rng.standard_normal((60, P))) + 0.3).astype(np.float32)


@pytest.fixture(scope="module")
def index(X: Any) -> SparseIndex:
    return SparseIndex(100, n_bytes=16, random_state=0).fit(X)


def stored_vectors(index: SparseIndex) -> Any:
    """Return the compressed vectors, from their inner products with the unit vectors."""
    n = len(index.codes_)
    similarities, indices = index.kneighbors(np.eye(P), n)
    assert_array_equal(np.sort(indices, axis=1), np.tile(np.arange(n), (P, 1)))
    vectors = np.empty((P, n), np.float32)
    np.put_along_axis(vectors, indices, similarities, axis=1)
    return vectors.T


def test_codes_reconstruct_vectors_of_all_lengths(X: Any, index: SparseIndex) -> None:
    assert index.codes_.shape == (N, 16)
    assert index.nbytes == 16 * N + 4 * P * 101
    errors = np.sum((X - stored_vectors(index)) ** 2, axis=1)
    assert np.median(errors / np.sum((X - X.mean(axis=0)) ** 2, axis=1)) < 0.02


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_neighbours_are_those_of_the_compressed_vectors(
    X: Any, index: SparseIndex, n_jobs: int
) -> None:
    queries = X[:150] + 0.01
    similarities, indices = clone(index).set_params(n_jobs=n_jobs).fit(X).kneighbors(queries, 7)
    products = queries @ stored_vectors(index).T
    largest = -np.sort(-products, axis=1)[:, :7]
    assert_allclose(similarities, largest, rtol=1e-4, atol=1e-4)
    assert_allclose(np.take_along_axis(products, indices, 1), largest, rtol=1e-4, atol=1e-4)


def test_added_vectors_follow_the_others(X: Any, index: SparseIndex) -> None:
    part = clone(index).fit(X[:1000])
    before = part.codes_
    part.add(X[:3]).add(np.full((1, P), part.mean_))
    assert_array_equal(part.codes_, np.vstack([before, before[:3], part.codes_[-1:]]))
    assert_allclose(stored_vectors(part)[-1], part.mean_, atol=1e-6)


def test_save_and_load(X: Any, index: SparseIndex, tmp_path: Path) -> None:
    lincode.save(index, tmp_path / "index.skops")
    loaded = lincode.load(tmp_path / "index.skops")
    assert_array_equal(loaded.add(X[:5]).kneighbors(X[:9])[1], index.kneighbors(X[:9])[1])


def test_invalid_input(X: Any, index: SparseIndex) -> None:
    with pytest.raises(InvalidInputError, match="features"):
        index.kneighbors(X[:, 1:])
    with pytest.raises(InvalidInputError, match="at most 1500"):
        index.kneighbors(X, N + 1)
    for value, words in ((np.nan, "NaN"), (1e300, "infinity")):
        with pytest.raises(InvalidInputError, match=words):
            index.add(np.full((1, P), value))
    with pytest.raises(InvalidInputError, match="16 times as long"):
        index.add(1e4 * X[:2])
    with pytest.raises(InvalidInputError, match="n_bytes must be"):
        SparseIndex(n_bytes=3).fit(X)
    assert len(index.codes_) == N
