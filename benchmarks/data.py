"""The digits all contestants see: MNIST where it is found, else data of its shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from lincode.datasets import DataMissingError, load_mnist


def digits() -> tuple[Any, str]:
    """60,000 digits of 28×28 in [−1, 1], float32, and what they are."""
    try:
        return load_mnist("train")[0], "MNIST"
    except DataMissingError:
        return synthetic(), "synthetic data of MNIST's shape"


def synthetic(N: int = 60_000) -> Any:
    """Strokes: a dark field and, in each row, about ten of 300 smooth bumps."""
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(np.arange(28), np.arange(28)), axis=-1).reshape(-1, 2)
    centres, widths = rng.uniform(4, 24, (300, 1, 2)), rng.uniform(1.5, 5, (300, 2))
    bumps = np.exp(-(((grid - centres) / widths[:, None]) ** 2).sum(axis=2)).astype(np.float32)
    X = np.empty((N, 784), dtype=np.float32)
    for start in range(0, N, 5000):
        n = min(5000, N - start)
        weights = rng.random((n, 300), dtype=np.float32) * (rng.random((n, 300)) < 10 / 300)
        X[start : start + n] = np.clip(2 * (weights @ bumps) - 1, -1, 1)
    return X
