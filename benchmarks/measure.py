"""What all sections use: their result, tables, and timing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:  # sections/large.py measures the import
    from lincode import SCNN

ALPHA = 0.5
N_COMPONENTS = 400

Call = Callable[[], Any]


@dataclass
class Section:
    """The result of a section: a title and a text with tables, in Markdown."""

    title: str
    text: str
    details: Any = field(default_factory=dict)
    """Numbers that are written to the record only"""


def table(headings: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return a table in Markdown, with numbers to the right."""
    headings = list(headings)
    rule = [" --- ", *[" ---: "] * (len(headings) - 1)]
    lines = [f"| {' | '.join(map(str, cells))} |" for cells in [headings, *rows]]
    return "\n".join([lines[0], f"|{'|'.join(rule)}|", *lines[1:]])


def cell(value: float, goal: float = np.inf, *, at_least: float = -np.inf, digits: int = 2) -> str:
    """Return a number for a table, in bold if it misses its goal."""
    text = f"{value:.{digits}f}"
    return text if at_least <= value <= goal else f"**{text}**"


def seconds_of(function: Call, clock: Callable[[], float] = time.perf_counter) -> float:
    """Call the function and return the time it took."""
    start = clock()
    function()
    return clock() - start


def median_seconds(functions: Mapping[str, Call], repeats: int) -> dict[str, float]:
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
