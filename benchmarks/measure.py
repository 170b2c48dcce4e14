"""What all sections use: the problem, timing, and the rows of the table."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lincode import SCNN

ALPHA = 0.5
N_COMPONENTS = 400

Curve = list[tuple[float, float]]
"""Points (seconds, energy), in the order of time"""


@dataclass
class Row:
    """One row of the table."""

    task: str
    measured: str
    goal: str = ""
    reached: bool | None = None
    """Whether the goal was reached; None if there is no goal"""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Numbers that are written to bench.json only"""

    def __str__(self) -> str:
        reached = {True: "yes", False: "**no**", None: ""}[self.reached]
        return f"| {self.task} | {self.measured} | {self.goal} | {reached} |"


@dataclass
class Section:
    """The result of a section: rows of the table, and curves by title and name."""

    rows: list[Row]
    curves: dict[str, dict[str, Curve]] = field(default_factory=dict)


def seconds_of(
    function: Callable[[], Any], clock: Callable[[], float] = time.perf_counter
) -> float:
    """Call the function and return the time it took."""
    start = clock()
    function()
    return clock() - start


def median_seconds(functions: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the median time of each function.

    The functions are called in turn, so that a slow phase of the machine affects all of them. The
    first round is not counted.
    """
    for function in functions.values():
        function()
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            times[name].append(seconds_of(function))
    return {name: float(np.median(values)) for name, values in times.items()}


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


def as_lasso(scnn: SCNN, X: Any) -> tuple[Any, Any, float]:
    """Write the minimisation of SCNN's energy over the codes as an ordinary lasso problem.

    Returns
    -------
    atoms : array of shape (m, p + m)
    targets : array of shape (n_samples, p + m)
    penalty : float
        The codes minimise ½‖targets − U atoms‖² + penalty ‖U‖₁.
    """
    D, C = (np.asarray(A, dtype=np.float64) for A in (scnn.components_, scnn.encoder_))
    m, p = D.shape
    atoms = np.hstack([D / np.sqrt(p), np.eye(m) / np.sqrt(m)])
    targets = np.hstack([X / np.sqrt(p), (X @ C.T) / np.sqrt(m)])
    return atoms, targets, scnn.alpha_ / m
