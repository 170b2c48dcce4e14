import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from lincode.core.init import start_from_data, start_from_dictionary, start_of_the_paper


def test_data_atoms_are_different_rows_of_length_one(rng: np.random.Generator) -> None:
    X = rng.standard_normal((30, 5))
    start = start_from_data(X, 12, np.random.RandomState(0))
    cosines = start.D @ (X / np.linalg.norm(X, axis=1, keepdims=True)).T
    assert_allclose(cosines.max(axis=1), 1)
    assert len(set(cosines.argmax(axis=1))) == 12
    assert not start.C.any()
    assert not start.codes(X, 0.1, positive=False).any()


@pytest.mark.parametrize("zeros", [0, 27, 30])
def test_what_the_data_cannot_give_is_random(rng: np.random.Generator, zeros: int) -> None:
    X = rng.standard_normal((30, 5))
    X[:zeros] = 0
    D = start_from_data(X, 40, np.random.RandomState(0)).D
    assert D.shape == (40, 5)
    assert_allclose(np.linalg.norm(D, axis=1), 1)
    assert len(np.unique(D.round(12), axis=0)) == 40


def test_sparse_rows_give_the_same_start(rng: np.random.Generator) -> None:
    X = rng.standard_normal((30, 5)) * (rng.random((30, 5)) < 0.3)
    dense = start_from_data(X, 9, np.random.RandomState(1)).D
    assert_allclose(
        start_from_data(scipy.sparse.csr_matrix(X), 9, np.random.RandomState(1)).D, dense
    )


def test_the_papers_start_is_uniform_and_feasible() -> None:
    X = np.zeros((400, 3), dtype=np.float32)
    start = start_of_the_paper(X, 20, np.random.RandomState(0))
    U = start.codes(X, 0.1, positive=False)
    assert U.dtype == np.float32
    assert -1 <= U.min() < -0.9
    assert 0.9 < U.max() <= 1
    assert -1 <= start.C.min() < -0.8
    assert 0.8 < start.C.max() <= 1
    assert (np.linalg.norm(start.D, axis=1) <= 1 + 1e-12).all()
    assert start.codes(X, 0.1, positive=True).min() == 0


def test_a_given_dictionary_is_copied_and_brought_into_the_balls() -> None:
    D = np.array([[3.0, 4.0], [0.1, 0.0]])
    start = start_from_dictionary(D)
    assert_allclose(start.D, [[0.6, 0.8], [0.1, 0.0]])
    assert_allclose(D[0], [3, 4])
