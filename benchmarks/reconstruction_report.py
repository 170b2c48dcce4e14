"""The tables and the figure of ``reconstruction.py``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

GRID = (0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4)
LOW, HIGH = (0.03, 0.05, 0.07, 0.1), (0.1, 0.15, 0.2, 0.3)
EXACT_RATIO = 0.95
TICKS, MIN_PLOTTED_RMS = (0.02, 0.05, 0.1, 0.2, 0.4), 0.02
MIN_PLOTTED_TIME = 0.1
IMAGES = Path(__file__).parents[1] / "docs" / "images"
TABLES = Path(__file__).with_name("reconstruction.md")
TIMED_DENSITY = 0.1
"""The density at which errors are compared with times."""
COLOURS = {
    "encoder, paper": ("tab:blue", ":"),
    "encoder, soft": ("tab:blue", "--"),
    "encoder, hard": ("tab:blue", "-"),
    "encoder, top_k": ("tab:cyan", "-"),
    "encoder, hard, decoder": ("navy", "--"),
    "encoder, hard, refined": ("navy", "-"),
    "encoder, top_k, refined": ("darkcyan", "-"),
    "encoder, hard, alpha path": ("tab:purple", "--"),
    "encoder, hard, decoder, alpha path": ("tab:purple", "-"),
    "exact codes": ("tab:red", "-"),
    "lasso codes": ("tab:orange", "-"),
    "lasso codes, debiased": ("tab:orange", "--"),
    "OMP": ("tab:green", "-"),
    "threshold": ("tab:gray", "--"),
    "PCA": ("black", ":"),
}


def rms_at(points: list[dict[str, float]], nonzeros: float, key: str = "rms") -> float | None:
    """Return the error at a number of non-zeros, or None outside the measured range.

    The logarithm of the error is interpolated linearly in the logarithm of the number. The range
    is extended by 2 %, because the densities of test samples differ from those of training.
    """
    used = sorted((p["nonzeros"], p[key]) for p in points if p["nonzeros"] > 0)
    x, y = np.array(used).T
    if not x[0] * 0.98 <= nonzeros <= x[-1] * 1.02:
        return None
    return float(np.exp(np.interp(np.log(nonzeros), np.log(x), np.log(y))))


def best_encoder(record: dict[str, Any], nonzeros: float) -> tuple[str, float] | None:
    """Return the kind of encoder with the smallest validation error, and its test error."""
    candidates = []
    for name, points in record["curves"].items():
        if name.startswith("encoder"):
            error = rms_at(points, nonzeros, "validation_rms")
            test_error = rms_at(points, nonzeros)
            if error is not None and test_error is not None:
                candidates.append((error, name, test_error))
    return min(candidates)[1:] if candidates else None


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def error_table(record: dict[str, Any]) -> str:
    """Return the errors of all methods by density, and the time per sample at 10 %."""
    m = record["n_components"]
    lines = [
        row(["non-zeros", *(f"{d:.0%}" for d in GRID), "µs"]),
        row(["---", *["---:"] * (len(GRID) + 1)]),
    ]
    for name, points in record["curves"].items():
        nearest = min(points, key=lambda p: abs(p["nonzeros"] - 0.1 * m))
        errors = [number(rms_at(points, d * m)) for d in GRID]
        lines.append(row([name, *errors, f"{nearest['microseconds']:.0f}"]))
    return "\n".join(lines)


GOALS = (
    ("lasso codes", 1.0, LOW),
    ("exact codes", EXACT_RATIO, HIGH),
    ("lasso codes, debiased", 1.0, HIGH),
)
"""The method to compare with, the largest ratio of the errors, and the densities"""


def ratio_to(record: dict[str, Any], name: str, density: float) -> float | None:
    """Return the error of the best encoder relative to that of another method."""
    n = density * record["n_components"]
    best, other = best_encoder(record, n), rms_at(record["curves"][name], n)
    return None if best is None or other is None else best[1] / other


def goal_row(record: dict[str, Any], density: float) -> str:
    """Return one row: the best encoder's error, and its ratio to each method if it is a goal."""
    best = best_encoder(record, density * record["n_components"])
    cells = [record["title"], f"{density:.0%}", best[0] if best else "–"]
    cells.append(number(best[1] if best else None))
    for name, limit, densities in GOALS:
        ratio = ratio_to(record, name, density)
        if density not in densities or ratio is None:
            cells.append("")
        else:
            cells.append(f"{ratio:.2f}, {'yes' if ratio <= limit else '**no**'}")
    return row(cells)


