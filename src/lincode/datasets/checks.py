"""Whether the data on disk are what they should be."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lincode.datasets import bsds, mnist
from lincode.datasets.arguments import SPLITS
from lincode.datasets.folders import find


@dataclass(frozen=True)
class Checked:
    """A file or folder that was checked."""

    path: Path
    what: str
    """What it should be"""
    problem: str | None
    """What is wrong and what to do, in a sentence; None if nothing is"""

    @property
    def ok(self) -> bool:
        """Whether it is what it should be, to the bit."""
        return self.problem is None


def verify(name: str, data_dir: str | os.PathLike[str] | None = None) -> list[Checked]:
    """Check the files of a data set against the published ones, by sha256.

    Parameters
    ----------
    name : {"mnist", "bsds300"}
    data_dir : path, default=None
        As in ``find``.

    Returns
    -------
    list of Checked
        MNIST's four files, or BSDS300's two folders; each ``ok``, or with a ``problem``.

    Raises
    ------
    DataMissingError
        If there is no folder of that data set.

    Examples
    --------
    >>> from lincode.datasets import verify
    >>> all(entry.ok for entry in verify("mnist"))  # doctest: +SKIP
    True
    """
    folder = find(name, data_dir)
    if name == "mnist":
        return [check_mnist(folder, file) for files in mnist.FILES.values() for file in files]
    return [check_bsds(folder, split) for split in SPLITS]


def check_mnist(folder: Path, name: str) -> Checked:
    """One of MNIST's four files."""
    problem = problem_of(lambda: mnist.read(folder, name, verify=True))
    packed = folder / f"{name}.gz"
    path = packed if packed.is_file() and not (folder / name).is_file() else folder / name
    return Checked(path, f"MNIST, {name}", problem)


def check_bsds(folder: Path, split: str) -> Checked:
    """One of BSDS300's two folders."""
    problem = problem_of(lambda: bsds.check_sha256(folder / split, split))
    what = f"BSDS300, the {bsds.COUNTS[split]} {split} images"
    return Checked(folder / split, what, problem)


def problem_of(check: Callable[[], object]) -> str | None:
    """What a check says against the data: their absence, their content, or the disk's refusal."""
    try:
        check()
    except (OSError, ValueError) as error:
        return str(error)
    return None
