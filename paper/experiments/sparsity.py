"""Figure 4: sparsity of the codes of patches with missing pixels, against a threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib import colormaps

from lincode.metrics import THRESHOLDS
from paper.cache import Record, Run, Scale
from paper.experiments import missing_pixels
from paper.experiments.claims import Claim, Estimate, mean_of
from paper.experiments.missing_pixels import LEVELS, VARIANTS, ends, shared
from paper.experiments.networks import NETWORKS
from paper.experiments.tables import TEXTS, Experiment, Table, mean_and_deviation, percent

LOW, HIGH = 0.01, 0.8
"""A very low threshold, and a sparsity that counts as high at that threshold. Our criteria."""
EQUAL = 0.02
"""A difference of sparsity that counts as none. Our criterion."""
MUCH = 0.2
"""A difference of sparsity that counts as large. Our criterion."""


ABSOLUTE, SIGNED = "sparsity_curve", "signed_sparsity_curve"
READINGS = {ABSOLUTE: "|u| ≤ Th", SIGNED: "u ≤ Th"}
"""Two readings of the paper's sparsity value. It prints the second, without an absolute value."""
UNSCALED = {
    "SCNN": "pixels in [0, 1]",
    "SCNN, soft threshold": "pixels in [0, 1], soft-thresholded codes of SCNN",
}
"""What the results with pixels in [0, 1] are called, by the codes that SCNN has."""
UNSCALED_LAMS: dict[str, list[float]] = {
    "SCNN": [0.01, 0.02, 0.035, 0.05, 0.07],
    "ASCNN": [0.03, 0.1, 0.3, 1.0, 3.0],
    "SAANN": [0.0002, 0.0005, 0.001, 0.002, 0.005],
    "Sparsenet": [0.0003, 0.001, 0.003, 0.01, 0.03],
    "SCNN, soft threshold": [0.0003, 0.001, 0.003, 0.006, 0.01],
}
"""λ for pixels in [0, 1], of which the patches have a standard deviation of about 0.09."""
SCALE = (TEXTS["why"]["sparsity"], ("sparsity",))
"""Why claims are not reproduced, and the experiments that show it."""


def runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
    """The runs of Figure 3, and the same with pixels in [0, 1]."""
    first = missing_pixels.runs(scale, seed, embedded)
    unscaled = [
        replace(
            run,
            settings={
                **run.settings,
                "deviation": None,
                "pixels": "pixels in [0, 1]",
                "lams": UNSCALED_LAMS[run.settings["network"]][: len(run.settings["lams"])],
            },
        )
        for run in first
        if run.seed < seed + missing_pixels.FEW_REPETITIONS
    ]
    return first + unscaled


def is_scaled(record: Record) -> bool:
    """Return whether the patches are scaled to a standard deviation of 1, as in Figure 3."""
    return record["deviation"] is not None


