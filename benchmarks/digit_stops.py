"""How long to train the networks of Figures 5 to 9, and what it does to the paper's claims.

    python benchmarks/digit_stops.py [NETWORK ...]

500 digits of 14×14 to learn from: the best accuracy over ten λ on 500 validation digits, for each
network by where its training ends; for the SVM all units are brought to one scale or left as they
are, and C is chosen or 1. Mind the chance in 500 digits: 1.5 points.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from lincode.classifier import one_vs_one_svm
from lincode.datasets import DataMissingError
from lincode.experiments.digit_grid import CS
from lincode.experiments.linear_codes import scaled, scales
from lincode.experiments.networks import build, paper_lams
from lincode.experiments.samples import Samples, Split

LADDERS: dict[str, list[dict[str, float]]] = {
    "SCNN": [{"tol": 1e-2}, {"tol": 1e-3}, {"tol": 1e-4}],
    "ASCNN": [{"max_iter": 2}, {"max_iter": 10}, {"max_iter": 50}],
    "SAANN": [{"max_iter": 2}, {"max_iter": 10}, {"max_iter": 50}],
    "Sparsenet": [{"max_iter": 3}, {"max_iter": 10}, {"max_iter": 30}],
}


def main() -> None:
    networks = sys.argv[1:] or list(LADDERS)
    folder = os.environ.get("LINCODE_DATA")
    warnings.simplefilter("ignore")
    try:
        data = Samples(Path(folder) if folder else None).digits((500, 500, 0), 0, 14)
    except DataMissingError as error:
        raise SystemExit(str(error)) from error
    print("| units | network | one scale, C chosen | as they are, C chosen | as they are, C = 1 |")
    print("| --- | --- | --- | --- | --- |")
    with threadpool_limits(1):
        for m in (25, 100, 150):
            for network in networks:
                for stop in LADDERS[network]:
                    found = [accuracies(network, m, lam, stop, data)
                             for lam in paper_lams(network, 10)]  # fmt: skip
                    cells = " | ".join(f"{accuracy:.1%}" for accuracy in np.max(found, axis=0))
                    ((name, value),) = stop.items()
                    print(f"| {m} | {network}, {name} {value:g} | {cells} |", flush=True)


def accuracies(
    network: str, m: int, lam: float, stop: Mapping[str, float], data: Split
) -> tuple[float, float, float]:
    """On validation digits: codes at one scale, as they are, as they are with C = 1."""
    fitted = build(network, m, lam, 0, **stop).fit(data.train)
    train, val = fitted.transform(data.train), fitted.transform(data.val)
    scale = scales(train)

    def right(A: Any, B: Any) -> dict[float, float]:
        svm = one_vs_one_svm(A, data.y_train, B, data.y_val, Cs=CS)
        return {C: 1 - error for C, error in svm.validation_errors.items()}

    plain = right(train, val)
    at_one_scale = right(scaled(train, scale), scaled(val, scale))
    return max(at_one_scale.values()), max(plain.values()), plain[1.0]


if __name__ == "__main__":
    main()
