"""Compare one BLAS thread with two, for the matrix operations of a fit.

    python benchmarks/thread_limit.py
    python benchmarks/thread_limit.py --sizes 64 128 --repeats 1

Each operation is measured on the idle machine and while another process keeps one core busy. Two
threads should be used from the size on at which they are faster on the idle machine and not much
slower on the busy one. ``MIN_PARALLEL_SIZE`` in ``lincode.rows.threads`` should be chosen this way.
Run it while nothing else is running.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from load import busy_cores
from measure import seconds_of
from threadpoolctl import threadpool_limits

SIZES = (64, 128, 256, 512, 1024, 2048)
MIN_SECONDS = 0.1
"""Shorter operations are repeated, because the scheduler switches after some milliseconds."""


def operations(n: int) -> dict[str, Callable[[], Any]]:
    """Return the operations of a fit for float64 matrices of shape (n, n)."""
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((2, n, n))
    gram = A @ A.T + n * np.eye(n)
    factor = scipy.linalg.cho_factor(gram, lower=True)
    return {
        "product": lambda: A @ B,
        "Cholesky factorisation": lambda: scipy.linalg.cho_factor(gram, lower=True),
        "Cholesky solve": lambda: scipy.linalg.cho_solve(factor, B),
        "QR": lambda: scipy.linalg.qr(A, mode="economic"),
        "eigh": lambda: scipy.linalg.eigh(gram),
    }


def call_repeatedly(function: Callable[[], Any], calls: int) -> None:
    for _ in range(calls):
        function()


def seconds_with_threads(function: Callable[[], Any], calls: int, n_threads: int) -> float:
    """Return the mean time of some calls with a number of BLAS threads."""
    with threadpool_limits(n_threads, user_api="blas"):
        return seconds_of(partial(call_repeatedly, function, calls)) / calls


def one_and_two_threads(
    function: Callable[[], Any], calls: int, repeats: int
) -> tuple[float, float]:
    """Return the median times with one thread and with two, measured alternately."""
    times = [
        [seconds_with_threads(function, calls, n_threads) for n_threads in (1, 2)]
        for _ in range(repeats)
    ]
    one, two = np.median(times, axis=0)
    return float(one), float(two)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    print("Milliseconds with one and with two BLAS threads; a ratio below 1 means two are faster.")
    print("| operation | size | idle, 1 | idle, 2 | ratio | busy, 1 | busy, 2 | ratio |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for size in sorted(args.sizes):
        for name, function in operations(size).items():
            seconds_with_threads(function, 1, 2)  # the first call may load code
            calls = math.ceil(MIN_SECONDS / seconds_with_threads(function, 1, 1))
            idle = one_and_two_threads(function, calls, args.repeats)
            with busy_cores(1):
                busy = one_and_two_threads(function, calls, args.repeats)
            cells = [
                f"{1000 * one:.3g} | {1000 * two:.3g} | {two / one:.2f}"
                for one, two in (idle, busy)
            ]
            print(f"| {name} | {size} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
