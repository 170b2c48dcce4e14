"""Read files of vectors: one vector per row, numbers only, without pickle."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from lincode.exceptions import InvalidInputError
from lincode.vectors.columns import MISSING_ADVICE, Layout, select_columns
from lincode.vectors.formats import STDIN, TEXT_FORMATS, check_file, file_format
from lincode.vectors.header import check_header
from lincode.vectors.limits import SizeLimit
from lincode.vectors.npy import FileRows, map_npy, stack_rows, temporary_rows
from lincode.vectors.npz import read_npz
from lincode.vectors.parquet import ParquetRows
from lincode.vectors.text import TextFile

BLOCK_ENTRIES = 4_000_000
"""Number of entries in a block of rows (32 MB of float64)."""


@dataclass(frozen=True)
class Vectors:
    """A file of vectors.

    Attributes
    ----------
    path : str
        The path of the file as it was given. Error messages contain it.
    X : array, CSR matrix, or object with ``shape``, ``dtype`` and slices, or None
        The rows. After ``read_vectors`` it is an array (for an npy file, a read-only memory map)
        or a CSR matrix. After ``open_vectors`` it may be an object whose slices are read from the
        file, or None if the rows of a text file can only be read in order, by ``blocks``.
    names : list of str or None
        The names of the columns, if the file has any.
    text : TextFile or None
        The csv or tsv file from which ``blocks`` reads if X is None.
    layout : Layout
        The columns that are read, for error messages.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from lincode.vectors import open_vectors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder, "X.npy"), np.ones((6, 2)))
    ...     vectors = open_vectors(Path(folder, "X.npy"))
    ...     vectors.n_columns, sum(len(block) for block in vectors.blocks())
    (2, 6)
    """

    path: str
    X: Any
    names: list[str] | None = None
    text: TextFile | None = None
    layout: Layout = field(default_factory=Layout)

    @property
    def n_columns(self) -> int:
        """The number of columns."""
        return int(self.X.shape[1]) if self.text is None else len(self.text.selected)

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
        n_rows = max(1, BLOCK_ENTRIES // max(self.n_columns, n_outputs))
        start = 0
        for large in self._large_blocks(n_rows):
            for first in range(0, large.shape[0], n_rows):
                block = large[first : first + n_rows]
                _check_finite(self.path, block, start, self.layout)
                start += block.shape[0]
                yield block

    def _large_blocks(self, n_rows: int) -> Iterator[Any]:
        """Yield the rows in order, in blocks of any size."""
        if self.text is not None:
            yield from self.text.blocks()
        elif isinstance(self.X, ParquetRows):
            yield from self.X.iter_rows(slice(None))
        else:
            for start in range(0, self.X.shape[0], n_rows):
                block = self.X[start : start + n_rows]
                yield block if scipy.sparse.issparse(block) else np.asarray(block)

    def check_finite(self) -> None:
        """Raise an error that names the first NaN or infinity, if there is one."""
        for _ in self.blocks():
            pass

    @contextmanager
    def with_slices(self, folder: str, dtype: Any = None) -> Iterator[Vectors]:
        """Provide the same vectors with an X that has slices.

        The rows of a text file are checked and written to a temporary file in ``folder``, as
        ``dtype`` or float64.
        """
        if self.text is None:
            yield self
            return
        dtype = np.dtype(dtype or np.float64)
        blocks = self.text.check_size(self.blocks(), dtype.itemsize)
        with temporary_rows(blocks, folder, dtype) as rows:
            if not rows.shape[0]:
                raise InvalidInputError(_no_rows(self.path))
            yield replace(self, X=rows, text=None)


def _no_rows(path: str) -> str:
    return f"{path} has column names but no rows of numbers."


def _check_finite(path: str, block: Any, start: int, layout: Layout) -> None:
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
    advice = MISSING_ADVICE if np.isnan(value) else "replace it or remove the row."
    raise InvalidInputError(
        f"{path}: {layout.row(start + row)}, {layout.column(column)} must be a finite number, got"
        f" {value}; {advice}"
    )


def read_vectors(
    path: str | os.PathLike[str],
    *,
    key: str | None = None,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    max_bytes: int | None = None,
    header: str = "auto",
) -> Vectors:
    r"""Read a file of vectors. The suffix of its name determines the format.

    Parameters
    ----------
    path : path
        The file, in one of these formats:

        - npy: an array, which is memory-mapped;
        - npz: an array, or a sparse matrix that ``scipy.sparse.save_npz`` wrote;
        - csv, tsv: numbers separated by commas or tabs, in UTF-8; the first row may contain the
          names of the columns; also compressed (csv.gz, tsv.gz); needs pyarrow;
        - parquet: columns of numbers, or a folder of such files; needs pyarrow.

        "-" means standard input, which must be csv or tsv.
    key : str, default=None
        The name of the array in an npz file that contains several arrays.
    columns : sequence of str, default=None
        The columns to read, in this order: names, or positions that start at 1. None means all.
    exclude : sequence of str, default=None
        The columns to leave out. In text and parquet files they need not contain numbers.
    max_bytes : int, default=None
        The largest size to which a compressed file (npz, gz, parquet) may expand. None means a
        gigabyte or 100 times the size of the file, whichever is larger. For text it applies to the
        text and to the array of its numbers.
    header : {"auto", "yes", "no"}, default="auto"
        Whether the first row of a csv or tsv file contains the names of the columns. "auto" means
        yes if none of its cells is a number, if it counts the columns, if a column is chosen by a
        name in it, if text is above a number, if its first cell is empty (as in tables that pandas
        has written with an index), or if it has text, and its numbers are sorted and more than ten
        times as large as those of the second row. A warning says so if some cells are numbers, or
        if a vector looks like names.

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
    ...     n_characters = Path(folder, "a.csv").write_text("x,label,y\n1,A,2\n3,B,4\n")
    ...     vectors = read_vectors(Path(folder, "a.csv"), exclude=["label"])
    >>> vectors.X
    array([[1., 2.],
           [3., 4.]])
    >>> vectors.names
    ['x', 'y']
    """
    vectors = _open(os.fspath(path), key, columns, exclude, max_bytes=max_bytes, header=header)
    if vectors.text is not None:
        _warn(vectors.text)
        blocks = vectors.text.check_size(vectors.text.blocks(), np.dtype(np.float64).itemsize)
        X = stack_rows(blocks, vectors.n_columns)
        if not len(X):
            raise InvalidInputError(_no_rows(vectors.path))
        return replace(vectors, X=X, text=None)
    if isinstance(vectors.X, ParquetRows | FileRows):
        mapped = isinstance(vectors.X, FileRows) and columns is exclude is None
        return replace(vectors, X=map_npy(vectors.path) if mapped else vectors.X[:])
    return vectors


def open_vectors(
    path: str | os.PathLike[str],
    *,
    key: str | None = None,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    dtype: Any = None,
    folder: str | None = None,
    max_bytes: int | None = None,
    header: str = "auto",
) -> Vectors:
    """Open a file of vectors, of which parts are read when they are needed.

    npz files are read completely.

    Parameters
    ----------
    path, key, columns, exclude, max_bytes, header
        See ``read_vectors``.
    dtype : dtype, default=None
        The dtype to which the rows of npy, npz and parquet files are converted. None means that
        they are not converted.
    folder : str, default=None
        The folder of temporary files, which parquet files with many columns and large row groups
        need. None means that of the operating system.

    Returns
    -------
    Vectors

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from lincode.vectors import open_vectors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder, "a.npy"), np.eye(3))
    ...     vectors = open_vectors(Path(folder, "a.npy"), columns=["3", "1"])
    ...     print(vectors.X.shape, vectors.X[1:])
    (3, 2) [[0. 0.]
     [1. 0.]]
    """
    vectors = _open(os.fspath(path), key, columns, exclude, dtype, folder, max_bytes, header)
    if vectors.text is not None:
        _warn(vectors.text)
    return vectors


def _warn(text: TextFile) -> None:
    if text.note:
        warnings.warn(text.note, UserWarning, stacklevel=3)


def _open(
    name: str,
    key: str | None,
    columns: Sequence[str] | None,
    exclude: Sequence[str] | None,
    dtype: Any = None,
    folder: str | None = None,
    max_bytes: int | None = None,
    header: str = "auto",
) -> Vectors:
    check_header(header)
    is_folder = Path(name).is_dir()
    suffix = "csv" if name == STDIN else "parquet" if is_folder else file_format(name)
    if key is not None and suffix != "npz":
        raise InvalidInputError(
            f"key selects one of the arrays in an npz file, but {name} is a {suffix} file; leave"
            " key out."
        )
    if header != "auto" and suffix not in TEXT_FORMATS:
        raise InvalidInputError(
            f"header says whether the first row of a csv or tsv file contains names, but {name} is"
            f" a {suffix} file; leave header out."
        )
    if name != STDIN and not is_folder:
        check_file(name)
    if suffix in TEXT_FORMATS:
        text = TextFile(name, columns, exclude, max_bytes, header)
        return Vectors(text.name, None, text.names, text, text.layout)
    if suffix == "parquet":
        rows = ParquetRows(name, columns, exclude, dtype, folder, max_bytes)
        return Vectors(name, rows, rows.names, layout=rows.layout)
    limit = SizeLimit([name], max_bytes)
    X = map_npy(name) if suffix == "npy" else read_npz(name, key, limit)
    _check_array(name, X)
    chosen = None
    if columns is not None or exclude is not None:
        chosen = select_columns(name, X.shape[1], None, columns, exclude)
    layout = Layout(selected=chosen)
    # The rows of a Fortran array are not consecutive in the file.
    if suffix == "npz" or not X.flags.c_contiguous:
        X = X if chosen is None else X[:, chosen]
        return Vectors(name, X if dtype is None else X.astype(dtype, copy=False), layout=layout)
    path = os.path.abspath(name)
    lazy = FileRows(path, X.offset, X.shape, X.dtype, chosen, dtype)
    return Vectors(name, lazy, layout=layout)


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
