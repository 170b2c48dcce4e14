"""Measure ``threshold_mode``, ``split_sign`` and ``encoder_ridge`` for a linear classifier.

    python benchmarks/encoder_modes.py              both tables
    python benchmarks/encoder_modes.py --only few   classifier, few: one of them

The first table is the accuracy of a ``LogisticRegression`` on the codes of digits. The second one
compares ``encoder_ridge=0`` and "auto" if there are fewer samples than features. The regularisation
of the classifier is chosen on validation samples. These are tables of ``docs/encoder.md``.
"""

from __future__ import annotations

import argparse
import warnings
from itertools import product
from typing import Any

import numpy as np
import sklearn.datasets
from reconstruction_data import labelled_digits
from sklearn.linear_model import LogisticRegression

from lincode import SCNN
from lincode.metrics import rms_error

RIDGES: tuple[Any, ...] = (0, "auto", 0.3)
STRENGTHS = (0.03, 0.3, 3.0)
"""The candidates for C of LogisticRegression, for codes with a root-mean-square length of 10."""


def accuracy(codes: tuple[Any, Any, Any], y: tuple[Any, Any, Any]) -> float:
    """Return the test accuracy of the classifier with the best validation accuracy."""
    scale = 10 / (rms_length(codes[0]) or 1.0)  # the codes can be all zero
    train, validation, test = (scale * U for U in codes)
    models = [LogisticRegression(C=C, max_iter=300).fit(train, y[0]) for C in STRENGTHS]
    best = max(models, key=lambda model: model.score(validation, y[1]))
    return float(best.score(test, y[2]))


def rms_length(U: Any) -> float:
    """Return the root-mean-square length of the rows."""
    return float(np.sqrt(np.square(U).sum(axis=1).mean()))


def split_rows(A: Any, n_train: int, n_validation: int, n_test: int) -> tuple[Any, Any, Any]:
    ends = np.cumsum([n_train, n_validation, n_test])
    return A[: ends[0]], A[ends[0] : ends[1]], A[ends[1] : ends[2]]


def classifier_table(title: str, m: int, X: Any, y: Any, sizes: tuple[int, int, int]) -> None:
    """Print the accuracy for each combination of the parameters."""
    X, y = split_rows(X, *sizes), split_rows(y, *sizes)
    print(f"\n{title}, m = {m}, {sizes[0]} training and {sizes[2]} test samples")
    print(f"Accuracy on the samples themselves: {accuracy(X, y):.1%}")
    print("| encoder_ridge | threshold_mode | accuracy | with split_sign | non-zeros | RMS |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for ridge, mode in product(RIDGES, ("soft", "hard", "top_k")):
        scnn = SCNN(m, encoder_ridge=ridge, threshold_mode=mode, random_state=0).fit(X[0])
        codes: Any = tuple(scnn.transform(A) for A in X)
        scores = [accuracy(codes, y)]
        error = rms_error(X[2], scnn.inverse_transform(codes[2]))
        scnn.set_params(split_sign=True)
        codes_split: Any = tuple(scnn.transform(A) for A in X)
        scores.append(accuracy(codes_split, y))
        name = f"{ridge} ({scnn.encoder_ridge_:g})" if ridge == "auto" else f"{ridge}"
        print(
            f"| {name} | {mode} | {scores[0]:.1%} | {scores[1]:.1%} |"
            f" {np.mean(codes[2] != 0):.1%} | {error:.3f} |",
            flush=True,
        )


def few_samples_table(m: int = 200) -> None:
    """Print what the ridge changes for 500 digits of more than 500 pixels."""
    X, y = labelled_digits()
    sizes = (500, 500, 2000) if len(X) > 3000 else (40, 100, 1000)
    X, y = split_rows(X, *sizes), split_rows(y, *sizes)
    print(f"\n{sizes[0]} digits, p = {X[0].shape[1]}, m = {m}, {sizes[2]} test samples")
    print(
        "| encoder_ridge | threshold_mode | accuracy | non-zeros, training | non-zeros, test |"
        " RMS, training | RMS, test | encoder_r2_ |"
    )
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for ridge, mode in product(RIDGES[:2], ("soft", "hard")):
        scnn = SCNN(m, encoder_ridge=ridge, threshold_mode=mode, random_state=0).fit(X[0])
        codes: Any = tuple(scnn.transform(A) for A in X)
        density = [f"{np.mean(U != 0):.1%}" for U in (codes[0], codes[2])]
        errors = [
            f"{rms_error(A, scnn.inverse_transform(U)):.3f}"
            for A, U in zip(X[::2], codes[::2], strict=True)
        ]
        name = f"auto ({scnn.encoder_ridge_:g})" if ridge == "auto" else f"{ridge}"
        cells = [name, mode, f"{accuracy(codes, y):.1%}", *density, *errors]
        print(f"| {' | '.join(cells)} | {scnn.encoder_r2_:.3f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    choices = ("classifier", "few")
    parser.add_argument("--only", nargs="*", choices=choices, default=choices)
    only = parser.parse_args().only
    warnings.simplefilter("ignore")
    if "few" in only:
        few_samples_table()
    if "classifier" in only:
        X, y = sklearn.datasets.load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(X))
        classifier_table("Digits of 8×8 pixels", 100, X[order] / 16, y[order], (1000, 300, 497))
        X, y = labelled_digits()
        if X.shape[1] == 784:
            classifier_table("MNIST", 200, X, y, (3000, 1000, 3000))


if __name__ == "__main__":
    main()
