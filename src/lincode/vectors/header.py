"""Whether the first row of a text file contains the names of the columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lincode.exceptions import InvalidInputError
from lincode.messages import printable

HEADERS = ("auto", "yes", "no")
"""What ``header`` may be."""
MISSING = ("na", "n/a", "#n/a", "<na>", "null", "none", "?")
"""Cells that mean a missing value, in any case."""
MIN_NUMBERS = 3
"""Fewer numbers are often sorted and outside of the range of the next row by chance."""
NAME_FACTOR = 10
"""Sorted numbers are probably names if they are larger than the next row by this factor."""

Row = Sequence[str]


@dataclass(frozen=True)
class Header:
    """A decision about the first row.

    Attributes
    ----------
    exists : bool
        Whether the first row contains the names of the columns.
    question : str
        What may be wrong with the decision, without the name of the file. Usually it is empty.
    """

    exists: bool
    question: str = ""


def check_header(header: object) -> None:
    """Check that ``header`` is one of its values."""
    if not isinstance(header, str) or header not in HEADERS:
        words = ", ".join(repr(word) for word in HEADERS)
        raise InvalidInputError(f"header must be one of {words}, got {header!r}.")


def find_header(
    first: Row,
    read_second: Callable[[], Row | None],
    header: str = "auto",
    chosen: Sequence[str] = (),
) -> Header:
    """Return whether the first row contains the names of the columns.

    "auto" means yes if

    - no cell of the row is a number, or it counts the columns (0, 1, 2, … or 1, 2, 3, …);
    - a column was chosen by a name that is text in this row;
    - a cell is text and the one below it a number, or the first cell is empty and the one below it
      is not, as in a table that pandas has written with its index;
    - some cells are text, and the numbers increase or decrease and are more than ten times as large
      as those of the second row, as the wavelengths of spectra next to a column of names.

    In all other cases the row is a vector.

    Parameters
    ----------
    first : sequence of str
        The cells of the first row.
    read_second : callable
        A function that returns the cells of the second row, or None. It is called only if they
        matter, because standard input may have to be waited for.
    header : {"auto", "yes", "no"}, default="auto"
        What the user says.
    chosen : sequence of str, default=()
        The columns that the user has chosen or excluded.

    Examples
    --------
    >>> from lincode.vectors.header import find_header
    >>> find_header(["id", "400", "402"], lambda: ["s1", "0.1", "0.2"]).exists
    True
    >>> find_header(["1", "2", "cat"], lambda: ["3", "4", "dog"]).exists
    False
    """
    if header != "auto":
        return Header(header == "yes")
    numbers = [float(cell) for cell in first if is_number(cell)]
    texts = {cell for cell in first if not is_number(cell)}
    if not numbers or not texts.isdisjoint(chosen):
        return Header(True)
    if _counts_columns(first):
        return Header(True, _names_question(first))
    if not texts and (len(numbers) < 2 or not _is_sorted(numbers)):
        return Header(False)
    second = read_second()
    if second is None or len(second) != len(first):
        return Header(False)
    above, below = _pairs_of_numbers(first, second)
    probable = _are_names(above, below)
    if texts and (probable or _is_above_number(first, second)):
        return Header(True, _names_question(first))
    possible = probable or _may_be_names(above, below)
    return Header(False, _vector_question(first) if possible else "")


def is_number(cell: str) -> bool:
    """Return whether Python reads a cell as a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def is_missing(cell: str) -> bool:
    """Return whether a cell is empty or says that a value is missing."""
    return not cell.strip() or cell.strip().casefold() in MISSING


def _counts_columns(row: Row) -> bool:
    """Return whether a row is 0, 1, 2, … or 1, 2, 3, …, as in a table without column names."""
    if len(row) < 2 or row[0] not in ("0", "1"):
        return False
    return list(row) == [str(number) for number in range(int(row[0]), int(row[0]) + len(row))]


def _is_above_number(first: Row, second: Row) -> bool:
    """Return whether text is above a number, or the first cell is empty and the next is not."""
    if not first[0].strip() and second[0].strip():
        return True
    return any(
        is_number(below) and not is_number(cell) and not is_missing(cell)
        for cell, below in zip(first, second, strict=True)
    )


def _pairs_of_numbers(first: Row, second: Row) -> tuple[list[float], list[float]]:
    """Return the numbers of both rows in the columns in which both have numbers."""
    pairs = [
        (float(a), float(b))
        for a, b in zip(first, second, strict=True)
        if is_number(a) and is_number(b)
    ]
    return [a for a, _ in pairs], [b for _, b in pairs]


def _are_names(above: list[float], below: list[float]) -> bool:
    return (
        len(above) > 1
        and _is_sorted(above)
        and min(above) > NAME_FACTOR * max(abs(number) for number in below)
    )


def _may_be_names(above: list[float], below: list[float]) -> bool:
    """Return whether the numbers are sorted and outside of the range of the numbers below."""
    if len(above) < MIN_NUMBERS or not _is_sorted(above):
        return False
    return min(above) > max(below) or max(above) < min(below)


def _is_sorted(numbers: list[float]) -> bool:
    """Return whether numbers increase from each one to the next, or decrease."""
    pairs = list(pairwise(numbers))
    return all(a < b for a, b in pairs) or all(a > b for a, b in pairs)


def _names_question(row: Row) -> str:
    return (
        f"the first row, {_beginning(row)}, was read as the names of the columns and not as a"
        ' vector. If it is a vector, use --header no (in Python, header="no"); otherwise'
        ' --header yes (header="yes") leaves this message out.'
    )


def _vector_question(row: Row) -> str:
    return (
        f"the first row, {_beginning(row)}, was read as a vector, but its numbers are sorted and"
        " outside of the range of the second row, as names of columns such as wavelengths are. If"
        ' they are names, use --header yes (in Python, header="yes"); otherwise --header no'
        ' (header="no") leaves this message out.'
    )


def _beginning(row: Row) -> str:
    return printable(",".join(row[:3]), 60) + (",…" if len(row) > 3 else "")
