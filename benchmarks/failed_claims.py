"""Why ASCNN and SAANN do better here than in the paper's Figures 5 and 8.

    python benchmarks/failed_claims.py

What one may suspect: that the paper's were trained less, or that its SVM saw codes that were not
brought to one scale, with one C for all. 500 digits of 14×14 to learn from, the best accuracy over
ten λ on 500 validation digits, for each network by its epochs.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from lincode.classifier import one_vs_one_svm
from lincode.datasets import DataMissingError
from lincode.experiments.digit_grid import CS, STOP
from lincode.experiments.linear_codes import scaled, scales
from lincode.experiments.networks import build, paper_lams
from lincode.experiments.samples import Samples, Split

EPOCHS = (2, 10, 50)


def main() -> None:
    warnings.simplefilter("ignore")
    folder = os.environ.get("LINCODE_DATA")
    try:
        data = Samples(Path(folder) if folder else None).digits((500, 500, 0), 0, 14)
    except DataMissingError as error:
        raise SystemExit(str(error)) from error
    print("| units | network | one scale, C chosen | as they are, C chosen | as they are, C = 1 |")
    print("| --- | --- | --- | --- | --- |")
    with threadpool_limits(1):
        for m in (25, 100, 150):
            for name, network, stop in ways():
                found = np.max([accuracies(network, m, lam, stop, data)
                                for lam in paper_lams(network, 10)], axis=0)  # fmt: skip
                cells = " | ".join(f"{accuracy:.1%}" for accuracy in found)
                print(f"| {m} | {name} | {cells} |", flush=True)


def ways() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """SCNN as in the figures; the others with few and with many epochs."""
    yield "SCNN", "SCNN", STOP["SCNN"]
    for network in ("ASCNN", "SAANN"):
        for epochs in EPOCHS:
            yield f"{network}, {epochs} epochs", network, {"max_iter": epochs}


def accuracies(
    network: str, m: int, lam: float, stop: dict[str, Any], data: Split
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
