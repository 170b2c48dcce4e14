"""BSDS300, the Berkeley segmentation images: 200 photographs to learn from, 100 to test on."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lincode.datasets.arguments import SPLITS, check_choice, check_integer, need
from lincode.datasets.errors import DataCorruptError, DataMissingError
from lincode.datasets.folders import find, how_to_get
from lincode.datasets.patches import draw_patches, grey

COUNTS = {"train": 200, "test": 100}
# What `sha256sum *.jpg | sha256sum` prints in each folder: names and contents of all images.
SHA256 = {
    "train": "9de25bdaf5db109f390ba0166233ad92ef1e27696c0f60e43d2ce424e0e7061b",
    "test": "c2541b97777ee29fa81b59a033bd257696b50a173e39a1be8ce527e14db9a735",
}


def load_bsds_patches(
    n: int,
    size: int = 8,
    *,
    split: str = "train",
    data_dir: str | os.PathLike[str] | None = None,
    random_state: Any = 0,
    verify: bool = False,
) -> NDArray[np.float64]:
    """Patches of photographs, grey, each centred to mean 0, in random order.

    Patches of one split come from the images of that split alone. They are drawn with
    replacement: an image at random, then a place in it at random.

    Parameters
    ----------
    n : int
        How many patches.
    size : int, default=8
        Side of a patch.
    split : {"train", "test"}, default="train"
    data_dir : path, default=None
        The folder that holds ``bsds300/train`` and ``bsds300/test``; see ``find`` for where it is
        looked for if not given. Any photographs (.jpg) may be in it.
    random_state : int or numpy Generator, default=0
        The same seed gives the same patches, and the first k of n are those of ``n=k``.
    verify : bool, default=False
        Refuse images that are not exactly those of BSDS300.

    Returns
    -------
    X : float64 array of shape (n, size²)
        Grey was in [0, 1] before each patch was centred. Patches of one grey are rows of zeros.

    Examples
    --------
    >>> from lincode.datasets import load_bsds_patches
    >>> load_bsds_patches(1000, split="test").shape  # doctest: +SKIP
    (1000, 64)
    """
    check_choice("split", split, SPLITS)
    n, size = check_integer("n", n, 1), check_integer("size", size, 1)
    need("PIL.Image", "pillow", "Reading photographs")
    folder = find("bsds300", data_dir) / split
    images = list_images(folder)
    if verify:
        check_sha256(folder, split)
    return draw_patches(images, read_image, n, size, random_state)


def list_images(folder: Path) -> list[Path]:
    """The .jpg files of a folder by name; at least one."""
    if not folder.is_dir():
        raise DataMissingError(f"There is no folder {folder}: {how_to_get('bsds300')}.")
    images = sorted(filter(is_image, folder.iterdir()), key=lambda path: path.name)
    if not images:
        raise DataMissingError(f"{folder} has no .jpg images: {how_to_get('bsds300')}.")
    return images


def is_image(path: Path) -> bool:
    """Whether the name is that of a photograph; some systems put ``._name.jpg`` beside them."""
    return path.suffix.lower() in (".jpg", ".jpeg") and not path.name.startswith(".")


def read_image(path: Path) -> NDArray[np.float64]:
    """One photograph, grey in [0, 1], of shape (h, w)."""
    Image = need("PIL.Image", "pillow", "Reading photographs")
    try:
        with Image.open(path) as image:
            return grey(image.convert("RGB"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataCorruptError(
            f"{path} cannot be read as an image, it is truncated, damaged or something else:"
            " fetch it again, or move it away."
        ) from error


def digest(folder: Path) -> str:
    """One sha256 for the names and contents of all images of a folder."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in list_images(folder)
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def check_sha256(folder: Path, split: str) -> None:
    """Refuse a folder that is not exactly BSDS300's ``split``."""
    images = list_images(folder)
    if len(images) != COUNTS[split]:
        raise DataCorruptError(
            f"{folder} must have the {COUNTS[split]} {split} images of BSDS300, but has"
            f" {len(images)} images: move it away and run `lincode data fetch bsds300`."
        )
    found = digest(folder)
    if found != SHA256[split]:
        other = next((name for name, known in SHA256.items() if known == found), None)
        what = f"those of its {other} split" if other else "some are changed or have other names"
        raise DataCorruptError(
            f"{folder} must have the {split} images of BSDS300, but {what}: move it away and run"
            " `lincode data fetch bsds300`."
        )
