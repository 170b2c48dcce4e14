"""Figure 9: accuracy on digits of several sizes with a fixed number of units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paper.cache import Record, Run, Scale
from paper.experiments.claims import Claim
from paper.experiments.digit_accuracies import (
    SHIFTED,
    accuracy_table,
    cells,
    difference,
    means,
    plot_accuracies,
)
from paper.experiments.digit_grid import (
    COMPARABLE,
    DIGITS,
    GOOD,
    GRID_DEPARTURES,
    GRID_PROTOCOL,
    OTHERS,
    grid_runs,
    repetitions,
)
from paper.experiments.networks import NETWORKS
from paper.experiments.tables import Experiment, Table, points

WHY = (
    "ASCNN and SAANN do lose accuracy, but not clearly more than our criterion. The same is true"
    " for most of their other starts and trainings with 100 units; with 25 units all of them lose"
    " more. SCNN loses accuracy too if it is started as in the paper, from uniform weights in"
    " [−1, 1].",
    ("competitors",),
)
"""Why the claim about ASCNN and SAANN is not reproduced, and the experiment that shows it."""


def runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
    """Each network and baseline with each size and all λ.

    There are ten samples of digits for the smallest and the largest size, and three for others.
    """
    n, m, sides, n_lams = {
        "smoke": ([100, 100, 100], 10, [14, 28], 2),
        "paper": ([500, 500, 500], 100, [14, 28, 18, 21, 24], 13),
    }[scale]
    return [
        run
        for side in sides
        for k, variants in repetitions(scale, more=side in (14, 28))
        for network in variants
        for run in grid_runs(
            scale,
            seed + k,
            embedded,
            network=network,
            m=m,
            side=side,
            n=n,
            n_lams=n_lams,
        )
    ]


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
    (
        f"{DIGITS} They are resized to 14×14, 18×18, 21×21, 24×24 and 28×28 pixels.",
        "The smallest and the largest size have ten random samples of digits, on which the claims"
        " depend, and the others three.",
        "The networks have 100 units.",
        *GRID_PROTOCOL,
    ),
    runs,
    claims,
    tables,
    {"figure-9-digits-input-size": plot},
    {
        "figure-9-digits-input-size": "Test accuracy with the λ that is chosen on validation"
        " digits; ten samples of the smallest and the largest digits, three of the others."
        f" {SHIFTED}"
    },
    (
        "The paper gives the smallest and the largest size only.",
        *GRID_DEPARTURES,
        "SCNN is not affected by the size because it starts from training digits. From weights in"
        " [−1, 1], with the same stop of training, it loses accuracy (see the chapter on"
        " competitors).",
    ),
    used_by_claims=lambda run: run.settings["network"] in NETWORKS,
)
