"""Figure 9: accuracy on digits of several sizes with a fixed number of units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paper.cache import Record, Run, Scale
from paper.experiments.claims import Claim
from paper.experiments.digits import (
    COMPARABLE,
    GOOD,
    MORE_REPETITIONS,
    OTHERS,
    REPETITIONS,
    accuracy_table,
    all_runs,
    cells,
    difference,
    means,
    plot_accuracies,
)
from paper.experiments.networks import NETWORKS
from paper.experiments.tables import TEXTS, Experiment, Table, points

WHY = (TEXTS["why"]["digits-input-size"], ("competitors",))
"""Why the claim about ASCNN and SAANN is not reproduced, and the experiment that shows it."""


def runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
    """Each network and baseline with each size and all λ.

    There are ten samples of digits for the smallest and the largest size, and three for others.
    """
    m, between = (10, []) if scale == "smoke" else (100, [18, 21, 24])
    shapes = dict.fromkeys([(m, 14), (m, 28)], MORE_REPETITIONS)
    return all_runs(scale, seed, embedded, shapes | {(m, side): REPETITIONS for side in between})


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the paper's claims about Figure 9."""
    found = cells(records, "side")
    sides = list(found["SCNN"])
    if len(sides) < 2:
        return []
    mean = means(records, "side")
    ranges = mean.max(axis="columns") - mean.min(axis="columns")
    changes = " and that of ".join(change_text(x, found[x], sides) for x in GOOD)
    loss = {x: difference(found[x][sides[0]], found[x][sides[-1]]) for x in OTHERS}
    return [
        Claim(
            "The accuracy of SCNN and Sparsenet is not affected by the size of the input (our"
            f" criterion: its range is at most {points(COMPARABLE)}).",
            "not affected",
            ", ".join(f"range of {x}: {points(ranges[x])}" for x in GOOD),
            [
                COMPARABLE
                - difference(found[x][mean.loc[x].idxmax()], found[x][mean.loc[x].idxmin()])
                for x in GOOD
            ],
            "The range of five sizes includes the sampling error of each size. From the smallest"
            f" to the largest digits, the accuracy of {changes}.",
            ("digits-input-size",),
        ),
        Claim(
            "The accuracy of ASCNN and SAANN depends strongly on the size of the input (our"
            f" criterion: from the smallest to the largest digits it decreases by more than"
            f" {points(COMPARABLE)}).",
            "strong dependence",
            ", ".join(
                f"decrease of {x}: {points(loss[x].value)} (± {100 * loss[x].error:.1f})"
                for x in OTHERS
            ),
            [loss[x] - COMPARABLE for x in OTHERS],
            *WHY,
        ),
    ]


def change_text(x: str, own: Mapping[int, Sequence[Record]], sides: Sequence[int]) -> str:
    """Return by how much the accuracy changes from the smallest to the largest digits."""
    change = difference(own[sides[-1]], own[sides[0]])
    return f"{x} changes by {points(change.value)} (± {100 * change.error:.1f})"


def tables(records: Sequence[Record]) -> list[Table]:
    """Return the table of test accuracies."""
    title = f"Test accuracy (%) by side of the digits with {records[0]['m']} units"
    return [accuracy_table(records, "side", "digits-input-size", title, "side")]


def plot(figure: Any, records: Sequence[Record]) -> None:
    """Plot the accuracy against the side of the digits."""
    plot_accuracies(figure, records, "side", "side of the digits (pixels)")


EXPERIMENT = Experiment(
    "digits-input-size",
    "Figure 9: accuracy against the size of the input",
    "mnist",
    runs,
    claims,
    tables,
    {"figure-9-digits-input-size": plot},
    used_by_claims=lambda run: run.settings["network"] in NETWORKS,
)
