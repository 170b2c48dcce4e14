"""Files that are written completely or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be deleted
    fcntl = None  # type: ignore[assignment]

PREFIX, SUFFIX = ".lincode-", ".part"
"""How the names of temporary files begin and end."""
FOREIGN_SECONDS = 24 * 3600
"""A temporary file of another computer is old if it was not changed for this time, because locks
of network file systems do not always reach other computers."""


def check_output_path(path: str | os.PathLike[str]) -> Path:
    """Check that a file can be written at ``path``, for example before a long computation.

    Returns
    -------
    Path
        The path that will be written. If ``path`` is a symbolic link, this is its target.

    Examples
    --------
    >>> from lincode.vectors import check_output_path
    >>> try:
    ...     path = check_output_path("missing-folder/codes.npy")
    ... except FileNotFoundError as error:
    ...     print(error.strerror)
    the folder of the output does not exist; create it first
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
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces ``path`` only when it is complete.

    The data go to a temporary file in the same folder. After an error or Ctrl-C the temporary
    file is deleted, and a file that existed at ``path`` is unchanged. If the process is killed, the
    temporary file remains, and the next call for a file in this folder deletes it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from lincode.vectors import atomic_write
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder, "a")) as file:
    ...         n_bytes = file.write(b"text")
    ...     Path(folder, "a").read_text()
    'text'
    """
    target = check_output_path(path)
    # The tempfile module is not used because only the owner can read its files.
    remove_old_temporary_files(target.parent)
    temporary = target.parent / f"{PREFIX}{_computer()}-{secrets.token_hex(6)}{SUFFIX}"
    mode = target.stat().st_mode if target.exists() else 0o666
    try:
        with _create_locked(temporary, mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if target.exists():
                shutil.copymode(target, temporary)
            if fcntl is not None:  # while it is locked; Windows cannot rename an open file
                os.replace(temporary, target)
        if fcntl is None:
            os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def remove_old_temporary_files(folder: Path) -> None:
    """Delete the temporary files in a folder that killed processes left behind.

    A process locks its temporary file as long as it writes it, and the operating system releases
    the lock when the process ends for any reason. So a file without a lock is not in use.
    """
    if fcntl is None:
        for path in folder.glob(f"{PREFIX}*{SUFFIX}"):
            with suppress(OSError):  # it is open
                path.unlink()
        return
    for path in folder.glob(f"{PREFIX}*{SUFFIX}"):
        # A file that belongs to another user, or that another process has just deleted, is skipped.
        with suppress(OSError), open(path, "rb", opener=_open_now) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                continue
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            age = time.time() - status.st_mtime
            if path.name.startswith(f"{PREFIX}{_computer()}-") or age > FOREIGN_SECONDS:
                path.unlink()


def _open_now(path: str, flags: int) -> int:
    """Open a file without waiting, as for the writer of a pipe. Symbolic links are refused."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


def _create_locked(path: Path, mode: int) -> BinaryIO:
    """Create a temporary file, and lock it if the file system has locks.

    Nobody may do more with it than ``mode`` permits.
    """
    while True:
        file = open(  # noqa: SIM115 (the caller closes it)
            path, "xb", opener=lambda name, flags: os.open(name, flags, mode & 0o666)
        )
        if fcntl is None:
            return file
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            return file  # There are no locks, so no process deletes files without a lock.
        # Another process may have deleted the file before it was locked.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                return file
        file.close()


def _computer() -> str:
    """Return a short name of this computer that is a valid part of a file name."""
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]
