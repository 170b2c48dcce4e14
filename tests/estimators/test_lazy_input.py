"""Arrays that are not in memory and iterables of batches: MiniBatchSCNN, transform and score."""

from __future__ import annotations

import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from lincode import SCNN, Iteration, MiniBatchSCNN
from lincode.exceptions import InvalidInputError
from lincode.rows import chunks


def network(**parameters: Any) -> MiniBatchSCNN:
    scnn: MiniBatchSCNN = MiniBatchSCNN(16, 0.1, random_state=0).set_params(batch_size=150)
    scnn.set_params(**parameters)
    return scnn


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
    """Chunks of 20 digits, and a buffer of 200."""
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 20 * 64 * 8)
    monkeypatch.setattr(chunks, "BUFFER_BYTES", 200 * 64 * 8)


def open_h5py(X: Any, folder: Path) -> Any:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "X.h5", "w") as file:
        file.create_dataset("X", data=X, chunks=(50, 16), compression="gzip")
    return h5py.File(folder / "X.h5", "r")["X"]


def open_zarr(X: Any, folder: Path) -> Any:
    zarr = pytest.importorskip("zarr")
    array = zarr.open(str(folder / "X.zarr"), mode="w", shape=X.shape, chunks=(50, 64), dtype="f8")
    array[:] = X
    return zarr.open(str(folder / "X.zarr"), mode="r")


def open_dask(X: Any, folder: Path) -> Any:
    return pytest.importorskip("dask.array").from_array(X, chunks=((100, 370, 130), (40, 24)))


def open_sparse_dask(X: Any, folder: Path) -> Any:
    array = pytest.importorskip("dask.array").from_array(X, chunks=(100, 64))
    return array.map_blocks(scipy.sparse.csr_matrix)


def open_mapped(X: Any, folder: Path) -> Any:
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


OPENERS = [open_h5py, open_zarr, open_dask, open_sparse_dask, open_mapped, lambda X, _: Slices(X)]


@pytest.mark.parametrize("opener", OPENERS)
def test_lazy_arrays_train_a_network_as_good_as_in_memory(
    opener: Any, digits: Any, tmp_path: Path, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "MAPPED_BYTES", 0)
    X = opener(digits, tmp_path)
    lazy, eager = network(alpha="0.8*mean"), network(alpha="0.8*mean")
    lazy.fit(X)
    assert_allclose(lazy.alpha_, eager.fit(digits).alpha_)
    assert lazy.n_features_in_ == 64
    assert -lazy.score(digits) < 1.02 * -eager.score(digits)
    assert_allclose(lazy.score(X), lazy.score(digits))
    assert_allclose(lazy.transform(X), lazy.transform(digits), atol=1e-12)
    assert_allclose(eager.transform(X), eager.transform(digits), atol=1e-12)
    again = network(alpha="0.8*mean").fit(X)
    assert_array_equal(again.components_, lazy.components_)
    other = network(alpha="0.8*mean", random_state=1).fit(X)
    assert not np.allclose(other.components_, lazy.components_)


def test_arrays_are_not_read_as_a_whole(digits: Any, small_chunks: None) -> None:
    X = Slices(digits)
    network(max_iter=3, max_no_improvement=None).fit(X)
    assert X.largest == 20
    assert X.n_read == 4 * 600  # one pass for the scale, three for training


