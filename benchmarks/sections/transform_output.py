"""The cost of transform for each threshold and layout of the codes, relative to its product."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
from measure import Row, Section, seconds_of
from sklearn.utils.validation import validate_data
from threadpoolctl import threadpool_limits

from lincode import SCNN

SHAPES: tuple[tuple[int, int, int, Any], ...] = (
    (60_000, 784, 400, np.float32),
    (100_000, 64, 128, np.float32),
    (20_000, 384, 1536, np.float32),
    (20_000, 784, 400, np.float64),
    (1000, 784, 400, np.float32),
    (100, 784, 400, np.float32),
)
"""The numbers of samples, features and units, and the dtype"""
OUTPUTS: dict[str, tuple[dict[str, Any], float]] = {
    "hard": ({}, 1.1),
    **{f"top {k}": ({"density": k}, 1.5) for k in (10, 32, 100)},
    "projection": ({"transform_algorithm": "projection"}, 2.0),
    "projection, top 32": ({"transform_algorithm": "projection", "density": 32}, 2.0),
    "split": ({"split_sign": True}, 1.5),
    "sparse": ({"sparse_output": True}, 1.5),
    "split and sparse": ({"split_sign": True, "sparse_output": True}, 1.5),
}
"""The parameters of each kind of codes, and the largest ratio that is aimed at"""
SPIN_SECONDS = 0.15
"""So long the threads of the BLAS library may occupy the cores after a product."""


def run(X: Any, quick: bool) -> Section:
    del X  # the time does not depend on what the samples are
    rows = []
    for n_samples, p, m, dtype in SHAPES:
        n_samples = n_samples // 4 if quick and n_samples > 1000 else n_samples
        samples, networks = problem(n_samples, p, m, dtype)
        with threadpool_limits(1, user_api="blas"):
            rows.append(ratios(samples, networks, 1, quick))
        rows.append(ratios(samples, networks, None, quick))
    rows.append(one_sample(quick))
    return Section(rows)


def problem(n_samples: int, p: int, m: int, dtype: Any) -> tuple[Any, dict[str, SCNN]]:
    """Return random samples, and a network for each kind of codes.

    10 % of the codes are not zero, except for "top" with a given number.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, p), dtype=dtype)
    sample = rng.standard_normal((2 * m, p), dtype=dtype)
    fitted = SCNN(m, refine=False, max_iter=1, random_state=0).fit(sample)
    networks = {}
    for name, (parameters, _) in OUTPUTS.items():
        network = deepcopy(fitted).set_params(**parameters)
        networks[name] = network.calibrate(sample)
    return X, networks


def ratios(X: Any, networks: dict[str, SCNN], n_jobs: int | None, quick: bool) -> Row:
    """Compare each kind of codes with the bare product, in turn.

    With one thread the CPU time is measured, which hardly depends on the load of the machine.
    """
    C = networks["hard"].encoder_
    clock, how = time.process_time, "one thread, CPU time"
    pause = 0.0
    if n_jobs is None:
        clock, how = time.perf_counter, "all threads"
        pause = SPIN_SECONDS if len(X) > 1000 else 0.0
    repeats = 3 if quick else 9 if len(X) > 1000 else 200
    measured, missed, seconds = [], [], {}
    for name, network in networks.items():
        network.set_params(n_jobs=n_jobs)
        transform = partial(network.transform, X)
        times = best_of_pairs(lambda: X @ C.T, transform, repeats, clock, pause)
        seconds[f"product ({name})"], seconds[name] = times
        ratio = times[1] / times[0]
        measured.append(f"{name} {ratio:.2f}")
        if ratio > OUTPUTS[name][1]:
            missed.append(name)
    return Row(
        f"`transform`, {len(X):,}×{X.shape[1]}, m={len(C)}, {X.dtype}, {how}",
        f"relative to the matrix product: {', '.join(measured)}",
        "≤ 1.1 × (hard), ≤ 2 × (projection), ≤ 1.5 × (others)",
        not missed,
        {**seconds, "missed": missed},
    )


def best_of_pairs(
    first: Callable[[], Any],
    second: Callable[[], Any],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
    pause: float = 0.0,
) -> tuple[float, float]:
    """Return the shortest times of two functions that are called in turn, with pauses."""
    first(), second()
    best = [math.inf, math.inf]
    for _ in range(repeats):
        for i, function in enumerate((first, second)):
            time.sleep(pause)
            best[i] = min(best[i], seconds_of(function, clock))
    return best[0], best[1]


def one_sample(quick: bool) -> Row:
    """Compare transform of one sample with the validation by scikit-learn and the product."""
    X, networks = problem(1, 784, 400, np.float32)
    network = networks["hard"]
    C = network.encoder_

    def validate_and_multiply() -> Any:
        checked = validate_data(
            network, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32]
        )
        return checked @ C.T

    with threadpool_limits(1, user_api="blas"):
        other, transform = best_of_pairs(
            validate_and_multiply, lambda: network.transform(X), 300 if quick else 3000
        )
    return Row(
        "`transform` of one sample, p=784, m=400, relative to scikit-learn's validation and the"
        " product",
        f"{transform / other:.2f} × ({1e6 * transform:.0f} µs)",
        "≤ 1.3 ×",
        transform <= 1.3 * other,
        {"transform": transform, "validation and product": other},
    )
