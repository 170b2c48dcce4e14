"""What all sections measure with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lincode import SCNN

LAM = 0.5
M = 400

Curve = list[tuple[float, float]]
"""(seconds, energy) points"""


@dataclass
class Row:
    """One line of the table."""

    work: str
    figure: str
    must: str
    met: bool | None
    detail: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        mark = {True: "yes", False: "**no**", None: ""}[self.met]
        return f"| {self.work} | {self.figure} | {self.must} | {mark} |"


def medians(contestants: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median seconds of each, one after the other in every round; the first round warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(repeats + 1):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return {name: float(np.median(times)) for name, times in seconds.items()}


@dataclass
class Section:
    """What a section leaves behind: lines of the table, and curves by title and contestant."""

    rows: list[Row]
    curves: dict[str, dict[str, Curve]] = field(default_factory=dict)


def first_time(curve: list[tuple[float, float]], target: float) -> float:
    """Seconds at which a curve first is at or below the target, between two points linearly."""
    before = None
    for point in curve:
        if point[1] <= target:
            if before is None:
                return point[0]
            share = (before[1] - target) / (before[1] - point[1])
            return before[0] + share * (point[0] - before[0])
        before = point
    return float("inf")


def stacked(scnn: SCNN, X: Any) -> tuple[Any, Any, float]:
    """The U step as a plain lasso ½‖t − u A‖² + τ‖u‖₁, for the peers."""
    D, C = (np.asarray(A, dtype=np.float64) for A in (scnn.components_, scnn.encoder_))
    m, p = D.shape
    design = np.hstack([D / np.sqrt(p), np.eye(m) / np.sqrt(m)])
    targets = np.hstack([X / np.sqrt(p), (X @ C.T) / np.sqrt(m)])
    return design, targets, LAM / m
