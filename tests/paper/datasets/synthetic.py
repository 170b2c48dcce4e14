"""Tiny data sets in the layout of the real ones."""

from __future__ import annotations

import gzip
import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from lincode.datasets import bsds, mnist

# Where the real data are, before any test hides the variable.
REAL = os.environ.get("LINCODE_DATA")
needs_mnist = pytest.mark.skipif(
    not REAL or not (Path(REAL) / "mnist").is_dir(), reason="LINCODE_DATA has no mnist/"
)
needs_bsds = pytest.mark.skipif(
    not REAL or not (Path(REAL) / "bsds300").is_dir(), reason="LINCODE_DATA has no bsds300/"
)


def idx(array: NDArray[np.uint8]) -> bytes:
    """The array as an idx file."""
    header = bytes([0, 0, 8, array.ndim])
    return header + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


def tiny_mnist(root: Path, *, packed: bool = False, n: int = 20) -> dict[str, bytes]:
    """Write four files of n random digits each into root/mnist; their unpacked contents."""
    rng = np.random.default_rng(0)
    contents = {}
    for images, labels in mnist.FILES.values():
        contents[images] = idx(rng.integers(0, 256, (n, 28, 28), dtype=np.uint8))
        contents[labels] = idx(rng.integers(0, 10, n, dtype=np.uint8))
    (root / "mnist").mkdir(parents=True)
    for name, content in contents.items():
        if packed:
            (root / "mnist" / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (root / "mnist" / name).write_bytes(content)
    return contents


def tiny_bsds(root: Path, *, n: int = 3, shape: tuple[int, int] = (20, 30)) -> Path:
    """Write n random photographs for each split; train ones are dark, test ones bright."""
    rng = np.random.default_rng(0)
    for split, low in (("train", 0), ("test", 128)):
        (root / "bsds300" / split).mkdir(parents=True)
        for i in range(n):
            pixels = rng.integers(low, low + 128, (*shape, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / "bsds300" / split / f"{split}-{i}.jpg", quality=95)
    return root / "bsds300"


def believe_mnist(monkeypatch: pytest.MonkeyPatch, contents: dict[str, bytes]) -> None:
    """Take these contents for the published ones."""
    known = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    monkeypatch.setattr(mnist, "SHA256", known)


def believe_bsds(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Take these images for the published ones."""
    known = {split: bsds.digest(folder / split) for split in ("train", "test")}
    counts = {split: len(bsds.list_images(folder / split)) for split in known}
    monkeypatch.setattr(bsds, "SHA256", known)
    monkeypatch.setattr(bsds, "COUNTS", counts)
