"""Tiny data sets with the layout of the real ones."""

from __future__ import annotations

import gzip
import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from paper.datasets import download, mnist, patches
from PIL import Image

# The folder of the real data. It is read here because a fixture hides the variable in tests.
REAL = os.environ.get("LINCODE_DATA")
needs_mnist = pytest.mark.skipif(
    not REAL or not (Path(REAL) / "mnist").is_dir(), reason="LINCODE_DATA has no mnist/"
)
needs_bsds = pytest.mark.skipif(
    not REAL or not (Path(REAL) / "bsds300").is_dir(), reason="LINCODE_DATA has no bsds300/"
)


def idx(array: NDArray[np.uint8]) -> bytes:
    """Return the array as the content of an idx file."""
    header = bytes([0, 0, 8, array.ndim])
    return header + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


def write_mnist(root: Path, *, packed: bool = False, n: int = 20) -> dict[str, bytes]:
    """Write four files of n random digits to root/mnist and return their uncompressed contents."""
    rng = np.random.default_rng(0)
    contents = {}
    for images, labels in mnist.FILES.values():
        contents[images] = idx(rng.integers(0, 256, (n, 28, 28), dtype=np.uint8))
        contents[labels] = idx(rng.integers(0, 10, n, dtype=np.uint8))
    (root / "mnist").mkdir(parents=True)
    for name, content in contents.items():
        if packed:
            (root / "mnist" / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))
        else:
            (root / "mnist" / name).write_bytes(content)
    return contents


def write_bsds(root: Path, *, n: int = 3, shape: tuple[int, int] = (20, 30)) -> Path:
    """Write n random photographs for each split. The images of the test split are brighter."""
    rng = np.random.default_rng(0)
    for split, low in (("train", 0), ("test", 128)):
        (root / "bsds300" / split).mkdir(parents=True)
        for i in range(n):
            pixels = rng.integers(low, low + 128, (*shape, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / "bsds300" / split / f"{split}-{i}.jpg", quality=95)
    return root / "bsds300"


def accept_mnist(monkeypatch: pytest.MonkeyPatch, contents: dict[str, bytes]) -> None:
    """Replace the checksums of MNIST by those of these contents."""
    known = {name: sha256(content) for name, content in contents.items()}
    packed = {name: sha256(gzip.compress(content, mtime=0)) for name, content in contents.items()}
    monkeypatch.setattr(mnist, "SHA256", known)
    monkeypatch.setattr(download, "MNIST_SHA256", packed)


def accept_bsds(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Replace the checksums of BSDS300 by those of these images."""
    known = {split: patches.folder_sha256(folder / split) for split in ("train", "test")}
    counts = {split: len(patches.list_images(folder / split)) for split in known}
    monkeypatch.setattr(patches, "SHA256", known)
    monkeypatch.setattr(patches, "COUNTS", counts)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
