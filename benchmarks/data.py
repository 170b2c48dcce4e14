"""The data of the benchmarks: digits, and patches of photographs."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_sample_images

N_SAMPLES, N_FEATURES = 60_000, 784
HEADER_BYTES = 16


def load_digits() -> tuple[Any, str]:
    """Load digits of 28×28 pixels, scaled to [−1, 1].

    MNIST is read from ``mnist/train-images-idx3-ubyte.gz`` in the folder that the environment
    variable ``LINCODE_DATA`` names.

    Returns
    -------
    X : float32 array of shape (60000, 784)
    source : str
        What the data are.
    """
    folder = os.environ.get("LINCODE_DATA")
    path = Path(folder or ".") / "mnist" / "train-images-idx3-ubyte.gz"
    if not (folder and path.exists()):
        return random_digits(), "random data of MNIST's shape"
    pixels = np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=HEADER_BYTES)
    return pixels.reshape(N_SAMPLES, N_FEATURES).astype(np.float32) / np.float32(127.5) - 1, "MNIST"


def shrink_digits(X: Any) -> Any:
    """Return digits of 14×14 pixels, of shape (n_samples, 196), by averaging 2×2 pixels."""
    return X.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(X), 196)


def random_digits(n_samples: int = N_SAMPLES) -> Any:
    """Return images with a dark background and about ten of 300 smooth spots each."""
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(np.arange(28), np.arange(28)), axis=-1).reshape(-1, 2)
    centres, widths = rng.uniform(4, 24, (300, 1, 2)), rng.uniform(1.5, 5, (300, 2))
    spots = np.exp(-(((grid - centres) / widths[:, None]) ** 2).sum(axis=2)).astype(np.float32)
    X = np.empty((n_samples, N_FEATURES), dtype=np.float32)
    for start in range(0, n_samples, 5000):
        n = min(5000, n_samples - start)
        weights = rng.random((n, 300), dtype=np.float32) * (rng.random((n, 300)) < 10 / 300)
        X[start : start + n] = np.clip(2 * (weights @ spots) - 1, -1, 1)
    return X


def load_patches(n: int, size: int = 8) -> tuple[Any, str]:
    """Load patches of photographs in random order, with grey values in [0, 1] minus their mean.

    The photographs are those of ``bsds300`` in the folder that the environment variable
    ``LINCODE_DATA`` names, or else the two sample images of scikit-learn.

    Returns
    -------
    X : float32 array of shape (n, size²)
    source : str
        What the photographs are.
    """
    images, source = _photographs()
    rng = np.random.default_rng(0)
    per_image = -(-n // len(images))
    patches = []
    for image in images:
        grey = image.mean(axis=2, dtype=np.float32) / 255
        corners = rng.integers(0, np.array(grey.shape) - size + 1, (per_image, 2))
        patches += [grey[i : i + size, j : j + size].ravel() for i, j in corners]
    X = rng.permutation(np.array(patches))[:n]
    return X - X.mean(axis=1, keepdims=True), source


def _photographs() -> tuple[list[Any], str]:
    """Return photographs as arrays of shape (height, width, 3), and what they are."""
    folder = os.environ.get("LINCODE_DATA")
    files = sorted((Path(folder) / "bsds300").rglob("*.jpg")) if folder else []
    if not files:
        return list(load_sample_images().images), "scikit-learn's sample images"
    from PIL import Image

    return [np.asarray(Image.open(file).convert("RGB")) for file in files], "BSDS300"
