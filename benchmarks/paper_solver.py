"""Compare the default solver with the paper's Algorithm 1, from the same start.

    python benchmarks/paper_solver.py

For each problem this prints the time of 50 outer iterations of Algorithm 1, the time in which the
default solver reaches the same energy, and the ratio of the final energies. Times are medians of
alternating runs; they depend on the machine, their ratios much less.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from measure import seconds_of
from sklearn.datasets import load_digits

from lincode import SCNN, Iteration

REPEATS = 3
ALPHA = 0.1


def compare_on_digits() -> None:
    """Print the table for digits of 8×8 pixels."""
    X = load_digits().data / 16
    print(f"{len(X)} digits of 8×8, alpha={ALPHA}, medians of {REPEATS} runs")
    print(
        "| init | n_components | Algorithm 1, s | default solver to the same energy, s"
        " | times faster | energy ratio |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for init in ("data", "paper"):
        for m in (20, 80):
            common: dict[str, Any] = dict(n_components=m, alpha=ALPHA, init=init, random_state=0)
            times = []
            for _ in range(REPEATS):
                paper = SCNN(**common, solver="paper")
                paper_seconds = seconds_of(partial(paper.fit, X))
                target = paper.energy_
                default = SCNN(**common, callback=partial(target_is_reached, target))
                times.append((paper_seconds, seconds_of(partial(default.fit, X))))
            slow, fast = np.median(times, axis=0)
            energy_ratio = SCNN(**common).fit(X).energy_ / paper.energy_
            print(
                f"| {init} | {m} | {slow:.2f} | {fast:.2f} | {slow / fast:.1f} |"
                f" {energy_ratio:.3f} |",
                flush=True,
            )


def target_is_reached(target: float, iteration: Iteration) -> bool:
    return iteration.energy_per_sample <= target


def compare_on_random_data(n_problems: int = 24) -> None:
    """Print how the final energies compare on small random problems."""
    ratios = []
    for seed in range(n_problems):
        rng = np.random.default_rng(seed)
        p, m = (8, 16)[seed % 2], (6, 20)[seed // 2 % 2]
        X = rng.standard_normal((60, p))
        if seed % 3 == 0:
            X *= rng.random((60, p)) < 0.3
        common: dict[str, Any] = dict(
            n_components=m,
            alpha="0.1*max",
            init=("data", "paper")[seed // 4 % 2],
            random_state=seed,
        )
        paper, default = SCNN(**common, solver="paper").fit(X), SCNN(**common).fit(X)
        ratios.append(default.energy_ / paper.energy_)
    n_higher = int((np.array(ratios) > 1).sum())
    print(
        f"{n_problems} random problems: the final energy of the default solver is higher in"
        f" {n_higher}; the median energy ratio is {np.median(ratios):.4f}, the largest"
        f" {np.max(ratios):.4f}."
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # 50 iterations are not enough for convergence
    compare_on_digits()
    compare_on_random_data()
