"""Arrays that are not in memory: MiniBatchSCNN.fit, transform and score."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from lincode import SCNN, MiniBatchSCNN
from lincode.core import arrays
from lincode.estimators import minibatch
from lincode.exceptions import InvalidInputError
from lincode.training import lazy_rows
from tests.estimators.energies import exact_energy


def network(**parameters: Any) -> MiniBatchSCNN:
    return MiniBatchSCNN(16, **{"random_state": 0, "batch_size": 150} | parameters)


class Slices:
    """The least that an array must have, with a record of the rows that were read at once."""

    def __init__(self, X: Any, convert: Callable[[Any], Any] = np.array) -> None:
        self.X, self.shape, self.dtype, self.convert = X, X.shape, X.dtype, convert
        self.largest = self.n_read = 0

    def __getitem__(self, rows: slice) -> Any:
        block = self.X[rows]
        self.largest, self.n_read = max(self.largest, len(block)), self.n_read + len(block)
        return self.convert(block)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of 20 digits, a buffer of 200, and a sample of 400 for the held-out rows."""
    monkeypatch.setattr(minibatch, "SAMPLED_BYTES", 0)
    monkeypatch.setattr(minibatch, "MIN_SAMPLED_ROWS", 400)
    monkeypatch.setattr(lazy_rows, "CHUNK_BYTES", 20 * 64 * 8)
    monkeypatch.setattr(lazy_rows, "BUFFER_BYTES", 200 * 64 * 8)


def open_h5py(X: Any, folder: Path) -> Any:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "X.h5", "w") as file:
        file.create_dataset("X", data=X, chunks=(50, 16), compression="gzip")
    return h5py.File(folder / "X.h5", "r")["X"]


def open_sparse_dask(X: Any, folder: Path) -> Any:
    array = pytest.importorskip("dask.array").from_array(X, chunks=((100, 370, 130), 64))
    return array.map_blocks(scipy.sparse.csr_matrix)


def open_mapped(X: Any, folder: Path) -> Any:
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


OPENERS = [
    open_h5py,
    pytest.param(open_sparse_dask, marks=pytest.mark.slow),
    open_mapped,
    lambda X, _: Slices(X),
]


@pytest.mark.parametrize("opener", OPENERS)
def test_lazy_arrays_train_a_network_as_good_as_in_memory(
    opener: Any, digits: Any, tmp_path: Path, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "MAPPED_BYTES", 0)
    X = opener(digits, tmp_path)
    assert arrays.is_lazy(X)
    exact: Any = {"refine": False, "transform_algorithm": "exact"}
    lazy, eager = network(**exact).fit(X), network(**exact).fit(digits)
    assert_allclose(lazy.alpha_, eager.alpha_)
    assert lazy.n_features_in_ == 64
    assert exact_energy(lazy, digits) < 1.02 * exact_energy(eager, digits)
    refined = network().fit(X)
    assert refined.score(digits) > network().fit(digits).score(digits) - 0.02
    assert_allclose(refined.score(X), refined.score(digits))
    assert_allclose(refined.transform(X), refined.transform(digits), atol=1e-12)
    assert_array_equal(network().fit(X).components_, refined.components_)


def test_small_memory_map_is_trained_on_like_an_array(digits: Any, tmp_path: Path) -> None:
    mapped = network().fit(open_mapped(digits, tmp_path))
    assert_array_equal(mapped.components_, network().fit(digits).components_)


def test_small_lazy_array_is_read_once(digits: Any) -> None:
    """Training then knows which rows are held out."""
    X = Slices(digits)
    network().fit(X)
    assert X.n_read == 600


def test_arrays_are_not_read_as_a_whole(digits: Any, small_chunks: None) -> None:
    X = Slices(digits)
    network(max_iter=3, max_no_improvement=None, refine=False).fit(X)
    assert X.largest == 20
    assert X.n_read == 4 * 600  # one pass for the scale, three for training
    X = Slices(digits)
    network(max_iter=3, max_no_improvement=None).fit(X)
    assert X.largest == 20
    assert X.n_read == 7 * 600  # three more for the refinement


@pytest.mark.parametrize("algorithm", ["encoder", "projection", "lasso"])
def test_transform_and_score_read_blocks(
    digits: Any, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lincode.estimators.base.READ_BYTES", 0)
    monkeypatch.setattr(lazy_rows, "CHUNK_BYTES", 70 * 64 * 8)
    scnn = SCNN(16, random_state=0, transform_algorithm=algorithm).fit(digits)
    X = Slices(digits)
    assert_allclose(scnn.score(X), scnn.score(digits))
    for parameters in ({}, {"split_sign": True}):
        scnn.set_params(sparse_output=False, **parameters)
        expected = scnn.transform(digits)
        assert_allclose(scnn.transform(X), expected, atol=1e-6)
        codes = scnn.set_params(sparse_output=True).transform(X)
        assert scipy.sparse.issparse(codes)
        assert_allclose(codes.toarray(), expected, atol=1e-6)
    assert X.largest == 70
    with pytest.raises(InvalidInputError, match="features"):
        scnn.transform(Slices(digits[:, :30]))


def fail_after(n: int) -> Callable[[Any], Any]:
    """Return a conversion that fails after n calls."""
    calls = iter(range(n))

    def convert(block: Any) -> Any:
        if next(calls, None) is None:
            raise OSError("the disk is gone")
        return np.array(block)

    return convert


def test_a_failure_changes_nothing_and_leaves_no_thread(digits: Any, small_chunks: None) -> None:
    scnn = network().fit(digits)
    before, n_threads = pickle.dumps(vars(scnn)), threading.active_count()
    for n in (0, 5, 40, 3100):  # in the first pass, in training and in the refinement
        with pytest.raises(OSError, match="the disk is gone") as caught:
            scnn.fit(Slices(1 - digits, fail_after(n)))
        assert "of X were read" in caught.value.__notes__[0]
    assert pickle.dumps(vars(scnn)) == before
    stopped = network(callback=lambda iteration: True).fit(Slices(digits))
    assert stopped.n_steps_ == 1

    def fail(_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        network(callback=fail).fit(Slices(digits))
    assert threading.active_count() == n_threads


def test_values_that_are_not_finite_are_found(
    digits: Any, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lincode.estimators.base.READ_BYTES", 0)
    fitted, bad = network().fit(Slices(digits)), digits.copy()
    bad[333, 3] = np.nan
    with pytest.raises(InvalidInputError, match=r"NaN in row 333, column 3; .* or partial_fit"):
        network().fit(Slices(bad))
    bad[333, 3] = np.inf
    for method in (network().fit, fitted.transform, fitted.score):
        with pytest.raises(InvalidInputError, match="infinity in row 333, column 3;"):
            method(Slices(bad))


def test_scnn_and_partial_fit_need_x_in_memory(digits: Any) -> None:
    scnn = SCNN(4)
    for call in (scnn.fit, scnn.alpha_max, MiniBatchSCNN(4).partial_fit):
        with pytest.raises(
            InvalidInputError,
            match=r"X must be in memory here, but Slices .* pass X\[:\], or use MiniBatchSCNN",
        ):
            call(Slices(digits))
