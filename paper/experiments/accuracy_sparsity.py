"""Figure 8: accuracy against sparsity area with 100 units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paper.cache import Record, Run, Scale
from paper.experiments import competitors
from paper.experiments.claims import (
    Claim,
    Estimate,
    Margins,
    Rate,
    verdict_of_number,
    verdict_of_ordering,
)
from paper.experiments.digits import (
    GOOD,
    MORE_REPETITIONS,
    OTHERS,
    VARIANTS,
    all_runs,
    chosen,
    difference,
    rate,
    with_all_lams,
)
from paper.experiments.networks import CHOSEN_LABEL, NETWORKS, legend_below, style_of
from paper.experiments.tables import Experiment, Table, percent, plus_minus

SPARSE = 0.8
"""A sparsity area that counts as high. The paper recommends about 0.8."""
ACCURATE = 0.8
SHOWN_ABOVE = 0.1
"""The upper panel of the figure begins this far below the best accuracy."""
NEVER = "–"
"""What tables show if no λ gives codes that are sparse enough."""


def runs(scale: Scale, embedded: bool) -> list[Run]:
    """The runs of Figure 5 with 100 units, on ten samples of digits; and other starts."""
    m = 10 if scale == "smoke" else 100
    found = all_runs(scale, embedded, {(m, 14): MORE_REPETITIONS})
    return found + competitors.runs(scale, embedded)


def by_variant(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the records of each network for the repetitions that all networks have."""
    m = 10 if competitors.is_smoke(records) else 100
    own = [r for r in records if r.run.group != competitors.GROUP and r["network"] in VARIANTS]
    kept = with_all_lams([r for r in own if (r["m"], r["side"]) == (m, 14)])
    return {x: own for x in VARIANTS if (own := [r for r in kept if r["network"] == x])}


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the paper's claims about Figure 8, for both starts."""
    m = 10 if competitors.is_smoke(records) else 100
    found = {
        reading: {x: own[x][m] for x in NETWORKS}
        for reading, own in competitors.by_start(records, "m").items()
        if m in own["SCNN"]
    }
    if not found:
        return []
    # The sparsity of ASCNN and SAANN from weights in [−1, 1] was not measured.
    with_areas = {
        reading: {x: r for x, r in own.items() if r[0].run.group != competitors.GROUP}
        for reading, own in found.items()
    }
    sparse = {
        reading: {x: rate(records, SPARSE) for x, records in own.items()}
        for reading, own in with_areas.items()
    }
    best = {
        reading: ", ".join(f"{x} {accuracy_text(competitors.rate_of(own[x]))}" for x in NETWORKS)
        + " %"
        for reading, own in found.items()
    }

    def claim(sentence: str, paper: str, here: Any, margins: Any, verdict: Any) -> Claim:
        by_start = {reading: margins(reading) for reading in found}
        return Claim(sentence, paper, here, by_start, verdict, competitors.CHOICE)

    def more_accurate(reading: str, *networks: str) -> Margins:
        own = found[reading]
        return [
            difference(own[x], own[other], competitors.rate_of)
            for x in networks
            for other in NETWORKS
            if other not in networks
        ]

    def within(reading: str, low: float, high: float, *networks: str) -> Margins:
        rates = [sparse[reading].get(x) for x in networks]
        return [own.estimate.distance_to(low, high) for own in rates if own is not None]

    def best_when_sparse(reading: str) -> Margins:
        own = {x: with_areas[reading][x] for x, r in sparse[reading].items() if r is not None}
        if "SCNN" not in own or not set(OTHERS) <= set(with_areas[reading]):
            return []
        return [sparse_difference(own["SCNN"], own[x]) for x in own if x != "SCNN"]

    def here(*networks: str) -> dict[str, str]:
        return {
            reading: ", ".join(
                (f"{x} " if len(networks) > 1 else "") + sparse_text(own[x]) for x in networks
            )
            + (" %" if any(own[x] for x in networks) else "")
            for reading, own in sparse.items()
            if set(networks) <= set(own)
        }

    return [
        claim(
            "The best accuracies are those of SCNN and Sparsenet.",
            "SCNN, Sparsenet",
            best,
            lambda reading: more_accurate(reading, *GOOD),
            verdict_of_ordering,
        ),
        claim(
            "Sparsenet is the most accurate of all.",
            "Sparsenet, 88 %",
            "as above",
            lambda reading: more_accurate(reading, "Sparsenet"),
            verdict_of_ordering,
        ),
        *(
            claim(
                f"{x} is accurate (> {percent(ACCURATE, 0)}) and sparse (area ≥ {SPARSE}).",
                "> 80 %",
                here(x),
                lambda reading, x=x: within(reading, ACCURATE, 1, x),
                verdict_of_number,
            )
            for x in GOOD
        ),
        claim(
            f"ASCNN and SAANN stay below {percent(ACCURATE, 0)} when they are that sparse.",
            "< 80 %",
            here(*OTHERS),
            lambda reading: within(reading, 0, ACCURATE, *OTHERS),
            verdict_of_number,
        ),
        claim(
            "SCNN is the most accurate network that is that sparse.",
            "SCNN",
            "as above",
            best_when_sparse,
            verdict_of_ordering,
        ),
    ]


