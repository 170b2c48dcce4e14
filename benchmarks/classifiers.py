"""Which linear SVM of scikit-learn serves: one-vs-one LinearSVC, dense or CSR, or SVC.

    python benchmarks/classifiers.py [--full]

Codes of SCNN (λ=0.5, threshold 0.2): 10,000 digits to learn from and 10,000 to judge by, m=400;
with ``--full`` also 50,000 digits, m=1600. Seconds of one fit and error rate for each C.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.multiclass import OneVsOneClassifier
from sklearn.svm import SVC, LinearSVC

from lincode import SCNN
from lincode.datasets import DataMissingError, load_mnist
from lincode.metrics import error_rate


def compare(X: Any, y: Any, m: int, n: int, Cs: tuple[float, ...], names: list[str]) -> None:
    scnn = SCNN(m, 0.5 * m / 400, threshold=0.2, max_iter=10, random_state=0).fit(X[:10_000])
    train, val, y_train, y_val = (
        scnn.transform(X[:n]), scnn.transform(X[n : n + 10_000]), y[:n], y[n : n + 10_000]
    )  # fmt: skip
    print(f"\n{n:,} × {m}, {np.mean(train == 0):.0%} zeros")
    for C in Cs:
        ways: dict[str, tuple[Any, Any]] = {
            "LinearSVC, one-vs-one, dense": (OneVsOneClassifier(svc(C)), np.array),
            "LinearSVC, one-vs-one, CSR": (OneVsOneClassifier(svc(C)), csr_matrix),
            "the same, n_jobs=2": (OneVsOneClassifier(svc(C), n_jobs=2), csr_matrix),
            "SVC(kernel='linear')": (SVC(kernel="linear", C=C, cache_size=1000), np.array),
        }
        for name in names:
            machine, form = ways[name]
            A, B = form(train), form(val)
            start = time.perf_counter()
            machine.fit(A, y_train)
            seconds = time.perf_counter() - start
            error = 100 * error_rate(y_val, machine.predict(B))
            print(f"C={C:<5} {name:<30} {seconds:7.1f} s  {error:.2f} %", flush=True)


def svc(C: float) -> LinearSVC:
    return LinearSVC(C=C, dual=True, max_iter=1000, random_state=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true")
    full = parser.parse_args().full
    warnings.simplefilter("ignore")
    try:
        X, y = load_mnist("train")
    except DataMissingError as error:
        raise SystemExit(str(error)) from error
    every = [
        "LinearSVC, one-vs-one, dense", "LinearSVC, one-vs-one, CSR", "the same, n_jobs=2",
        "SVC(kernel='linear')",
    ]  # fmt: skip
    compare(X, y, 400, 10_000, (0.1, 1.0, 10.0), every)
    if full:
        compare(X, y, 1600, 50_000, (0.1, 1.0), every[1:3])


if __name__ == "__main__":
    main()
