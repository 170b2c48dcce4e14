"""Files that are written completely or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal


def check_output_path(path: str | os.PathLike[str]) -> Path:
    """Check that a file can be written at ``path``, for example before a long computation.

    Returns
    -------
    Path
        The path that will be written. If ``path`` is a symbolic link, this is its target.
    """
    name, target = os.fspath(path), Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "the output must be a file, not a folder", name)
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "the output must be a file, not a device or a pipe", name)
    if not target.parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "the folder of the output does not exist; create it first", name
        )
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "no permission to write to the output's folder", name)
    return target


@contextmanager
def atomic_write(
    path: str | os.PathLike[str], *, temporary: Path | None = None
) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces ``path`` only when it is complete.

    The data go to a temporary file in the same folder. After an error or Ctrl-C the temporary
    file is deleted, and a file that existed at ``path`` is unchanged. If the process is killed, the
    temporary file remains. Its name is random, unless ``temporary`` is given; then a file of this
    name is overwritten.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from lincode.files import atomic_write
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder, "a")) as file:
    ...         n_bytes = file.write(b"text")
    ...     Path(folder, "a").read_text()
    'text'
    """
    target = check_output_path(path)
    mode: Literal["xb", "wb"] = "xb" if temporary is None else "wb"
    temporary = temporary or target.with_name(f".lincode-{secrets.token_hex(6)}.part")
    try:
        # The tempfile module is not used because only the owner can read its files.
        with open(temporary, mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
