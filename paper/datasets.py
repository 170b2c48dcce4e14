"""The data of the experiments: MNIST, patches of BSDS300, and small data from scikit-learn.

``load_mnist`` and ``load_bsds_patches`` read these folders::

    mnist/       the four idx files of MNIST, gzipped (.gz) or not
    bsds300/     train/*.jpg and test/*.jpg

They are searched in ``data_dir``, or if it is not given, in the folder that the environment
variable ``LINCODE_DATA`` names and then in the user's cache folder. ``fetch`` downloads the data.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pooch
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits, load_sample_image

from paper.errors import DataCorruptError, DataMissingError, PaperError

NAMES = ("mnist", "bsds300")
SIDE = 28
FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
MNIST_SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
"""Checksums of the uncompressed files, which do not depend on how they were compressed."""
BSDS_SHA256 = {
    "train": "9de25bdaf5db109f390ba0166233ad92ef1e27696c0f60e43d2ce424e0e7061b",
    "test": "c2541b97777ee29fa81b59a033bd257696b50a173e39a1be8ce527e14db9a735",
}
"""What `sha256sum *.jpg | sha256sum` prints in each folder of BSDS300."""
MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
BSDS_MIRRORS = (
    "https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/bsds/",
    "https://www.eecs.berkeley.edu/Research/Projects/CS/vision/bsds/",
)
LUMA = np.array([0.299, 0.587, 0.114])
"""The weights of red, green and blue of ITU-R BT.601, which JPEG uses too."""


def find(name: str, data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of a data set, "mnist" or "bsds300".

    If ``data_dir`` is given, no other folder is searched.
    """
    searched = [Path(data_dir)] if data_dir is not None else search_folders()
    for folder in searched:
        if (folder / name).is_dir():
            return folder / name
    raise DataMissingError(
        f"There is no folder {name} in {' or '.join(map(str, searched))}: run `python -m paper"
        f" fetch {name}`, or name a folder that contains {name}/ with --data-dir (data_dir in"
        " Python) or the environment variable LINCODE_DATA."
    )


def search_folders() -> list[Path]:
    """Return the folders to search by default. ``fetch`` downloads into the first one."""
    given = os.environ.get("LINCODE_DATA")
    return [*([Path(given)] if given else []), Path(pooch.os_cache("lincode"))]


