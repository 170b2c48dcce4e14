"""Compare the networks of the paper on the 8×8 digits of scikit-learn: atoms, codes and errors.

    python examples/networks.py [--out FOLDER]

For each network, alpha is chosen on validation digits, by the accuracy of a linear SVM on the
codes. The table and the figure show test digits, which are not used for any choice. The script
runs for about half a minute.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.svm import LinearSVC

from lincode import ASCNN, SAANN, SCNN, Sparsenet
from lincode.metrics import rms_error, sparsity_area
from lincode.plotting import plot_atoms

M = 49  # number of units of every network
CANDIDATES: dict[str, list[Any]] = {
    "SCNN": [SCNN(M, alpha, random_state=0) for alpha in (0.02, 0.1, 0.3)],
    "ASCNN": [ASCNN(M, alpha, random_state=0) for alpha in (0.01, 0.05, 0.2)],
    "SAANN": [SAANN(M, alpha, random_state=0) for alpha in (0.01, 0.05, 0.2)],
    "Sparsenet": [Sparsenet(M, alpha, random_state=0) for alpha in (0.02, 0.1, 0.5)],
    "PCA": [PCA(M)],
}
SVM_PENALTIES = (0.1, 1.0, 10.0)


class Digits(NamedTuple):
    """Samples with pixels in [−1, 1], and their labels."""

    X: Any
    y: Any


class Choice(NamedTuple):
    """A fitted network, the classifier of its codes, and how they were chosen."""

    network: Any
    svm: Any
    validation_accuracy: float
    seconds: float


def load_splits() -> tuple[Digits, Digits, Digits]:
    """Return training, validation and test digits."""
    X, y = load_digits(return_X_y=True)
    X_rest, X_test, y_rest, y_test = train_test_split(
        X / 8 - 1, y, test_size=0.25, random_state=0, stratify=y
    )
    X_train, X_val, y_train, y_val = train_test_split(
        X_rest, y_rest, test_size=1 / 3, random_state=0, stratify=y_rest
    )
    return Digits(X_train, y_train), Digits(X_val, y_val), Digits(X_test, y_test)


def choose_network(candidates: list[Any], train: Digits, validation: Digits) -> Choice:
    """Return the network and the SVM with the highest accuracy on the validation digits."""
    choices = []
    for candidate in candidates:
        start = time.perf_counter()
        network = clone(candidate).fit(train.X)
        seconds = time.perf_counter() - start
        train_codes, validation_codes = network.transform(train.X), network.transform(validation.X)
        for C in SVM_PENALTIES:
            svm = LinearSVC(C=C, random_state=0).fit(train_codes, train.y)
            accuracy = svm.score(validation_codes, validation.y)
            choices.append(Choice(network, svm, accuracy, seconds))
    return max(choices, key=lambda choice: choice.validation_accuracy)


def plot_networks(networks: dict[str, Any], test: Digits, path: Path) -> None:
    """Save a figure with one row per network: atoms, codes of ten digits, reconstructions."""
    ten_digits = test.X[[int(np.flatnonzero(test.y == label)[0]) for label in range(10)]]
    figure = Figure(figsize=(13, 2.9 * len(networks)), layout="constrained")
    axes = figure.subplots(len(networks), 3, width_ratios=[1, 1.5, 2])
    for row, (name, network) in zip(axes, networks.items(), strict=True):
        plot_atoms(network.components_, ax=row[0])
        row[0].set_title(f"{name}: atoms")
        codes = network.transform(ten_digits)
        limit = np.abs(codes).max() or 1.0
        row[1].imshow(codes, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
        row[1].set(title="codes of ten digits", xlabel="unit", ylabel="digit")
        restored = network.inverse_transform(codes)
        plot_atoms(
            np.vstack([ten_digits, restored, ten_digits - restored]), n_columns=10, ax=row[2]
        )
        row[2].set_title(
            f"digits, reconstructions, errors (RMS {rms_error(ten_digits, restored):.2f})"
        )
    figure.savefig(path, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="output folder")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    # LinearSVC does not always converge for large C. The accuracy is hardly affected.
    warnings.simplefilter("ignore", ConvergenceWarning)
    train, validation, test = load_splits()
    print(f"{M} units, {len(test.X)} test digits; alpha and C are chosen on validation digits\n")
    print("| network | alpha | RMS error | sparsity area | error rate | seconds to train |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    networks = {}
    for name, candidates in CANDIDATES.items():
        network, svm, _, seconds = choose_network(candidates, train, validation)
        networks[name] = network
        codes = network.transform(test.X)
        rms = rms_error(test.X, network.inverse_transform(codes))
        error = 1 - svm.score(codes, test.y)
        print(
            f"| {name} | {getattr(network, 'alpha', '')} | {rms:.3f} | {sparsity_area(codes):.2f} |"
            f" {error:.1%} | {seconds:.1f} |",
            flush=True,
        )
    path = out / "networks.png"
    plot_networks(networks, test, path)
    print(f"\nThe figure was written to {path}.")


if __name__ == "__main__":
    main()
