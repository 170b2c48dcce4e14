"""Where the data are: the folder given, else ``LINCODE_DATA``, else the user's cache folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from lincode.datasets.arguments import check_choice
from lincode.datasets.errors import DataMissingError

NAMES = ("mnist", "bsds300")
"""The data sets that are looked for in a folder; also the names of their subfolders."""

VARIABLE = "LINCODE_DATA"


def find(name: str, data_dir: str | os.PathLike[str] | None = None) -> Path:
    """The folder of a data set.

    Parameters
    ----------
    name : {"mnist", "bsds300"}
    data_dir : path, default=None
        The folder that holds the folder ``name``. If given, no other place is looked at; if not,
        the environment variable ``LINCODE_DATA`` and then the user's cache folder are.

    Returns
    -------
    pathlib.Path
        Of a folder that exists. ``verify`` tells whether what is in it is right.

    Raises
    ------
    DataMissingError
        With a sentence that says where it was looked for and what to do.

    Examples
    --------
    >>> from lincode.datasets import DataMissingError, find
    >>> try:
    ...     find("mnist", data_dir="no-such-folder")
    ... except DataMissingError as error:
    ...     print("mnist" in str(error))
    True
    """
    check_choice("name", name, NAMES)
    looked = [Path(data_dir)] if data_dir is not None else places()
    for place in looked:
        if (place / name).is_dir():
            return place / name
    raise DataMissingError(
        f"No folder {name} in {' nor in '.join(map(str, looked))}: {how_to_get(name)}."
    )


def how_to_get(name: str) -> str:
    """What to do where data are missing, as the second half of a sentence."""
    return (
        f"run `lincode data fetch {name}`, or give a folder that holds {name}/ by --data-dir"
        f" (data_dir in Python) or the environment variable {VARIABLE}"
    )


def places() -> list[Path]:
    """Folders to look in where none is given, the first to be filled by ``fetch``."""
    given = os.environ.get(VARIABLE)
    return [Path(given), cache_folder()] if given else [cache_folder()]


def cache_folder() -> Path:
    """The folder of this user and this system for what can be downloaded again."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "lincode"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "lincode" / "Cache"
    given = os.environ.get("XDG_CACHE_HOME")
    return (Path(given) if given else Path.home() / ".cache") / "lincode"
