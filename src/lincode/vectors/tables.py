"""Read csv and parquet files with pyarrow, one block of rows at a time."""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lincode.exceptions import InvalidInputError, MissingDependencyError

CSV_BLOCK_BYTES = 16 * 2**20
"""Size of the blocks in which pyarrow reads a csv file."""
BYTES_PER_CELL = 64
"""Upper bound of the length of a csv cell, used to make blocks large enough for one row."""
PARQUET_BLOCK_ENTRIES = 4_000_000
"""Number of entries in a block of a parquet file (32 MB of float64)."""
PARQUET_ERRORS = (ValueError, TypeError, LookupError, RuntimeError, OSError)
"""What pyarrow raises for a damaged parquet file. Its own exceptions derive from these."""
CONVERSION_ERROR = re.compile(
    r"CSV column #(\d+): Row #(\d+): CSV conversion error to double: invalid value '(.*)'",
    re.DOTALL,
)
ROW_LENGTH_ERROR = re.compile(r"CSV parse error: Row #(\d+): Expected (\d+) columns, got (\d+)")


@dataclass(frozen=True)
class Table:
    """A file whose rows are read while ``blocks`` is iterated.

    Attributes
    ----------
    names : list of str or None
        The names of the columns.
    blocks : iterator of arrays of shape (n_rows, n_columns)
    """

    names: list[str] | None
    blocks: Iterator[NDArray[Any]]


def import_pyarrow() -> Any:
    """Return ``pyarrow`` with its csv and parquet modules, or raise MissingDependencyError."""
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise MissingDependencyError(
            'csv and parquet files need pyarrow: run pip install "lincode[files]", or use npy or'
            " npz files."
        ) from error
    return pyarrow


def open_csv(path: str) -> Table:
    """Open a csv file of numbers in UTF-8.

    The first row contains the names of the columns if none of its cells is a number, or if it
    counts the columns (0, 1, 2, … or 1, 2, 3, …), which is reported by a warning.
    """
    pa = import_pyarrow()
    first, n_lines = _first_row(path)
    counts_columns = _counts_columns(first)
    has_header = counts_columns or not any(map(_is_number, first))
    if has_header:
        check_column_names(path, first)
    if counts_columns:
        warnings.warn(
            f"{path}: the first row, {','.join(first[:3])},…, was read as the names of the columns"
            " and not as a vector. If it is a vector, add a row of names above it.",
            UserWarning,
            stacklevel=3,
        )
    n_skipped = n_lines if has_header else 0
    return Table(first if has_header else None, _csv_blocks(pa, path, len(first), n_skipped))


def _first_row(path: str) -> tuple[list[str], int]:
    """Return the first row that is not empty, and the number of lines up to its end."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            first = next((row for row in reader if row), None)
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{path} must be a csv file, but it is not text in UTF-8: {error}."
        ) from error
    except csv.Error as error:
        raise InvalidInputError(f"{path} must be a csv file: {error}.") from error
    if first is None:
        raise InvalidInputError(f"{path} is empty.")
    if len(first) == 1 and any(separator in first[0] for separator in ";\t"):
        raise InvalidInputError(
            f"{path} must have commas between its cells, got {first[0][:40]!r}."
        )
    return first, reader.line_num


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _counts_columns(row: list[str]) -> bool:
    """Return whether a row is 0, 1, 2, … or 1, 2, 3, …, as in a table without column names."""
    if len(row) < 2 or row[0] not in ("0", "1"):
        return False
    return row == [str(number) for number in range(int(row[0]), int(row[0]) + len(row))]


def check_column_names(path: str, names: list[str]) -> None:
    """Check that every column has a name and that no two columns have the same name."""
    seen = set()
    for number, name in enumerate(names, start=1):
        if not name.strip():
            raise InvalidInputError(
                f"{path}: column {number} has no name. If it contains row numbers, write the file"
                " without it (in pandas: index=False)."
            )
        if name in seen:
            raise InvalidInputError(
                f"{path} has two columns named {name!r}; give every column its own name."
            )
        seen.add(name)


def _csv_blocks(pa: Any, path: str, n_columns: int, n_skipped: int) -> Iterator[NDArray[Any]]:
    columns = [f"column {j}" for j in range(n_columns)]
    try:
        reader = pa.csv.open_csv(
            path,
            read_options=pa.csv.ReadOptions(
                use_threads=False,  # With threads, errors do not contain the number of the row.
                block_size=max(CSV_BLOCK_BYTES, BYTES_PER_CELL * n_columns),
                skip_rows=n_skipped,
                column_names=columns,
            ),
            parse_options=pa.csv.ParseOptions(newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.float64()), null_values=[]
            ),
        )
        for batch in reader:
            yield np.column_stack([column.to_numpy() for column in batch.columns])
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"{path}: {_csv_error(str(error), n_skipped)}") from error


def _csv_error(message: str, n_skipped: int) -> str:
    """Return a sentence for an error of pyarrow, which counts header lines and column 0."""
    note = " (without the header)" if n_skipped else ""
    if match := CONVERSION_ERROR.search(message):
        row, cell = int(match[2]) - n_skipped, match[3]
        place = f"row {row}{note}, column {int(match[1]) + 1}"
        if not cell.strip():
            return f"{place} is empty; fill in a number or remove the row."
        hint = " A header must not contain numbers." if row == 1 and not n_skipped else ""
        return f"{place} must be a number, got {cell!r}.{hint}"
    if match := ROW_LENGTH_ERROR.search(message):
        return (
            f"row {int(match[1]) - n_skipped}{note} must have {match[2]} cells as the first row,"
            f" got {match[3]}."
        )
    return f"the file must be a csv file of numbers ({message})."


def open_parquet(path: str) -> Table:
    """Open a parquet file of numbers. An index that pandas stored is not a column."""
    pa = import_pyarrow()
    try:
        file = pa.parquet.ParquetFile(path)
        schema = file.schema_arrow
    except PARQUET_ERRORS as error:
        raise _parquet_error(path, error) from error
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    names = [name for name in schema.names if name not in index]
    if not names:
        raise InvalidInputError(f"{path} has no columns.")
    check_column_names(path, names)
    for name in names:
        kind = schema.field(name).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise InvalidInputError(
                f"{path}: column {name!r} must contain numbers, got {kind}; remove it, or write"
                " one column of numbers per feature."
            )
    return Table(names, _parquet_blocks(path, file, names))


def _parquet_blocks(path: str, file: Any, names: list[str]) -> Iterator[NDArray[Any]]:
    n_rows = max(1, PARQUET_BLOCK_ENTRIES // len(names))
    try:
        with file:
            for batch in file.iter_batches(batch_size=n_rows):
                columns = [batch.column(name) for name in names]
                for name, column in zip(names, columns, strict=True):
                    if column.null_count:
                        raise InvalidInputError(
                            f"{path}: column {name!r} has missing values; fill them in or remove"
                            " their rows."
                        )
                yield np.column_stack([column.to_numpy() for column in columns])
    except InvalidInputError:
        raise
    except PARQUET_ERRORS as error:
        raise _parquet_error(path, error) from error


def _parquet_error(path: str, error: Exception) -> Exception:
    """Return the error itself if the operating system raised it, else InvalidInputError."""
    if isinstance(error, OSError) and error.errno:
        return error
    return InvalidInputError(f"{path} is not a parquet file or is damaged: {error}")
