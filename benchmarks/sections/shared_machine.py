"""Training and coding while other processes keep half of the cores busy.

Threads of the BLAS library wait by spinning. If they share their cores with other processes, each
small operation may have to wait until the scheduler runs all of its threads. lincode limits the
number of threads for this reason, and this section measures whether that is sufficient.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from data import shrink_digits
from joblib import cpu_count
from measure import Call, Section, cell, seconds_of, table

from lincode import SCNN

MIN_SECONDS = 0.5
"""Shorter operations are repeated, because the scheduler switches after some milliseconds."""
GOAL = 2
# The process also ends if its parent was killed, because its parent process id changes then.
SPIN = """
import os
parent = os.getppid()
print("started", flush=True)
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""


def run(X: Any, quick: bool) -> Section:
    small = shrink_digits(X[:500])
    problems = [(small, 20, 5), (X[:500], 100, 1)]
    if not quick:
        problems = [(small, 100, 200), (X[:1000], 100, 10), (X[:5000], 400, 2)]
    rows, details = [], {}
    for samples, m, max_iter in problems:
        title = f"{samples.shape[0]}×{samples.shape[1]}, m={m}"
        cells = [title]
        for n_jobs in (1, None):
            scnn = SCNN(m, refine=False, max_iter=max_iter, n_jobs=n_jobs, random_state=0)
            for function in (scnn.fit, scnn.transform):
                times = idle_and_busy_seconds(partial(function, samples), 1 if quick else 3)
                cells.append(cell(times[1] / times[0], GOAL))
                details[f"{title}, {function.__name__}, n_jobs={n_jobs}"] = times
        rows.append(cells)
    headings = [f"`{f}`, n_jobs={n_jobs}" for n_jobs in (1, None) for f in ("fit", "transform")]
    text = (
        "The time while other processes keep half of the cores busy, relative to that on the idle"
        f" machine (goal: {GOAL}):\n\n" + table(["samples", *headings], rows)
    )
    return Section("Beside other processes", text, details)


@contextmanager
def busy_cores() -> Iterator[None]:
    """Keep half of the cores busy with other processes inside the context."""
    processes = []
    try:
        for _ in range(max(1, cpu_count() // 2)):
            command = [sys.executable, "-c", SPIN]
            processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def idle_and_busy_seconds(function: Call, repeats: int) -> tuple[float, float]:
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


def call_repeatedly(function: Call, calls: int) -> None:
    for _ in range(calls):
        function()
