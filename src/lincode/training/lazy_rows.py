"""Rows of an array that is not in memory, read in chunks of consecutive rows.

The array may be memory-mapped, a dataset of h5py, an array of zarr or Dask, or any other object
with ``shape``, ``dtype`` and slices of rows. These packages are not imported. If it has the
attribute ``chunks``, as in h5py and zarr (one size per dimension) or in Dask (all sizes per
dimension), a chunk that is read consists of whole stored chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from lincode.core.arrays import Rows, blocks, canonical_rows, stack
from lincode.exceptions import InvalidInputError

CHUNK_BYTES = 2**20
"""The size of a chunk. The buffer mixes 64 of them."""
BUFFER_BYTES = 64 * 2**20
"""The size of the buffer in which the rows of several chunks are mixed."""


class LazyRows:
    """The rows of an array that is read in chunks.

    Parameters
    ----------
    X : object with ``shape``, ``dtype`` and slices of rows
        Slices may be arrays, sparse matrices, or objects with a method ``compute``.

    Attributes
    ----------
    shape : tuple of int
        The shape (N, p).
    dtype : dtype
        float32 if X has this dtype, else float64.
    chunks : list of slice
        The chunks, in the order of the rows.
    """

    def __init__(self, X: Any) -> None:
        _check_shape(X.shape)
        dtype = np.dtype(X.dtype)
        if dtype.kind not in "buif":
            raise InvalidInputError(
                f"X must contain real numbers, got dtype {dtype}; convert it, or leave out the"
                " columns that are not numbers."
            )
        self.X = X
        self.shape: tuple[int, int] = (int(X.shape[0]), int(X.shape[1]))
        self.dtype = np.dtype(np.float32 if dtype == np.float32 else np.float64)
        self.chunks = _chunk_slices(self.shape, self.row_bytes, getattr(X, "chunks", None))

    @property
    def row_bytes(self) -> int:
        """The size of one row in memory."""
        return self.shape[1] * self.dtype.itemsize

    def read(self, rows: slice) -> Rows:
        """Return consecutive rows as an array or CSR matrix of ``dtype``."""
        try:
            block = self.X[rows]
            if hasattr(block, "compute"):  # a Dask array
                block = block.compute()
        except Exception as error:
            error.add_note(
                f"This happened while rows {rows.start} to {rows.stop - 1} of X were read."
            )
            raise
        return self._checked(block, rows)

    def _checked(self, block: Any, rows: slice) -> Rows:
        is_sparse = scipy.sparse.issparse(block)
        block = canonical_rows(block.tocsr()) if is_sparse else np.asarray(block)
        expected = (rows.stop - rows.start, self.shape[1])
        if block.shape != expected:
            raise InvalidInputError(
                f"rows {rows.start} to {rows.stop - 1} of X must have shape {expected}, because"
                f" X.shape is {self.shape}, got {block.shape}; the data may be truncated or may"
                " have changed."
            )
        if block.dtype.kind not in "buif":
            raise InvalidInputError(
                f"rows {rows.start} to {rows.stop - 1} of X must contain real numbers, got dtype"
                f" {block.dtype}."
            )
        if is_sparse:
            return block.astype(self.dtype, copy=False)
        return np.ascontiguousarray(block, dtype=self.dtype)

    def blocks(self, n_bytes: int = 0) -> Iterator[tuple[slice, Rows]]:
        """Yield all rows in order, in chunks of at least ``n_bytes``, with their position."""
        start = 0
        for chunk in self.chunks:
            if (chunk.stop - start) * self.row_bytes >= n_bytes or chunk.stop == self.shape[0]:
                rows, start = slice(start, chunk.stop), chunk.stop
                yield rows, self.read(rows)

    def shuffled_batches(self, batch_size: int, n_passes: int, seed: int) -> Iterator[Rows]:
        """Yield batches of nearly equal size, in passes that contain all rows once.

        Chunks are read in random order until they fill a buffer, whose rows are then shuffled.
        """
        N, n_batches = self.shape[0], -(-self.shape[0] // batch_size)
        n_buffered = int(np.clip(BUFFER_BYTES // self.row_bytes, batch_size, N))
        for k in range(n_passes):
            rng = pass_generator(seed, k)
            sizes = [N // n_batches + (i < N % n_batches) for i in range(n_batches)]
            waiting = [self.chunks[i] for i in rng.permutation(len(self.chunks))]
            buffer: list[Rows] = []
            while sizes:
                while waiting and sum(part.shape[0] for part in buffer) < n_buffered:
                    buffer.append(self.read(waiting.pop()))
                rows = stack(buffer)
                rows = rows[rng.permutation(rows.shape[0])]
                start = 0
                while sizes and start + sizes[0] <= rows.shape[0]:
                    yield rows[start : start + sizes[0]]
                    start += sizes.pop(0)
                buffer = [rows[start:]]


def pass_generator(seed: int, k: int) -> np.random.RandomState:
    """Return the source of the random order of pass k, which no other pass depends on."""
    return np.random.RandomState([seed, k])


def shuffled_indices(
    N: int, batch_size: int, n_passes: int, seed: int
) -> Iterator[NDArray[np.intp]]:
    """Yield the indices of batches of nearly equal size, in a new random order in each pass."""
    for k in range(n_passes):
        order = pass_generator(seed, k).permutation(N)
        yield from map(np.sort, np.array_split(order, -(-N // batch_size)))


class RowSample:
    """A uniform random sample of at most n rows of a stream of blocks.

    Every row has a random key, and the rows with the n smallest keys are the sample. It does not
    depend on how the rows are divided into blocks.
    """

    def __init__(self, n: int, rng: np.random.RandomState) -> None:
        self.n, self.rng, self.limit = n, rng, np.inf
        self.keys: list[NDArray[np.float64]] = []
        self.blocks: list[Rows] = []

    def add(self, block: Rows) -> None:
        """Consider the rows of one more block."""
        keys = self.rng.random_sample(block.shape[0])
        chosen = np.flatnonzero(keys < self.limit)
        if len(chosen):
            self.keys.append(keys[chosen])
            self.blocks.append(block[chosen])
        if sum(map(len, self.keys)) >= 2 * self.n:
            self.result()

    def result(self) -> Rows:
        """Return the sample, in the order of the stream, and forget all other rows."""
        keys, rows = np.concatenate(self.keys), stack(self.blocks)
        if len(keys) > self.n:
            smallest = np.sort(np.argsort(keys, kind="stable")[: self.n])
            keys, rows = keys[smallest], rows[smallest]
            self.limit = float(keys.max())
        self.keys, self.blocks = [keys], [rows]
        return rows


def _check_shape(shape: tuple[Any, ...]) -> None:
    if len(shape) != 2:
        raise InvalidInputError(
            f"X must have one sample per row and one feature per column, got shape {shape}; use"
            " reshape to make it two-dimensional."
        )
    if not all(isinstance(n, Integral) for n in shape):
        raise InvalidInputError(
            f"X must have a known shape, got {shape}; for a Dask array, call"
            " compute_chunk_sizes() first."
        )
    if 0 in shape:
        raise InvalidInputError(
            f"X must have at least one sample and one feature, got shape {tuple(shape)}."
        )


def _chunk_slices(shape: tuple[int, int], row_bytes: int, stored: Any) -> list[slice]:
    """Return chunks of about CHUNK_BYTES that consist of whole stored chunks."""
    N, n_rows = shape[0], max(1, CHUNK_BYTES // row_bytes)
    sizes: Any = stored[0] if isinstance(stored, tuple) and stored else 1
    if isinstance(sizes, Integral):
        size = int(sizes)
        return blocks(N, size * max(1, n_rows // size))
    chunks, start, stop = [], 0, 0
    for size in sizes:
        stop += size
        if stop - start >= n_rows or stop == N:
            chunks.append(slice(start, stop))
            start = stop
    return [chunk for chunk in chunks if chunk.stop > chunk.start]
