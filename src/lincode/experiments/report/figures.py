"""Figures as SVG and PNG, with what they show written on them."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from lincode.experiments.experiment import Experiment, Record
from lincode.experiments.records import write_whole

STYLE: Any = {
    "font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": "#e5e5e5", "grid.linewidth": 0.6, "axes.axisbelow": True, "legend.frameon": False,
    "svg.hashsalt": "lincode", "svg.fonttype": "path",
}  # fmt: skip


def draw_figures(experiment: Experiment, records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw each figure; the SVG files."""
    if not experiment.figures:
        return []
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Figures need matplotlib: install it with `pip install 'lincode[experiments]'`."
        ) from error
    made = []
    for name, draw in experiment.figures.items():
        with matplotlib.rc_context(STYLE):
            wide = experiment.id == "sparsity"
            figure = Figure(
                figsize=(11 if wide else 6.4, 3.6 if wide else 4.2), layout="constrained"
            )
            draw(figure, records)
            figure.suptitle(f"{experiment.title}\n{caption(records)}", fontsize=10)
            for suffix, extra in {".png": {"Software": None}, ".svg": {"Date": None}}.items():
                buffer = BytesIO()
                figure.savefig(buffer, format=suffix[1:], dpi=140, metadata=extra)
                write_whole(folder / f"{name}{suffix}", buffer.getvalue())
        made.append(folder / f"{name}.svg")
    return made


def caption(records: Sequence[Record]) -> str:
    """The data and the scale, on every figure."""
    names = sorted({record.data["name"] for record in records})
    scale = records[0].run.scale
    return f"data: {'; '.join(names)}" + ("" if scale == "paper" else f" ({scale} scale)")
