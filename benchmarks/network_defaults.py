"""Choose the defaults of SAANN, ASCNN and Sparsenet that their papers do not specify.

    python benchmarks/network_defaults.py

For each setting this prints the energy per sample of validation data and the time of training. The
data are 500 training and 500 validation digits (MNIST of 14×14 pixels if ``LINCODE_DATA`` is set,
otherwise digits of 8×8), and 1000 training and 1000 validation patches of photographs. The present
defaults are marked with an asterisk.
"""

from __future__ import annotations

import warnings
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import sklearn.datasets
from data import load_digits, shrink_digits
from measure import seconds_of
from sklearn.feature_extraction.image import extract_patches_2d

from lincode import ASCNN, SAANN, Sparsenet

N_COMPONENTS = 100
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
    """Return 1000 digits in [−1, 1] and their name."""
    X, source = load_digits()
    if source != "MNIST":
        return sklearn.datasets.load_digits().data[:1000] / 8 - 1, "8×8 digits"
    return shrink_digits(X[:1000]).astype(np.float64), "MNIST, 14×14"


def patches() -> tuple[Any, str]:
    """Return 2000 patches of 8×8 pixels with mean 0 and their name."""
    images = [image.mean(axis=2) / 255 for image in sklearn.datasets.load_sample_images().images]
    X = np.vstack(
        [extract_patches_2d(image, (8, 8), max_patches=1000, random_state=0) for image in images]
    )
    X = np.random.default_rng(0).permutation(X.reshape(-1, 64))
    return X - X.mean(axis=1, keepdims=True), "patches of photographs"


def main() -> None:
    warnings.simplefilter("ignore")
    for X, source in (small_digits(), patches()):
        train, validation = X[: len(X) // 2], X[len(X) // 2 :]
        alpha = 0.1 * float(np.square(train).mean())
        print(f"\n{source}, n_components={N_COMPONENTS}, alpha={alpha:.3g}: validation energy")
        for network, grid in GRIDS.items():
            defaults = network().get_params()
            for values in product(*grid.values()):
                setting = dict(zip(grid, values, strict=True))
                net = network(N_COMPONENTS, alpha, random_state=0, **setting)
                seconds = seconds_of(partial(net.fit, train))
                mark = " *" if setting.items() <= defaults.items() else ""
                energy = -net.score(validation)
                print(
                    f"{network.__name__:<10} {setting} {energy:.4g}, {seconds:.1f} s{mark}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
