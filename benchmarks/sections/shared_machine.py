"""Training and coding while other processes keep half of the cores busy.

Threads of the BLAS library wait by spinning. If they share their cores with other processes, each
small operation may have to wait until the scheduler runs all of its threads. lincode limits the
number of threads for this reason, and this section measures whether that is sufficient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from data import shrink_digits
from load import busy_cores
from measure import Row, Section, seconds_of

from lincode import SCNN

MIN_SECONDS = 0.5
"""Shorter operations are repeated, because the scheduler switches after some milliseconds."""
MAX_RATIO = 2


@dataclass
class Problem:
    """Samples, the number of units and the largest number of iterations."""

    X: Any
    m: int
    max_iter: int


def run(X: Any, quick: bool) -> Section:
    small = shrink_digits(X[:500])
    problems = (
        [Problem(small, 20, 5), Problem(X[:500], 100, 1)]
        if quick
        else [Problem(small, 100, 200), Problem(X[:1000], 100, 10), Problem(X[:5000], 400, 5)]
    )
    rows = []
    for problem in problems:
        for n_jobs in (1, None):
            rows += compare(problem, n_jobs, repeats=1 if quick else 5)
    return Section(rows)


def compare(problem: Problem, n_jobs: int | None, repeats: int) -> list[Row]:
    """Compare the times of fit and transform on the idle and on the busy machine."""
    X, m = problem.X, problem.m
    scnn = SCNN(m, refine=False, max_iter=problem.max_iter, n_jobs=n_jobs, random_state=0)
    rows = []
    for name, function in (("fit", scnn.fit), ("transform", scnn.transform)):
        idle, busy = idle_and_busy_seconds(partial(function, X), repeats)
        rows.append(
            Row(
                f"`{name}`, {X.shape[0]}×{X.shape[1]}, m={m}, n_jobs={n_jobs}, half of the cores"
                " busy with other processes",
                f"{busy / idle:.2f} × the time on the idle machine"
                f" ({1000 * idle:.3g} ms and {1000 * busy:.3g} ms)",
                f"≤ {MAX_RATIO} ×",
                busy <= MAX_RATIO * idle,
                {"idle": idle, "busy": busy},
            )
        )
    return rows


def idle_and_busy_seconds(function: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Return the median times of a function without and with other processes.

    The measurements alternate, so that a slow phase of the machine affects both.
    """
    function()
    calls = math.ceil(MIN_SECONDS / max(seconds_of(function), 1e-6))
    idle, busy = [], []
    for _ in range(repeats):
        idle.append(seconds_of(partial(call_repeatedly, function, calls)) / calls)
        with busy_cores():
            busy.append(seconds_of(partial(call_repeatedly, function, calls)) / calls)
    return float(np.median(idle)), float(np.median(busy))


def call_repeatedly(function: Callable[[], Any], calls: int) -> None:
    for _ in range(calls):
        function()
