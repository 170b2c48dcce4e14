"""Compare linear SVMs of scikit-learn as classifiers of codes.

    python -m paper.benchmarks.classifiers [--full]

The codes are those of SCNN (λ=0.5, threshold 0.2) for 10,000 training and 10,000 validation digits
with m=400. With ``--full``, 50,000 training digits with m=1600 are also used. For each C this
prints the time of one fit and the error rate.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.multiclass import OneVsOneClassifier
from sklearn.svm import SVC, LinearSVC

from lincode import SCNN
from lincode.metrics import error_rate
from paper.datasets import load_mnist
from paper.errors import PaperError
from paper.experiments.networks import PAPER_ENCODER

N_VALIDATION = 10_000
DENSE, SPARSE = "LinearSVC, one-vs-one, dense", "LinearSVC, one-vs-one, CSR"
PARALLEL, LIBSVM = "LinearSVC, one-vs-one, CSR, n_jobs=2", "SVC(kernel='linear')"


def classifier(name: str, C: float) -> Any:
    """Return an unfitted classifier."""
    if name == LIBSVM:
        return SVC(kernel="linear", C=C, cache_size=1000)
    machine = LinearSVC(C=C, dual=True, max_iter=1000, random_state=0)
    return OneVsOneClassifier(machine, n_jobs=2 if name == PARALLEL else None)


def compare(X: Any, y: Any, m: int, n: int, Cs: Sequence[float], names: Sequence[str]) -> None:
    """Print the time and the error rate of each classifier, for n training digits and m units."""
    encoder = PAPER_ENCODER | {"threshold": 0.2}
    scnn = SCNN(m, 0.5 * m / 400, max_iter=10, random_state=0, **encoder).fit(X[:10_000])
    validation = slice(n, n + N_VALIDATION)
    codes, validation_codes = scnn.transform(X[:n]), scnn.transform(X[validation])
    print(f"\n{n:,} × {m}, {np.mean(codes == 0):.0%} zeros")
    for C in Cs:
        for name in names:
            convert = csr_matrix if name in (SPARSE, PARALLEL) else np.asarray
            machine, A = classifier(name, C), convert(codes)
            start = time.perf_counter()
            machine.fit(A, y[:n])
            seconds = time.perf_counter() - start
            error = error_rate(y[validation], machine.predict(convert(validation_codes)))
            print(f"C={C:<5} {name:<38} {seconds:7.1f} s  {error:.2%}", flush=True)


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="also use 50,000 digits")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    try:
        X, y = load_mnist("train")
    except PaperError as error:
        raise SystemExit(str(error)) from error
    compare(X, y, 400, 10_000, (0.1, 1.0, 10.0), (DENSE, SPARSE, PARALLEL, LIBSVM))
    if args.full:
        compare(X, y, 1600, 50_000, (0.1, 1.0), (SPARSE, PARALLEL))


if __name__ == "__main__":
    main()
