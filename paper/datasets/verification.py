"""Check the data on disk against the published data."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from paper.datasets import mnist, patches
from paper.datasets.folders import SPLITS, find
from paper.errors import PaperError


@dataclass(frozen=True)
class CheckedFile:
    """A file or folder, and the result of its check."""

    path: Path
    description: str
    """What the file or folder should contain"""
    problem: str | None
    """What is wrong and what to do; None if the content is correct"""

    @property
    def ok(self) -> bool:
        """Whether the content is exactly the published one."""
        return self.problem is None


def verify(name: str, data_dir: str | os.PathLike[str] | None = None) -> list[CheckedFile]:
    """Check the files of a data set against the published ones by their sha256.

    Parameters
    ----------
    name : {"mnist", "bsds300"}
    data_dir : path, default=None
        As in ``find``.

    Returns
    -------
    list of CheckedFile
        The four files of MNIST, or the two folders of BSDS300.

    Raises
    ------
    DataMissingError
        If there is no folder of that data set.

    Examples
    --------
    >>> from paper.datasets import verify
    >>> all(entry.ok for entry in verify("mnist"))  # doctest: +SKIP
    True
    """
    folder = find(name, data_dir)
    if name == "mnist":
        return [check_mnist(folder, file) for files in mnist.FILES.values() for file in files]
    return [check_bsds(folder, split) for split in SPLITS]


def check_mnist(folder: Path, name: str) -> CheckedFile:
    """Check one of the four files of MNIST."""
    problem = problem_of(lambda: mnist.read_file(folder, name, verify=True))
    packed = folder / f"{name}.gz"
    return CheckedFile(packed if packed.is_file() else folder / name, f"MNIST, {name}", problem)


def check_bsds(folder: Path, split: str) -> CheckedFile:
    """Check one of the two folders of BSDS300."""
    problem = problem_of(lambda: patches.check_sha256(folder / split, split))
    description = f"BSDS300, the {patches.COUNTS[split]} {split} images"
    return CheckedFile(folder / split, description, problem)


def problem_of(check: Callable[[], object]) -> str | None:
    """Return the error message of a check, or None if it finds no problem."""
    try:
        check()
    except (PaperError, OSError) as error:
        return str(error)
    return None
