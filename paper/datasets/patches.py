"""Random patches of photographs: of BSDS300, and of the two photographs in scikit-learn.

BSDS300 is the Berkeley segmentation data set, with 200 photographs for training and 100 for
testing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_sample_image

from paper.datasets.folders import SPLITS, check_choice, check_integer, find, how_to_get
from paper.errors import DataCorruptError, DataMissingError

COUNTS = {"train": 200, "test": 100}
SHA256 = {
    "train": "9de25bdaf5db109f390ba0166233ad92ef1e27696c0f60e43d2ce424e0e7061b",
    "test": "c2541b97777ee29fa81b59a033bd257696b50a173e39a1be8ce527e14db9a735",
}
"""What `sha256sum *.jpg | sha256sum` prints in each folder of BSDS300."""
PHOTOS = {"train": "china.jpg", "test": "flower.jpg"}
# The weights of ITU-R BT.601, which JPEG uses too.
LUMA = np.array([0.299, 0.587, 0.114])

Name = TypeVar("Name")


def load_bsds_patches(
    n: int,
    size: int = 8,
    *,
    split: str = "train",
    data_dir: str | os.PathLike[str] | None = None,
    random_state: Any = 0,
    verify: bool = False,
) -> NDArray[np.float64]:
    """Load random grey patches of photographs, each centred to mean 0.

    Each patch is taken from a random position of a random image of the split. Patches are sampled
    with replacement.

    Parameters
    ----------
    n : int
        Number of patches.
    size : int, default=8
        Side of a patch.
    split : {"train", "test"}, default="train"
    data_dir : path, default=None
        The folder that contains ``bsds300/train`` and ``bsds300/test``. See ``find`` for the
        default. The folders may contain any photographs (.jpg).
    random_state : int or numpy Generator, default=0
        The same seed gives the same patches. The first k of n patches are those of ``n=k``.
    verify : bool, default=False
        Whether to refuse images that are not exactly those of BSDS300.

    Returns
    -------
    X : float64 array of shape (n, size²)
        The grey values were in [0, 1] before each patch was centred.

    Examples
    --------
    >>> from paper.datasets import load_bsds_patches
    >>> load_bsds_patches(1000, split="test").shape  # doctest: +SKIP
    (1000, 64)
    """
    n, size = check_arguments(n, size, split)
    folder = find("bsds300", data_dir) / split
    images = list_images(folder)
    if verify:
        check_sha256(folder, split)
    return sample_patches(images, read_image, n, size, random_state)


def load_photo_patches(
    n: int, size: int = 8, *, split: str = "train", random_state: Any = 0
) -> NDArray[np.float64]:
    """Load random grey patches of scikit-learn's two photographs, each centred to mean 0.

    Parameters
    ----------
    n : int
        Number of patches.
    size : int, default=8
        Side of a patch.
    split : {"train", "test"}, default="train"
        The photograph of a temple is for training and that of a flower for testing.
    random_state : int or numpy Generator, default=0
        The same seed gives the same patches. The first k of n patches are those of ``n=k``.

    Returns
    -------
    X : float64 array of shape (n, size²)

    Examples
    --------
    >>> from paper.datasets import load_photo_patches
    >>> X = load_photo_patches(500, size=6)
    >>> X.shape, bool(abs(X.mean(axis=1)).max() < 1e-12)
    ((500, 36), True)
    """
    n, size = check_arguments(n, size, split)
    return sample_patches(
        [PHOTOS[split]], lambda name: to_grey(load_sample_image(name)), n, size, random_state
    )


def check_arguments(n: Any, size: Any, split: Any) -> tuple[int, int]:
    """Return n and size as int, or raise ValueError if an argument is invalid."""
    check_choice("split", split, SPLITS)
    return check_integer("n", n, 1), check_integer("size", size, 1)


def sample_patches(
    images: Sequence[Name],
    read: Callable[[Name], NDArray[np.float64]],
    n: int,
    size: int,
    random_state: Any,
) -> NDArray[np.float64]:
    """Sample n patches of size × size, each from a random position of a random image.

    Each row uses three numbers of the random generator, so that a smaller n gives the first rows
    of a larger one. ``read`` returns an image of shape (h, w). Every image is read and checked
    once, so that an unusable image raises an error for any seed. One image is in memory at a time.
    """
    sampled = np.random.default_rng(random_state).random((n, 3))
    image_of_row = (sampled[:, 0] * len(images)).astype(np.intp)
    X = np.empty((n, size * size))
    for i, name in enumerate(images):
        image = read(name)
        check_image(image, size, name)
        windows = np.lib.stride_tricks.sliding_window_view(image, (size, size))
        rows = np.flatnonzero(image_of_row == i)
        top, left = (sampled[rows, 1:] * windows.shape[:2]).astype(np.intp).T
        X[rows] = windows[top, left].reshape(len(rows), size * size)
    X -= X.mean(axis=1, keepdims=True)
    return X


def check_image(image: NDArray[np.float64], size: int, name: object) -> None:
    """Raise DataCorruptError if an image is too small or constant."""
    height, width = image.shape
    if min(height, width) < size:
        raise DataCorruptError(
            f"{name} is {width} × {height}, too small for patches of {size} × {size}: pass a"
            " smaller size, or move the image to another folder."
        )
    if image.min() == image.max():
        raise DataCorruptError(
            f"{name} has the same grey value everywhere, so all its patches are zero: move it to"
            " another folder."
        )


def to_grey(rgb: Any) -> NDArray[np.float64]:
    """Convert red, green and blue bytes of shape (h, w, 3) to grey values in [0, 1]."""
    return np.asarray(np.asarray(rgb) @ LUMA / 255, dtype=np.float64)


def read_image(path: Path) -> NDArray[np.float64]:
    """Read a photograph as grey values in [0, 1] of shape (h, w)."""
    try:
        with Image.open(path) as image:
            return to_grey(image.convert("RGB"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataCorruptError(
            f"{path} cannot be read as an image because it is truncated, damaged or another kind"
            " of file: fetch it again, or move it to another folder."
        ) from error


def list_images(folder: Path) -> list[Path]:
    """Return the .jpg files of a folder, sorted by name. There is at least one."""
    if not folder.is_dir():
        raise DataMissingError(f"There is no folder {folder}: {how_to_get('bsds300')}.")
    images = sorted(filter(is_image, folder.iterdir()), key=lambda path: path.name)
    if not images:
        raise DataMissingError(f"{folder} has no .jpg images: {how_to_get('bsds300')}.")
    return images


def is_image(path: Path) -> bool:
    """Return whether a file name is that of a photograph; macOS adds files named ``._*.jpg``."""
    return path.suffix.lower() in (".jpg", ".jpeg") and not path.name.startswith(".")


def folder_sha256(folder: Path) -> str:
    """Return one checksum of the names and contents of all images of a folder."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in list_images(folder)
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def check_sha256(folder: Path, split: str) -> None:
    """Raise DataCorruptError if a folder does not contain exactly the images of BSDS300."""
    images = list_images(folder)
    what_to_do = "move the folder and run `python -m paper data fetch bsds300`"
    if len(images) != COUNTS[split]:
        raise DataCorruptError(
            f"{folder} must contain the {COUNTS[split]} {split} images of BSDS300, but it contains"
            f" {len(images)} images: {what_to_do}."
        )
    found = folder_sha256(folder)
    if found != SHA256[split]:
        other = next((name for name, known in SHA256.items() if known == found), None)
        problem = (
            f"it contains those of the {other} split"
            if other
            else "some are changed or have other names"
        )
        raise DataCorruptError(
            f"{folder} must contain the {split} images of BSDS300, but {problem}: {what_to_do}."
        )
