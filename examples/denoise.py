"""Remove noise from a photograph by sparse codes of its patches, and compare with other methods.

White noise of standard deviation 0.1 is added to a photograph that comes with scikit-learn. Every
method learns from noisy patches of the same image, denoises all overlapping patches of 8×8 pixels
without their mean, and averages them. No method sees the clean image. The constants below were
chosen on flower.jpg, and the default image is china.jpg.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_sample_image
from sklearn.decomposition import PCA, MiniBatchDictionaryLearning
from sklearn.feature_extraction.image import extract_patches_2d, reconstruct_from_patches_2d
from sklearn.linear_model import orthogonal_mp

from lincode import SCNN
from lincode.metrics import rms_error

Floats = Any  # arrays; patches have one patch per row
NOISE = 0.1
SIDE = 8
N_COMPONENTS = 128
N_TRAINING_PATCHES = 10_000
ALPHA = 1.8 * NOISE * N_COMPONENTS / SIDE**2
"""With this alpha, a lasso code is zero where its atom explains less than 1.8 times the noise."""
PCA_THRESHOLD = 2.6 * NOISE
DICTIONARY_ALPHA = 0.2
OMP_RESIDUAL = 1.1 * NOISE
"""OMP adds atoms until the root-mean-square residual of the patch is at most this."""


class Patches(NamedTuple):
    """The overlapping patches of an image."""

    X: Floats
    """The patches without their means, shape (n_patches, 64)"""
    means: Floats
    shape: tuple[int, int]
    """The shape of the image"""

    def image(self, X: Floats) -> Floats:
        """Return the image in which overlapping patches X are averaged, clipped to [0, 1]."""
        patches = (X + self.means).reshape(-1, SIDE, SIDE)
        return np.clip(reconstruct_from_patches_2d(patches, self.shape), 0, 1)

    def sample(self, n: int) -> Floats:
        """Return n random patches."""
        rng = np.random.default_rng(0)
        return self.X[rng.choice(len(self.X), min(n, len(self.X)), replace=False)]


class Result(NamedTuple):
    """A denoised image and the seconds for learning and for denoising."""

    image: Floats
    fit_seconds: float
    denoise_seconds: float


def photograph(name: str, size: int = 256) -> Floats:
    """Return a square part of a sample image, in grey values between 0 and 1."""
    image = load_sample_image(name).mean(axis=2) / 255
    return image[100 : 100 + size, 150 : 150 + size]


def add_noise(image: Floats) -> Floats:
    return image + NOISE * np.random.default_rng(0).standard_normal(image.shape)


def patches_of(image: Floats) -> Patches:
    X = extract_patches_2d(image, (SIDE, SIDE)).reshape(-1, SIDE**2)
    means = X.mean(axis=1, keepdims=True)
    return Patches(X - means, means, image.shape)


def psnr(image: Floats, clean: Floats) -> float:
    """Return the peak signal-to-noise ratio in decibels, for grey values between 0 and 1."""
    return -20 * float(np.log10(rms_error(clean, np.clip(image, 0, 1))))


def fit_network(patches: Patches) -> SCNN:
    """Learn a dictionary from noisy patches, and afterwards the encoder and its decoder."""
    return SCNN(
        N_COMPONENTS, ALPHA, encoder_weight=0, fit_decoder=True, tol=1e-3, random_state=0
    ).fit(patches.sample(N_TRAINING_PATCHES))


def match_noise(scnn: SCNN, X: Floats) -> SCNN:
    """Calibrate the encoder at the density at which the residual is as large as the noise.

    A denser code would reconstruct a part of the noise, and a sparser one loses a part of the
    image. The residual decreases with the density, so the density is found by bisection.
    """
    low, high = 1e-3, 1.0
    sample = X[:: max(1, len(X) // 5000)]
    for _ in range(8):
        density = float(np.sqrt(low * high))
        residual = rms_error(sample, scnn.calibrate(sample, density=density).reconstruct(sample))
        low, high = (density, high) if residual > NOISE else (low, density)
    scnn.calibrate(X, density=density)
    return scnn


def timed(patches: Patches, fit: Callable[[], Callable[[Floats], Floats]]) -> Result:
    """Run ``fit``, apply the function that it returns to the patches, and measure the times."""
    start = time.perf_counter()
    denoise = fit()
    fitted = time.perf_counter()
    X = denoise(patches.X)
    return Result(patches.image(X), fitted - start, time.perf_counter() - fitted)


def denoise_by_encoder(patches: Patches, scnn: SCNN | None = None) -> Result:
    """Denoise by one matrix product, a threshold and the decoder."""

    def fit() -> Callable[[Floats], Floats]:
        network = fit_network(patches) if scnn is None else scnn
        network.set_params(transform_algorithm="encoder")
        return match_noise(network, patches.X).reconstruct

    return timed(patches, fit)


def denoise_by_lasso(patches: Patches) -> Result:
    def fit() -> Callable[[Floats], Floats]:
        network = fit_network(patches)
        network.set_params(transform_algorithm="lasso")
        return network.reconstruct

    return timed(patches, fit)


def denoise_by_omp(patches: Patches) -> Result:
    """Denoise by orthogonal matching pursuit on a dictionary of scikit-learn."""

    def fit() -> Callable[[Floats], Floats]:
        learner = MiniBatchDictionaryLearning(
            N_COMPONENTS, alpha=DICTIONARY_ALPHA, max_iter=10, random_state=0
        )
        D = learner.fit(patches.sample(N_TRAINING_PATCHES)).components_
        D = D / np.maximum(np.linalg.norm(D, axis=1, keepdims=True), 1e-12)
        return lambda X: orthogonal_mp(D.T, X.T, tol=SIDE**2 * OMP_RESIDUAL**2).T @ D

    return timed(patches, fit)


def denoise_by_pca(patches: Patches) -> Result:
    """Denoise by a hard threshold of principal components."""

    def fit() -> Callable[[Floats], Floats]:
        pca = PCA().fit(patches.X)

        def denoise(X: Floats) -> Floats:
            Z = pca.transform(X)
            return pca.inverse_transform(np.where(np.abs(Z) > PCA_THRESHOLD, Z, 0))

        return denoise

    return timed(patches, fit)


METHODS: dict[str, Callable[[Patches], Result]] = {
    "SCNN, encoder": denoise_by_encoder,
    "SCNN, lasso codes": denoise_by_lasso,
    "scikit-learn, dictionary and OMP": denoise_by_omp,
    "PCA, hard threshold": denoise_by_pca,
}


def show_image(ax: Any, image: Floats, title: str) -> None:
    ax.imshow(image, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    ax.set_title(title, fontsize=10)
    ax.set_axis_off()


def save_figure(clean: Floats, noisy: Floats, denoised: Floats, file: Path) -> None:
    """Plot the noisy, the denoised and the clean image."""
    file.parent.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(10, 3.7), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    show_image(left, noisy, f"Noisy, {psnr(noisy, clean):.1f} dB")
    show_image(middle, denoised, f"Denoised by the encoder, {psnr(denoised, clean):.1f} dB")
    show_image(right, clean, "Clean")
    figure.savefig(file, dpi=120)


def main() -> None:
    """Print the comparison and write the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", choices=("china.jpg", "flower.jpg"), default="china.jpg")
    parser.add_argument("--size", type=int, default=256, help="side of the image in pixels")
    parser.add_argument("--out", type=Path, default=Path("demo-output/denoised.png"))
    arguments = parser.parse_args()
    clean = photograph(arguments.image, arguments.size)
    noisy = add_noise(clean)
    patches = patches_of(noisy)
    # The first use of the compiled solver compiles it.
    SCNN(2, encoder_weight=0, random_state=0).fit(patches.X[:100])
    print(f"{arguments.image}, {len(patches.X)} patches, noise {NOISE}")
    print("| method | PSNR | learning | denoising |")
    print("| --- | ---: | ---: | ---: |")
    print(f"| noisy image | {psnr(noisy, clean):.2f} dB | | |", flush=True)
    denoised = {}
    for name, method in METHODS.items():
        result = method(patches)
        denoised[name] = result.image
        quality = f"{psnr(result.image, clean):.2f} dB"
        times = f"{result.fit_seconds:.1f} s | {result.denoise_seconds:.2f} s"
        print(f"| {name} | {quality} | {times} |", flush=True)
    save_figure(clean, noisy, denoised["SCNN, encoder"], arguments.out)
    print(f"Figure: {arguments.out}")


if __name__ == "__main__":
    main()
