"""MNIST, 70,000 digits of 28×28 pixels, and the 1797 digits of 8×8 from scikit-learn."""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from paper.datasets.folders import SPLITS, check_choice, check_integer, find, how_to_get
from paper.errors import DataCorruptError, DataMissingError

SIDE = 28
FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
"""Checksums of the uncompressed files, which do not depend on how they were compressed."""
MAGIC_NUMBERS = {2049: "labels", 2051: "images"}
"""The first four bytes of an idx file: bytes with one axis, bytes with three axes."""
BLOCK_ROWS = 5000
"""Images that are resized at a time, to limit the memory used."""


def load_mnist(
    split: str = "train",
    *,
    size: int = SIDE,
    data_dir: str | os.PathLike[str] | None = None,
    verify: bool = True,
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Load MNIST digits, scaled to [−1, 1], and their labels.

    Parameters
    ----------
    split : {"train", "test"}, default="train"
        60,000 or 10,000 digits.
    size : int from 1 to 28, default=28
        Side of the images. Smaller images are made by averaging over areas.
    data_dir : path, default=None
        The folder that contains ``mnist/``. See ``find`` for the default.
    verify : bool, default=True
        Whether to refuse files that are not those of MNIST. With False, data of the same format
        can be loaded, such as Fashion-MNIST or a part of MNIST.

    Returns
    -------
    X : float32 array of shape (n_samples, size²)
        −1 is black, the background, and 1 is white.
    y : int64 array of shape (n_samples,)

    Examples
    --------
    >>> from paper.datasets import load_mnist
    >>> X, y = load_mnist("test", size=14)  # doctest: +SKIP
    >>> X.shape, y.shape  # doctest: +SKIP
    ((10000, 196), (10000,))
    """
    check_choice("split", split, SPLITS)
    size = check_integer("size", size, 1, SIDE)
    folder = find("mnist", data_dir)
    images_file, labels_file = FILES[split]
    labels = read_file(folder, labels_file, verify=verify)
    images = read_file(folder, images_file, verify=verify)
    if len(images) != len(labels):
        raise DataCorruptError(
            "There must be as many images as labels, but in"
            f" {folder} {images_file} has {len(images)} and {labels_file} has {len(labels)}."
        )
    return resize(images, size), labels.astype(np.int64)


def load_digits_small() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Load scikit-learn's 1797 digits of 8×8, scaled to [−1, 1], and their labels.

    Returns
    -------
    X : float32 array of shape (1797, 64)
    y : int64 array of shape (1797,)

    Examples
    --------
    >>> from paper.datasets import load_digits_small
    >>> X, y = load_digits_small()
    >>> X.shape, float(X.min()), float(X.max())
    ((1797, 64), -1.0, 1.0)
    """
    X, y = load_digits(return_X_y=True)
    return (X / 8 - 1).astype(np.float32), y.astype(np.int64)


def read_file(folder: Path, name: str, *, verify: bool) -> NDArray[np.uint8]:
    """Read one of the four files as bytes of shape (n,) or (n, 28, 28)."""
    path = locate(folder, name)
    content = decompress(path)
    kind = "images" if "images" in name else "labels"
    array = parse_idx(content, kind, path)
    if kind == "images" and array.shape[1:] != (SIDE, SIDE):
        raise DataCorruptError(f"{path} must contain images of 28 × 28, got {array.shape[1:]}.")
    if kind == "labels" and array.max() > 9:
        raise DataCorruptError(f"{path} must contain labels from 0 to 9, got {array.max()}.")
    if verify:
        check_sha256(content, name, path)
    return array


def locate(folder: Path, name: str) -> Path:
    """Return the path of ``name.gz``, or if it does not exist, of ``name``."""
    for path in (folder / f"{name}.gz", folder / name):
        if path.is_file():
            return path
    raise DataMissingError(f"{folder} has no file {name}.gz or {name}: {how_to_get('mnist')}.")


def decompress(path: Path) -> bytes:
    """Return the content of a file. Gzip is recognised by the first bytes, not by the name."""
    content = path.read_bytes()
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, OSError, zlib.error) as error:
        raise DataCorruptError(
            f"{path} is truncated or damaged, gzip cannot decompress it ({error}): fetch it again."
        ) from error