def sparse_difference(one: Sequence[Record], other: Sequence[Record]) -> Estimate:
    """Return the difference of the accuracies of sparse codes, on the samples that have both."""

    def seeds(records: Sequence[Record]) -> set[int]:
        return {r.run.seed for r in records if chosen(r, SPARSE) is not None}

    both = seeds(one) & seeds(other)
    kept = [[r for r in own if r.run.seed in both] or own for own in (one, other)]
    return difference(kept[0], kept[1], lambda own: rate(own, SPARSE))


def accuracy_text(own: Rate | None) -> str:
    """Return an accuracy and its standard error as text."""
    if own is None:
        return NEVER
    return plus_minus(own.estimate)


def sparse_text(own: Rate | None) -> str:
    """Return the accuracy of sparse codes as text."""
    return "never that sparse" if own is None else accuracy_text(own)


def tables(records: Sequence[Record]) -> list[Table]:
    """Return the table of accuracies for several minimum sparsity areas."""
    areas = [0.0, 0.5, 0.7, 0.8, 0.9, 0.95]
    rows = [
        [x, *(accuracy_text(rate(own, area)) for area in areas)]
        for x, own in by_variant(records).items()
    ]
    title = (
        "Test accuracy (%, ± standard error) at a sparsity area of at least …, λ chosen on"
        f" validation digits. {NEVER} means that no λ gives codes that are this sparse"
    )
    return [Table("accuracy-sparsity", title, ["area", *(f"{a:g}" for a in areas)], rows)]


def plot(figure: Any, records: Sequence[Record]) -> None:
    """Plot the means of all λ in two panels: the best accuracies, and all accuracies."""
    found = by_variant(records)
    figure.set_size_inches(6.4, 7)
    above, below = figure.subplots(2, sharex=True, height_ratios=(3, 2))
    for x, own in found.items():
        add_all_lams(above, x, own, bars=False)
        add_all_lams(below, x, own, bars=True)
        add_chosen_lam(above, x, own)
    dark: dict[str, Any] = {"color": "#555555", "markersize": 7.5, "linestyle": ""}
    above.plot([], [], "o", label=CHOSEN_LABEL, **dark)
    for axes in (above, below):
        axes.axhline(ACCURATE, color="#999999", linewidth=0.8)
        axes.axvline(SPARSE, color="#999999", linewidth=0.8)
        axes.set_ylabel("test accuracy")
    best = max(np.mean([r["test_accuracy"] for r in own], axis=0).max() for own in found.values())
    above.set_ylim(best - SHOWN_ABOVE, above.dataLim.ymax + 0.05 * SHOWN_ABOVE)
    below.set_xlabel("sparsity area")
    legend_below(figure, above)


def add_all_lams(axes: Any, x: str, records: Sequence[Record], *, bars: bool) -> None:
    """Plot one point for each λ: the mean over the samples, with or without bars."""
    area, accuracy = (
        np.array([record[name] for record in records])
        for name in ("sparsity_area", "test_accuracy")
    )
    errors = deviations(area, accuracy) if bars else {}
    style = style_of(x) | {"linewidth": 0.8, "markersize": 3.5, "alpha": 0.7}
    axes.errorbar(area.mean(axis=0), accuracy.mean(axis=0), **errors, **style)


def add_chosen_lam(axes: Any, x: str, records: Sequence[Record]) -> None:
    """Plot one point for the λ that are chosen on the samples: the mean, with bars."""
    area, accuracy = (
        np.array([record[name][chosen(record)] for record in records])
        for name in ("sparsity_area", "test_accuracy")
    )
    style = style_of(x) | {"markersize": 7.5, "elinewidth": 1.2, "linestyle": "", "zorder": 3}
    errors = deviations(area, accuracy)
    axes.errorbar(area.mean(), accuracy.mean(), label=x, **errors, **style)


def deviations(area: Any, accuracy: Any) -> dict[str, Any]:
    """Return the standard deviations over several samples, for error bars."""
    if len(area) < 2:
        return {}
    return {"xerr": area.std(axis=0, ddof=1), "yerr": accuracy.std(axis=0, ddof=1)}


EXPERIMENT = Experiment(
    "accuracy-sparsity",
    "Figure 8: accuracy against sparsity area",
    "mnist",
    runs,
    claims,
    tables,
    {"figure-8-accuracy-sparsity": plot},
)
