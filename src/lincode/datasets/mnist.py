"""MNIST: 70,000 digits of 28×28."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lincode.datasets.arguments import SPLITS, check_choice, check_integer
from lincode.datasets.errors import DataCorruptError, DataMissingError
from lincode.datasets.folders import find, how_to_get
from lincode.datasets.idx import parse, unpack
from lincode.datasets.resize import overlap

SIDE = 28
FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
# Of the unpacked content: gzip writes times and names of its own around it.
SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


def load_mnist(
    split: str = "train",
    *,
    size: int = SIDE,
    data_dir: str | os.PathLike[str] | None = None,
    verify: bool = True,
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Digits in [−1, 1], and which they are.

    Parameters
    ----------
    split : {"train", "test"}, default="train"
        60,000 or 10,000 digits.
    size : int from 1 to 28, default=28
        Side of the images. Smaller ones are made by averaging over areas.
    data_dir : path, default=None
        The folder that holds ``mnist/``; see ``find`` for where it is looked for if not given.
    verify : bool, default=True
        Refuse files whose sha256 is not that of MNIST. False reads data of the same form, such
        as Fashion-MNIST, or a part of MNIST.

    Returns
    -------
    X : float32 array of shape (n_samples, size²)
        −1 is black, the background; 1 is white.
    y : int64 array of shape (n_samples,)

    Examples
    --------
    >>> from lincode.datasets import load_mnist
    >>> X, y = load_mnist("test", size=14)  # doctest: +SKIP
    >>> X.shape, y.shape  # doctest: +SKIP
    ((10000, 196), (10000,))
    """
    check_choice("split", split, SPLITS)
    size = check_integer("size", size, 1, SIDE)
    folder = find("mnist", data_dir)
    images_file, labels_file = FILES[split]
    labels = read(folder, labels_file, verify=verify)
    images = read(folder, images_file, verify=verify)
    if len(images) != len(labels):
        raise DataCorruptError(
            f"Images and labels must be as many, but in {folder} {images_file} has {len(images)}"
            f" and {labels_file} has {len(labels)}."
        )
    return shrink(images, size), labels.astype(np.int64)


def read(folder: Path, name: str, *, verify: bool) -> NDArray[np.uint8]:
    """One of the four files, as bytes of shape (n,) or (n, 28, 28)."""
    path = locate(folder, name)
    content = unpack(path)
    kind = "images" if "images" in name else "labels"
    array = parse(content, kind, path)
    if kind == "images" and array.shape[1:] != (SIDE, SIDE):
        raise DataCorruptError(f"{path} must hold images of 28 × 28, got {array.shape[1:]}.")
    if kind == "labels" and array.max() > 9:
        raise DataCorruptError(f"{path} must hold labels from 0 to 9, but one is {array.max()}.")
    if verify:
        check_sha256(content, name, path)
    return array


def locate(folder: Path, name: str) -> Path:
    """The file ``name``, or if that is not there, ``name.gz``."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise DataMissingError(f"{folder} has no file {name}, nor {name}.gz: {how_to_get('mnist')}.")


def check_sha256(content: bytes, name: str, path: Path) -> None:
    """Refuse unpacked content that is not MNIST's file ``name``."""
    found = hashlib.sha256(content).hexdigest()
    if found == SHA256[name]:
        return
    other = next((file for file, known in SHA256.items() if known == found), None)
    if other is not None:
        raise DataCorruptError(f"{path} must be MNIST's {name}, but it is MNIST's {other}.")
    raise DataCorruptError(
        f"{path} must be MNIST's {name} with sha256 {SHA256[name][:8]}…, but has {found[:8]}…:"
        " fetch it again, or pass verify=False if it is meant to be other data."
    )


def shrink(images: NDArray[np.uint8], size: int) -> NDArray[np.float32]:
    """R @ image @ Rᵀ for each image, from bytes to [−1, 1]; rows of size² pixels."""
    X = np.empty((len(images), size * size), dtype=np.float32)
    R = overlap(SIDE, size)
    for start in range(0, len(images), 5000):
        block = images[start : start + 5000]
        if size == SIDE:
            averaged = block.astype(np.float32)
        else:
            averaged = (R @ (block @ R.T)).astype(np.float32)
        X[start : start + 5000] = averaged.reshape(len(block), -1) / np.float32(127.5) - 1
    return X
