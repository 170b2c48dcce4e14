"""Tables of numbers as text: fast where they are in order, precise about what is not."""

from __future__ import annotations

import csv
import math
import warnings
from typing import Any

import numpy as np


def read_csv(name: str) -> tuple[Any, list[str] | None]:
    """The numbers of a csv file as float64, and its header if its first row has no numbers."""
    try:
        return _read(name)
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is no csv file: it is not text in UTF-8 ({error}).") from error
    except csv.Error as error:
        raise ValueError(f"{name} is no csv file: {error}.") from error


def _read(name: str) -> tuple[Any, list[str] | None]:
    with _opened(name) as file:
        first = next((row for row in csv.reader(file) if row), None)
    if first is None:
        raise ValueError(f"{name} is empty.")
    if len(first) == 1 and any(mark in first[0] for mark in ";\t"):
        raise ValueError(f"{name} must have commas between its cells, got {first[0][:40]!r}.")
    counted = _are_counted(first)
    header = counted or not any(_is_number(cell) for cell in first)
    if header:
        _check_names(name, first)
    if counted:
        warnings.warn(
            f"{name}: its first line, {','.join(first[:3])}…, was taken for the numbers of its"
            " columns and not for a vector. If it is one, put a line of names above it.",
            stacklevel=5,
        )
    with _opened(name) as file:
        if header:
            next(row for row in csv.reader(file) if row)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that there is nothing: said below
                X = np.loadtxt(file, delimiter=",", comments=None, quotechar='"', ndmin=2)
        except UnicodeDecodeError:
            raise
        except ValueError as error:
            raise ValueError(f"{name}: {_first_fault(name, header) or error}") from error
    if not X.size:
        raise ValueError(f"{name} has a header and no rows of numbers.")
    if X.shape[1] != len(first) or not np.isfinite(X).all():
        raise ValueError(f"{name}: {_first_fault(name, header)}")
    return X, first if header else None


def _are_counted(row: list[str]) -> bool:
    """Whether a row has the numbers of columns, as pandas counts them."""
    counted = [str(k) for k in range(len(row) + 1)]
    return len(row) > 1 and row in (counted[:-1], counted[1:])


def _check_names(name: str, names: list[str]) -> None:
    for column, cell in enumerate(names, start=1):
        if not cell.strip():
            raise ValueError(
                f"{name}: column {column} has no name; if it counts the rows, write the file"
                " without it (in pandas, index=False)."
            )
    twice = next((cell for k, cell in enumerate(names) if cell in names[:k]), None)
    if twice is not None:
        raise ValueError(f"{name} has two columns named {twice!r}; give each a name of its own.")


def _opened(name: str) -> Any:
    return open(name, encoding="utf-8-sig", newline="")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _first_fault(name: str, header: bool) -> str | None:
    """What is wrong with the first cell or row that is wrong, counting from 1."""
    width = None
    with _opened(name) as file:
        reader = csv.reader(file)
        for row in reader:
            if not row:
                continue
            if width is None:
                width = len(row)
                if header:
                    continue
            for column, cell in enumerate(row, start=1):
                where = f"line {reader.line_num}, column {column}"
                if not cell.strip():
                    return f"{where} is empty; fill it or leave the line out."
                if not _is_number(cell):
                    hint = " A header may hold names only." if reader.line_num == 1 else ""
                    return f"{where} must be a number, got {cell!r}.{hint}"
                if not math.isfinite(float(cell)):
                    return f"{where} must be a finite number, got {cell!r}."
            if len(row) != width:
                return f"line {reader.line_num} has {len(row)} cells, and the first line {width}."
    return None
