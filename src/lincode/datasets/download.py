"""Downloads: checked under a temporary name, then renamed, so that none is ever half there."""

from __future__ import annotations

import gzip
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from lincode.datasets import bsds, mnist
from lincode.datasets.arguments import check_choice, need
from lincode.datasets.checks import check_bsds, check_mnist
from lincode.datasets.errors import DataCorruptError
from lincode.datasets.folders import NAMES, places
from lincode.datasets.idx import unpack

# Tried in this order, for each file.
MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
BSDS_MIRRORS = (
    "https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/bsds/",
    "https://www.eecs.berkeley.edu/Research/Projects/CS/vision/bsds/",
)
BSDS_ARCHIVE = "BSDS300-images.tgz"
# Folders and names that start with a letter or digit: nothing absolute, no "..".
BSDS_MEMBER = re.compile(r"(?:\./)?(?:\w[\w.-]*/)*(train|test)/(\w[\w-]*\.jpg)")

Say = Callable[[str], object]
Result = TypeVar("Result")


def fetch(name: str, data_dir: str | os.PathLike[str] | None = None, *, say: Say = print) -> Path:
    """Download a data set, unless it is there already, and check it by sha256.

    A file gets its name only after it was checked; a download that fails or is interrupted
    leaves nothing behind. Files that are there and right are kept, others are replaced.

    Parameters
    ----------
    name : {"mnist", "bsds300"}
        55 MB and 22 MB on disk. BSDS300 is for non-commercial research and education only.
    data_dir : path, default=None
        Where to make the folder ``name``. If not given: in the environment variable
        ``LINCODE_DATA`` if that is set, else in the user's cache folder.
    say : callable, default=print
        Is told, in a line each, what is done.

    Returns
    -------
    pathlib.Path
        The folder ``name``, complete.

    Raises
    ------
    OSError
        If no mirror gave what was asked for; with a sentence that has the reason for each.

    Examples
    --------
    >>> from lincode.datasets import fetch
    >>> fetch("mnist", "data").name  # doctest: +SKIP
    'mnist'
    """
    check_choice("name", name, NAMES)
    root = Path(data_dir) if data_dir is not None else places()[0]
    if name == "mnist":
        for file in mnist.SHA256:
            fetch_mnist_file(root, file, say)
    else:
        fetch_bsds(root, say)
    return root / name


def fetch_mnist_file(root: Path, name: str, say: Say) -> None:
    """One of the four, kept unpacked: loads are faster, and a damaged .gz beside is not read."""
    found = check_mnist(root / "mnist", name)
    if found.ok:
        say(f"{found.path}: there already, sha256 right")
        return
    target = root / "mnist" / name
    urls = [f"{mirror}{name}.gz" for mirror in MNIST_MIRRORS]
    with temporary_folder(root) as temporary:
        content = first_good(urls, temporary, partial(unpack_mnist, name), say)
        (temporary / name).write_bytes(content)
        target.parent.mkdir(exist_ok=True)
        os.replace(temporary / name, target)
    say(f"{target}: downloaded, sha256 right")


def unpack_mnist(name: str, path: Path) -> bytes:
    """The content of a downloaded file, if it is that of MNIST."""
    content = unpack(path)
    mnist.check_sha256(content, name, path)
    return content


def fetch_bsds(root: Path, say: Say) -> None:
    """The two folders, from one archive."""
    folder = root / "bsds300"
    if all(check_bsds(folder, split).ok for split in bsds.COUNTS):
        say(f"{folder}: there already, sha256 right")
        return
    say("BSDS300 is for non-commercial research and education only.")
    urls = [f"{mirror}{BSDS_ARCHIVE}" for mirror in BSDS_MIRRORS]
    with temporary_folder(root) as temporary:
        unpacked = first_good(urls, temporary, unpack_bsds, say)
        for split in bsds.COUNTS:
            refuse_strangers(unpacked / split, folder / split)
        folder.mkdir(exist_ok=True)
        for split in bsds.COUNTS:
            place(unpacked / split, folder / split)
    say(f"{folder}: downloaded, sha256 right")


def unpack_bsds(archive: Path) -> Path:
    """The images of the archive, if they are those of BSDS300, in a folder beside it."""
    target = archive.with_name(f"{archive.name}-unpacked")
    for split in bsds.COUNTS:
        (target / split).mkdir(parents=True)
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                match = BSDS_MEMBER.fullmatch(member.name)
                file = tar.extractfile(member) if match and member.isfile() else None
                if match and file:
                    (target / match[1] / match[2]).write_bytes(file.read())
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataCorruptError(f"{archive} cannot be unpacked ({error}).") from error
    for split in bsds.COUNTS:
        if not any((target / split).iterdir()):
            raise DataCorruptError(f"{archive} has no {split} images.")
        bsds.check_sha256(target / split, split)
    return target


def refuse_strangers(new: Path, old: Path) -> None:
    """Images of others in the folder would be drawn from, and are not ours to remove."""
    present = [path.name for path in old.iterdir() if bsds.is_image(path)] if old.is_dir() else []
    strangers = sorted(name for name in present if not (new / name).exists())
    if strangers:
        raise DataCorruptError(
            f"{old} has images that BSDS300 has not ({', '.join(strangers[:3])}"
            f"{', …' if len(strangers) > 3 else ''}): move them away, or fetch into another folder"
            " by --data-dir."
        )


def place(new: Path, old: Path) -> None:
    """Rename a folder; where there is one already, the files in it one by one."""
    if not old.exists():
        os.replace(new, old)
        return
    for path in sorted(new.iterdir()):
        os.replace(path, old / path.name)


@contextmanager
def temporary_folder(root: Path) -> Iterator[Path]:
    """A folder on the disk of ``root``, where renaming is atomic; gone however it ends."""
    root.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".fetch-", dir=root) as name:
        yield Path(name)


def first_good(
    urls: Sequence[str], folder: Path, check: Callable[[Path], Result], say: Say
) -> Result:
    """What ``check`` makes of the first download that it does not refuse."""
    pooch = need("pooch", "pooch", "Downloading")
    download = pooch.HTTPDownloader(chunk_size=2**16)
    failures = []
    for i, url in enumerate(urls):
        path = folder / f"download-{i}"
        say(f"downloading {url}")
        try:
            download(url, str(path), None)
            return check(path)
        except (OSError, DataCorruptError) as error:
            failures.append(f"{url} ({reason(error)})")
    raise OSError(
        f"No download was good, of {' and '.join(failures)}: try again with a network, or lay the"
        " data into the folder by hand."
    )


def reason(error: OSError | DataCorruptError) -> str:
    """Why a download failed, in a few words: requests' own messages fill a page."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"HTTP status {response.status_code}"
    if isinstance(error, DataCorruptError):
        return "what came was truncated or is something else"
    return error.strerror or type(error).__name__
