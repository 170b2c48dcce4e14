"""The main job in one go: learn sparse codes of digits and photographs, and compare.

Everything runs on data that come with scikit-learn. Choices (alpha, the classifier's C) are
made on validation data; the table is of test data no choice has seen.
"""

from __future__ import annotations

import argparse
import copy
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

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

Floats = Any  # arrays, rows are samples
M = 100
SHARES = (0.02, 0.05, 0.1)  # of alpha_max
THRESHOLDS = (0.1, 0.3, 1.0)  # of alpha: the encoder's own threshold
PENALTIES = (0.01, 0.1, 1.0, 10.0)  # the classifier's C

console = Console()


def digits() -> list[Floats]:
    """Train, validation and test digits in [−1, 1], and their labels."""
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
    """8×8 patches of scikit-learn's two photographs, grey, each centred to mean 0."""
    grey = [image.mean(axis=2) / 255 for image in load_sample_images().images]
    X = np.vstack(
        [
            extract_patches_2d(image, (8, 8), max_patches=n // 2, random_state=0).reshape(-1, 64)
            for image in grey
        ]
    )
    return np.asarray(X - X.mean(axis=1, keepdims=True))


def train(name: str, scnn: SCNN, X: Floats) -> SCNN:
    """Fit with a live progress bar."""
    columns = (
        TextColumn("{task.description:<22}"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:>3.0f} iterations, energy {task.fields[energy]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(name, total=None, energy="")

        def show(now: Iteration) -> None:
            progress.update(
                task,
                completed=now.n_iter,
                total=now.max_iter,
                energy=f"{now.energy_per_sample:.4f}",
            )

        scnn.set_params(callback=show).fit(X)
        progress.update(task, total=scnn.n_iter_)  # it converged: the bar is full
    scnn.set_params(callback=None)
    return scnn


def best_svm(codes: list[Floats], y_train: Floats, y_val: Floats) -> tuple[float, SVC]:
    """Validation accuracy and classifier, the C chosen on validation data."""
    svms = [SVC(kernel="linear", C=C).fit(codes[0], y_train) for C in PENALTIES]
    accuracies = [svm.score(codes[1], y_val) for svm in svms]
    best = int(np.argmax(accuracies))
    return float(accuracies[best]), svms[best]


def milliseconds(encode: Callable[[Floats], Floats], X: Floats) -> float:
    """Median time to encode 1000 samples."""
    thousand = np.resize(X, (1000, X.shape[1]))
    seconds: list[float] = []
    while sum(seconds) < 0.5:
        start = time.perf_counter()
        encode(thousand)
        seconds.append(time.perf_counter() - start)
    return 1000 * float(np.median(seconds))


def compare_on_digits() -> tuple[SCNN, Floats]:
    """Train on the digits, print the table, give back the network and its training data."""
    X_train, X_val, X_test, y_train, y_val, y_test = digits()
    alpha_max = SCNN(n_components=M).alpha_max(X_train)
    tried = []
    for share in SHARES:
        alpha = share * alpha_max
        network = SCNN(n_components=M, alpha=alpha, random_state=0)
        train(f"digits, {share} alpha_max", network, X_train)
        for part in THRESHOLDS:
            coder = copy.copy(network).set_params(threshold=part * alpha)
            codes = [coder.transform(X_train), coder.transform(X_val)]
            tried.append((best_svm(codes, y_train, y_val)[0], coder))
    scnn: SCNN = max(tried, key=lambda pair: pair[0])[1]
    console.print(
        f"Best on validation digits: alpha = {scnn.alpha:.3f}, threshold = {scnn.threshold:.3f}."
    )

    # scikit-learn's lasso_cd warns for single samples, whatever its max_iter.
    warnings.simplefilter("ignore", ConvergenceWarning)
    with console.status("fitting PCA and scikit-learn's dictionary"):
        pca = PCA(n_components=min(M, 64) // 2).fit(X_train)
        # The same lasso: scikit-learn weighs ½‖x − uD‖² against ‖u‖₁ by λp/m.
        penalty = scnn.alpha * 64 / M
        dictionary = MiniBatchDictionaryLearning(
            M, alpha=penalty, fit_algorithm="cd", transform_algorithm="lasso_cd",
            transform_alpha=penalty, transform_max_iter=10_000, max_iter=100, random_state=0,
        ).fit(X_train)  # fmt: skip

    exact = copy.copy(scnn).set_params(transform_method="exact")
    contestants: list[tuple[str, Callable[[Floats], Floats], Callable[[Floats], Floats]]] = [
        ("SCNN, encoder", scnn.transform, scnn.inverse_transform),
        ("SCNN, exact codes", exact.transform, exact.inverse_transform),
        (f"PCA, {pca.n_components_} units", pca.transform, pca.inverse_transform),
        ("scikit-learn dictionary", dictionary.transform, lambda U: U @ dictionary.components_),
    ]
    table = Table(title=f"{len(X_test)} test digits of 8×8, {M} units, linear SVM")
    for heading in ("", "RMS error", "zeros", "accuracy", "ms per 1000"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, encode, decode in contestants:
        codes = [encode(X) for X in (X_train, X_val, X_test)]
        _, svm = best_svm(codes, y_train, y_val)
        table.add_row(
            name,
            f"{rms_error(X_test, decode(codes[2])):.3f}",
            f"{sparsity(codes[2]):.0%}",
            f"{svm.score(codes[2], y_test):.1%}",
            f"{milliseconds(encode, X_test):.2f}",
        )
    console.print(table)
    return scnn, X_train


def draw(networks: dict[str, tuple[SCNN, Floats]], folder: Path) -> list[Path]:
    """Pictures of atoms, filters and energy.

    A filter's weights are drawn times the spread of their pixels: weights of border pixels
    that hardly ever change are large and mean little.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pictures = Figure(figsize=(9, 4.8 * len(networks)), layout="constrained")
    axes = pictures.subplots(len(networks), 2, squeeze=False)
    for (name, (scnn, X)), (left, right) in zip(networks.items(), axes, strict=True):
        filters = scnn.encoder_ * X.std(axis=0)
        plot_atoms(scnn.components_, ax=left).set_title(f"{name}: atoms (dictionary D)")
        plot_atoms(filters, ax=right).set_title(f"{name}: filters (encoder C × spread)")
    curves = Figure(figsize=(6, 4), layout="constrained")
    ax = curves.subplots()
    for name, (scnn, _) in networks.items():
        plot_energy(scnn.energy_path_, label=name, ax=ax)
    ax.legend()
    files = [folder / "atoms.png", folder / "energy.png"]
    for figure, file in zip((pictures, curves), files, strict=True):
        figure.savefig(file, dpi=120)
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="where pictures go")
    folder = parser.parse_args().out
    start = time.perf_counter()
    networks = {"digits": compare_on_digits()}
    patches = photo_patches()
    scnn = SCNN(n_components=M, random_state=0)
    scnn.set_params(alpha=0.05 * scnn.alpha_max(patches))
    networks["photographs"] = train("10,000 photo patches", scnn, patches), patches
    files = draw(networks, folder)
    console.print(f"\nDone in {time.perf_counter() - start:.0f} s. Pictures:")
    for file in files:
        console.print(f"  {file}")
    console.print(
        "Try next: transform_method='exact', split_sign=True, or another alpha in"
        " examples/demo.py; README.md has the ten-line version."
    )


if __name__ == "__main__":
    main()