def test_transform_reads_blocks(digits: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lincode.estimators.coding.READ_BYTES", 0)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 70 * 64 * 8)
    for scnn in (network(), SCNN(16, 0.1, tol=1e-2, random_state=0)):
        scnn.fit(digits)
        for parameters in ({}, {"split_sign": True}, {"transform_algorithm": "lasso"}):
            scnn.set_params(**parameters)
            X = Slices(digits)
            assert_allclose(scnn.transform(X), scnn.transform(digits), atol=1e-6)
            assert X.largest == 70
            scnn.set_params(sparse_output=True)
            codes = scnn.transform(Slices(digits))
            assert scipy.sparse.issparse(codes)
            assert_allclose(codes.toarray(), scnn.transform(digits).toarray(), atol=1e-6)
            scnn.set_params(sparse_output=False)
        with pytest.raises(InvalidInputError, match="features"):
            scnn.transform(Slices(digits[:, :30]))


def test_integers_are_converted_in_chunks(digits: Any, small_chunks: None) -> None:
    X = np.round(16 * digits).astype(np.uint8)
    lazy = network(alpha="mean").fit(Slices(X))
    assert lazy.components_.dtype == np.float64
    assert_allclose(lazy.alpha_, network(alpha="mean").fit(X).alpha_)


def test_float32_stays_float32(digits: Any, small_chunks: None) -> None:
    scnn = network().fit(Slices(digits.astype(np.float32)))
    assert scnn.components_.dtype == np.float32


def test_refinement_uses_a_sample(digits: Any, small_chunks: None) -> None:
    scnn = network(refine_max_iter=5).fit(Slices(digits))
    assert scnn.refined_encoder_.shape == (16, 64)
    assert scnn.encoder_r2_ > network().fit(digits).encoder_r2_


def test_sorted_data_are_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in the order of their class give about the energy of shuffled rows.

    The buffer holds 128 chunks, as with the sizes that are used.
    """
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 4 * 64 * 8)
    monkeypatch.setattr(chunks, "BUFFER_BYTES", 128 * 4 * 64 * 8)
    rng = np.random.default_rng(0)
    kinds = np.repeat(np.arange(6), 400)
    X = rng.random((2400, 64)) * (np.arange(64) // 11 == kinds[:, None])
    shuffled = network(n_components=24).fit(X[rng.permutation(2400)])
    scnn = network(n_components=24).fit(Slices(X))
    assert -scnn.score(X) < 1.03 * -shuffled.score(X)


def prefetch_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("lincode-prefetch")]


def fail_after(n: int) -> Callable[[Any], Any]:
    """Return a conversion that fails after n calls."""
    calls = iter(range(n))

    def convert(block: Any) -> Any:
        if next(calls, None) is None:
            raise OSError("the disk is gone")
        return np.array(block)

    return convert


@pytest.mark.parametrize("n", [0, 1, 5, 31, 40])
def test_a_failed_read_changes_nothing_and_leaves_no_thread(
    n: int, digits: Any, small_chunks: None
) -> None:
    scnn = network().fit(digits)
    before = pickle.dumps(vars(scnn))
    with pytest.raises(OSError, match="the disk is gone"):
        scnn.fit(Slices(1 - digits, fail_after(n)))
    assert pickle.dumps(vars(scnn)) == before
    assert not prefetch_threads()


def test_threads_end_when_training_stops(digits: Any, small_chunks: None) -> None:
    scnn = network(callback=lambda iteration: True).fit(Slices(digits))
    assert scnn.n_steps_ == 1
    assert not prefetch_threads()

    def fail(_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        network(callback=fail).fit(Slices(digits))
    assert not prefetch_threads()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_found(
    value: float, digits: Any, small_chunks: None
) -> None:
    bad = digits.copy()
    bad[333, 3] = value
    with pytest.raises(InvalidInputError, match="rows 320 to 339 of X"):
        network().fit(Slices(bad))
    assert not prefetch_threads()


def test_scale_is_that_of_all_rows(digits: Any, small_chunks: None) -> None:
    mixed = digits * np.where(np.arange(600) < 100, 1e-200, 1.0)[:, None]
    network().fit(Slices(mixed))  # some chunks are tiny, but X is not
    with pytest.raises(InvalidInputError, match="the largest absolute value of X must be between"):
        network().fit(Slices(1e-200 * digits))


# Iterables of batches


def batches_of(X: Any, size: int = 150) -> list[Any]:
    return [X[start : start + size] for start in range(0, len(X), size)]


def test_list_and_callable_allow_several_passes(digits: Any) -> None:
    scnn = network().fit_batches(batches_of(digits))
    assert scnn.n_iter_ > 1
    assert "converged" in scnn.stop_reason_
    assert -scnn.score(digits) < 1.05 * -network().fit(digits).score(digits)
    called = network().fit_batches(lambda: iter(batches_of(digits)))
    assert_array_equal(called.components_, scnn.components_)
    frames = network().fit_batches(map(scipy.sparse.csr_array, batches_of(digits)))
    assert frames.n_iter_ == 1


def test_generator_gives_one_pass(digits: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        scnn = network(max_no_improvement=None).fit_batches(b for b in batches_of(digits))
    assert (scnn.n_iter_, scnn.n_steps_, scnn.n_samples_seen_) == (1, 4, 600)
    assert scnn.stop_reason_ == "the batches ended; an iterator allows only one pass"
    several = network(max_iter=1, max_no_improvement=None).fit_batches(batches_of(digits))
    assert_array_equal(scnn.components_, several.components_)


def test_alpha_is_resolved_by_the_first_batch(digits: Any) -> None:
    scnn = network(alpha="mean").fit_batches([digits[:200], 2 * digits[200:]])
    assert scnn.alpha_ == network(alpha="mean").partial_fit(digits[:200]).alpha_


def test_passes_end_at_max_iter(digits: Any) -> None:
    seen: list[Iteration] = []
    scnn = network(max_iter=2, max_no_improvement=None, callback=seen.append)
    scnn.fit_batches(batches_of(digits))
    assert scnn.n_iter_ == 2
    assert [(i.n_iter, i.max_iter) for i in seen[2:6]] == [(3, None), (4, None), (5, 8), (6, 8)]
    with pytest.warns(ConvergenceWarning, match="max_iter passes"):
        network(max_iter=1, max_no_improvement=50).fit_batches(batches_of(digits))


def test_names_of_features_are_stored(digits: Any) -> None:
    frame = pd.DataFrame(digits, columns=[f"p{j}" for j in range(64)])
    scnn = network().fit_batches([frame[:300], frame[300:]])
    assert list(scnn.feature_names_in_) == list(frame.columns)


def test_decoder_and_refinement_of_batches(digits: Any) -> None:
    scnn = network(refine_max_iter=5).fit_batches(batches_of(digits))
    assert scnn.refined_encoder_.shape == (16, 64)
    assert network(fit_decoder=True).fit_batches(batches_of(digits)).decoder_.shape == (16, 64)


def ends_early(X: Any) -> Iterator[Any]:
    yield X[:300]
    raise OSError("connection lost")


NO_NAN = r"batch 2: missing entries \(NaN\) are not supported .* call partial_fit for each part"


def same_iterator(X: Any) -> Callable[[], Iterator[Any]]:
    """Return a callable that wrongly returns the same iterator each time."""
    iterator = iter(batches_of(X))
    return lambda: iterator


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda X: [X[:300], X[300:, :30]], InvalidInputError, "batch 2: X has 30 features"),
        (lambda X: [X[:300], np.full((5, 64), "a")], InvalidInputError, "batch 2: "),
        (lambda X: [X[:300], np.full((5, 64), np.nan)], InvalidInputError, "batch 2: .*NaN"),
        (lambda X: [X[:300], pd.DataFrame(X).mask(X > 0.9)], InvalidInputError, NO_NAN),
        (lambda X: [X[:300], np.ma.masked_greater(X, 0.9)], InvalidInputError, NO_NAN),
        (
            lambda X: [X[:300], scipy.sparse.csr_array(np.where(X > 0.9, np.nan, X))],
            InvalidInputError,
            "batch 2: a sparse X must not contain NaN",
        ),
        (
            lambda X: [X[:300], np.full((5, 64), np.inf)],
            InvalidInputError,
            "batch 2: Input X contains infinity",
        ),
        (lambda X: [X[:300], X * 1e200], InvalidInputError, "batch 2: the largest absolute value"),
        (lambda X: [X[:300], X[:0]], InvalidInputError, "batch 2: .*0 sample"),
        (lambda X: [X[:300], [object()]], InvalidInputError, "batch 2: "),
        (lambda X: [], InvalidInputError, "at least one batch, but the iterable is empty"),
        (lambda X: iter([]), InvalidInputError, "at least one batch"),
        (same_iterator, InvalidInputError, "4 batches in the first pass and none in pass 2"),
        (ends_early, OSError, "connection lost"),
        (lambda X: X, InvalidInputError, "use fit for a single array"),
        (pd.DataFrame, InvalidInputError, "got DataFrame; use fit for a single array"),
        (pl.DataFrame, InvalidInputError, "got DataFrame; use fit for a single array"),
        (scipy.sparse.csr_array, InvalidInputError, "use fit for a single array"),
        (lambda X: "X.npy", InvalidInputError, "batches must be an iterable of arrays"),
        (lambda X: 3, InvalidInputError, "batches must be an iterable of arrays"),
        (lambda X: lambda: 3, InvalidInputError, "but it returned int"),
    ],
)
def test_bad_batches_are_explained_and_change_nothing(
    make: Any, error: type[Exception], message: str, digits: Any
) -> None:
    scnn = network(max_no_improvement=None).fit(digits)
    before = pickle.dumps(vars(scnn))
    with pytest.raises(error, match=message):
        scnn.fit_batches(make(1 - digits))
    assert pickle.dumps(vars(scnn)) == before


@pytest.mark.parametrize(
    "make", [lambda X: (x for x in batches_of(X)), batches_of, tuple, lambda X: lambda: X]
)
@pytest.mark.parametrize("cls", [SCNN, MiniBatchSCNN])
def test_fit_points_to_fit_batches(cls: Any, make: Any, digits: Any) -> None:
    X = make(batches_of(digits)) if make is tuple else make(digits)
    with pytest.raises(InvalidInputError, match=r"MiniBatchSCNN.fit_batches learns from an iter"):
        cls().fit(X)


def test_scnn_needs_x_in_memory(digits: Any) -> None:
    scnn = SCNN(4, 0.1, tol=1e-2, random_state=0)
    for call in (scnn.fit, scnn.alpha_max, MiniBatchSCNN(4).partial_fit):
        with pytest.raises(
            InvalidInputError,
            match=r"X must be in memory here, but Slices .* pass X\[:\], or use MiniBatchSCNN",
        ):
            call(Slices(digits))
    scnn.fit(Slices(digits)[:])
