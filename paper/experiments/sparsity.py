"""Figure 4: sparsity of the codes of patches with missing pixels, against a threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps

from paper.cache import Record
from paper.codes import THRESHOLDS
from paper.experiments import missing_pixels
from paper.experiments.claims import Claim, Estimate, Margins, mean_of, verdict_of_number
from paper.experiments.missing_pixels import (
    CHOICE,
    LEVELS,
    SCALED,
    UNSCALED,
    VARIANTS,
    by_reading,
)
from paper.experiments.networks import NETWORKS
from paper.experiments.tables import Experiment, Table, mean_and_deviation, percent, span

LOW, HIGH = 0.01, 0.8
"""A very low threshold, and a sparsity that counts as high at that threshold. Our criteria."""
EQUAL = 0.02
"""A difference of sparsity that counts as none. Our criterion."""


def curves(records: Sequence[Record]) -> dict[str, Any]:
    """Return the sparsity of each network, of shape (repetitions, levels, thresholds)."""
    found: dict[str, list[Any]] = {}
    for record in records:
        own = [best["sparsity_curve"] for best in record["chosen"]]
        found.setdefault(record["network"], []).append(own)
    return {x: np.array(found[x]) for x in VARIANTS if x in found}


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the paper's claims about Figure 4, for each reading."""
    equal = {x: curves(own) for x, own in by_reading(records).items()}
    low = int(np.searchsorted(THRESHOLDS, LOW))
    mean = {r: {x: own[x].mean(axis=2) for x in NETWORKS} for r, own in equal.items()}
    spread = {r: {x: np.ptp(own[x], axis=1) for x in NETWORKS} for r, own in mean.items()}

    def here(values: Any) -> dict[str, str]:
        return {reading: values(reading) for reading in equal}

    def every(margins: Any) -> dict[str, Margins]:
        return {reading: margins(reading) for reading in equal}

    def means(reading: str) -> str:
        return ", ".join(f"{x} {mean[reading][x].mean():.2f}" for x in NETWORKS)

    def differences(reading: str, one: str, other: str) -> list[Estimate]:
        return [mean_of(values) for values in (mean[reading][one] - mean[reading][other]).T]

    return [
        Claim(
            f"SCNN is sparse even at very low thresholds (at least {HIGH} at {LOW}).",
            "high",
            here(lambda r: span(equal[r]["SCNN"][:, :, low].mean(axis=0), ".2f")),
            every(
                lambda r: [
                    mean_of(values).distance_to(HIGH, 1) for values in equal[r]["SCNN"][:, :, low].T
                ]
            ),
            verdict_of_number,
            CHOICE,
        ),
        Claim(
            "SCNN is at least as sparse as the others (mean over thresholds; at most"
            f" {EQUAL} lower).",
            "at least equal",
            here(means),
            every(
                lambda r: [
                    d.distance_to(-EQUAL, 1)
                    for x in NETWORKS
                    if x != "SCNN"
                    for d in differences(r, "SCNN", x)
                ]
            ),
            verdict_of_number,
            CHOICE,
        ),
        Claim(
            "SAANN is much less sparse than all others.",
            "much lower",
            here(lambda r: f"SAANN {mean[r]['SAANN'].mean():.2f}"),
            every(
                lambda r: [d for x in NETWORKS if x != "SAANN" for d in differences(r, x, "SAANN")]
            ),
            choice=CHOICE,
        ),
        Claim(
            "SCNN's sparsity changes least as noise increases.",
            "most stable",
            here(lambda r: ", ".join(f"{x} {spread[r][x].mean():.3f}" for x in NETWORKS)),
            every(
                lambda r: [
                    mean_of(spread[r][x] - spread[r]["SCNN"]) for x in NETWORKS if x != "SCNN"
                ]
            ),
            choice=CHOICE,
        ),
    ]


def tables(records: Sequence[Record]) -> list[Table]:
    """Return one table for each scale of the pixels."""
    found, names = by_reading(records), {SCALED: "sparsity", UNSCALED: "sparsity-unscaled"}
    return [sparsity_table(found[x], name, x) for x, name in names.items()]


def sparsity_table(records: Sequence[Record], name: str, pixels: str) -> Table:
    """Return the sparsity at some thresholds, with 10 % and 50 % of the pixels missing."""
    at = [0.0, 0.01, 0.1, 0.2, 0.3, 0.5]
    where = [int(np.argmin(np.abs(THRESHOLDS - t))) for t in at]
    rows = [
        [
            f"{x}, {percent(LEVELS[level], 0)} missing",
            *(mean_and_deviation(s[:, level, k], ".3f") for k in where),
        ]
        for x, s in curves(records).items()
        for level in (0, len(LEVELS) - 1)
    ]
    title = f"Fraction of coefficients u with |u| ≤ Th ({pixels})"
    return Table(name, title, ["threshold Th", *(f"{t:g}" for t in at)], rows)


def plot(figure: Any, records: Sequence[Record]) -> None:
    """Plot one panel per network, one line per fraction of missing pixels, and the deviations."""
    records = by_reading(records)[SCALED]
    found = curves(records)
    figure.set_size_inches(7.4, 5.4)
    panels = figure.subplots(2, 3, sharex=True, sharey=True).ravel()
    styles = line_styles()
    for axes, (x, lines) in zip(panels, found.items(), strict=False):
        for k in range(len(LEVELS)):
            mean = lines[:, k].mean(axis=0)
            axes.plot(THRESHOLDS, mean, **styles[k])
            if len(lines) > 1:
                width = lines[:, k].std(axis=0, ddof=1)
                band = {"color": styles[k]["color"], "alpha": 0.2, "linewidth": 0}
                axes.fill_between(THRESHOLDS, mean - width, mean + width, **band)
        axes.set_title(x, fontsize=11)
        axes.set(ylim=(0, 1.02), xlim=(0, 0.5))
        axes.set_xlabel("threshold Th")
        axes.tick_params(labelbottom=True)
    for axes in panels[::3]:
        axes.set_ylabel("fraction with |u| ≤ Th")
    last = panels[-1]
    last.axis("off")
    for k, level in enumerate(LEVELS):
        last.plot([], [], label=f"{percent(level, 0)} missing", **styles[k])
    last.legend(loc="center", fontsize=11)


def line_styles() -> list[dict[str, Any]]:
    """Return the style of each fraction of missing pixels.

    Lines on top of others are thinner, so that all are visible if they are equal.
    """
    shades = colormaps["viridis"](np.linspace(0.85, 0, len(LEVELS)))
    widths = np.linspace(1.2, 3.6, len(LEVELS))
    return [
        {"color": shade, "linewidth": width, "zorder": 3 - k / len(LEVELS)}
        for k, (shade, width) in enumerate(zip(shades, widths, strict=True))
    ]


EXPERIMENT = Experiment(
    "sparsity",
    "Figure 4: sparsity against the threshold",
    "bsds300",
    missing_pixels.runs,
    claims,
    tables,
    {"figure-4-sparsity": plot},
)
