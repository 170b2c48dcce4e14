"""Figures as SVG and PNG, with what they show written on them."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any

from lincode.experiments.experiment import Draw, Experiment, Record

STYLE: Any = {
    "font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": "#e5e5e5", "grid.linewidth": 0.6, "axes.axisbelow": True, "legend.frameon": False,
    "svg.hashsalt": "lincode", "svg.fonttype": "path",
}  # fmt: skip


def draw_figures(experiment: Experiment, records: Sequence[Record]) -> dict[str, bytes]:
    """Each figure as SVG and as PNG: the names of their files and what is in them."""
    if not experiment.figures:
        return {}
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError(
            "Figures need matplotlib: install it with `pip install 'lincode[experiments]'`."
        ) from error
    made = {}
    with matplotlib.rc_context(STYLE):
        for name, draw in experiment.figures.items():
            figure = titled(experiment, draw, records)
            for form, extra in {"png": {"Software": None}, "svg": {"Date": None}}.items():
                buffer = BytesIO()
                figure.savefig(buffer, format=form, dpi=140, metadata=extra)
                made[f"{name}.{form}"] = buffer.getvalue()
    return made


def titled(experiment: Experiment, draw: Draw, records: Sequence[Record]) -> Any:
    """A figure with what it shows, and of which data, written above it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    draw(figure, records)
    figure.suptitle(f"{experiment.title}\n{caption(records)}", fontsize=10)
    return figure


def caption(records: Sequence[Record]) -> str:
    """The data and the scale, on every figure."""
    names = sorted({record.data["name"] for record in records})
    scale = records[0].run.scale
    return f"data: {'; '.join(names)}" + ("" if scale == "paper" else f" ({scale} scale)")
