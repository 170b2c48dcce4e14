"""Which columns of a file are read."""

from __future__ import annotations

from collections.abc import Sequence

from lincode.exceptions import InvalidInputError


def check_column_names(path: str, names: Sequence[str]) -> None:
    """Check that every column has a name and that no two columns have the same name."""
    seen = set()
    for number, name in enumerate(names, start=1):
        if not name.strip():
            raise InvalidInputError(
                f"{path}: column {number} has no name. If it contains row numbers, leave it out"
                f" (--exclude {number} on the command line), or write the file without it (in"
                " pandas: index=False)."
            )
        if name in seen:
            raise InvalidInputError(
                f"{path} has two columns named {name!r}; give every column its own name."
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

    def index(column: str) -> int:
        if names is not None and column in names:
            return list(names).index(column)
        if column.isdecimal() and 1 <= int(column) <= n_columns:
            return int(column) - 1
        known = "its columns have no names" if names is None else f"names: {_some(names)}"
        raise InvalidInputError(
            f"{path} has no column {column!r}; use a name or a position between 1 and {n_columns}"
            f" ({known})."
        )

    chosen = list(range(n_columns)) if columns is None else [index(c) for c in columns]
    if len(set(chosen)) < len(chosen):
        raise InvalidInputError(f"{path}: every column may be chosen only once, got {columns}.")
    left_out = {index(c) for c in exclude or ()}
    chosen = [j for j in chosen if j not in left_out]
    if not chosen:
        raise InvalidInputError(f"{path}: at least one column must be read, but all are left out.")
    return chosen


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
