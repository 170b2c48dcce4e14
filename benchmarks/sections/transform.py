"""The cost of transform relative to its matrix product, for each kind of codes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
from measure import Call, Section, cell, seconds_of, table
from peers import sklearn_
from sklearn.utils.validation import validate_data
from threadpoolctl import threadpool_limits

from lincode import SCNN

SHAPES = (
    (60_000, 784, 400),
    (100_000, 64, 128),
    (20_000, 384, 1536),
    (1000, 784, 400),
    (100, 784, 400),
)
"""The numbers of samples, features and units"""
OUTPUTS: dict[str, tuple[dict[str, Any], float]] = {
    "one threshold": ({}, 1.1),
    "largest 32": ({"density": 32}, 1.3),
    "projection": ({"transform_algorithm": "projection"}, math.inf),
    "sparse": ({"sparse_output": True}, math.inf),
}
"""The parameters of each kind of codes, and the goal for the ratio"""
SKLEARN = "scikit-learn, threshold"
SPIN_SECONDS = 0.15
"""So long the threads of the BLAS library may occupy the cores after a product."""


def run(X: Any, quick: bool) -> Section:
    del X  # the time does not depend on what the samples are
    rows, details = [], {}
    for n_samples, p, m in SHAPES:
        n_samples = n_samples // 4 if quick and n_samples > 1000 else n_samples
        samples, functions, networks = problem(n_samples, p, m)
        with threadpool_limits(1, user_api="blas"):
            one = ratios(samples, functions, networks, 1, quick)
        two = ratios(samples, functions, networks, None, quick)
        shape = f"{n_samples:,}×{p}, m={m}"
        cells = [
            f"{cell(one[name], goal)}, {cell(two[name], goal)}"
            for name, (_, goal) in OUTPUTS.items()
        ]
        rows.append([shape, *cells, f"{one[SKLEARN]:.2f}, {two[SKLEARN]:.2f}"])
        details[shape] = {"one thread": one, "all threads": two}
    goals = [f"{goal} for {name}" for name, (_, goal) in OUTPUTS.items() if goal < math.inf]
    text = (
        "The time of `transform` of float32 samples relative to the product `X @ C.T`: first the"
        " CPU time with one thread, then the elapsed time with all threads. Both are called in"
        " turn, and the shortest times are compared. A tenth of the codes is not zero, except for"
        f' "largest 32". Goals: {", ".join(goals)}.\n\n'
        + table(["samples", *OUTPUTS, SKLEARN], rows)
        + f"\n\n{one_sample(quick)}"
    )
    return Section("transform", text, details)


def problem(n_samples: int, p: int, m: int) -> tuple[Any, dict[str, Call], dict[str, SCNN]]:
    """Return random samples, the function for each kind of codes, and the networks."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, p), dtype=np.float32)
    sample = rng.standard_normal((2 * m, p), dtype=np.float32)
    fitted = SCNN(m, refine=False, max_iter=1, random_state=0).fit(sample)
    networks = {}
    for name, (parameters, _) in OUTPUTS.items():
        networks[name] = deepcopy(fitted).set_params(**parameters).calibrate(sample)
    functions: dict[str, Call] = {
        name: partial(network.transform, X) for name, network in networks.items()
    }
    functions[SKLEARN] = partial(sklearn_.threshold, fitted.components_, X, 0.5)
    return X, functions, networks


def ratios(
    X: Any,
    functions: dict[str, Call],
    networks: dict[str, SCNN],
    n_jobs: int | None,
    quick: bool,
) -> dict[str, float]:
    """Compare each function with the bare product, in turn.

    With one thread the CPU time is measured, which hardly depends on the load of the machine.
    """
    C = next(iter(networks.values())).encoder_
    large = len(X) > 1000
    clock = time.process_time if n_jobs else time.perf_counter
    pause = SPIN_SECONDS if large and not n_jobs else 0.0
    limit = 0.3 if quick else 3.0 if large else 1.0
    for network in networks.values():
        network.set_params(n_jobs=n_jobs)
    found = {}
    for name, function in functions.items():
        product, seconds = best_of_pairs(lambda: X @ C.T, function, limit, clock, pause)
        found[name] = seconds / product
    return found


def best_of_pairs(
    first: Call,
    second: Call,
    limit: float,
    clock: Callable[[], float] = time.perf_counter,
    pause: float = 0.0,
) -> tuple[float, float]:
    """Return the shortest times of two functions that are called in turn for ``limit`` seconds.

    They are called at least four times, of which the first does not count.
    """
    first(), second()
    best, n, end = [math.inf, math.inf], 0, time.perf_counter() + limit
    while n < 3 or time.perf_counter() < end:
        n += 1
        for i, function in enumerate((first, second)):
            time.sleep(pause)
            best[i] = min(best[i], seconds_of(function, clock))
    return best[0], best[1]


def one_sample(quick: bool) -> str:
    """Compare transform of one sample with the validation by scikit-learn and the product."""
    X, _, networks = problem(1, 784, 400)
    network = next(iter(networks.values()))
    C = network.encoder_

    def validate_and_multiply() -> Any:
        types = [np.float64, np.float32]
        return validate_data(network, X, reset=False, accept_sparse="csr", dtype=types) @ C.T

    with threadpool_limits(1, user_api="blas"):
        other, transform = best_of_pairs(
            validate_and_multiply, lambda: network.transform(X), 0.3 if quick else 2.0
        )
    return (
        f"One sample (p=784, m=400) takes {1e6 * transform:.0f} µs,"
        f" {cell(transform / other, 1.3)} times as long as scikit-learn's validation and the"
        " product (goal: 1.3)."
    )
