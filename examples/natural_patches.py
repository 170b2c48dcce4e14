"""Learn localized, oriented atoms with Sparsenet from whitened patches of photographs.

    python examples/natural_patches.py [--images FOLDER] [--out FOLDER]

The patches come from the two photographs of scikit-learn, or from all .jpg and .png files of a
folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
from matplotlib.figure import Figure
from matplotlib.image import imread
from sklearn.datasets import load_sample_images
from sklearn.feature_extraction.image import extract_patches_2d

from lincode import Sparsenet
from lincode.plotting import plot_atoms

SIDE = 8  # height and width of a patch
N_PATCHES = 20_000
VARIANCE = 0.1  # of the patches, as in the original


def load_images(folder: Path | None) -> list[Any]:
    """Return grey images with values in [0, 1]."""
    if folder is None:
        return [image.mean(axis=2) / 255 for image in load_sample_images().images]
    files = sorted(f for f in folder.iterdir() if f.suffix.lower() in {".jpg", ".png"})
    if not files:
        raise SystemExit(f"The folder {folder} has no .jpg or .png files.")
    images = [np.atleast_3d(np.asarray(imread(f), dtype=np.float64))[:, :, :3] for f in files]
    return [image.mean(axis=2) / max(image.max(), 1.0) for image in images]


def whiten(image: Any) -> Any:
    """Return the image after the whitening filter of Olshausen and Field, with variance 1.

    The filter multiplies the amplitude at frequency f by f exp(−(f/f₀)⁴), where f₀ = 0.4 cycles
    per pixel. The factor f flattens the spectrum of natural images. The exponential removes the
    highest frequencies, which are the corners of the frequency grid.
    """
    fy, fx = (np.fft.fftfreq(n) for n in image.shape)
    f = np.hypot(fy[:, None], fx)
    filtered = np.fft.ifft2(np.fft.fft2(image - image.mean()) * f * np.exp(-((f / 0.4) ** 4))).real
    return filtered / (filtered.std() or 1.0)


def whitened_patches(images: list[Any], n: int) -> Any:
    """Return at least n random patches, each with mean 0, scaled to the variance VARIANCE."""
    n_per_image = -(-n // len(images))
    X = np.vstack(
        [
            extract_patches_2d(whiten(image), (SIDE, SIDE), max_patches=n_per_image, random_state=0)
            for image in images
        ]
    ).reshape(-1, SIDE * SIDE)
    X = np.random.default_rng(0).permutation(X - X.mean(axis=1, keepdims=True))
    return X * np.sqrt(VARIANCE) / X.std()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, default=None, help="folder of photographs")
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="output folder")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    X = whitened_patches(load_images(args.images), N_PATCHES)
    network = Sparsenet(64, max_iter=30, random_state=0).fit(X)
    sample = X[:5000]
    codes = network.transform(sample)
    print(
        f"The kurtosis of the codes is {scipy.stats.kurtosis(codes, axis=None):.1f}; that of the"
        f" whitened pixels is {scipy.stats.kurtosis(sample, axis=None):.1f}."
    )
    figure = Figure(figsize=(6, 6), layout="constrained")
    plot_atoms(network, ax=figure.subplots())
    path = args.out / "natural_patches.png"
    figure.savefig(path, dpi=100)
    print(f"The figure was written to {path}.")


if __name__ == "__main__":
    main()
