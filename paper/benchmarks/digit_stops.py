"""Compare lengths of training for the networks of Figures 5 to 9.

    python -m paper.benchmarks.digit_stops [NETWORK ...]

The networks are trained on 500 digits of 14×14 pixels. For each length of training this prints the
best accuracy over ten λ on 500 validation digits: with scaled units and the best C, with unscaled
units and the best C, and with unscaled units and C = 1. The standard error of an accuracy is 1.5
percentage points.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from paper.errors import PaperError
from paper.experiments.digit_grid import CS
from paper.experiments.features import scaled, scales
from paper.experiments.networks import build, paper_lams
from paper.experiments.samples import Samples, Split
from paper.svm import validation_errors

STOPS: dict[str, list[dict[str, float]]] = {
    "SCNN": [{"tol": 1e-2}, {"tol": 1e-3}, {"tol": 1e-4}],
    "ASCNN": [{"max_iter": 2}, {"max_iter": 10}, {"max_iter": 50}],
    "SAANN": [{"max_iter": 2}, {"max_iter": 10}, {"max_iter": 50}],
    "Sparsenet": [{"max_iter": 3}, {"max_iter": 10}, {"max_iter": 30}],
}
N_COMPONENTS = (25, 100, 150)


def accuracies(
    network: str, m: int, lam: float, stop: Mapping[str, float], data: Split
) -> tuple[float, float, float]:
    """Return the accuracies on validation digits: scaled, unscaled, and unscaled with C = 1."""
    fitted = build(network, m, lam, 0, **stop).fit(data.train)
    train, val = fitted.transform(data.train), fitted.transform(data.val)
    scale = scales(train)
    unscaled_errors = validation_errors(train, data.y_train, val, data.y_val, Cs=CS)
    scaled_errors = validation_errors(
        scaled(train, scale), data.y_train, scaled(val, scale), data.y_val, Cs=CS
    )
    errors = min(scaled_errors.values()), min(unscaled_errors.values()), unscaled_errors[1.0]
    return 1 - errors[0], 1 - errors[1], 1 - errors[2]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(STOPS))
    networks = parser.parse_args().networks or list(STOPS)
    if unknown := set(networks) - set(STOPS):
        parser.error(f"NETWORK must be one of {', '.join(STOPS)}, got {', '.join(unknown)}.")
    folder = os.environ.get("LINCODE_DATA")
    warnings.simplefilter("ignore")
    try:
        data = Samples(Path(folder) if folder else None).digits((500, 500, 0), 0, 14)
    except PaperError as error:
        raise SystemExit(str(error)) from error
    print("| units | network | scaled, best C | unscaled, best C | unscaled, C = 1 |")
    print("| --- | --- | --- | --- | --- |")
    with threadpool_limits(1):
        for m in N_COMPONENTS:
            for network in networks:
                for stop in STOPS[network]:
                    by_lam = [
                        accuracies(network, m, lam, stop, data) for lam in paper_lams(network, 10)
                    ]
                    cells = " | ".join(f"{accuracy:.1%}" for accuracy in np.max(by_lam, axis=0))
                    ((name, value),) = stop.items()
                    print(f"| {m} | {network}, {name} {value:g} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
