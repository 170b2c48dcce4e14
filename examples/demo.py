"""Learn sparse codes of digits and of image patches, and compare them with other methods.

The data come with scikit-learn. SCNN is used with its default parameters. The regularisation
parameter C of each classifier is chosen on validation digits, and the table shows the results on
test digits.
"""

from __future__ import annotations

import argparse
import copy
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.datasets import load_digits, load_sample_images
from sklearn.decomposition import PCA, MiniBatchDictionaryLearning
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.image import extract_patches_2d
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from lincode import SCNN, Iteration
from lincode.metrics import rms_error, sparsity
from lincode.plotting import plot_atoms, plot_energy

Floats = Any  # arrays with one sample per row
N_COMPONENTS = 100
SVM_CS = (0.01, 0.1, 1.0, 10.0)
"""The values from which C is chosen for each classifier."""
TIMING_SECONDS = 0.5
"""The minimum total time over which the speed of an encoder is measured."""

console = Console()


class Method(NamedTuple):
    """A fitted method of the comparison."""

    name: str
    encode: Callable[[Floats], Floats]
    decode: Callable[[Floats], Floats]


def digits() -> list[Floats]:
    """Return training, validation and test digits in [−1, 1], followed by their labels."""
    X, y = load_digits(return_X_y=True)
    X = X / 8 - 1
    X_rest, X_test, y_rest, y_test = train_test_split(
        X, y, test_size=0.25, random_state=0, stratify=y
    )
    X_train, X_val, y_train, y_val = train_test_split(
        X_rest, y_rest, test_size=1 / 3, random_state=0, stratify=y_rest
    )
    return [X_train, X_val, X_test, y_train, y_val, y_test]


