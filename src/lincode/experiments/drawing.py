"""How the networks look in all figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lincode.experiments.networks import network_of

COLOURS = {
    "SCNN": "#0b6e99", "ASCNN": "#c2571a", "SAANN": "#7a3e9d", "Sparsenet": "#2e7d32",
    "PCA": "#555555",
}  # fmt: skip
MARKERS = {"SCNN": "o", "ASCNN": "s", "SAANN": "^", "Sparsenet": "D", "PCA": "x"}


def draw_lines(
    figure: Any, found: Mapping[str, Mapping[Any, Sequence[float]]], xlabel: str, ylabel: str
) -> Any:
    """A line for each name: the mean of the values at each point, bars for their deviation.

    What is named like "SCNN, with …" has SCNN's colour and is dotted. The axes are returned.
    """
    axes = figure.subplots()
    for name, points in found.items():
        base = network_of(name)
        style = ":" if name != base else "--" if name == "PCA" else "-"
        axes.errorbar(
            list(points), [np.mean(v) for v in points.values()],
            [np.std(v) for v in points.values()], label=name, color=COLOURS[base],
            marker=MARKERS[base], capsize=3, linestyle=style,
        )  # fmt: skip
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.legend()
    return axes
