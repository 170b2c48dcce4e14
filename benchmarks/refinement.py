"""Measure the refinement of the encoder: held-out error by number of rounds.

    OMP_NUM_THREADS=1 python benchmarks/refinement.py

The network has the default alpha and is trained once for each kind of data. It is calibrated with
the training samples at three densities: that of the trained codes, a half and a quarter of it. The
last columns are the time of a round relative to an iteration of training, and the number of units
that the encoder does not use after the last round.
"""

from __future__ import annotations

import argparse
import copy
import time
import warnings
from typing import Any

import numpy as np
import sklearn.datasets
from reconstruction_data import DATA, Split

from lincode import SCNN
from lincode.metrics import rms_error

ROUNDS = (0, 1, 2, 5, 10, 20, 50)
FRACTIONS = (1.0, 0.5, 0.25)


def digits() -> Split:
    """Return digits of 8×8 pixels."""
    X = sklearn.datasets.load_digits().data / 16
    X = np.random.default_rng(0).permutation(X)
    return Split("digits of 8×8 pixels", 100, X[:1000], X[1000:1400], X[1400:])


def measure(data: Split) -> None:
    """Print the rows of one kind of data."""
    start = time.perf_counter()
    network = SCNN(data.n_components, random_state=0).fit(data.train)
    seconds = (time.perf_counter() - start) / network.n_iter_
    for fraction in FRACTIONS:
        density = fraction * float(network.usage_.mean())
        errors = []
        for rounds in ROUNDS:
            start = time.perf_counter()
            refined = copy.copy(network).set_params(fit_decoder=True, refine_max_iter=rounds)
            refined.calibrate(data.train, density=density)
            elapsed = time.perf_counter() - start
            if rounds == 0:
                calibration = elapsed
            errors.append(rms_error(data.test, refined.reconstruct(data.test)))
        nonzeros = refined.transform(data.test) != 0
        unused = int(np.sum(~np.any(refined.transform(data.train) != 0, axis=0)))
        ratio = (elapsed - calibration) / ROUNDS[-1] / seconds
        cells = [
            data.title if fraction == 1 else "",
            str(data.n_components),
            f"{nonzeros.mean():.1%}",
            *(f"{error:.3f}" for error in errors),
            f"{ratio:.1f}",
            str(unused),
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    kinds: dict[str, Any] = {"digits": digits, **DATA}
    parser.add_argument("--only", nargs="*", choices=list(kinds), default=list(kinds))
    warnings.simplefilter("ignore")
    titles = ["data", "units", "non-zeros", *map(str, ROUNDS), "time", "unused"]
    print(f"| {' | '.join(titles)} |\n| --- |{' ---: |' * (len(titles) - 1)}")
    for name in parser.parse_args().only:
        measure(kinds[name]())


if __name__ == "__main__":
    main()