def photo_patches(n: int = 10_000) -> Floats:
    """Return n grey patches of 8×8 pixels from two photographs, each centred to mean 0."""
    images = [image.mean(axis=2) / 255 for image in load_sample_images().images]
    patches = [
        extract_patches_2d(image, (8, 8), max_patches=n // 2, random_state=0).reshape(-1, 64)
        for image in images
    ]
    X = np.vstack(patches)
    return np.asarray(X - X.mean(axis=1, keepdims=True))


def train(description: str, scnn: SCNN, X: Floats) -> SCNN:
    """Fit the network and show a progress bar."""
    columns = (
        TextColumn("{task.description:<22}"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:>3.0f} iterations, energy {task.fields[energy]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(description, total=None, energy="")

        def show(iteration: Iteration) -> None:
            progress.update(
                task,
                completed=iteration.n_iter,
                total=iteration.max_iter,
                energy=f"{iteration.energy_per_sample:.4f}",
            )

        scnn.set_params(callback=show).fit(X)
        progress.update(task, total=scnn.n_iter_)  # training has converged
    scnn.set_params(callback=None)
    return scnn


def fit_svm(codes: list[Floats], y_train: Floats, y_val: Floats) -> SVC:
    """Return a linear SVM for training codes, with C chosen on validation codes."""
    svms = [SVC(kernel="linear", C=C).fit(codes[0], y_train) for C in SVM_CS]
    accuracies = [svm.score(codes[1], y_val) for svm in svms]
    return svms[int(np.argmax(accuracies))]


def encoding_milliseconds(encode: Callable[[Floats], Floats], X: Floats) -> float:
    """Return the median time in milliseconds to encode 1000 samples."""
    samples = np.resize(X, (1000, X.shape[1]))
    seconds: list[float] = []
    while sum(seconds) < TIMING_SECONDS:
        start = time.perf_counter()
        encode(samples)
        seconds.append(time.perf_counter() - start)
    return 1000 * float(np.median(seconds))


def fit_methods(scnn: SCNN, X_train: Floats) -> list[Method]:
    """Return the trained network with each transform_algorithm, PCA and scikit-learn's method."""
    m, p = scnn.components_.shape
    pca = PCA(n_components=min(m, p) // 2).fit(X_train)
    # With this penalty, scikit-learn minimises the same lasso objective as SCNN without encoder.
    penalty = scnn.alpha_ * p / m
    dictionary = MiniBatchDictionaryLearning(
        m,
        alpha=penalty,
        fit_algorithm="cd",
        transform_algorithm="lasso_cd",
        transform_alpha=penalty,
        transform_max_iter=10_000,
        max_iter=100,
        random_state=0,
    ).fit(X_train)
    methods = []
    for algorithm in ("encoder", "exact", "lasso"):
        coder = copy.copy(scnn).set_params(transform_algorithm=algorithm)
        methods.append(Method(f"SCNN, {algorithm}", coder.transform, coder.inverse_transform))
    return [
        *methods,
        Method(f"PCA, {pca.n_components_} components", pca.transform, pca.inverse_transform),
        Method(
            "scikit-learn dictionary", dictionary.transform, lambda U: U @ dictionary.components_
        ),
    ]


def compare_on_digits() -> tuple[SCNN, Floats]:
    """Train on digits, print the comparison, and return the network and its training data."""
    X_train, X_val, X_test, y_train, y_val, y_test = digits()
    scnn = train("digits", SCNN(N_COMPONENTS, random_state=0), X_train)
    console.print(f"alpha={scnn.alpha!r} was resolved to {scnn.alpha_:.3f}. {scnn.stop_reason_}.")
    table = Table(title=f"{len(X_test)} test digits of 8×8, {N_COMPONENTS} units, linear SVM")
    for heading in ("", "RMS error", "zeros", "accuracy", "ms per 1000"):
        table.add_column(heading, justify="left" if not heading else "right")
    with console.status("comparing methods"), warnings.catch_warnings():
        # scikit-learn's lasso_cd warns about some samples for every max_iter.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for method in fit_methods(scnn, X_train):
            codes = [method.encode(X) for X in (X_train, X_val, X_test)]
            svm = fit_svm(codes, y_train, y_val)
            table.add_row(
                method.name,
                f"{rms_error(X_test, method.decode(codes[2])):.3f}",
                f"{sparsity(codes[2]):.0%}",
                f"{svm.score(codes[2], y_test):.1%}",
                f"{encoding_milliseconds(method.encode, X_test):.2f}",
            )
    console.print(table)
    return scnn, X_train


def save_figures(networks: dict[str, tuple[SCNN, Floats]], folder: Path) -> list[Path]:
    """Plot atoms, filters and energies, and return the paths of the files.

    The weights of a filter are multiplied by the standard deviation of each pixel. Otherwise
    border pixels, which hardly vary, would dominate the image.
    """
    folder.mkdir(parents=True, exist_ok=True)
    images = Figure(figsize=(9, 4.8 * len(networks)), layout="constrained")
    axes = images.subplots(len(networks), 2, squeeze=False)
    for (name, (scnn, X)), (left, right) in zip(networks.items(), axes, strict=True):
        filters = scnn.encoder_ * X.std(axis=0)
        plot_atoms(scnn.components_, ax=left).set_title(f"{name}: atoms (dictionary D)")
        plot_atoms(filters, ax=right).set_title(f"{name}: filters (encoder C, scaled)")
    curves = Figure(figsize=(6, 4), layout="constrained")
    ax = curves.subplots()
    for name, (scnn, _) in networks.items():
        plot_energy(scnn.energy_path_, label=name, ax=ax)
    ax.legend()
    files = [folder / "atoms.png", folder / "energy.png"]
    for figure, file in zip((images, curves), files, strict=True):
        figure.savefig(file, dpi=120)
    return files


def main() -> None:
    """Run the comparison and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("demo-output"), help="folder for the figures"
    )
    folder = parser.parse_args().out
    start = time.perf_counter()
    networks = {"digits": compare_on_digits()}
    patches = photo_patches()
    scnn = train("10,000 image patches", SCNN(N_COMPONENTS, random_state=0), patches)
    networks["photographs"] = scnn, patches
    files = save_figures(networks, folder)
    console.print(f"\nFinished in {time.perf_counter() - start:.0f} s. Figures:")
    for file in files:
        console.print(f"  {file}")
    console.print(
        "To experiment, change alpha, n_components or transform_algorithm in examples/demo.py."
    )


if __name__ == "__main__":
    main()
