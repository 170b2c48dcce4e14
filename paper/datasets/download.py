"""Download MNIST and BSDS300 with pooch."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import tarfile
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import pooch

from paper.datasets import mnist, patches
from paper.datasets.folders import NAMES, SPLITS, check_choice, search_folders
from paper.datasets.verification import check_bsds, check_mnist
from paper.errors import DataCorruptError, PaperError

# The mirrors are tried in this order.
MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
MNIST_SHA256 = {
    "train-images-idx3-ubyte": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
"""Checksums of the compressed files (.gz) that the mirrors offer."""
BSDS_MIRRORS = (
    "https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/bsds/",
    "https://www.eecs.berkeley.edu/Research/Projects/CS/vision/bsds/",
)
BSDS_ARCHIVE = "BSDS300-images.tgz"
# Every folder and file name starts with a letter or digit: no absolute paths and no "..".
BSDS_MEMBER = re.compile(r"(?:\./)?(?:\w[\w.-]*/)*(train|test)/(\w[\w-]*\.jpg)")

Report = Callable[[str], object]
Result = TypeVar("Result")


def fetch(
    name: str, data_dir: str | os.PathLike[str] | None = None, *, report: Report = print
) -> Path:
    """Download a data set if it is not there already, and check it by its sha256.

    Correct files are kept and others are replaced. A download that fails or is interrupted leaves
    no file behind.

    Parameters
    ----------
    name : {"mnist", "bsds300"}
        The data sets need 12 MB and 22 MB on disk. BSDS300 is for non-commercial research and
        education only.
    data_dir : path, default=None
        The folder in which the folder ``name`` is created. The default is the folder that the
        environment variable ``LINCODE_DATA`` names, or if it is not set, the user's cache folder.
    report : callable, default=print
        Called with a line of text for each file.

    Returns
    -------
    pathlib.Path
        The folder ``name``, which is complete.

    Raises
    ------
    PaperError
        If the download failed from every mirror. The message gives the reason for each.

    Examples
    --------
    >>> from paper.datasets import fetch
    >>> fetch("mnist", "data").name  # doctest: +SKIP
    'mnist'
    """
    check_choice("name", name, NAMES)
    root = Path(data_dir) if data_dir is not None else search_folders()[0]
    if name == "mnist":
        for file in mnist.SHA256:
            fetch_mnist_file(root / name, file, report)
    else:
        fetch_bsds(root / name, report)
    return root / name


def fetch_mnist_file(folder: Path, name: str, report: Report) -> None:
    """Download one of the four files. It stays compressed."""
    found = check_mnist(folder, name)
    if found.ok:
        report(f"{found.path}: already there, sha256 is correct")
        return
    packed = f"{name}.gz"
    retrieve = partial(pooch.retrieve, known_hash=MNIST_SHA256[name], fname=packed, path=folder)
    from_first_mirror([f"{mirror}{packed}" for mirror in MNIST_MIRRORS], retrieve)
    report(f"{folder / packed}: downloaded, sha256 is correct")


def fetch_bsds(folder: Path, report: Report) -> None:
    """Download the archive of all images and copy the images into their two folders."""
    if all(check_bsds(folder, split).ok for split in SPLITS):
        report(f"{folder}: already there, sha256 is correct")
        return
    report("BSDS300 is for non-commercial research and education only.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".fetch-", dir=folder.parent) as temporary:
        # The images are checked by their own checksum, so that the archive needs none.
        retrieve = partial(
            pooch.retrieve, known_hash=None, path=temporary, processor=extract_images
        )
        new = from_first_mirror([f"{mirror}{BSDS_ARCHIVE}" for mirror in BSDS_MIRRORS], retrieve)
        for split in SPLITS:
            refuse_other_images(new / split, folder / split)
        shutil.copytree(new, folder, dirs_exist_ok=True)
    report(f"{folder}: downloaded, sha256 is correct")


def extract_images(archive: str, action: str, _: object) -> Path:
    """Extract the images of BSDS300 and check them; a processor for pooch.

    ``pooch.Untar`` is not used because it extracts links and, before Python 3.12, members outside
    the folder.
    """
    target = Path(f"{archive}.images")
    for split in SPLITS:
        (target / split).mkdir(parents=True)
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                match = BSDS_MEMBER.fullmatch(member.name)
                file = tar.extractfile(member) if match and member.isfile() else None
                if match and file:
                    (target / match[1] / match[2]).write_bytes(file.read())
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataCorruptError(f"{archive} cannot be extracted ({error}).") from error
    for split in SPLITS:
        patches.check_sha256(target / split, split)
    return target


def refuse_other_images(new: Path, folder: Path) -> None:
    """Raise DataCorruptError if a folder has images of other origin.

    They would be used as if they were part of BSDS300, and they are not ours to remove.
    """
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    others = [name for name in sorted(names) if patches.is_image(new / name)]
    others = [name for name in others if not (new / name).exists()]
    if others:
        raise DataCorruptError(
            f"{folder} contains images that are not part of BSDS300 ({', '.join(others[:3])}"
            f"{', …' if len(others) > 3 else ''}): move them, or choose another folder with"
            " --data-dir."
        )


def from_first_mirror(urls: Sequence[str], retrieve: Callable[[str], Result]) -> Result:
    """Return the result of ``retrieve`` for the first URL for which it succeeds."""
    failures = []
    for url in urls:
        try:
            return retrieve(url)
        except (OSError, ValueError, PaperError) as error:
            failures.append(f"{url} ({reason(error)})")
    raise PaperError(
        f"The download failed from {' and '.join(failures)}: check the network and try again, or"
        " copy the files into the folder yourself."
    )


def reason(error: Exception) -> str:
    """Return in a few words why a download failed; the messages of requests are very long."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"HTTP status {response.status_code}"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return "the downloaded file is truncated or not the expected one"
