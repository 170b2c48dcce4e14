"""Read files of vectors: one vector per row, numbers only, without pickle."""

from __future__ import annotations

import errno
import lzma
import os
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse

from lincode.exceptions import InvalidInputError
from lincode.vectors.tables import Table, open_csv, open_parquet

FORMATS = ("npy", "npz", "csv", "parquet")
DAMAGED_ZIP_ERRORS = (
    ValueError,
    EOFError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)
"""What NumPy and SciPy raise for a damaged npz file; it depends on where the damage is."""
BLOCK_ENTRIES = 4_000_000
"""Number of entries in a block of rows (32 MB of float64)."""


@dataclass(frozen=True)
class Vectors:
    """The contents of a file of vectors.

    Attributes
    ----------
    path : str
        The path of the file as it was given. Error messages contain it.
    X : array or CSR matrix of shape (n_vectors, n_columns)
        A read-only memory map if the file is an npy file.
    names : list of str or None
        The names of the columns, if the file has any.
    """

    path: str
    X: Any
    names: list[str] | None = None

    def blocks(self, n_outputs: int = 1) -> Iterator[Any]:
        """Iterate over blocks of rows and check that they are finite.

        Parameters
        ----------
        n_outputs : int, default=1
            How many numbers will be computed from each row. Blocks have fewer rows if it is
            larger than the number of columns.

        Yields
        ------
        array or CSR matrix of shape (n_rows, n_columns)
        """
        n_vectors, n_columns = self.X.shape
        n_rows = max(1, BLOCK_ENTRIES // max(n_columns, n_outputs))
        for start in range(0, n_vectors, n_rows):
            block = self.X[start : start + n_rows]
            block = block if scipy.sparse.issparse(block) else np.asarray(block)
            _check_finite(self.path, block, start)
            yield block

    def check_finite(self) -> None:
        """Raise an error that names the first NaN or infinity, if there is one."""
        for _ in self.blocks():
            pass


def _check_finite(path: str, block: Any, start: int) -> None:
    """Check a block of rows, of which the first has the index ``start`` in the file."""
    is_sparse = scipy.sparse.issparse(block)
    if np.isfinite(block.data if is_sparse else block).all():
        return
    if is_sparse:
        entries = block.tocoo()
        first = np.flatnonzero(~np.isfinite(entries.data))[0]
        row, column, value = entries.row[first], entries.col[first], entries.data[first]
    else:
        row, column = np.argwhere(~np.isfinite(block))[0]
        value = block[row, column]
    raise InvalidInputError(
        f"{path}: row {start + row + 1}, column {column + 1} must be a finite number, got {value};"
        " replace such entries or remove their rows."
    )


def file_format(path: str | os.PathLike[str]) -> str:
    """Return the format that the suffix of a file name stands for: npy, npz, csv or parquet."""
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        raise InvalidInputError(
            "the name of a file of vectors must end in .npy, .npz, .csv or .parquet, got"
            f" {os.fspath(path)}."
        )
    return suffix


def read_vectors(path: str | os.PathLike[str], *, key: str | None = None) -> Vectors:
    r"""Read a file of vectors. The suffix of its name determines the format.

    Parameters
    ----------
    path : path
        The file, in one of these formats:

        - npy: an array, which is memory-mapped;
        - npz: an array, or a sparse matrix that ``scipy.sparse.save_npz`` wrote;
        - csv: numbers separated by commas, in UTF-8; the first row may contain the names of the
          columns; needs pyarrow;
        - parquet: columns of numbers; needs pyarrow.
    key : str, default=None
        The name of the array in an npz file that contains several arrays.

    Returns
    -------
    Vectors

    Raises
    ------
    InvalidInputError
        If the file is damaged or is not a table of numbers.
    MissingDependencyError
        If the file needs pyarrow and pyarrow is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from lincode.vectors import read_vectors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     n_characters = Path(folder, "a.csv").write_text("x,y\n1,2\n3,4\n")
    ...     vectors = read_vectors(Path(folder, "a.csv"))
    >>> vectors.X
    array([[1., 2.],
           [3., 4.]])
    >>> vectors.names
    ['x', 'y']
    """
    name, suffix = os.fspath(path), file_format(path)
    if key is not None and suffix != "npz":
        raise InvalidInputError(
            f"key selects one of the arrays in an npz file, but {name} is a {suffix} file; leave"
            " key out."
        )
    if Path(path).is_dir():
        raise IsADirectoryError(errno.EISDIR, "expected a file of vectors, got a folder", name)
    if Path(path).stat().st_size == 0:
        raise InvalidInputError(f"{name} is empty.")
    if suffix in ("csv", "parquet"):
        table = open_csv(name) if suffix == "csv" else open_parquet(name)
        return Vectors(name, _read_all(name, table), table.names)
    X = _read_npy(name) if suffix == "npy" else _read_npz(name, key)
    _check_array(name, X)
    return Vectors(name, X)


def _read_all(name: str, table: Table) -> Any:
    blocks = list(table.blocks)
    if not sum(map(len, blocks)):
        raise InvalidInputError(f"{name} has column names but no rows of numbers.")
    return np.concatenate(blocks)


def _check_array(name: str, X: Any) -> None:
    if X.dtype.kind not in "buif":
        raise InvalidInputError(f"{name} must contain real numbers, got {X.dtype}.")
    if len(X.shape) != 2:
        hint = " Flatten each vector: X.reshape(len(X), -1)." if len(X.shape) > 2 else ""
        raise InvalidInputError(
            f"{name} must be a table with one vector per row, got an array of shape"
            f" {X.shape}.{hint}"
        )
    if 0 in X.shape:
        raise InvalidInputError(
            f"{name} must have at least one row and one column, got shape {X.shape}."
        )


def _read_npy(name: str) -> Any:
    try:
        return np.lib.format.open_memmap(name, mode="r")
    except (ValueError, EOFError) as error:
        raise InvalidInputError(
            f"{name} is not an npy file of numbers or is truncated: {error}"
        ) from error


def _read_npz(name: str, key: str | None) -> Any:
    try:
        if not zipfile.is_zipfile(name):
            raise ValueError("it is not a zip archive.")
        # NumPy would not close a file that it opened itself and that is damaged.
        with open(name, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            keys = list(arrays.files)
            if {"format", "shape", "data"} <= set(keys) and key is None:
                file.seek(0)
                return _read_sparse(file)
            if key is None and len(keys) == 1:
                key = keys[0]
            if key in keys:
                return arrays[key]
    except DAMAGED_ZIP_ERRORS as error:
        raise InvalidInputError(
            f"{name} is not an npz file of numbers or is damaged: {error}"
        ) from error
    raise InvalidInputError(
        f"{name} contains {', '.join(keys) or 'no array'}; choose an array with key (--key on the"
        f" command line), got {key!r}."
    )


def _read_sparse(file: BinaryIO) -> Any:
    X = scipy.sparse.load_npz(file)
    if hasattr(X, "check_format"):
        # Compiled code would use indices that are out of range without checking them.
        X.check_format(full_check=True)
    return X.tocsr()