def fetch(name: str, data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Download a data set if it is not there already, and check it by its sha256.

    BSDS300 is for non-commercial research and education only.
    """
    folder = (Path(data_dir) if data_dir is not None else search_folders()[0]) / name
    if name == "mnist":
        for file in MNIST_SHA256:
            if not any((folder / f"{file}{end}").is_file() for end in (".gz", "")):
                from_first_mirror(MNIST_MIRRORS, f"{file}.gz", folder)
        for split in FILES:
            load_mnist(split, data_dir=folder.parent)
    elif not folder.is_dir():
        with TemporaryDirectory() as temporary:
            archive = "BSDS300-images.tgz"
            from_first_mirror(BSDS_MIRRORS, archive, Path(temporary), pooch.Untar(extract_dir="."))
            found = next(Path(temporary).rglob("train")).parent
            for split in BSDS_SHA256:
                check_images(found / split, split)
            shutil.copytree(found, folder)
    for split in BSDS_SHA256 if name == "bsds300" else ():
        check_images(folder / split, split)
    return folder


def from_first_mirror(
    mirrors: Sequence[str], file: str, folder: Path, processor: Any = None
) -> None:
    """Download a file into a folder from the first mirror that has it."""
    failures = []
    for mirror in mirrors:
        try:
            pooch.retrieve(f"{mirror}{file}", None, file, folder, processor=processor)
            return
        except OSError as error:
            failures.append(f"{mirror}{file} ({error})")
    raise PaperError(
        f"The download failed from {' and '.join(failures)}: check the network and try again, or"
        " copy the files into the folder yourself."
    )


def load_mnist(
    split: str = "train",
    *,
    size: int = SIDE,
    data_dir: str | os.PathLike[str] | None = None,
    verify: bool = True,
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return MNIST digits as a float32 array of shape (n, size²), and their labels.

    −1 is black, the background, and 1 is white. Images of another side than 28 are made by
    averaging over areas. With ``verify=False``, other files than those of MNIST are accepted.
    """
    folder = find("mnist", data_dir)
    images, labels = (read_idx(folder, name, verify=verify) for name in FILES[split])
    X, R = np.empty((len(images), size * size), dtype=np.float32), overlap(SIDE, size)
    for start in range(0, len(images), 5000):  # in blocks, to limit the memory
        block = images[start : start + 5000]
        averaged = (block if size == SIDE else R @ (block @ R.T)).astype(np.float32)
        X[start : start + 5000] = averaged.reshape(len(block), -1) / np.float32(127.5) - 1
    return X, labels.astype(np.int64)


def read_idx(folder: Path, name: str, *, verify: bool) -> NDArray[np.uint8]:
    """Read one of the four files of MNIST as bytes of shape (n,) or (n, 28, 28)."""
    path = next((p for p in (folder / f"{name}.gz", folder / name) if p.is_file()), None)
    if path is None:
        raise DataMissingError(
            f"{folder} has no file {name}.gz: run `python -m paper fetch mnist`."
        )
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
        n_axes = content[3]
        shape = np.frombuffer(content, ">u4", n_axes, offset=4)
        array = np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(shape)
    except (EOFError, OSError, ValueError, IndexError) as error:
        raise DataCorruptError(
            f"{path} is damaged ({error}): delete it and fetch it again."
        ) from error
    if verify and hashlib.sha256(content).hexdigest() != MNIST_SHA256[name]:
        raise DataCorruptError(
            f"{path} is not MNIST's {name}, because its sha256 is another: delete it and fetch it"
            " again, or pass verify=False to load other data."
        )
    return array


def overlap(side: int, size: int) -> NDArray[np.float64]:
    """Return R (size, side) such that R @ image @ R.T is the image resized by area averaging.

    Divide a line into ``size`` equal parts and also into ``side`` equal parts. R[i, j] is the
    fraction of the i-th of ``size`` parts that lies in the j-th of ``side`` parts.
    """
    # In units of 1 / (side · size) of the line all edges are integers, and the sums are exact.
    left, right = np.arange(size)[:, None] * side, np.arange(1, size + 1)[:, None] * side
    pixel = np.arange(side) * size
    shared = np.minimum(right, pixel + size) - np.maximum(left, pixel)
    return np.asarray(np.clip(shared, 0, None) / side, dtype=np.float64)


def load_digits_small() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Load scikit-learn's 1797 digits of 8×8, scaled to [−1, 1], and their labels."""
    X, y = load_digits(return_X_y=True)
    return (X / 8 - 1).astype(np.float32), y.astype(np.int64)


def load_bsds_patches(
    n: int,
    size: int = 8,
    *,
    split: str = "train",
    data_dir: str | os.PathLike[str] | None = None,
    random_state: Any = 0,
    verify: bool = False,
) -> NDArray[np.float64]:
    """Return random grey patches of photographs, shape (n, size²), each centred to mean 0.

    Grey values are in [0, 1]. Each patch is taken from a random position of a random image of the
    split. The same seed gives the same patches, and the first k of n patches are those of ``n=k``.
    With ``verify=True``, images that are not exactly those of BSDS300 are refused.
    """
    folder = find("bsds300", data_dir) / split
    if verify:
        check_images(folder, split)

    def read(path: Path) -> Any:
        with Image.open(path) as image:
            return np.asarray(image.convert("RGB"))

    return sample_patches(list_images(folder), read, n, size, random_state)


def load_photo_patches(
    n: int, size: int = 8, *, split: str = "train", random_state: Any = 0
) -> NDArray[np.float64]:
    """Load patches like ``load_bsds_patches`` from two photographs of scikit-learn.

    That of a temple is for training and that of a flower for testing.
    """
    names = {"train": ["china.jpg"], "test": ["flower.jpg"]}[split]
    return sample_patches(names, load_sample_image, n, size, random_state)


def sample_patches(
    images: Sequence[Any], read: Callable[[Any], Any], n: int, size: int, random_state: Any
) -> NDArray[np.float64]:
    """Return random patches of images. The randomness of a patch does not depend on the others."""
    sampled = np.random.default_rng(random_state).random((n, 3))
    image_of_row = (sampled[:, 0] * len(images)).astype(np.intp)
    X = np.empty((n, size * size))
    for i, name in enumerate(images):
        windows = np.lib.stride_tricks.sliding_window_view(read(name) @ LUMA / 255, (size, size))
        rows = np.flatnonzero(image_of_row == i)
        top, left = (sampled[rows, 1:] * windows.shape[:2]).astype(np.intp).T
        X[rows] = windows[top, left].reshape(len(rows), size * size)
    X -= X.mean(axis=1, keepdims=True)
    return X


def list_images(folder: Path) -> list[Path]:
    """Return the .jpg files of a folder, sorted by name. There is at least one."""
    images = sorted(path for path in folder.glob("*.jpg") if not path.name.startswith("."))
    if not images:
        raise DataMissingError(f"{folder} has no .jpg images: run `python -m paper fetch bsds300`.")
    return images


def check_images(folder: Path, split: str) -> None:
    """Raise DataCorruptError if a folder does not contain exactly the images of BSDS300."""
    lines = [
        f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in list_images(folder)
    ]
    if hashlib.sha256("".join(lines).encode()).hexdigest() != BSDS_SHA256[split]:
        raise DataCorruptError(
            f"{folder} does not contain the {split} images of BSDS300, because the sha256 is"
            " another: delete the folder and run `python -m paper fetch bsds300`."
        )
