"""Dictionary learning without an encoder, the problem that the other libraries solve.

Dictionaries of digits and of patches of photographs are compared by the lasso energy of held-out
samples. SPAMS and lincode are run in turn, several times with different seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from data import load_patches
from measure import ALPHA, N_COMPONENTS, Curve, Row, Section, time_to_reach
from peers import dictlearn_, lincode_, sklearn_, spams_

from lincode import sparse_encode

SPAMS = "SPAMS trainDL"
MINIBATCH = "MiniBatchSCNN, encoder_weight=0"
SCNN_PLAIN = "SCNN, encoder_weight=0"
SCNN_ENCODER = "SCNN, encoder_weight=1"
SKLEARN = "scikit-learn MiniBatchDictionaryLearning"
DICTLEARN = "dictlearn L1, one iteration on 2,000 samples"
GOAL = 0.4
"""The goal of the time of MiniBatchSCNN, as a fraction of the time of SPAMS."""
MAX_POINTS = 12

Dictionaries = Iterator[tuple[float, Any]]


@dataclass(frozen=True)
class Problem:
    """Samples for training and for the comparison, and the parameters of the dictionary."""

    name: str
    train: Any
    test: Any
    m: int
    penalty: float

    @property
    def alpha(self) -> float:
        """The penalty in the unit of lincode."""
        return self.penalty * self.m / float(self.train.shape[1])


def run(X: Any, quick: bool) -> Section:
    n, m = (2000, 100) if quick else (10_000, N_COMPONENTS)
    digits = Problem(f"{n:,} digits", X[:n], X[50_000:51_000], m, ALPHA * X.shape[1] / m)
    n, m = (10_000, 100) if quick else (100_000, 256)
    patches, source = load_patches(n + 1000)
    photographs = Problem(f"{n:,} patches of {source}", patches[:n], patches[n:], m, 0.08)
    limit, repeats = (2, 1) if quick else (10, 3)
    sections = [compare(problem, limit, repeats) for problem in (digits, photographs)]
    rows = [row for section in sections for row in section.rows]
    curves = {title: lines for section in sections for title, lines in section.curves.items()}
    return Section(rows, curves)


def compare(problem: Problem, limit: int, repeats: int) -> Section:
    """Compare the times after which the energy of SPAMS after ``limit`` seconds is reached."""
    train, m, alpha, penalty = problem.train, problem.m, problem.alpha, problem.penalty
    # This loads the compiled code.
    list(lincode_.batch_dictionaries(train[:600], m, alpha, 0.0, [0.0], seed=0))
    ratios, targets = [], []
    curves: dict[str, Curve] = {}
    limits = [limit * fraction for fraction in (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)]
    for seed in range(repeats):
        spams = measure(SPAMS, problem, spams_.dictionaries(train, m, penalty, [limit], seed=seed))
        seconds, target = spams[-1]
        online = measure(
            MINIBATCH,
            problem,
            lincode_.batch_dictionaries(train, m, alpha, 0.0, limits, seed=seed),
        )
        ratios.append(time_to_reach(online, target) / seconds)
        targets.append(target)
        curves.setdefault(SPAMS, spams)
        curves.setdefault(MINIBATCH, online)
    curves[SPAMS] = curves[SPAMS] + measure(
        SPAMS, problem, spams_.dictionaries(train, m, penalty, [2 * limit])
    )
    others: dict[str, Callable[[], Dictionaries]] = {
        SCNN_PLAIN: lambda: lincode_.dictionaries(train, m, alpha, 0.0, limits[2:]),
        SCNN_ENCODER: lambda: lincode_.dictionaries(train, m, alpha, 1.0, [limit]),
        SKLEARN: lambda: sklearn_.dictionaries(train, m, penalty, 2 * limit),
        DICTLEARN: lambda: dictlearn_.dictionaries(train[:2000], m, penalty, [1]),
    }
    for name, dictionaries in others.items():
        curves[name] = measure(name, problem, dictionaries())
    rows = table_rows(problem, limit, float(np.median(targets)), ratios, curves)
    return Section(rows, {f"energy of held-out samples, {problem.name}": curves})


def measure(name: str, problem: Problem, dictionaries: Dictionaries) -> Curve:
    """Return the energies of at most twelve of the dictionaries."""
    points = list(dictionaries)
    if len(points) > MAX_POINTS:
        points = points[:: len(points) // MAX_POINTS] + points[-1:]
    curve = [(s, lasso_energy(D, problem.test, problem.penalty)) for s, D in points]
    text = ", ".join(f"{seconds:.1f} s {energy:.5g}" for seconds, energy in curve)
    print(f"  {problem.name}, {name}: {text}", flush=True)
    return curve


def lasso_energy(D: Any, X: Any, penalty: float) -> float:
    """Return ½‖x − u D‖² + penalty ‖u‖₁ per row, in float64, with optimal codes u."""
    X, D = np.asarray(X, dtype=np.float64), np.asarray(D, dtype=np.float64)
    U = sparse_encode(X, D, alpha=penalty, tol=1e-5)
    return float((0.5 * ((X - U @ D) ** 2).sum() + penalty * np.abs(U).sum()) / len(X))


def table_rows(
    problem: Problem, limit: int, target: float, ratios: list[float], curves: dict[str, Curve]
) -> list[Row]:
    """Return the rows of the table: the median ratio to SPAMS, and the times of the others."""
    task = (
        f"dictionary of {problem.name}, m={problem.m}: time to reach the energy of SPAMS after"
        f" {limit} s ({target:.5g})"
    )
    times = {name: time_to_reach(curve, target) for name, curve in curves.items()}
    median = float(np.median(ratios))
    last, energy = curves[MINIBATCH][-1]
    if np.isfinite(median):
        measured = f"{median:.2f} of the time of SPAMS (median of {len(ratios)})"
    else:
        measured = f"not reached in {last:.0f} s (final energy {energy:.5g})"
    ahead = ", SPAMS is ahead" if median > 1 else ""
    rows = [
        Row(
            f"{task}: {MINIBATCH}",
            measured + ahead,
            f"≤ {GOAL}",
            median <= GOAL,
            {"ratios": ratios, **times},
        )
    ]
    for name in (SCNN_PLAIN, SCNN_ENCODER, SKLEARN, DICTLEARN):
        last, energy = curves[name][-1]
        reached = np.isfinite(times[name])
        measured = f"{times[name]:.1f} s" if reached else f"not reached in {last:.0f} s"
        behind = times[name] > limit and name in (SCNN_PLAIN, SCNN_ENCODER)
        note = ", SPAMS is ahead" if behind else ""
        text = f"{measured} (final energy {energy:.5g}{note})"
        row = Row(f"{task}: {name}", text, details=times)
        if name == SKLEARN:
            # If the energy was not reached, it takes at least as long as was measured.
            row.goal = "≥ 10 × MiniBatchSCNN"
            row.reached = min(times[name], last) >= 10 * times[MINIBATCH]
        rows.append(row)
    return rows
