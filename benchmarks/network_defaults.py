"""What the papers of SAANN, ASCNN and Sparsenet leave open, chosen on validation data.

    python benchmarks/network_defaults.py

500 digits to learn from and 500 to judge by: MNIST of 14×14 where ``LINCODE_DATA`` has it, else
the 8×8 digits; and 2000 patches of photographs, half and half. For each setting the energy per
sample of the validation data, at one alpha, and the seconds to train.
"""

from __future__ import annotations

import time
import warnings
from itertools import product
from typing import Any

import numpy as np
from data import digits
from sklearn.datasets import load_digits, load_sample_images
from sklearn.feature_extraction.image import extract_patches_2d

from lincode import ASCNN, SAANN, Sparsenet

M = 100
GRIDS: dict[Any, dict[str, list[Any]]] = {
    SAANN: {
        "learning_rate": [0.003, 0.005, 0.01],
        "batch_size": [25, 50, 100],
        "max_iter": [100, 300],
    },
    ASCNN: {
        "learning_rate": [0.003, 0.01, 0.03],
        "batch_size": [25, 50, 100],
        "max_iter": [50, 150],
    },
    Sparsenet: {"learning_rate": [0.03, 0.1, 0.3], "code_steps": [10, 30, 60]},
}


def small_digits() -> tuple[Any, str]:
    X, source = digits()
    if source != "MNIST":
        return load_digits().data[:1000] / 8 - 1, "8×8 digits"
    squares = X[:1000].reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))
    return squares.reshape(-1, 196).astype(np.float64), "MNIST, 14×14"


def patches() -> tuple[Any, str]:
    grey = [image.mean(axis=2) / 255 for image in load_sample_images().images]
    X = np.vstack([extract_patches_2d(g, (8, 8), max_patches=1000, random_state=0) for g in grey])
    X = np.random.default_rng(0).permutation(X.reshape(-1, 64))
    return X - X.mean(axis=1, keepdims=True), "patches of photographs"


def main() -> None:
    warnings.simplefilter("ignore")
    for X, source in (small_digits(), patches()):
        train, val = X[: len(X) // 2], X[len(X) // 2 :]
        print(f"\n{source}, m={M}: validation energy per sample at alpha = a tenth of the variance")
        alpha = 0.1 * float(np.square(train).mean())
        for network, grid in GRIDS.items():
            default = network()
            for values in product(*grid.values()):
                setting = dict(zip(grid, values, strict=True))
                start = time.perf_counter()
                net = network(M, alpha, random_state=0, **setting).fit(train)
                seconds = time.perf_counter() - start
                mark = " *" if all(getattr(default, k) == v for k, v in setting.items()) else ""
                figures = f"{-net.score(val):.4g}, {seconds:.1f} s{mark}"
                print(f"{network.__name__:<10} {setting} {figures}", flush=True)


if __name__ == "__main__":
    main()
