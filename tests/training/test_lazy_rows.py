"""Rows that are read in chunks: every row once, mixed, in bounded memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from lincode.core.arrays import is_lazy
from lincode.exceptions import InvalidInputError
from lincode.training import lazy_rows
from lincode.training.lazy_rows import LazyRows, RowSample
from lincode.training.threads import prefetch


class Lazy:
    """An array that remembers which slices of it were read."""

    def __init__(self, X: Any, chunks: Any = None, convert: Any = lambda X: X) -> None:
        self.data, self.shape, self.dtype, self.chunks = X, X.shape, X.dtype, chunks
        self.convert = convert
        self.read: list[slice] = []

    def __getitem__(self, rows: slice) -> Any:
        self.read.append(rows)
        return self.convert(self.data[rows])


def numbered(N: int, p: int = 3) -> Any:
    """Rows whose first entry is their number."""
    return np.arange(N, dtype=np.float64)[:, None] + np.linspace(0, 0.5, p)


def set_sizes(patch: pytest.MonkeyPatch, chunk_rows: int, buffer_rows: int = 0) -> None:
    """Set the sizes of chunks and of the buffer, as numbers of rows of ``numbered``."""
    patch.setattr(lazy_rows, "CHUNK_BYTES", chunk_rows * 24)
    patch.setattr(lazy_rows, "BUFFER_BYTES", buffer_rows * 24)


@given(
    N=st.integers(1, 60),
    size=st.integers(1, 20),
    stored=st.one_of(st.none(), st.integers(1, 70)),
    batch_size=st.integers(1, 80),
    sparse=st.booleans(),
)
def test_every_pass_contains_every_row_once(
    N: int, size: int, stored: int | None, batch_size: int, sparse: bool
) -> None:
    X = numbered(N)
    convert = scipy.sparse.csr_matrix if sparse else np.asarray
    lazy = Lazy(X, None if stored is None else (stored, 2), convert)
    with pytest.MonkeyPatch.context() as patch:
        set_sizes(patch, size)
        batches = list(LazyRows(lazy).shuffled_batches(batch_size, 2, 0))
    sizes = [batch.shape[0] for batch in batches]
    assert len(sizes) == 2 * -(-N // batch_size)
    assert max(sizes) <= batch_size
    assert max(sizes) - min(sizes) <= 1
    rows = np.vstack([batch.toarray() if sparse else batch for batch in batches])
    for one_pass in (rows[:N], rows[N:]):
        assert_array_equal(one_pass[np.argsort(one_pass[:, 0])], X)


def test_chunks_are_read_once_per_pass_in_random_order(monkeypatch: pytest.MonkeyPatch) -> None:
    set_sizes(monkeypatch, 10, 50)
    lazy = Lazy(numbered(200))
    batches = list(LazyRows(lazy).shuffled_batches(20, 1, 2))
    starts = [rows.start for rows in lazy.read]
    assert sorted(starts) == list(range(0, 200, 10))
    assert max(starts[:5]) - min(starts[:5]) > 100  # they come from all parts of the array
    # A batch of 20 rows mixes more than the two chunks that would suffice.
    assert np.mean([len(np.unique(batch[:, 0] // 10)) for batch in batches]) > 4
    again = list(LazyRows(lazy).shuffled_batches(20, 1, 2))
    assert_array_equal(np.vstack(batches), np.vstack(again))
    other = list(LazyRows(lazy).shuffled_batches(20, 1, 1))
    assert not np.array_equal(np.vstack(batches), np.vstack(other))


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (None, [10, 10, 10, 7]),
        ((4, 3), [8, 8, 8, 8, 5]),  # as in h5py and zarr: whole stored chunks
        ((25, 3), [25, 12]),
        (((5, 3, 0, 20, 4, 5), (3,)), [28, 9]),  # as in Dask
    ],
)
def test_chunks_consist_of_stored_chunks(
    stored: Any, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_sizes(monkeypatch, 10)
    rows = LazyRows(Lazy(numbered(37), stored))
    assert [chunk.stop - chunk.start for chunk in rows.chunks] == expected
    blocks = list(rows.blocks(15 * 24))
    assert_array_equal(np.vstack([block for _, block in blocks]), numbered(37))
    assert [part.start for part, _ in blocks][1:] == [part.stop for part, _ in blocks][:-1]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones((2, 2), object), "X must contain real numbers, got dtype object"),
        (np.ones(3), "one sample per row and one feature per column"),
        (np.ones((0, 2)), "at least one sample"),
    ],
)
def test_arrays_that_cannot_be_used(array: Any, message: str) -> None:
    assert is_lazy(Lazy(array))
    with pytest.raises(InvalidInputError, match=message):
        LazyRows(Lazy(array))


@pytest.mark.parametrize(
    ("convert", "message"),
    [
        (lambda X: X[:-1], r"must have shape \(5, 3\), because X.shape is \(5, 3\), got \(4, 3\)"),
        (lambda X: X[:, :2], r"got \(5, 2\); the data may be truncated"),
        (lambda X: X.astype(object), "must contain real numbers, got dtype object"),
    ],
)
def test_slices_that_contradict_the_shape_or_dtype(convert: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        LazyRows(Lazy(numbered(5), convert=convert)).read(slice(0, 5))


@given(sizes=st.lists(st.integers(0, 9), min_size=1, max_size=8), n=st.integers(1, 30))
def test_sample_does_not_depend_on_blocks(sizes: list[int], n: int) -> None:
    N = 1 + sum(sizes)
    whole, parts = (RowSample(n, np.random.RandomState(0)) for _ in range(2))
    whole.add(numbered(N))
    for block in np.split(numbered(N), np.cumsum(sizes)):
        parts.add(block)
    assert_array_equal(whole.result(), parts.result())
    assert len(whole.result()) == min(n, N)


# Reading ahead


def test_prefetch_keeps_the_order_and_reads_one_ahead() -> None:
    computed = []
    second_is_read = threading.Event()

    def items() -> Iterator[int]:
        for i in range(6):
            computed.append(i)
            if i == 1:
                second_is_read.set()
            yield i

    received = []
    for i in prefetch(items()):
        received.append(i)
        assert i > 0 or second_is_read.wait(timeout=30)
        assert len(computed) <= i + 2
    assert received == list(range(6))
