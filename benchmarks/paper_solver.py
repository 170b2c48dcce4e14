"""The default solver against the paper's Algorithm 1, from the same start.

For each problem: the seconds Algorithm 1 takes for its 50 outer iterations, the seconds the
default solver takes to the energy Algorithm 1 ends at, and the energy the default solver
ends at by itself. Medians of interleaved runs; what counts are the ratios.

    python benchmarks/paper_solver.py
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from lincode import SCNN, Iteration

REPEATS = 3


def timed(scnn: SCNN, X: Any) -> tuple[float, SCNN]:
    start = time.perf_counter()
    scnn.fit(X)
    return time.perf_counter() - start, scnn


def until(energy: float) -> Callable[[Iteration], bool]:
    return lambda now: now.energy_per_sample <= energy


def main() -> None:
    warnings.simplefilter("ignore")  # 50 iterations are not convergence
    digits = load_digits().data / 16
    print(f"{len(digits)} digits of 8×8, alpha = 0.1, medians of {REPEATS}")
    print("| start | m | paper, s | default to the same energy, s | times faster | energy ratio |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for init in ("data", "paper"):
        for m in (20, 80):
            common: dict[str, Any] = {
                "n_components": m,
                "alpha": 0.1,
                "init": init,
                "random_state": 0,
            }
            paper_seconds, default_seconds = [], []
            for _ in range(REPEATS):
                seconds, paper = timed(SCNN(**common, solver="paper"), digits)
                target = paper.energy_ / len(digits)
                paper_seconds.append(seconds)
                default_seconds.append(timed(SCNN(**common, callback=until(target)), digits)[0])
            _, full = timed(SCNN(**common), digits)
            slow, fast = np.median(paper_seconds), np.median(default_seconds)
            print(
                f"| {init} | {m} | {slow:.2f} | {fast:.2f} | {slow / fast:.1f} |"
                f" {full.energy_ / paper.energy_:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
