"""Figures as SVG and PNG."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from paper.experiments.experiment import Experiment, Plot, Record

STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e5e5",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.hashsalt": "lincode",
    "svg.fonttype": "path",
}
METADATA: dict[str, dict[str, None]] = {"png": {"Software": None}, "svg": {"Date": None}}
"""What is left out of the files, so that the same records give the same bytes."""


def make_figures(experiment: Experiment, records: Sequence[Record]) -> dict[str, bytes]:
    """Return the content of each figure as SVG and PNG, by the names of the files."""
    made = {}
    with matplotlib.rc_context(STYLE):
        for name, plot in experiment.plots.items():
            figure = make_figure(plot, records)
            for form, metadata in METADATA.items():
                buffer = BytesIO()
                figure.savefig(buffer, format=form, dpi=140, metadata=metadata)
                made[f"{name}.{form}"] = buffer.getvalue()
    return made


def make_figure(plot: Plot, records: Sequence[Record]) -> Figure:
    """Return a figure. Its title names the data if they are not those of the paper's scale."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    plot(figure, records)
    run = records[0].run
    if run.scale != "paper" or run.embedded:
        names = sorted({record.data["name"] for record in records})
        figure.suptitle(f"data: {'; '.join(names)} ({run.scale} scale)", fontsize=10)
    return figure
