"""Messages about columns, with the options that choose them."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Sequence

from lincode.exceptions import InvalidInputError
from lincode.messages import printable
from lincode.vectors import Vectors
from lincode.vectors.columns import ColumnError

MAX_OPTION = 500
"""Longer options are not printed."""


def column_option(option: str, columns: Sequence[str]) -> str:
    """Return an option for a shell. Names with commas are quoted as in csv.

    Examples
    --------
    >>> from lincode.cli.columns import column_option
    >>> print(column_option("--exclude", ["label", "size, cm"]))
    --exclude 'label,"size, cm"'
    """
    row = io.StringIO()
    csv.writer(row, lineterminator="").writerow(columns)
    text = shlex.quote(row.getvalue())
    return f"{option}={text}" if text.startswith(("-", "'-")) else f"{option} {text}"


def exclude_message(error: ColumnError, excluded: Sequence[str] | None) -> str:
    """Return the message of an error with the option that excludes its column as well."""
    option = column_option("--exclude", [*(excluded or ()), error.column])
    return f"{error.problem} or exclude the column with {option}."


def check_columns(
    vectors: Vectors,
    n_columns: int,
    names: Sequence[str] | None = None,
    excluded: Sequence[str] | None = None,
) -> None:
    """Check that a file has the columns of the model.

    Parameters
    ----------
    vectors : Vectors
        The file.
    n_columns : int
        The number of columns of the model.
    names : sequence of str, default=None
        Their names, which are compared if the file has names as well.
    excluded : sequence of str, default=None
        The columns of the file that are already excluded.
    """
    if names is not None and vectors.names is not None:
        if list(names) != vectors.names:
            problem = _difference(vectors, vectors.names, list(names), excluded)
            raise InvalidInputError(
                f"{vectors.path} must have the {n_columns} columns of the training data{problem}."
            )
    elif vectors.n_columns != n_columns:
        hint = "; choose them with --columns or --exclude" if vectors.n_columns > n_columns else ""
        raise InvalidInputError(
            f"{vectors.path} must have {n_columns} columns for this model, got"
            f" {vectors.n_columns}{hint}."
        )


def _difference(
    vectors: Vectors, found: list[str], names: list[str], excluded: Sequence[str] | None
) -> str:
    """Return how the names that were found differ from those of the model, and what to do."""
    places = {name: j for j, name in enumerate(found)}
    expected = set(names)
    extra = [name for name in found if name not in expected]
    also = f", but it also has {_listed(extra)}" if extra else ""
    if missing := [name for name in names if name not in places]:
        but = f"{also} and does not have" if extra else ", but it does not have"
        hint = ", or exclude fewer columns" if excluded else ""
        return f"{but} {_listed(missing)}; add or rename columns{hint}"
    if [name for name in found if name in expected] == names:
        others = [vectors.layout.selector(places[name]) for name in extra]
        option = column_option("--exclude", [*(excluded or ()), *others])
        return f"{also}; use {option if len(option) <= MAX_OPTION else '--exclude'}"
    j = next(j for j, name in enumerate(names) if name != found[j])
    option = column_option("--columns", [vectors.layout.selector(places[name]) for name in names])
    return (
        f" in the same order, but column {j + 1} is {_listed([found[j]])} instead of"
        f" {_listed([names[j]])}; use {option if len(option) <= MAX_OPTION else '--columns'}"
    )


def _listed(names: Sequence[str]) -> str:
    some = ", ".join(printable(repr(name), 60) for name in names[:5])
    return some if len(names) <= 5 else f"{some} and {len(names) - 5} more"
