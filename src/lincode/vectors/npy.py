"""Read npy files in pieces that are not memory-mapped, and collect blocks of rows."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from threading import Lock
from tokenize import TokenError
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lincode.exceptions import InvalidInputError
from lincode.messages import printable

IN_MEMORY_BYTES = 64 * 2**20
"""Temporary rows of at most this size are not written to the disk."""
NPY_ERRORS = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    EOFError,
    SyntaxError,
    TokenError,
)
"""What NumPy raises for a damaged header; it is parsed as a Python literal."""


def map_npy(path: str) -> Any:
    """Return a read-only memory map of an npy file."""
    try:
        with open(path, "rb") as file:
            shape, fortran, dtype = read_header(file)
            offset, n_bytes = file.tell(), array_bytes(shape, dtype)
        n_found = os.path.getsize(path) - offset
        if dtype.hasobject:
            raise ValueError("it contains Python objects, which are not read.")
        if n_bytes > n_found:
            raise ValueError(f"{n_bytes} bytes of {dtype} must follow the header, got {n_found}.")
        if not n_bytes:  # NumPy cannot map it
            return np.empty(shape, dtype)
        order: Literal["F", "C"] = "F" if fortran else "C"
        return np.memmap(path, dtype, "r", offset=offset, shape=shape, order=order)
    except NPY_ERRORS as error:
        raise InvalidInputError(
            f"{path} is not an npy file of numbers or is truncated: {printable(str(error), 300)}"
        ) from error


def read_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and dtype of an npy file, or raise one of ``NPY_ERRORS``."""
    try:
        if np.lib.format.read_magic(file) == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        else:  # version 3 differs in the encoding of field names only
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
    except (MemoryError, RecursionError) as error:  # of the parser
        raise ValueError("its header is nested too deeply.") from error
    if min(shape, default=0) < 0:
        raise ValueError(f"the shape {shape} must not be negative.")
    return shape, fortran, dtype


def array_bytes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Return the size of an array. Unlike the integers of NumPy, the result is always right."""
    return math.prod(shape) * dtype.itemsize


class FileRows:
    """The rows of an array in a file, which are read when they are sliced.

    Unlike the pages of a memory map, rows that were read do not stay in the memory of the process.

    Parameters
    ----------
    file : str or binary file
        The path, which is opened for each slice, or a file that stays open.
    offset : int
        Where the first row begins.
    shape : tuple of int
    dtype : dtype
        The dtype of the file.
    columns : list of int, default=None
        The columns that slices contain. None means all.
    result_dtype : dtype, default=None
        The dtype of slices. None means that of the file.
    """

    def __init__(
        self,
        file: Any,
        offset: int,
        shape: tuple[int, int],
        dtype: Any,
        columns: list[int] | None = None,
        result_dtype: Any = None,
    ) -> None:
        self.file, self.offset, self.file_dtype = file, offset, np.dtype(dtype)
        self.n_file_columns, self.columns = shape[1], columns
        self.shape = (shape[0], shape[1] if columns is None else len(columns))
        self.dtype = np.dtype(dtype if result_dtype is None else result_dtype).newbyteorder("=")
        self.lock = Lock()

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        start, stop, _ = rows.indices(self.shape[0])
        block = np.empty((max(stop - start, 0), self.n_file_columns), self.file_dtype)
        with self.lock, self._opened() as file:
            file.seek(self.offset + start * self.n_file_columns * self.file_dtype.itemsize)
            complete = _read_into(file, block)
        if not complete:
            raise InvalidInputError(
                f"rows {start + 1} to {stop} cannot be read: the file was truncated."
            )
        if self.columns is not None:
            block = block[:, self.columns]
        return block.astype(self.dtype, copy=False)

    def _opened(self) -> Any:
        return open(self.file, "rb") if isinstance(self.file, str) else nullcontext(self.file)


def _read_into(file: Any, block: NDArray[Any]) -> bool:
    """Fill an array with the next bytes of a file; return False if there are not enough."""
    view, n_read = block.reshape(-1).view(np.uint8).data, 0
    while n_read < len(view) and (n := file.readinto(view[n_read:])):
        n_read += n
    return n_read == len(view)


def stack_rows(blocks: Iterable[NDArray[Any]], n_columns: int) -> NDArray[np.float64]:
    """Return blocks of rows as one array of float64, without holding all of them twice."""
    X, n = np.empty((0, n_columns)), 0
    for block in blocks:
        if n + len(block) > len(X):  # One eighth more, so that the array is not moved every time.
            X.resize((n + len(block) + n // 8, n_columns), refcheck=False)
        X[n : n + len(block)] = block
        n += len(block)
    X.resize((n, n_columns), refcheck=False)
    return X


@contextmanager
def temporary_rows(blocks: Iterable[Any], folder: str, dtype: Any) -> Iterator[FileRows]:
    """Write blocks of rows to a temporary file in a folder and provide them as ``FileRows``.

    The file is deleted at the end. A few rows remain in memory.
    """
    n, p = 0, 0
    with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES, dir=folder) as file:
        for block in blocks:
            file.write(np.ascontiguousarray(block, dtype=dtype).tobytes())
            n, p = n + block.shape[0], block.shape[1]
        yield FileRows(file, 0, (n, p), dtype)
