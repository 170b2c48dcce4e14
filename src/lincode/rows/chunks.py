"""Rows of an array that is not in memory, read in chunks of consecutive rows.

The array may be memory-mapped, a dataset of h5py, an array of zarr or Dask, or any other object
with ``shape``, ``dtype`` and slices of rows. These packages are not imported. Two attributes are
used if they exist:

- ``chunks``: how the array is stored, as in h5py and zarr (one size per dimension) or in Dask (all
  sizes per dimension). A chunk that is read consists of whole stored chunks.
- ``iter_rows(slice)``: an iterator over the blocks of a slice, for stored chunks that are too large
  to be read at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse

from lincode.core.types import Rows, canonical_rows
from lincode.exceptions import InvalidInputError
from lincode.rows.memory import blocks
from lincode.rows.shuffling import ShuffleBuffer

MAPPED_BYTES = 2**30
"""Rows of a memory-mapped array of at most this size are read one by one, in random order."""
CHUNK_BYTES = 2**20
"""The size of a chunk. The buffer mixes 128 of them."""
BUFFER_BYTES = 128 * 2**20
"""The size of the buffer in which the rows of several chunks are mixed."""
MIN_BUFFER_BATCHES, MAX_BUFFER_BATCHES = 1, 32
"""The buffer holds at least and at most this many batches."""
OPEN_CHUNKS = 4
"""The number of chunks that are read in turn, if a chunk consists of several blocks."""


def is_lazy(X: Any) -> bool:
    """Return whether X is an array that should be read in chunks and not as a whole."""
    if isinstance(X, np.ndarray):
        return isinstance(X, np.memmap) and X.ndim == 2 and X.nbytes > MAPPED_BYTES
    # The values of objects with one of these attributes are in memory.
    in_memory = ("__array_interface__", "__dlpack__", "iloc")
    if scipy.sparse.issparse(X) or any(hasattr(X, name) for name in in_memory):
        return False
    if not all(hasattr(X, name) for name in ("shape", "dtype", "__getitem__")):
        return False
    try:
        np.dtype(X.dtype)
    except TypeError:  # such as the dtypes of PyTorch
        return False
    return isinstance(X.shape, tuple)


class ChunkedRows:
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
            error.add_note(f"This happened while rows {rows.start} to {rows.stop} of X were read.")
            raise
        return self._checked(block, rows)

    def _checked(self, block: Any, rows: slice) -> Rows:
        is_sparse = scipy.sparse.issparse(block)
        block = canonical_rows(block.tocsr()) if is_sparse else np.asarray(block)
        expected = (rows.stop - rows.start, self.shape[1])
        if block.shape != expected:
            raise InvalidInputError(
                f"rows {rows.start} to {rows.stop} of X must have shape {expected}, because"
                f" X.shape is {self.shape}, got {block.shape}; the data may be truncated or may"
                " have changed."
            )
        if block.dtype.kind not in "buif":
            raise InvalidInputError(
                f"rows {rows.start} to {rows.stop} of X must contain real numbers, got dtype"
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
                yield from self._blocks_of(slice(start, chunk.stop))
                start = chunk.stop

    def _blocks_of(self, rows: slice) -> Iterator[tuple[slice, Rows]]:
        """Yield the rows of a chunk in one or several blocks, with their position."""
        iter_rows = getattr(self.X, "iter_rows", None)
        if iter_rows is None:
            yield rows, self.read(rows)
            return
        start = rows.start
        for block in iter_rows(rows):
            position = slice(start, start + block.shape[0])
            yield position, self._checked(block, position)
            start = position.stop

    def shuffled_blocks(self, rng: np.random.RandomState) -> Iterator[Rows]:
        """Yield all rows once, chunk by chunk in random order."""
        waiting = [self._blocks_of(self.chunks[i]) for i in rng.permutation(len(self.chunks))]
        current: list[Iterator[tuple[slice, Rows]]] = []
        while waiting or current:
            while waiting and len(current) < OPEN_CHUNKS:
                current.append(waiting.pop())
            i = rng.randint(len(current))
            _, block = next(current[i], (None, None))
            if block is None:
                del current[i]
            else:
                yield block

    def shuffled_batches(
        self, batch_size: int, n_passes: int, seed: int, first: int = 0
    ) -> Iterator[Rows]:
        """Yield batches of nearly equal size, from batch number ``first`` on.

        Each pass contains all rows once. The rows of a batch come from all chunks that fit into a
        buffer. To begin in the middle of a pass, the rows of this pass are read from its start.
        """
        N, sizes = self.shape[0], batch_sizes(self.shape[0], batch_size)
        limits = (MIN_BUFFER_BATCHES * batch_size, MAX_BUFFER_BATCHES * batch_size)
        n_buffered = int(np.clip(BUFFER_BYTES // self.row_bytes, *limits))
        largest = max(chunk.stop - chunk.start for chunk in self.chunks)
        buffer = ShuffleBuffer(min(N, n_buffered + largest))
        for k in range(first // len(sizes), n_passes):
            buffer.rng = rng = pass_generator(seed, k)
            incoming = self.shuffled_blocks(rng)
            for i, n in enumerate(sizes, k * len(sizes)):
                while buffer.n < n_buffered and (block := next(incoming, None)) is not None:
                    buffer.add(block)
                batch = buffer.take(n)
                if i >= first:
                    yield batch


def pass_generator(seed: int, k: int) -> np.random.RandomState:
    """Return the source of the random order of pass k, which no other pass depends on."""
    return np.random.RandomState([seed, k])


def batch_sizes(N: int, batch_size: int) -> list[int]:
    """Return the sizes of the batches of N rows, which differ by at most 1."""
    n_batches = -(-N // batch_size)
    size, n_larger = divmod(N, n_batches)
    return [size + (i < n_larger) for i in range(n_batches)]


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
