"""Where the data are searched, and checks of the arguments that all loaders have."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pooch

from paper.errors import DataMissingError

NAMES = ("mnist", "bsds300")
"""The names of the data sets, which are also the names of their folders."""
SPLITS = ("train", "test")
VARIABLE = "LINCODE_DATA"


def find(name: str, data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of a data set.

    Parameters
    ----------
    name : {"mnist", "bsds300"}
    data_dir : path, default=None
        The folder that contains the folder ``name``. If it is given, no other folder is searched.
        If not, the folder that the environment variable ``LINCODE_DATA`` names and then the
        user's cache folder are searched.

    Returns
    -------
    pathlib.Path
        A folder that exists. Use ``verify`` to check its content.

    Raises
    ------
    DataMissingError
        If no folder was found. The message names the folders that were searched.

    Examples
    --------
    >>> from paper.datasets import find
    >>> from paper.errors import DataMissingError
    >>> try:
    ...     find("mnist", data_dir="no-such-folder")
    ... except DataMissingError as error:
    ...     print("mnist" in str(error))
    True
    """
    check_choice("name", name, NAMES)
    searched = [Path(data_dir)] if data_dir is not None else search_folders()
    for folder in searched:
        if (folder / name).is_dir():
            return folder / name
    raise DataMissingError(
        f"There is no folder {name} in {' or '.join(map(str, searched))}: {how_to_get(name)}."
    )


def how_to_get(name: str) -> str:
    """Return the second half of an error message: how to get a data set."""
    return (
        f"run `python -m paper data fetch {name}`, or name a folder that contains {name}/ with"
        f" --data-dir (data_dir in Python) or the environment variable {VARIABLE}"
    )


def search_folders() -> list[Path]:
    """Return the folders to search by default. ``fetch`` downloads into the first one."""
    cache = Path(pooch.os_cache("lincode"))
    given = os.environ.get(VARIABLE)
    return [Path(given), cache] if given else [cache]


def check_integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return ``value`` as an int, or raise ValueError if it is not from ``low`` to ``high``."""
    expected = (
        f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"
    )
    try:
        # operator.index accepts booleans, but here they are mistakes.
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < low or (high is not None and number > high):
        raise ValueError(f"{name} must be {expected}, got {value!r}.")
    return number


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise ValueError if ``value`` is not one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}.")
