"""Dictionary learning without an encoder, the problem that the other libraries solve.

Dictionaries of digits and of patches of photographs are compared by the lasso energy of held-out
samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from data import load_patches
from measure import ALPHA, N_COMPONENTS, Section, table
from peers import lincode_, sklearn_, spams_

from lincode import sparse_encode

GOAL = 0.4
"""The goal of the time of MiniBatchSCNN, as a fraction of the time of SPAMS."""
FRACTIONS = (0.05, 0.1, 0.2, 0.4, 0.8)
"""The times of training of lincode, as fractions of that of SPAMS"""
MAX_POINTS = 12

Curve = list[tuple[float, float]]
"""Points (seconds, energy), in the order of time"""


@dataclass(frozen=True)
class Problem:
    """Samples for training and for the comparison, and the parameters of the dictionary."""

    name: str
    train: Any
    test: Any
    m: int
    penalty: float


def run(X: Any, quick: bool) -> Section:
    n, m = (2000, 100) if quick else (10_000, N_COMPONENTS)
    digits = Problem(f"{n:,} digits", X[:n], X[50_000:51_000], m, ALPHA * X.shape[1] / m)
    n, m = (10_000, 100) if quick else (100_000, 256)
    patches, source = load_patches(n + 1000)
    photographs = Problem(f"{n:,} patches of {source}", patches[:n], patches[n:], m, 0.08)
    limit = 2 if quick else 5
    rows, details = [], {}
    for problem in (digits, photographs):
        curves = compare(problem, limit)
        (seconds, target) = curves["SPAMS `trainDL`"][-1]
        for name, curve in curves.items():
            last, energy = curve[-1]
            ratio = time_to_reach(curve, target) / seconds
            text = f"{ratio:.2f}" if np.isfinite(ratio) else f"not within {last / seconds:.1f}"
            if name.startswith("`MiniBatchSCNN") and ratio > GOAL:
                text = f"**{text}**"
            data = f"{problem.name}, m={problem.m}"
            rows.append([name, data, text, f"{100 * (energy / target - 1):+.2f} %"])
        details[problem.name] = curves
    text = (
        f"The time to reach the energy that SPAMS has after {limit} s, as a fraction of this time"
        f" (goal: {GOAL} for `MiniBatchSCNN`), and the last measured energy compared with that of"
        " SPAMS. The energy is ½‖x − uD‖² + w‖u‖₁ of 1000 held-out samples, whose codes are"
        " computed again for each dictionary. Times between two measured points are"
        " interpolated.\n\n" + table(["method", "data", "time", "energy"], rows)
    )
    return Section("Dictionary learning without an encoder", text, details)


def compare(problem: Problem, limit: int) -> dict[str, Curve]:
    """Return the held-out energy against the time of training for each method."""
    train, m, penalty = problem.train, problem.m, problem.penalty
    alpha = penalty * m / train.shape[1]
    limits = [limit * fraction for fraction in FRACTIONS]
    # This loads the compiled code.
    list(lincode_.batch_dictionaries(train[:600], m, alpha, 0.0, [0.0], seed=0))
    found = {
        "SPAMS `trainDL`": spams_.dictionaries(train, m, penalty, [limit]),
        "`MiniBatchSCNN`, encoder_weight=0": lincode_.batch_dictionaries(
            train, m, alpha, 0.0, limits, seed=0
        ),
        "`SCNN`, encoder_weight=0": lincode_.dictionaries(train, m, alpha, 0.0, limits[2:]),
        "`SCNN`, with the encoder": lincode_.dictionaries(train, m, alpha, 1.0, [limit]),
        "scikit-learn `MiniBatchDictionaryLearning`": sklearn_.dictionaries(
            train, m, penalty, 2 * limit
        ),
    }
    energy = partial(lasso_energy, X=problem.test, penalty=penalty)
    return {name: measure(energy, dictionaries) for name, dictionaries in found.items()}


def measure(energy: Any, dictionaries: Iterator[tuple[float, Any]]) -> Curve:
    """Return the energies of about twelve of the dictionaries."""
    points = list(dictionaries)
    if len(points) > MAX_POINTS:
        points = points[:: len(points) // MAX_POINTS] + points[-1:]
    return [(seconds, energy(D)) for seconds, D in points]


def lasso_energy(D: Any, X: Any, penalty: float) -> float:
    """Return ½‖x − u D‖² + penalty ‖u‖₁ per row, in float64, with optimal codes u."""
    X, D = np.asarray(X, dtype=np.float64), np.asarray(D, dtype=np.float64)
    U = sparse_encode(X, D, alpha=penalty, tol=1e-5)
    return float((0.5 * ((X - U @ D) ** 2).sum() + penalty * np.abs(U).sum()) / len(X))


def time_to_reach(curve: Curve, energy: float) -> float:
    """Return when a curve first is at or below an energy, or infinity.

    Times between two points are interpolated linearly.
    """
    before = None
    for point in curve:
        if point[1] <= energy:
            if before is None:
                return point[0]
            fraction = (before[1] - energy) / (before[1] - point[1])
            return before[0] + fraction * (point[0] - before[0])
        before = point
    return float("inf")