def goals(records: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the table of goals."""
    yield "\n## Goals\n"
    yield row(["data", "non-zeros", "best encoder", "RMS", *(goal[0] for goal in GOALS)])
    yield row(["---", "---:", "---", *["---:"] * 4])
    for record in records.values():
        for density in sorted({*LOW, *HIGH}):
            yield goal_row(record, density)
    yield ""
    for name, limit, densities in GOALS:
        ratios = [ratio_to(record, name, d) for record in records.values() for d in densities]
        measured = [ratio for ratio in ratios if ratio is not None]
        reached = sum(ratio <= limit for ratio in measured)
        yield (
            f"- At most {limit:g} times the error of {name}: {reached} of {len(measured)} reached;"
            f" ratios {min(measured):.2f} to {max(measured):.2f}."
        )


def plot(records: dict[str, Any]) -> None:
    """Write the figure, with one panel per kind of data."""
    figure = Figure(figsize=(11, 6.4), layout="constrained")
    axes: Any = figure.subplots(2, 3).ravel()
    for record, ax in zip(records.values(), axes, strict=False):
        m = record["n_components"]
        for name, (colour, style) in COLOURS.items():
            points = record["curves"].get(name, [])
            if not points:
                continue
            curve = sorted((p["nonzeros"] / m, p["rms"]) for p in points if p["nonzeros"] > 0)
            ax.loglog(*zip(*curve, strict=True), style, color=colour, label=name, lw=1.4)
        ax.set_xlim(GRID[0], GRID[-1])
        ax.set_ylim(MIN_PLOTTED_RMS, 1.1)
        ax.set_xticks(TICKS, [f"{tick:.0%}" for tick in TICKS])
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_title(f"{record['title']}, m = {m}", fontsize=9)
        ax.tick_params(labelsize=7, which="both")
    for ax in axes[2:5]:
        ax.set_xlabel("non-zeros per sample, relative to m", fontsize=8)
    for ax in axes[::3]:
        ax.set_ylabel("RMS error of test samples", fontsize=8)
    for ax in axes[len(records) :]:
        ax.set_axis_off()
    axes[-1].legend(*axes[0].get_legend_handles_labels(), loc="center", fontsize=8, frameon=False)
    figure.savefig(IMAGES / "reconstruction.png", dpi=80)


def plot_times(records: dict[str, Any]) -> None:
    """Write the figure of errors against times, with one panel per kind of data."""
    figure = Figure(figsize=(11, 6.4), layout="constrained")
    axes: Any = figure.subplots(2, 3).ravel()
    for record, ax in zip(records.values(), axes, strict=False):
        n = TIMED_DENSITY * record["n_components"]
        for name, (colour, style) in COLOURS.items():
            points = record["curves"].get(name, [])
            if not points:
                continue
            nearest = min(points, key=lambda p: abs(p["nonzeros"] - n))
            marker = {"-": "o", "--": "s", ":": "^"}[style]
            time = max(nearest["microseconds"], MIN_PLOTTED_TIME)
            error = rms_at(points, n)
            # A method without an error at this density has an entry in the legend only.
            ax.loglog(time, np.nan if error is None else error, marker, color=colour, label=name)
        ax.set_title(f"{record['title']}, m = {record['n_components']}", fontsize=9)
        ax.tick_params(labelsize=7, which="both")
    for ax in axes[2:5]:
        ax.set_xlabel("microseconds per sample", fontsize=8)
    for ax in axes[::3]:
        ax.set_ylabel(f"RMS error at {TIMED_DENSITY:.0%} non-zeros", fontsize=8)
    for ax in axes[len(records) :]:
        ax.set_axis_off()
    axes[-1].legend(*axes[0].get_legend_handles_labels(), loc="center", fontsize=8, frameon=False)
    figure.savefig(IMAGES / "reconstruction_time.png", dpi=80)


def report_lines(records: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the file with the tables."""
    yield "# Reconstruction error and number of non-zeros\n"
    yield "Written by `reconstruction.py`. [The encoder](../docs/encoder.md) explains the methods."
    for record in records.values():
        shape = f"p = {record['n_features']}, m = {record['n_components']}"
        yield f"\n## {record['title']} ({shape}, N = {record['n_train']})\n"
        yield error_table(record)
        paper = record["paper_threshold"]
        yield (
            f"\nRMS of zero codes: {record['rms_of_zero_codes']:.3f}. Trained codes:"
            f" {record['trained_density']:.1%} non-zeros. encoder_ridge_:"
            f" {record['encoder_ridge']:g}. The paper's encoder with threshold='alpha':"
            f" {paper['nonzeros']:.2f} non-zeros per sample, RMS {paper['rms']:.3f}."
        )
    yield from goals(records)


def write_report(stored: dict[str, Any]) -> None:
    """Write the tables and the figures."""
    records = stored["data"]
    TABLES.write_text("\n".join(report_lines(records)) + "\n")
    plot(records)
    plot_times(records)
