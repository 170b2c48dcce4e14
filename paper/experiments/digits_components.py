"""Figure 5: accuracy of a linear SVM on the codes of digits, against the number of units."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paper.cache import Record, Run, Scale
from paper.experiments import competitors
from paper.experiments.claims import Claim, Estimate, verdict_of_number
from paper.experiments.digits import (
    GOOD,
    MORE_REPETITIONS,
    OTHERS,
    REPETITIONS,
    VARIANTS,
    accuracy_table,
    all_runs,
    difference,
    plot_accuracies,
    rate,
)
from paper.experiments.tables import Experiment, Table, percent, points, span

WEAK = 0.05
"""A loss of accuracy with the fewest units that counts as a weak dependence. Our criterion."""
HIGH = 0.8
"""An accuracy that counts as high, as in the paper's text about Figure 8."""


def runs(scale: Scale, embedded: bool) -> list[Run]:
    """Each network with each number of units; and other starts.

    There are ten samples of digits for 100 units, as for Figure 8, and three for others.
    """
    sizes = [5, 10] if scale == "smoke" else [25, 50, 75, 100, 125, 150]
    shapes = {(m, 14): MORE_REPETITIONS if m == 100 else REPETITIONS for m in sizes}
    return all_runs(scale, embedded, shapes) + competitors.runs(scale, embedded)


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the paper's claims about Figure 5, for both starts."""
    found = competitors.by_start(records, "m")
    if not found:
        return []

    def here(text: Callable[[Cells], str]) -> dict[str, str]:
        return {reading: text(own) for reading, own in found.items()}

    return [
        Claim(
            f"SCNN and Sparsenet are accurate with few units (at least {percent(HIGH, 0)}, at most"
            f" {points(WEAK)} below their best).",
            "weak dependence",
            here(few_text),
            {reading: weak_dependence(own) for reading, own in found.items()},
            verdict_of_number,
            competitors.CHOICE,
        ),
        Claim(
            "ASCNN and SAANN need more than 100 units to be as accurate as SCNN and Sparsenet.",
            "> 100 units",
            here(less_accurate_text),
            {
                reading: [
                    difference(own[good][m], own[x][m], competitors.rate_of)
                    for x in OTHERS
                    for good in GOOD
                    for m in own[x]
                    if m <= 100
                ]
                for reading, own in found.items()
            },
            choice=competitors.CHOICE,
        ),
    ]


Cells = Mapping[str, Mapping[int, Sequence[Record]]]
"""The records of each network, by the number of units."""


def mean(records: Sequence[Record]) -> float:
    """Return the mean accuracy."""
    found = competitors.rate_of(records)
    assert found is not None
    return found.mean


def weak_dependence(found: Cells) -> list[Estimate]:
    """Return the margins of the claim that SCNN and Sparsenet need few units."""
    margins = []
    for x in GOOD:
        few, best = min(found[x]), max(found[x], key=lambda m: mean(found[x][m]))
        high = rate(found[x][few])
        assert high is not None
        loss = difference(found[x][best], found[x][few])
        margins += [high.estimate.distance_to(HIGH, 1), loss.distance_to(-1, WEAK)]
    return margins


def few_text(found: Cells) -> str:
    """Return the accuracies of SCNN and Sparsenet with the fewest units, and their best."""
    return (
        ", ".join(
            f"{x} {100 * mean(found[x][min(found[x])]):.1f}"
            f" (best {100 * max(mean(own) for own in found[x].values()):.1f})"
            for x in GOOD
        )
        + " %"
    )


def less_accurate_text(found: Cells) -> str:
    """Return by how much ASCNN and SAANN are less accurate than the worse of the good ones."""
    units = [m for m in found["SCNN"] if m <= 100]
    worse = {m: min(mean(found[x][m]) for x in GOOD) for m in units}
    behind = {x: [100 * (worse[m] - mean(found[x][m])) for m in units] for x in OTHERS}
    return ", ".join(f"{x} {span(own, '.1f')}" for x, own in behind.items()) + " points behind"


def tables(records: Sequence[Record]) -> list[Table]:
    """Return the table of test accuracies, and that of other starts."""
    title = "Test accuracy (%) by number of units, λ and the SVM's C chosen on validation digits"
    own = figure_records(records)
    found = [accuracy_table(own, "m", "digits-components", title, "units")]
    return found + competitors.tables(competitors.studied(records))


def figure_records(records: Sequence[Record]) -> list[Record]:
    """Return the records of the figure itself."""
    return [
        r
        for r in records
        if r.run.group != competitors.GROUP and r["side"] == 14 and r["network"] in VARIANTS
    ]


def plot(figure: Any, records: Sequence[Record]) -> None:
    """Plot the accuracy against the number of units."""
    others = competitors.other_starts(records, "m")
    plot_accuracies(figure, figure_records(records), "m", "units", others)


EXPERIMENT = Experiment(
    "digits-components",
    "Figure 5: accuracy against the number of units",
    "mnist",
    runs,
    claims,
    tables,
    {"figure-5-digits-components": plot},
)
