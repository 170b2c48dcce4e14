"""The paper's networks side by side on the 8×8 digits: atoms, codes and errors of each.

Alpha is chosen for each network on validation digits, by the error of a linear SVM on its codes;
the table and the picture are of test digits that no choice has seen. Half a minute.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

from lincode import ASCNN, SAANN, SCNN, Sparsenet
from lincode.classifier import ChosenSVM, one_vs_one_svm
from lincode.metrics import rms_error, sparsity_area
from lincode.plotting import plot_atoms

M = 49
ALPHAS: dict[str, tuple[float, ...]] = {
    "SCNN": (0.02, 0.1, 0.3),
    "ASCNN": (0.01, 0.05, 0.2),
    "SAANN": (0.01, 0.05, 0.2),
    "Sparsenet": (0.02, 0.1, 0.5),
    "PCA": (0.0,),
}


def digits() -> list[Any]:
    """Train, validation and test digits in [−1, 1], and their labels."""
    X, y = load_digits(return_X_y=True)
    rest, test, y_rest, y_test = train_test_split(
        X / 8 - 1, y, test_size=0.25, random_state=0, stratify=y
    )
    train, val, y_train, y_val = train_test_split(
        rest, y_rest, test_size=1 / 3, random_state=0, stratify=y_rest
    )
    return [train, val, test, y_train, y_val, y_test]


def network(name: str, alpha: float) -> Any:
    if name == "PCA":
        return PCA(M)
    if name == "SCNN":
        return SCNN(M, alpha, threshold="match", random_state=0)
    return {"ASCNN": ASCNN, "SAANN": SAANN, "Sparsenet": Sparsenet}[name](M, alpha, random_state=0)


def chosen(name: str, data: list[Any]) -> tuple[Any, ChosenSVM, float]:
    """The network whose codes a linear SVM errs least on, that SVM, and seconds to train it."""
    train, val, _, y_train, y_val, _ = data
    tried = []
    for alpha in ALPHAS[name]:
        start = time.perf_counter()
        net = network(name, alpha).fit(train)
        seconds = time.perf_counter() - start
        svm = one_vs_one_svm(
            net.transform(train), y_train, net.transform(val), y_val, Cs=(0.1, 1.0, 10.0)
        )
        tried.append((net, svm, seconds))
    return min(tried, key=lambda one: one[1].validation_errors[one[1].C])


def draw(found: dict[str, Any], X: Any, y: Any, out: Path) -> Path:
    """A row a network: its atoms, its codes of one digit each, and what it makes of them."""
    ten = X[[int(np.flatnonzero(y == label)[0]) for label in range(10)]]
    figure = Figure(figsize=(13, 2.9 * len(found)), layout="constrained")
    axes = figure.subplots(len(found), 3, width_ratios=[1, 1.5, 2])
    for row, (name, net) in zip(axes, found.items(), strict=True):
        plot_atoms(net.components_, ax=row[0])
        row[0].set_title(f"{name}: atoms")
        codes = net.transform(ten)
        size = np.abs(codes).max() or 1.0
        row[1].imshow(codes, cmap="RdBu_r", vmin=-size, vmax=size, aspect="auto")
        row[1].set(title="codes of ten digits", xlabel="unit", ylabel="digit")
        made = net.inverse_transform(codes)
        plot_atoms(np.vstack([ten, made, ten - made]), n_columns=10, ax=row[2])
        row[2].set_title(f"digits, reconstructions, errors (RMS {rms_error(ten, made):.2f})")
    path = out / "networks.png"
    figure.savefig(path, dpi=90)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo-output"))
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    data = digits()
    test, y_test = data[2], data[5]
    print(f"{M} units, {len(test)} test digits; alpha and the SVM's C chosen on others\n")
    print("| network | alpha | RMS error | sparsity area | error rate | seconds to train |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    found = {}
    for name in ALPHAS:
        net, svm, seconds = chosen(name, data)
        found[name] = net
        codes = net.transform(test)
        rms = rms_error(test, net.inverse_transform(codes))
        print(
            f"| {name} | {getattr(net, 'alpha', '')} | {rms:.3f} | {sparsity_area(codes):.2f} |"
            f" {100 * svm.error(codes, y_test):.1f} % | {seconds:.1f} |",
            flush=True,
        )
    print(f"\nwritten: {draw(found, test, y_test, out)}")


if __name__ == "__main__":
    main()
