"""Read csv and tsv files, also compressed or from standard input, one block of rows at a time."""

from __future__ import annotations

import csv
import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, BinaryIO

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
from lincode.vectors.formats import STDIN, file_format, import_pyarrow, is_gzip
from lincode.vectors.header import Header, find_header, is_missing
from lincode.vectors.interruptible import interruptible
from lincode.vectors.limits import SizeLimit, limited

BLOCK_BYTES = 4 * 2**20
"""Size of the blocks in which pyarrow reads a csv file. It needs about 40 times this memory."""
BYTES_PER_CELL = 64
"""Upper bound of the length of a csv cell, used to make blocks large enough for one row."""
COLUMN_BYTES = 5000
"""The memory that pyarrow needs for a column."""
MAX_LINE_BYTES = 2**24
"""A longer first line is refused, because it is probably not text."""
GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)
CONVERSION_ERROR = re.compile(
    r"CSV column #(\d+): Row #(\d+): CSV conversion error to double: invalid value '(.*)'",
    re.DOTALL,
)
ROW_LENGTH_ERROR = re.compile(r"CSV parse error: Row #(\d+): Expected (\d+) columns, got (\d+)")


class TextFile:
    """A csv or tsv file of numbers in UTF-8.

    ``find_header`` decides whether the first row contains the names of the columns. If this is not
    certain, ``note`` says what was decided.

    Parameters
    ----------
    path : str
        The file, or "-" for standard input. Its name ends in csv or tsv, and possibly in gz.
        Standard input has tabs between its cells if its first line has tabs and no commas.
    columns, exclude : sequence of str, default=None
        See ``select_columns``.
    max_bytes : int, default=None
        The largest size to which a compressed file may expand; see ``SizeLimit``.
    header : {"auto", "yes", "no"}, default="auto"
        Whether the first row contains the names of the columns; see ``find_header``.
    """

    def __init__(
        self,
        path: str,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        max_bytes: int | None = None,
        header: str = "auto",
    ) -> None:
        self.pyarrow = import_pyarrow()
        self.path, self.note, self.max_bytes = path, "", max_bytes
        self.name = "standard input" if path == STDIN else path
        self.delimiter = "," if path == STDIN or file_format(path) == "csv" else "\t"
        self._stdin_head = b""
        try:
            chosen = [*(columns or ()), *(exclude or ())]
            first, self.n_skipped, found = self._read_header(header, chosen)
        except UnicodeDecodeError as error:
            raise InvalidInputError(
                f"{self.name} must be a csv file, but it is not text in UTF-8: {error}."
            ) from error
        except csv.Error as error:
            raise InvalidInputError(f"{self.name} must be a csv file: {error}.") from error
        except GZIP_ERRORS as error:
            raise self._gzip_error(error) from error
        self.n_columns = len(first)
        self._limit().check(COLUMN_BYTES * self.n_columns)
        names = first if found.exists else None
        self.selected = select_columns(self.name, len(first), names, columns, exclude)
        self.names = None if names is None else [names[j] for j in self.selected]
        if self.names is not None:
            check_column_names(self.name, self.names, self.selected)
        self.layout = Layout(self.names, self.selected, found.exists)
        if found.question:
            self.note = f"{self.name}: {found.question}"

    def _read_header(self, header: str, chosen: Sequence[str]) -> tuple[list[str], int, Header]:
        """Return the first row, the number of lines before the vectors, and what the row is."""
        if self.path == STDIN:
            lines, begin = self._stdin_lines(), []
            for line in lines:
                begin.append(line)
                if line.strip():
                    self.delimiter = "\t" if "\t" in line and "," not in line else ","
                    break
            return self._parse_header(chain(begin, lines), header, chosen)
        with io.TextIOWrapper(self._open(), encoding="utf-8-sig", newline="") as text:
            return self._parse_header(self._lines(text), header, chosen)

    def _lines(self, text: Any) -> Iterator[Any]:
        """Yield the lines of a stream of text or bytes, if they are not too long."""
        while line := text.readline(MAX_LINE_BYTES):
            if len(line) == MAX_LINE_BYTES:
                raise InvalidInputError(
                    f"the first lines of {self.name} must be shorter than {MAX_LINE_BYTES} bytes;"
                    f" {self.name} must be csv."
                )
            yield line

    def _stdin_lines(self) -> Iterator[str]:
        """Yield lines of standard input, and keep them, because they are needed again."""
        for line in self._lines(sys.stdin.buffer):
            self._stdin_head += line
            yield line.decode("utf-8-sig")

    def _parse_header(
        self, lines: Iterable[str], header: str, chosen: Sequence[str]
    ) -> tuple[list[str], int, Header]:
        reader = csv.reader(lines, delimiter=self.delimiter)
        first, n_blank = None, 0
        for row in reader:
            if row:
                first = row
                break
            n_blank = reader.line_num
        if first is None:
            raise InvalidInputError(f"{self.name} is empty; it must contain at least one vector.")
        other = ";\t" if self.delimiter == "," else ";,"
        if len(first) == 1 and any(separator in first[0] for separator in other):
            expected = "commas" if self.delimiter == "," else "tabs"
            raise InvalidInputError(
                f"{self.name} must have {expected} between its cells, got {first[0][:40]!r}."
            )
        n_lines, following = reader.line_num, filter(None, reader)  # without blank lines
        found = find_header(first, lambda: next(following, None), header, chosen)
        return first, n_lines if found.exists else n_blank, found

    def _limit(self) -> SizeLimit:
        return SizeLimit([] if self.path == STDIN else [self.path], self.max_bytes)

    def _open(self) -> BinaryIO:
        if self.path == STDIN:
            if not self._stdin_head:
                raise InvalidInputError("standard input can be read only once.")
            stream = _Replay(self._stdin_head + _buffered(sys.stdin.buffer), _raw(sys.stdin.buffer))
            self._stdin_head = b""
            return io.BufferedReader(stream, 2**20)
        if is_gzip(self.path):
            return limited(gzip.open(self.path, "rb"), self._limit())
        return open(self.path, "rb")

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield the rows as arrays of float64. Standard input can be read only once."""
        return interruptible(self._blocks()) if self.path == STDIN else self._blocks()

    def check_size(self, blocks: Iterable[NDArray[Any]], itemsize: int) -> Iterator[NDArray[Any]]:
        """Yield blocks of a compressed file that are kept, if they do not exceed the limit.

        The text of a number may be shorter than its ``itemsize`` bytes in memory.
        """
        limit, n_bytes = self._limit() if is_gzip(self.path) else None, 0
        for block in blocks:
            n_bytes += block.size * itemsize
            if limit is not None:
                limit.check(n_bytes)
            yield block

    def _blocks(self) -> Iterator[NDArray[Any]]:
        pa = self.pyarrow
        columns = [f"column {j}" for j in range(self.n_columns)]
        chosen = [columns[j] for j in self.selected]
        try:
            with self._open() as stream:
                reader = pa.csv.open_csv(
                    pa.PythonFile(stream, mode="r"),
                    read_options=pa.csv.ReadOptions(
                        use_threads=False,  # With threads, errors do not contain the row.
                        block_size=max(BLOCK_BYTES, BYTES_PER_CELL * self.n_columns),
                        skip_rows=self.n_skipped,
                        column_names=columns,
                    ),
                    parse_options=pa.csv.ParseOptions(
                        delimiter=self.delimiter,
                        newlines_in_values=True,
                        # In a file of one column, a blank line is a row with an empty cell.
                        ignore_empty_lines=self.n_columns > 1,
                    ),
                    convert_options=pa.csv.ConvertOptions(
                        include_columns=chosen,
                        column_types=dict.fromkeys(chosen, pa.float64()),
                        null_values=[] if self.n_columns > 1 else [""],
                        quoted_strings_can_be_null=False,
                    ),
                )
                batches = reader if self.n_columns > 1 else self._without_blank_end(reader)
                for batch in batches:
                    if batch.num_rows:
                        yield np.column_stack([column.to_numpy() for column in batch.columns])
        except pa.ArrowInvalid as error:
            raise self._csv_error(str(error)) from error
        except GZIP_ERRORS as error:
            raise self._gzip_error(error) from error

    def _without_blank_end(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows of a file of one column, in which blank lines are allowed at the end only.

        Others would be left out, and the codes would no longer belong to the rows of the file.
        """
        n_rows, blank = 0, None
        for batch in batches:
            is_filled = batch.column(0).is_valid().to_numpy(zero_copy_only=False)
            n_filled = int(is_filled.sum())
            if n_filled and blank is None and not is_filled[:n_filled].all():
                blank = n_rows + int(np.argmin(is_filled))
            if n_filled and blank is not None:
                raise self._cell_error(blank, 0, "")
            if blank is None and n_filled < len(is_filled):
                blank = n_rows + n_filled
            n_rows += len(is_filled)
            yield batch.slice(0, n_filled)

    def _gzip_error(self, error: Exception) -> InvalidInputError:
        return InvalidInputError(f"{self.name} is not a gzip file or is truncated: {error}")

    def _csv_error(self, message: str) -> InvalidInputError:
        """Return the error for a message of pyarrow, which counts header lines and column 0."""
        if match := CONVERSION_ERROR.search(message):
            row, column = int(match[2]) - self.n_skipped - 1, self.selected.index(int(match[1]))
            return self._cell_error(row, column, match[3])
        if match := ROW_LENGTH_ERROR.search(message):
            row = int(match[1]) - self.n_skipped - 1
            return InvalidInputError(
                f"{self.name}: {self.layout.row(row)} must have {match[2]} cells as the first row,"
                f" got {match[3]}."
            )
        return InvalidInputError(
            f"{self.name}: the file must be a csv file of numbers ({printable(message, 300)})."
        )

    def _cell_error(self, row: int, column: int, cell: str) -> InvalidInputError:
        """Return the error for a cell that is not a number."""
        place = f"{self.name}: {self.layout.row(row)}, {self.layout.column(column)}"
        if not cell.strip():
            return InvalidInputError(f"{place} is empty; {MISSING_ADVICE}")
        if is_missing(cell):
            return InvalidInputError(f"{place} must be a number, got {cell!r}; {MISSING_ADVICE}")
        is_first = row == 0 and not self.layout.has_header
        hint = " (use --header yes if the first row contains names)" if is_first else ""
        return ColumnError(
            f"{place} must be a number, got {printable(repr(cell), 60)}{hint}; correct it",
            self.layout.selector(column),
        )


class _Replay(io.RawIOBase):
    """A stream that begins with bytes that were read from it before."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self.head, self.stream = head, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.head[: len(buffer)] or self.stream.read(len(buffer))
        self.head = self.head[len(data) :]
        buffer[: len(data)] = data
        return len(data)


def _buffered(stream: BinaryIO) -> bytes:
    """Return the bytes that a buffered stream has read already, but not returned."""
    if not isinstance(stream, io.BufferedReader):
        return b""
    return stream.read(len(stream.peek()))


def _raw(stream: BinaryIO) -> Any:
    """Return the stream without its buffer.

    The buffer of standard input has a lock. If a thread holds it, Python cannot exit.
    """
    return stream.raw if isinstance(stream, io.BufferedReader) else stream