def curves(records: Sequence[Record], reading: str = ABSOLUTE) -> dict[str, Any]:
    """Return the sparsity of each network, of shape (repetitions, levels, thresholds)."""
    found: dict[str, list[Any]] = {}
    for record in shared(records):
        found.setdefault(record["network"], []).append([best[reading] for best in record["chosen"]])
    return {x: np.array(found[x]) for x in VARIANTS if x in found}


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the paper's claims about Figure 4.

    They are also judged, but not counted, with pixels in [0, 1] and both kinds of codes of SCNN.
    """
    unscaled = curves([r for r in records if not is_scaled(r)])
    return claims_of(curves([r for r in records if is_scaled(r)])) + [
        replace(claim, sentence=f"{claim.sentence.removesuffix('.')}; {text}.", counted=False)
        for codes, text in UNSCALED.items()
        if codes in unscaled
        for claim in claims_of(unscaled | {"SCNN": unscaled[codes]})
    ]


def claims_of(found: dict[str, Any]) -> list[Claim]:
    """Return the claims for the sparsity of each network."""
    if not set(NETWORKS) <= set(found):
        return []
    n = min(len(found[x]) for x in NETWORKS)
    found = {x: found[x][:n] for x in NETWORKS}
    mean = {x: found[x].mean(axis=2) for x in NETWORKS}
    spread = {x: np.ptp(mean[x], axis=1) for x in NETWORKS}
    at_low = found["SCNN"][:, :, int(np.searchsorted(THRESHOLDS, LOW))]
    means = "mean over thresholds and noise levels: " + ", ".join(
        f"{x} {mean[x].mean():.2f}" for x in NETWORKS
    )

    def differences(one: str, other: str) -> list[Estimate]:
        return [mean_of(values) for values in (mean[one] - mean[other]).T]

    return [
        Claim(
            "SCNN is sparse even at very low thresholds (our criterion: at least"
            f" {HIGH} at {LOW}).",
            "high",
            "SCNN: " + ", ".join(f"{s:.2f}" for s in at_low.mean(axis=0)),
            [mean_of(values) - HIGH for values in at_low.T],
            *SCALE,
        ),
        Claim(
            "SCNN's codes are at least as sparse as those of the other networks (our criterion: the"
            f" mean over thresholds, with a tolerance of {EQUAL}, at each noise level).",
            "at least equal",
            means,
            [d + EQUAL for x in NETWORKS if x != "SCNN" for d in differences("SCNN", x)],
            *SCALE,
        ),
        Claim(
            f"SAANN is much less sparse than all others (our criterion: by {MUCH} at each noise"
            " level).",
            "much lower",
            means,
            [d - MUCH for x in NETWORKS if x != "SAANN" for d in differences(x, "SAANN")],
        ),
        Claim(
            "SCNN changes least as noise increases (our criterion: the range of its mean over"
            " thresholds is the smallest).",
            "most stable",
            "the mean changes by " + ", ".join(f"{x} {spread[x].mean():.3f}" for x in NETWORKS),
            [mean_of(spread[x] - spread["SCNN"]) for x in NETWORKS if x != "SCNN"],
            *SCALE,
        ),
    ]


def tables(records: Sequence[Record]) -> list[Table]:
    """Return one table for each reading of the sparsity value, and one for pixels in [0, 1]."""
    scaled = [r for r in records if is_scaled(r)]
    found = [sparsity_table(scaled, reading) for reading in READINGS] if scaled else []
    if unscaled := [r for r in records if not is_scaled(r)]:
        table = sparsity_table(unscaled, ABSOLUTE)
        title = f"{table.title}. Pixels in [0, 1]"
        found.append(replace(table, name="sparsity-unscaled", title=title))
    return found


def sparsity_table(records: Sequence[Record], reading: str) -> Table:
    """Return the sparsity at some thresholds, with 10 % and 50 % of the pixels missing."""
    at = [0.0, 0.01, 0.1, 0.2, 0.3, 0.5]
    where = [int(np.argmin(np.abs(THRESHOLDS - t))) for t in at]
    marks = ends(records).map(lambda found: "*" if any(found) else "")
    rows = [
        [
            f"{x}, {percent(LEVELS[level], 0)} missing{marks.loc[x, LEVELS[level]]}",
            *(mean_and_deviation(s[:, level, k], ".3f") for k in where),
        ]
        for x, s in curves(records, reading).items()
        for level in (0, len(LEVELS) - 1)
    ]
    title = (
        f"Fraction of coefficients u of test patches with {READINGS[reading]}. A * marks rows for"
        " which λ is the first or the last of its grid"
    )
    name = "sparsity" if reading == ABSOLUTE else "sparsity-signed"
    return Table(name, title, ["threshold Th", *(f"{t:g}" for t in at)], rows)


def plot(figure: Any, records: Sequence[Record]) -> None:
    """Plot one panel per network and one line per fraction of missing pixels.

    Lines are dashed if λ is at the end of its grid. Bands show the deviations.
    """
    records = [r for r in records if is_scaled(r)]
    found, at = curves(records), ends(records)
    figure.set_size_inches(7.4, 5.4)
    panels = figure.subplots(2, 3, sharex=True, sharey=True).ravel()
    styles = line_styles()
    for axes, (x, lines) in zip(panels, found.items(), strict=False):
        for k, level in enumerate(LEVELS):
            mean = lines[:, k].mean(axis=0)
            line = styles[k] | {"linestyle": "--" if any(at.loc[x, level]) else "-"}
            axes.plot(THRESHOLDS, mean, **line)
            if len(lines) > 1:
                width = lines[:, k].std(axis=0, ddof=1)
                band = {"color": styles[k]["color"], "alpha": 0.2, "linewidth": 0}
                axes.fill_between(THRESHOLDS, mean - width, mean + width, **band)
        axes.set_title(x, fontsize=11)
        axes.set(ylim=(0, 1.02), xlim=(0, 0.5))
        axes.set_xlabel("threshold Th")
        axes.tick_params(labelbottom=True)
    for axes in panels[::3]:
        axes.set_ylabel(f"fraction with {READINGS[ABSOLUTE]}")
    last = panels[-1]
    last.axis("off")
    for k, level in enumerate(LEVELS):
        last.plot([], [], label=f"{percent(level, 0)} missing", **styles[k])
    if at.map(any).to_numpy().any():
        last.plot([], [], "--", color="#555555", label="λ at the end\nof its grid")
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
    runs,
    claims,
    tables,
    {"figure-4-sparsity": plot},
    used_by_claims=lambda run: (
        run.settings["network"] in NETWORKS and run.settings["deviation"] is not None
    ),
)