def parse_idx(content: bytes, kind: str, path: Path) -> NDArray[np.uint8]:
    """Return the array in the content of an idx file.

    ``kind`` is what the file must contain, "labels" or "images". Every part of the header is
    checked against the content.

    Examples
    --------
    >>> from pathlib import Path
    >>> from paper.datasets.mnist import parse_idx
    >>> content = bytes([0, 0, 8, 1, 0, 0, 0, 3]) + bytes([7, 2, 1])
    >>> parse_idx(content, "labels", Path("three-labels"))
    array([7, 2, 1], dtype=uint8)
    """
    magic = int.from_bytes(content[:4], "big")
    expected = next(number for number, name in MAGIC_NUMBERS.items() if name == kind)
    if len(content) < 4 or magic != expected:
        found = (
            f"it contains {MAGIC_NUMBERS[magic]}"
            if magic in MAGIC_NUMBERS
            else f"it starts with {content[:4]!r}"
        )
        raise DataCorruptError(
            f"{path} must be an idx file of {kind} (magic number {expected}), but {found}."
        )
    start = 4 + 4 * content[3]  # the last byte of the magic number is the number of axes
    shape = [int.from_bytes(content[i : i + 4], "big") for i in range(4, start, 4)]
    if len(content) < start or len(content) - start != math.prod(shape):
        raise DataCorruptError(
            f"According to its header, {path} must have {' × '.join(map(str, shape))} bytes of"
            f" {kind} after the header, but it has {max(len(content) - start, 0)}: fetch it again."
        )
    if not math.prod(shape):
        raise DataCorruptError(
            f"{path} must contain {kind}, but according to its header it contains none."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def check_sha256(content: bytes, name: str, path: Path) -> None:
    """Raise DataCorruptError if the uncompressed content is not that of MNIST's file ``name``."""
    found = hashlib.sha256(content).hexdigest()
    if found == SHA256[name]:
        return
    other = next((file for file, known in SHA256.items() if known == found), None)
    if other is not None:
        raise DataCorruptError(f"{path} must be MNIST's {name}, but it is MNIST's {other}.")
    raise DataCorruptError(
        f"{path} must be MNIST's {name} with sha256 {SHA256[name][:8]}…, but its sha256 is"
        f" {found[:8]}…: fetch it again, or pass verify=False to load other data."
    )


def resize(images: NDArray[np.uint8], size: int) -> NDArray[np.float32]:
    """Resize images of shape (n, 28, 28) and scale them to [−1, 1]; shape (n, size²)."""
    X = np.empty((len(images), size * size), dtype=np.float32)
    R = overlap(SIDE, size)
    for start in range(0, len(images), BLOCK_ROWS):
        block = images[start : start + BLOCK_ROWS]
        averaged = (block if size == SIDE else R @ (block @ R.T)).astype(np.float32)
        X[start : start + BLOCK_ROWS] = averaged.reshape(len(block), -1) / np.float32(127.5) - 1
    return X


def overlap(side: int, size: int) -> NDArray[np.float64]:
    """Return the matrix R such that R @ image @ R.T is the image resized by area averaging.

    Divide a line into ``size`` equal parts and also into ``side`` equal parts. R[i, j] is the
    fraction of the i-th of ``size`` parts that lies in the j-th of ``side`` parts.

    Parameters
    ----------
    side, size : int
        Side of the image before and after resizing. ``size`` may be larger than ``side``.

    Returns
    -------
    R : float64 array of shape (size, side)
        Each row sums to 1.

    Examples
    --------
    >>> from paper.datasets import overlap
    >>> overlap(4, 2)
    array([[0.5, 0.5, 0. , 0. ],
           [0. , 0. , 0.5, 0.5]])
    """
    side, size = check_integer("side", side, 1), check_integer("size", size, 1)
    # In units of 1 / (side · size) of the line all edges are integers, and the sums are exact.
    left, right = np.arange(size)[:, None] * side, np.arange(1, size + 1)[:, None] * side
    pixel = np.arange(side) * size
    shared = np.minimum(right, pixel + size) - np.maximum(left, pixel)
    return np.asarray(np.clip(shared, 0, None) / side, dtype=np.float64)
