"""The digits of the benchmarks: MNIST if it is available, otherwise random data of its shape."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np

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
