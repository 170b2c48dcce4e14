"""Figure 9: accuracy on digits of several sizes with a fixed number of units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paper.cache import Record, Run, Scale
from paper.experiments import competitors
from paper.experiments.claims import Claim, verdict_of_number
from paper.experiments.digits import (
    COMPARABLE,
    GOOD,
    MORE_REPETITIONS,
    OTHERS,
    REPETITIONS,
    VARIANTS,
    accuracy_table,
    all_runs,
    difference,
    plot_accuracies,
)
from paper.experiments.networks import NETWORKS
from paper.experiments.tables import Experiment, Table, plus_minus, points


def runs(scale: Scale, embedded: bool) -> list[Run]:
    """Each network and baseline with each size and all λ; and other starts.

    There are ten samples of digits for the smallest and the largest size, and three for others.
    """
    m, between = (10, []) if scale == "smoke" else (100, [18, 21, 24])
    shapes = dict.fromkeys([(m, 14), (m, 28)], MORE_REPETITIONS)
    found = all_runs(scale, embedded, shapes | {(m, side): REPETITIONS for side in between})
    return found + competitors.runs(scale, embedded)


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the paper's claims about Figure 9, for both starts."""
    found = competitors.by_start(records, "side")
    if not found or any(len(own["SCNN"]) < 2 for own in found.values()):
        return []
    loss = {
        reading: {
            x: difference(by_side[min(by_side)], by_side[max(by_side)], competitors.rate_of)
            for x, by_side in own.items()
            if x in NETWORKS
        }
        for reading, own in found.items()
    }

    def here(networks: Sequence[str]) -> dict[str, str]:
        return {
            reading: ", ".join(f"{x} {plus_minus(own[x])}" for x in networks) + " points"
            for reading, own in loss.items()
        }

    return [
        Claim(
            "SCNN and Sparsenet do not depend on the size of the digits (they lose at most"
            f" {points(COMPARABLE)} with 28×28 pixels).",
            "not affected",
            here(GOOD),
            {
                reading: [own[x].distance_to(-COMPARABLE, COMPARABLE) for x in GOOD]
                for reading, own in loss.items()
            },
            verdict_of_number,
            competitors.CHOICE,
        ),
        Claim(
            "ASCNN and SAANN depend strongly on it: they lose more.",
            "strong dependence",
            here(OTHERS),
            {
                reading: [own[x] - own[good] for x in OTHERS for good in GOOD]
                for reading, own in loss.items()
            },
            choice=competitors.CHOICE,
        ),
    ]


def figure_records(records: Sequence[Record]) -> list[Record]:
    """Return the records of the figure itself."""
    own = [r for r in records if r.run.group != competitors.GROUP and r["network"] in VARIANTS]
    m = 10 if competitors.is_smoke(records) else 100
    return [r for r in own if r["m"] == m]


def tables(records: Sequence[Record]) -> list[Table]:
    """Return the table of test accuracies."""
    own = figure_records(records)
    title = f"Test accuracy (%) by side of the digits with {own[0]['m']} units"
    return [accuracy_table(own, "side", "digits-input-size", title, "side")]


def plot(figure: Any, records: Sequence[Record]) -> None:
    """Plot the accuracy against the side of the digits."""
    label, others = "side of the digits (pixels)", competitors.other_starts(records, "side")
    plot_accuracies(figure, figure_records(records), "side", label, others)


EXPERIMENT = Experiment(
    "digits-input-size",
    "Figure 9: accuracy against the size of the input",
    "mnist",
    runs,
    claims,
    tables,
    {"figure-9-digits-input-size": plot},
)
