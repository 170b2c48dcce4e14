"""How much a compressed file may expand.

A compressed file of a megabyte may contain gigabytes of zeros. The sizes that a file states are
therefore compared with a limit before anything of this size is read.
"""

from __future__ import annotations

import io
import os
from typing import Any, BinaryIO

from lincode.exceptions import InvalidInputError

ALWAYS_ALLOWED = 10**9
"""A file may expand to this number of bytes in any case."""
EXPANSION = 100
"""A file may expand to this multiple of its own size."""


class SizeLimit:
    """The largest size to which some files may expand.

    Parameters
    ----------
    paths : list of str
        The files. No file means standard input.
    max_bytes : int or None
        The limit. None means a gigabyte or 100 times the size of the files, whichever is larger.
    """

    def __init__(self, paths: list[str], max_bytes: int | None) -> None:
        self.name = paths[0] if paths else "standard input"
        self.file_bytes = sum(os.path.getsize(path) for path in paths)
        default = max(ALWAYS_ALLOWED, EXPANSION * self.file_bytes)
        self.max_bytes = default if max_bytes is None else max_bytes

    def check(self, n_bytes: int) -> None:
        """Raise an error if the files expand to more than the limit."""
        if n_bytes > self.max_bytes:
            long = f" ({_size(self.file_bytes)})" if self.file_bytes else ""
            raise InvalidInputError(
                f"{self.name}{long} must not expand to more than {_size(self.max_bytes)}, but it"
                f" needs {_size(n_bytes)}. If you trust the file, raise the limit (--max-size on"
                " the command line, max_bytes in Python)."
            )


class LimitedReader(io.RawIOBase):
    """A stream that raises an error when more bytes were read than a limit allows."""

    def __init__(self, stream: Any, limit: SizeLimit) -> None:
        self.stream, self.limit, self.n_read = stream, limit, 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read bytes into a buffer and return their number."""
        n = int(self.stream.readinto(buffer))
        self.n_read += n
        self.limit.check(self.n_read)
        return n

    def close(self) -> None:
        """Close the stream."""
        self.stream.close()
        super().close()


def limited(stream: Any, limit: SizeLimit) -> BinaryIO:
    """Return a stream that raises an error when more bytes are read than a limit allows."""
    return io.BufferedReader(LimitedReader(stream, limit), 2**18)


def parse_size(text: str) -> int:
    """Return the number of bytes that a text such as "500MB" or "2GB" stands for.

    Examples
    --------
    >>> from lincode.vectors.limits import parse_size
    >>> parse_size("2GB"), parse_size("100")
    (2000000000, 100)
    """
    units = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "b": 1}
    word = text.strip().lower()
    unit = next((unit for unit in units if word.endswith(unit)), "")
    number = word.removesuffix(unit).strip()
    if not number.isdecimal() or len(number) > 15 or not int(number):
        raise InvalidInputError(f"a size must be a number of bytes or such as 2GB, got {text!r}.")
    return int(number) * units.get(unit, 1)


def _size(n_bytes: int) -> str:
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if n_bytes >= unit:
            return f"{n_bytes / unit:.1f} {name}"
    return f"{n_bytes} bytes"
