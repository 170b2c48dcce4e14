"""What Sparsenet is known for: localized, oriented atoms from whitened patches of photographs.

Uses scikit-learn's two photographs, or all images of a folder (``--images``).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
from matplotlib.figure import Figure
from sklearn.datasets import load_sample_images
from sklearn.feature_extraction.image import extract_patches_2d

from lincode import Sparsenet
from lincode.plotting import plot_atoms

SIDE = 8


def photographs(folder: Path | None) -> list[Any]:
    """Grey images in [0, 1]."""
    if folder is None:
        return [image.mean(axis=2) / 255 for image in load_sample_images().images]
    from matplotlib.image import imread

    files = sorted(f for f in folder.iterdir() if f.suffix.lower() in {".jpg", ".png"})
    if not files:
        raise SystemExit(f"{folder} has no .jpg or .png files")
    images = [np.atleast_3d(np.asarray(imread(f), dtype=np.float64))[:, :, :3] for f in files]
    return [image.mean(axis=2) / max(image.max(), 1.0) for image in images]


def whitened(image: Any) -> Any:
    """Olshausen and Field's filter: frequencies f weighed by f exp(−(f/f₀)⁴), f₀ of 0.4 a pixel.

    It flattens the spectrum of natural images and leaves out the corners of the grid.
    """
    fy, fx = (np.fft.fftfreq(n) for n in image.shape)
    f = np.hypot(fy[:, None], fx)
    filtered = np.fft.ifft2(np.fft.fft2(image - image.mean()) * f * np.exp(-((f / 0.4) ** 4))).real
    return filtered / (filtered.std() or 1.0)


def patches(images: list[Any], n: int) -> Any:
    """n patches of all images, each centred, all scaled to variance 0.1."""
    each = -(-n // len(images))
    X = np.vstack(
        [
            extract_patches_2d(whitened(image), (SIDE, SIDE), max_patches=each, random_state=0)
            for image in images
        ]
    ).reshape(-1, SIDE * SIDE)
    X = np.random.default_rng(0).permutation(X - X.mean(axis=1, keepdims=True))
    return X * np.sqrt(0.1) / X.std()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, default=None, help="a folder of photographs")
    parser.add_argument("--out", type=Path, default=Path("demo-output"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    X = patches(photographs(given.images), 20_000)
    net = Sparsenet(64, max_iter=30, random_state=0).fit(X)
    some = X[:5000]
    codes = net.transform(some)
    print(
        f"kurtosis of the codes {scipy.stats.kurtosis(codes, axis=None):.1f},"
        f" of the whitened pixels {scipy.stats.kurtosis(some, axis=None):.1f}"
    )
    figure = Figure(figsize=(6, 6), layout="constrained")
    plot_atoms(net, ax=figure.subplots())
    path = given.out / "natural_patches.png"
    figure.savefig(path, dpi=100)
    print(f"written: {path}")


if __name__ == "__main__":
    main()
