"""Reading files of vectors: one vector a row, numbers only, never pickle."""

from __future__ import annotations

import lzma
import os
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from lincode.vectors.csv_table import read_csv

FORMATS = ("npy", "npz", "csv", "parquet")
DAMAGE = (
    ValueError, EOFError, KeyError, IndexError, TypeError, AttributeError, RuntimeError,
    zipfile.BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip
"""What reading a damaged zip raises: it depends on where the damage is."""
BLOCK_ENTRIES = 4_000_000
"""Entries of a block of rows: 32 MB of float64."""


@dataclass(frozen=True)
class Vectors:
    """The rows of a file, and the names of its columns where it has any.

    Attributes
    ----------
    path : str
        Of the file, as it was given: for messages.
    X : array or CSR matrix of shape (n_vectors, n_columns)
        A read-only memory map where the file is npy.
    names : list of str or None
    """

    path: str
    X: Any
    names: list[str] | None = None

    def blocks(self, width: int = 1) -> Iterator[Any]:
        """The rows in order, a block at a time, each looked through for NaN and infinity.

        ``width`` is how many numbers will be made of a row: the more, the fewer rows a block.
        """
        n, p = self.X.shape
        size = max(1, BLOCK_ENTRIES // max(p, width))
        for start in range(0, n, size):
            block = self.X[start : start + size]
            block = block if scipy.sparse.issparse(block) else np.asarray(block)
            self._check_finite(block, start)
            yield block

    def check_finite(self) -> None:
        """Raise if any number is NaN or infinite, and say where the first one is."""
        for _ in self.blocks():
            pass

    def _check_finite(self, block: Any, start: int) -> None:
        sparse = scipy.sparse.issparse(block)
        finite = np.isfinite(block.data if sparse else block)
        if finite.all():
            return
        if sparse:
            entries = block.tocoo()
            bad = np.flatnonzero(~np.isfinite(entries.data))[0]
            row, column, value = entries.row[bad], entries.col[bad], entries.data[bad]
        else:
            row, column = np.argwhere(~finite)[0]
            value = block[row, column]
        raise ValueError(
            f"{self.path}: row {start + row + 1}, column {column + 1} is {value}, and must be a"
            " finite number; fill such entries or leave their rows out."
        )


def format_of(path: str | os.PathLike[str]) -> str:
    """The format that the end of a file's name stands for: npy, npz, csv or parquet."""
    suffix = Path(path).suffix.lower().lstrip(".")
    if suffix not in FORMATS:
        raise ValueError(
            f"the name of a file of vectors must end in {', '.join('.' + f for f in FORMATS)}, got"
            f" {os.fspath(path)}."
        )
    return suffix


def read_vectors(path: str | os.PathLike[str], *, key: str | None = None) -> Vectors:
    r"""The vectors in a file, by the end of its name.

    Parameters
    ----------
    path : path
        - npy: an array, memory-mapped and not read until it is used;
        - npz: an array, or a sparse matrix as ``scipy.sparse.save_npz`` writes it;
        - csv: numbers with commas between them; the first row may be names;
        - parquet: columns of numbers; needs pyarrow.
    key : str, default=None
        Which array of an npz file that has several.

    Returns
    -------
    Vectors

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from lincode.vectors import read_vectors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     n_letters = Path(folder, "a.csv").write_text("x,y\n1,2\n3,4\n")
    ...     vectors = read_vectors(Path(folder, "a.csv"))
    >>> vectors.X
    array([[1., 2.],
           [3., 4.]])
    >>> vectors.names
    ['x', 'y']
    """
    name, kind = os.fspath(path), format_of(path)
    if key is not None and kind != "npz":
        raise ValueError(f"key is for npz files, which may hold several arrays; {name} is {kind}.")
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no file {name}.")
    if Path(path).is_dir():
        raise IsADirectoryError(f"{name} is a folder, and must be a file of vectors.")
    if Path(path).stat().st_size == 0:
        raise ValueError(f"{name} is empty.")
    names = None
    if kind == "npy":
        X = _read_npy(name)
    elif kind == "npz":
        X = _read_npz(name, key)
    else:
        X, names = read_csv(name) if kind == "csv" else _read_parquet(name)
    _check_table(name, X)
    return Vectors(name, X, names)


def _check_table(name: str, X: Any) -> None:
    if X.dtype.kind not in "buif":
        raise ValueError(f"{name} must hold real numbers, got {X.dtype}.")
    if len(X.shape) != 2:
        hint = ""
        if len(X.shape) > 2:
            hint = " Flatten what belongs to one vector: X.reshape(len(X), -1)."
        raise ValueError(
            f"{name} must be a table with one vector a row, got an array of shape {X.shape}.{hint}"
        )
    if 0 in X.shape:
        raise ValueError(f"{name} must have at least one row and column, got shape {X.shape}.")


def _read_npy(name: str) -> Any:
    try:
        return np.lib.format.open_memmap(name, mode="r")
    except (ValueError, EOFError) as error:
        raise ValueError(f"{name} is no npy file of numbers, or cut short: {error}") from error


def _read_npz(name: str, key: str | None) -> Any:
    try:
        if not zipfile.is_zipfile(name):
            raise ValueError("it is no zip archive.")
        with np.load(name, allow_pickle=False) as arrays:
            found = list(arrays.files)
            if {"format", "shape", "data"} <= set(found) and key is None:
                return _read_sparse(name)
            if key is None and len(found) == 1:
                key = found[0]
            if key in found:
                return arrays[key]
    except DAMAGE as error:
        raise ValueError(f"{name} is no npz file of numbers, or is damaged: {error}") from error
    raise ValueError(
        f"{name} holds {', '.join(found) or 'no array'}; say which array to take (key, or --key on"
        f" the command line), got {key!r}."
    )


def _read_sparse(name: str) -> Any:
    X = scipy.sparse.load_npz(name)
    if hasattr(X, "check_format"):
        # Indices that point outside would be followed by compiled code without a look.
        X.check_format(full_check=True)
    return X.tocsr()


def _read_parquet(name: str) -> tuple[Any, list[str]]:
    pa, pq = import_pyarrow()
    try:
        table = pq.read_table(name)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno:  # of the system's, not of the content
            raise
        raise ValueError(f"{name} is no parquet file, or is damaged: {error}") from error
    index = (table.schema.pandas_metadata or {}).get("index_columns", [])
    names = [column for column in table.column_names if column not in index]
    if not names:
        raise ValueError(f"{name} has no columns.")
    columns = []
    for column in names:
        values = table.column(column)
        if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
            raise ValueError(
                f"{name}: column {column!r} holds {values.type}, and must hold numbers; leave it"
                " out, or make one column of numbers for each feature."
            )
        if values.null_count:
            raise ValueError(
                f"{name}: column {column!r} has {values.null_count} missing values; fill them or"
                " leave their rows out."
            )
        columns.append(values.to_numpy())
    return np.column_stack(columns), names


def import_pyarrow() -> tuple[Any, Any]:
    """``pyarrow`` and ``pyarrow.parquet``, or a sentence."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            "parquet files need pyarrow: pip install pyarrow, or use npy, npz or csv."
        ) from error
    return pyarrow, pyarrow.parquet
