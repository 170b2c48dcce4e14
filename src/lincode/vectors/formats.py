"""The formats of files of vectors, what a file must be, and the package that some of them need."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from lincode.exceptions import InvalidInputError, MissingDependencyError

FORMATS = ("npy", "npz", "csv", "tsv", "parquet")
"""The formats of files of vectors; each is also the suffix of the file name."""
TEXT_FORMATS = ("csv", "tsv")
STDIN = "-"
"""The name of standard input."""


def file_format(path: str | os.PathLike[str]) -> str:
    """Return the format that the suffix of a file name stands for.

    Examples
    --------
    >>> from lincode.vectors import file_format
    >>> file_format("X.csv.gz")
    'csv'
    """
    name = Path(path)
    suffix = (Path(name.stem) if is_gzip(path) else name).suffix.lower().removeprefix(".")
    if suffix not in FORMATS or (is_gzip(path) and suffix not in TEXT_FORMATS):
        raise InvalidInputError(
            "the name of a file of vectors must end in .npy, .npz, .csv, .tsv, .csv.gz, .tsv.gz or"
            f" .parquet, got {os.fspath(path)}."
        )
    return suffix


def is_gzip(path: str | os.PathLike[str]) -> bool:
    """Return whether the name of a file ends in gz."""
    return Path(path).suffix.lower() == ".gz"


def check_file(name: str) -> None:
    """Check that a file is a regular one, which can be read twice, and that it is not empty."""
    status = Path(name).stat()
    if not stat.S_ISREG(status.st_mode):
        kind = "a pipe" if stat.S_ISFIFO(status.st_mode) else "a device or a socket"
        raise InvalidInputError(
            f"{name} must be a regular file, but it is {kind}; read csv from standard input, with -"
            f" as the name of the file and < {name} after the command."
        )
    if status.st_size == 0:
        raise InvalidInputError(f"{name} is empty; it must contain at least one vector.")


def import_pyarrow() -> Any:
    """Return ``pyarrow`` with its csv and parquet modules, or raise MissingDependencyError.

    Examples
    --------
    >>> from lincode.vectors import import_pyarrow
    >>> pyarrow = import_pyarrow()
    >>> pyarrow.array([1.0, 2.0]).type
    DataType(double)
    """
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
