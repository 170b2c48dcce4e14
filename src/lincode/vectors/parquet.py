"""Read parquet files, or folders of them, one row group after another or in any order."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lincode.exceptions import InvalidInputError
from lincode.messages import printable
from lincode.vectors.columns import (
    MISSING_ADVICE,
    ColumnError,
    Layout,
    check_column_names,
    select_columns,
)
from lincode.vectors.formats import import_pyarrow
from lincode.vectors.limits import SizeLimit

BLOCK_ENTRIES = 1_000_000
"""Number of entries in a block of a row group (8 MB of float64)."""
BUFFER_BYTES = 2**14
"""The part of a column that is read from the disk at once."""
COLUMN_BYTES = 2_500_000
"""The memory of a reader per column: a page of values, a page of a dictionary, and buffers."""
READER_BYTES = 64 * 2**20
"""The memory of the reader of a row group."""
PARQUET_ERRORS = (
    *(ValueError, TypeError, LookupError, RuntimeError, OSError),
    *(AttributeError, ArithmeticError, MemoryError),
)
"""What pyarrow raises for a damaged parquet file, besides ArrowException."""


@dataclass(frozen=True)
class RowGroup:
    """A row group of one of the files, and the number of rows before it."""

    path: str
    number: int
    start: int
    n_rows: int
    place: str
    """Its position in the file, for error messages"""


class ParquetRows:
    """The rows of a parquet file, or of all parquet files in a folder, in the order of their names.

    It has the attributes of an array that is read lazily: ``shape``, ``dtype``, ``chunks`` (the row
    groups) and slices of rows.

    Parameters
    ----------
    path : str
        The file or the folder.
    columns, exclude : sequence of str, default=None
        See ``select_columns``.
    dtype : dtype, default=None
        The dtype of the result. None means the common dtype of the columns.
    folder : str, default=None
        The folder of temporary files. None means that of the operating system.
    max_bytes : int, default=None
        The largest size to which the files may expand; see ``SizeLimit``.
    """

    def __init__(
        self,
        path: str,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        dtype: Any = None,
        folder: str | None = None,
        max_bytes: int | None = None,
    ) -> None:
        self.pyarrow, self.folder = import_pyarrow(), folder
        self.errors = (*PARQUET_ERRORS, self.pyarrow.ArrowException)
        self.groups: list[RowGroup] = []
        self.stated_bytes = 0
        schemas: dict[str, Any] = {}
        files = _parquet_files(path)
        for file in files:
            schema = self._add_file(file)
            if not schemas:
                all_names = _column_names(file, schema)
                chosen = select_columns(file, len(all_names), all_names, columns, exclude)
                self.names = [all_names[j] for j in chosen]
                check_column_names(file, self.names, chosen)
                self.layout = Layout(self.names, chosen)
            dtypes = self._column_dtypes(file, schema, first=next(iter(schemas), file))
            schemas[file] = np.result_type(*dtypes)
        self.dtype = np.dtype(np.result_type(*schemas.values()) if dtype is None else dtype)
        n_rows = sum(group.n_rows for group in self.groups)
        if n_rows == 0:
            raise InvalidInputError(f"{path} has column names but no rows of numbers.")
        self.shape = (n_rows, len(self.names))
        n_bytes = n_rows * len(self.names) * self.dtype.itemsize
        SizeLimit(files, max_bytes).check(max(n_bytes, self.stated_bytes))
        self.chunks = (tuple(group.n_rows for group in self.groups), (len(self.names),))

    def _add_file(self, path: str) -> Any:
        """Add the row groups of a file, and return its schema."""
        try:
            with self._open(path) as file:
                groups = [file.metadata.row_group(g) for g in range(file.num_row_groups)]
                sizes = [group.num_rows for group in groups]
                self.stated_bytes += sum(group.total_byte_size for group in groups)
                schema = file.schema_arrow
                if min(sizes, default=0) < 0:
                    raise ValueError("a row group has a negative number of rows.")
        except self.errors as error:
            raise _damaged(path, error) from error
        before = sum(group.n_rows for group in self.groups)
        starts = [0, *accumulate(sizes)]
        for g, n_rows in enumerate(sizes):
            place = f"row group {g + 1} of {len(sizes)} (rows {starts[g] + 1} to {starts[g + 1]})"
            self.groups.append(RowGroup(path, g, before + starts[g], n_rows, place))
        return schema

    def _open(self, path: str) -> Any:
        return self.pyarrow.parquet.ParquetFile(
            path, buffer_size=BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True
        )

    def _column_dtypes(self, path: str, schema: Any, first: str) -> list[Any]:
        types, dtypes = self.pyarrow.types, []
        kinds = dict(zip(schema.names, schema.types, strict=True))
        for j, name in enumerate(self.names):
            if name not in kinds:
                raise InvalidInputError(
                    f"{path} has no column {name!r}, but {first} has it; the files of a folder must"
                    " have the same columns."
                )
            kind = kinds[name]
            if not (types.is_integer(kind) or types.is_floating(kind)):
                raise ColumnError(
                    f"{path}: column {name!r} must contain numbers, got {kind}; write one column of"
                    " numbers per feature",
                    self.layout.selector(j),
                )
            dtypes.append(kind.to_pandas_dtype())
        n_columns = len(_column_names(path, schema))
        if path == first:
            self._n_columns = n_columns
        elif n_columns != self._n_columns:
            raise InvalidInputError(
                f"{path} has {n_columns} columns, but {first} has {self._n_columns}; the files of"
                " a folder must have the same columns."
            )
        return dtypes

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        blocks = list(self.iter_rows(rows))
        return np.concatenate(blocks) if blocks else np.empty((0, self.shape[1]), self.dtype)

    def iter_rows(self, rows: slice) -> Iterator[NDArray[Any]]:
        """Yield consecutive rows in small blocks, also if a row group is larger than memory."""
        start, stop, _ = rows.indices(self.shape[0])
        for group in self.groups:
            if group.start >= stop or group.start + group.n_rows <= start:
                continue
            first = group.start
            for block in self._group_blocks(group):
                part = block[max(start - first, 0) : max(stop - first, 0)]
                first += len(block)
                if len(part):
                    yield part
                if first >= stop:
                    break

    def _group_blocks(self, group: RowGroup) -> Iterator[NDArray[Any]]:
        try:
            with self._open(group.path) as file:
                n_columns, p = max(1, READER_BYTES // COLUMN_BYTES), self.shape[1]
                group_bytes = group.n_rows * p * self.dtype.itemsize
                if p <= n_columns or group_bytes <= READER_BYTES // 2:
                    for block in self._batches(file, group, self.names):
                        yield np.ascontiguousarray(block.T)
                else:
                    yield from self._transposed_blocks(file, group, n_columns)
        except InvalidInputError:
            raise
        except self.errors as error:
            raise _damaged(f"{group.path}: {group.place}", error) from error

    def _transposed_blocks(
        self, file: Any, group: RowGroup, n_columns: int
    ) -> Iterator[NDArray[Any]]:
        """Yield a row group with many columns in blocks of rows, in bounded memory.

        A reader keeps a few megabytes per column. So a few columns at a time are read and written
        to a temporary file, which contains one block of rows after another, each with one column
        after another.
        """
        p, itemsize = self.shape[1], self.dtype.itemsize
        with tempfile.TemporaryFile(dir=self.folder) as temporary:
            for first in range(0, p, n_columns):
                start = 0
                for block in self._batches(file, group, self.names[first : first + n_columns]):
                    n = block.shape[1]
                    temporary.seek((start * p + first * n) * itemsize)
                    temporary.write(block.tobytes())
                    start += n
            temporary.seek(0)
            size = self._block_rows()
            for start in range(0, group.n_rows, size):
                n = min(size, group.n_rows - start)
                data = temporary.read(n * p * itemsize)
                yield np.ascontiguousarray(np.frombuffer(data, self.dtype).reshape(p, n).T)

    def _block_rows(self) -> int:
        return max(1, BLOCK_ENTRIES // self.shape[1])

    def _batches(self, file: Any, group: RowGroup, names: list[str]) -> Iterator[NDArray[Any]]:
        """Yield some columns of a row group as arrays of shape (n_columns, n_rows)."""
        n_left = group.n_rows
        for batch in file.iter_batches(
            self._block_rows(), row_groups=[group.number], columns=names, use_threads=False
        ):
            if batch.num_rows != min(self._block_rows(), n_left):
                raise ValueError(f"{batch.num_rows} rows were found where {n_left} are left")
            n_left -= batch.num_rows
            block = np.empty((len(names), batch.num_rows), self.dtype)
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            for j, name in enumerate(names):
                column = columns[name]
                if column.null_count:
                    raise InvalidInputError(
                        f"{group.path}: column {name!r} has missing values in {group.place};"
                        f" {MISSING_ADVICE}"
                    )
                block[j] = column.to_numpy()
            yield block
        if n_left:
            raise ValueError(f"{n_left} rows are missing")


def _parquet_files(path: str) -> list[str]:
    """Return the file, or the parquet files in the folder; hidden files are left out."""
    if not Path(path).is_dir():
        return [path]
    files = sorted(p for p in Path(path).glob("*.parquet") if p.is_file() and p.name[0] not in "._")
    if not files:
        raise IsADirectoryError(
            errno.EISDIR,
            "expected a file of vectors or a folder of parquet files, got a folder without them",
            path,
        )
    return [str(file) for file in files]


def _column_names(path: str, schema: Any) -> list[str]:
    """Return the names of the columns. An index that pandas stored is not a column."""
    try:
        stored = schema.pandas_metadata
        # A range is not a name but a dict.
        index = (
            {name for name in stored["index_columns"] if isinstance(name, str)} if stored else ()
        )
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise InvalidInputError(
            f"{path}: the description of the columns that pandas stored is damaged, so that the"
            f" index is not known ({printable(str(error), 300)}); write the file again (in pandas:"
            " index=False)."
        ) from error
    names = [name for name in schema.names if name not in index]
    if not names:
        raise InvalidInputError(f"{path} has no columns.")
    return names


def _damaged(place: str, error: Exception) -> Exception:
    """Return the error itself if the operating system raised it, else InvalidInputError."""
    if isinstance(error, OSError) and error.errno:
        return error
    what = "is not a parquet file or is damaged"
    if isinstance(error, MemoryError):
        what = "is damaged, or a part of it does not fit into memory"
    return InvalidInputError(f"{place} {what}: {printable(str(error), 300)}")
