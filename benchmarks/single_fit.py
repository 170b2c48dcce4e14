"""Measure the time and the memory of one fit in a process of its own. Linux only.

    python benchmarks/single_fit.py SCNN X.npy 10000 400

trains with 400 units on the first 10,000 rows of X.npy, and prints the seconds per iteration and
the peak memory in bytes as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from lincode import SCNN, MiniBatchSCNN

ALPHA = 0.5
ITERATIONS = 3


def measure_fit(estimator: str, file: str, n: int, m: int) -> dict[str, float]:
    """Return the seconds per iteration (SCNN) or pass (MiniBatchSCNN) and the peak memory.

    The memory is in addition to that of X. SCNN has X in memory. MiniBatchSCNN reads X from a
    memory-mapped file.
    """
    stored = np.load(file, mmap_mode="r")[:n]
    # Load the libraries and the compiled code before the measurement.
    SCNN(20, alpha=ALPHA, refine=False, max_iter=2, random_state=0).fit(np.array(stored[:1000]))
    if estimator == "SCNN":
        X: Any = np.array(stored)
        scnn: Any = SCNN(m, alpha=ALPHA, refine=False, max_iter=ITERATIONS, tol=0.0, random_state=0)
        iterations = ITERATIONS
    else:
        X, iterations = stored, 1
        scnn = MiniBatchSCNN(
            m,
            alpha=ALPHA,
            refine=False,
            batch_size=2048,
            max_iter=1,
            max_no_improvement=None,
            random_state=0,
        )
    before = memory()
    finished, peak = threading.Event(), [before]
    watcher = threading.Thread(target=watch_memory, args=(finished, peak))
    watcher.start()
    start = time.perf_counter()
    try:
        scnn.fit(X)
    finally:
        seconds = time.perf_counter() - start
        finished.set()
        watcher.join()
    return {"seconds": seconds / iterations, "bytes": peak[0] - before}


def watch_memory(finished: threading.Event, peak: list[int]) -> None:
    """Store the largest memory in ``peak[0]`` until the event is set."""
    while not finished.wait(0.005):
        peak[0] = max(peak[0], memory())


def memory() -> int:
    """Return the bytes of memory that this process uses, without the pages of mapped files."""
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("RssAnon")).split()[1]) * 1024


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(measure_fit(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
