"""The initial values of D, C and U."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from lincode.core.dictionary import (
    Start,
    nonnegative_atoms,
    paper_start,
    start_from_data,
    start_from_dictionary,
)


def start_from(X: Any, m: int, seed: int) -> Start:
    def take(indices: Any) -> Any:
        return X[indices].toarray() if scipy.sparse.issparse(X) else X[indices]

    return start_from_data(take, X.shape, m, np.random.RandomState(seed))


def test_atoms_from_data_are_distinct_rows_of_length_one(rng: np.random.Generator) -> None:
    X = rng.standard_normal((30, 5))
    start = start_from(X, 12, 0)
    cosines = start.D @ (X / np.linalg.norm(X, axis=1, keepdims=True)).T
    assert_allclose(cosines.max(axis=1), 1)
    assert len(set(cosines.argmax(axis=1))) == 12
    assert not start.C.any()
    assert start.U is None


@pytest.mark.parametrize("zeros", [0, 27, 30])
def test_missing_atoms_are_random_directions(rng: np.random.Generator, zeros: int) -> None:
    X = rng.standard_normal((30, 5))
    X[:zeros] = 0
    D = start_from(X, 40, 0).D
    assert D.shape == (40, 5)
    assert_allclose(np.linalg.norm(D, axis=1), 1)
    assert len(np.unique(D.round(12), axis=0)) == 40


def test_sparse_rows_give_the_same_start(rng: np.random.Generator) -> None:
    X = rng.standard_normal((30, 5)) * (rng.random((30, 5)) < 0.3)
    assert_allclose(start_from(scipy.sparse.csr_matrix(X), 9, 1).D, start_from(X, 9, 1).D)


def test_few_rows_are_read_if_they_are_not_zero(rng: np.random.Generator) -> None:
    X, read = 1 + rng.random((1000, 5)), []

    def take(indices: Any) -> Any:
        read.append(len(indices))
        return X[indices]

    start_from_data(take, X.shape, 12, np.random.RandomState(0))
    assert read == [12]


def test_start_of_the_paper_is_uniform_and_feasible() -> None:
    start = paper_start((400, 3), 20, np.random.RandomState(0), np.dtype(np.float32))
    U = start.U
    assert U is not None
    assert U.shape == (400, 20)
    assert U.dtype == np.float32
    assert -1 <= U.min() < -0.9
    assert 0.9 < U.max() <= 1
    assert -1 <= start.C.min() < -0.8
    assert 0.8 < start.C.max() <= 1
    assert (np.linalg.norm(start.D, axis=1) <= 1 + 1e-12).all()


def test_given_dictionary_is_copied_and_projected() -> None:
    D = np.array([[3.0, 4.0], [0.1, 0.0]])
    start = start_from_dictionary(D)
    assert_allclose(start.D, [[0.6, 0.8], [0.1, 0.0]])
    assert not start.C.any()
    assert_allclose(D[0], [3, 4])


def test_nonnegative_atoms_keep_what_is_positive() -> None:
    D = np.array([[0.0, 0.3], [3.0, -4.0], [-1.0, -2.0], [0.0, 0.0]])
    signed = np.array([[0.0, 0.3], [0.0, 1.0], [5**-0.5, 2 * 5**-0.5], [0.0, 0.0]])
    unsigned = np.array([[0.0, 0.3], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    assert_allclose(nonnegative_atoms(D, signed=True), signed)
    assert_allclose(nonnegative_atoms(D, signed=False), unsigned)
