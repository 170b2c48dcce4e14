"""Which columns of a file are read, and how messages name its cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from lincode.exceptions import InvalidInputError
from lincode.messages import printable

MISSING_ADVICE = "fill in a number or remove the row (in Python, SCNN accepts NaN)."
"""What to do about a missing value in a file."""
MAX_COMPARED = 1000
"""At most this number of names are compared with a name that was not found."""
MAX_NAME = 60
"""Longer names are not compared, and messages contain only their beginning."""


class ColumnError(InvalidInputError):
    """A column cannot be read, but the other columns may be.

    The message ends with the advice to exclude the column, so that the command line can add the
    option.

    Parameters
    ----------
    problem : str
        What the column must be, what it was, and what to do, without a full stop.
    column : str
        The column, as ``exclude`` takes it.

    Examples
    --------
    >>> from lincode.vectors.columns import ColumnError
    >>> print(ColumnError("column 3 must contain numbers; replace the text", "3"))
    column 3 must contain numbers; replace the text or exclude the column.
    """

    def __init__(self, problem: str, column: str) -> None:
        super().__init__(problem, column)
        self.problem, self.column = problem, column

    def __str__(self) -> str:
        return f"{self.problem} or exclude the column."


@dataclass(frozen=True)
class Layout:
    """The columns of a file that are read, from which messages name rows and columns.

    Attributes
    ----------
    names : sequence of str or None
        The names of the columns that are read, if they have any.
    selected : sequence of int or None
        Their indices in the file. None means all columns.
    has_header : bool
        Whether a row of names precedes the numbers.

    Examples
    --------
    >>> from lincode.vectors.columns import Layout
    >>> layout = Layout(["a", "b"], [0, 2], has_header=True)
    >>> layout.row(0), layout.column(1)
    ('row 1 (without the header)', "column 3 ('b')")
    """

    names: Sequence[str] | None = None
    selected: Sequence[int] | None = None
    has_header: bool = False

    def row(self, index: int) -> str:
        """Return the number of a row, which starts at 1."""
        return f"row {index + 1}{' (without the header)' if self.has_header else ''}"

    def column(self, index: int) -> str:
        """Return the position in the file, and the name, of a column that is read."""
        name = "" if self.names is None else f" ({printable(repr(self.names[index]), MAX_NAME)})"
        return f"column {self._position(index)}{name}"

    def selector(self, index: int) -> str:
        """Return a column that is read as ``columns`` and ``exclude`` take it.

        It is the name, or the position if the name is not easy to type.
        """
        name = "" if self.names is None else self.names[index]
        plain = name == name.strip() and name.isprintable()
        return name if name and plain else str(self._position(index))

    def _position(self, index: int) -> int:
        return 1 + (index if self.selected is None else self.selected[index])


def check_column_names(
    path: str, names: Sequence[str], selected: Sequence[int] | None = None
) -> None:
    """Check that every column has a name and that no two columns have the same name.

    ``selected`` contains the indices of the columns in the file. None means all columns.
    """
    seen = set()
    for j, name in zip(range(len(names)) if selected is None else selected, names, strict=True):
        if not name.strip():
            raise ColumnError(
                f"{path}: column {j + 1} has no name; write the file without row numbers (in"
                " pandas: index=False)",
                str(j + 1),
            )
        if name in seen:
            raise InvalidInputError(
                f"{path} has two columns named {printable(repr(name), MAX_NAME)}; give every column"
                " its own name."
            )
        seen.add(name)


def select_columns(
    path: str,
    n_columns: int,
    names: Sequence[str] | None,
    columns: Sequence[str] | None,
    exclude: Sequence[str] | None,
) -> list[int]:
    """Return the indices of the columns that are read.

    Parameters
    ----------
    path : str
        The file, for error messages.
    n_columns : int
        The number of columns of the file.
    names : sequence of str or None
        Their names, if they have any.
    columns : sequence of str or None
        The columns to read, in this order: names, or positions that start at 1. None means all.
    exclude : sequence of str or None
        The columns to leave out.

    Examples
    --------
    >>> from lincode.vectors.columns import select_columns
    >>> select_columns("X.csv", 3, ["label", "a", "b"], None, ["label"])
    [1, 2]
    """
    places: dict[str, int] = {}
    for place, name in enumerate(names or ()):
        places.setdefault(name, place)

    def index(column: str) -> int:
        if column in places:
            return places[column]
        if column.isdecimal() and len(column) < 20 and 1 <= int(column) <= n_columns:
            return int(column) - 1
        if (place := _closest(column, names or ())) is not None:
            advice = f"did you mean {Layout(names).column(place)}?"
        else:
            known = "its columns have no names" if names is None else f"names: {_some(names)}"
            advice = f"use a name or a position between 1 and {n_columns} ({known})."
        raise InvalidInputError(
            f"{path} has no column {printable(repr(column), MAX_NAME)}; {advice}"
        )

    chosen = list(range(n_columns)) if columns is None else [index(c) for c in columns]
    if len(set(chosen)) < len(chosen):
        raise InvalidInputError(f"{path}: every column may be chosen only once, got {columns}.")
    left_out = {index(c) for c in exclude or ()}
    chosen = [j for j in chosen if j not in left_out]
    if not chosen:
        raise InvalidInputError(f"{path}: at least one column must be read, but all are left out.")
    return chosen


def _closest(column: str, names: Sequence[str]) -> int | None:
    """Return the index of the most similar name, or None. Case and spaces do not matter."""
    wanted = column.strip().casefold()
    found: dict[str, int] = {}
    for place, name in enumerate(names):
        if len(name) <= MAX_NAME:
            found.setdefault(name.strip().casefold(), place)
    if wanted in found:
        return found[wanted]
    if len(wanted) > MAX_NAME:
        return None
    similar = get_close_matches(wanted, list(found)[:MAX_COMPARED], n=1)
    return found[similar[0]] if similar else None


def _some(names: Sequence[str]) -> str:
    return printable(", ".join(names[:5]), 300) + (", …" if len(names) > 5 else "")
