"""A file is written whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def check_target(path: str | os.PathLike[str]) -> Path:
    """Where a file named ``path`` would be written; an error says why none can be.

    Worth asking before hours of work, and not only after them.
    """
    target = Path(os.path.realpath(path))  # through a link to the file, which stays a link
    if target.is_dir():
        raise IsADirectoryError(f"{os.fspath(path)} is a folder; name a file to write.")
    if target.exists() and not target.is_file():
        raise OSError(f"{os.fspath(path)} is a device or a pipe; name a plain file to write.")
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"the folder {os.path.dirname(os.fspath(path))} does not exist; make it first."
        )
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(f"the folder of {os.fspath(path)} may not be written to.")
    return target


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write to, that takes the place of ``path`` once all of it is on the disk.

    Until then it has another name in the same folder. After an error or Ctrl-C it is gone, and
    what was at ``path`` is as it was.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from lincode.vectors import whole_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(Path(folder, "a")) as file:
    ...         n_bytes = file.write(b"text")
    ...     Path(folder, "a").read_text()
    'text'
    """
    target = check_target(path)
    part = target.with_name(f".lincode-{secrets.token_hex(6)}.part")
    try:
        # Not tempfile: its files can be read by their owner only, and so could the one here.
        with open(part, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, part)
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
