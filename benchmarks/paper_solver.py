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


def random_problems(n: int = 24) -> None:
    """Where each ends by itself, from the same start, on small problems without structure."""
    ratios = []
    for seed in range(n):
        rng = np.random.default_rng(seed)
        p, m = (8, 16)[seed % 2], (6, 20)[seed // 2 % 2]
        X = rng.standard_normal((60, p))
        if seed % 3 == 0:
            X *= rng.random((60, p)) < 0.3
        common: dict[str, Any] = {
            "n_components": m,
            "alpha": 0.1 * SCNN(m).alpha_max(X),
            "init": ("data", "paper")[seed // 4 % 2],
            "random_state": seed,
        }
        paper, default = SCNN(**common, solver="paper").fit(X), SCNN(**common).fit(X)
        ratios.append(default.energy_ / paper.energy_)
    higher = np.array(ratios) > 1
    print(
        f"{n} random problems: the default ends higher in {higher.sum()}; energy ratio median"
        f" {np.median(ratios):.4f}, largest {np.max(ratios):.4f}"
    )


if __name__ == "__main__":
    main()
    random_problems()
