"""Figure 9: accuracy on digits of several sizes with a fixed number of units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paper.experiments.digit_grid import (
    VARIANTS,
    accuracy_table,
    grid_run,
    means,
    plot_accuracies,
    standard_error,
)
from paper.experiments.experiment import (
    Claim,
    Experiment,
    Record,
    Run,
    Scale,
    Table,
    claim_from_difference,
    points,
)

UNAFFECTED = 0.03
"""A range of accuracies over the sizes that counts as no effect. Our criterion."""


def runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
    """Each network with each size and all its λ."""
    n, m, sides, n_lams, repetitions = {
        "smoke": ([100, 100, 100], 20, [14, 28], 2, 1),
        "paper": ([500, 500, 500], 100, [14, 18, 21, 24, 28], 40, 3),
    }[scale]
    return [
        # The runs with 14×14 pixels are those of Figure 5.
        grid_run(
            "digits-components" if side == 14 else "digits-input-size",
            scale,
            seed + k,
            embedded,
            network=network,
            m=m,
            side=side,
            n=n,
            n_lams=n_lams,
        )
        for k in range(repetitions)
        for side in sides
        for network in VARIANTS
    ]


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the paper's claims about Figure 9."""
    mean = means(records, "side")
    if mean.shape[1] < 2:
        return []
    ranges = mean.max(axis="columns") - mean.min(axis="columns")
    loss = mean.iloc[:, 0] - mean.iloc[:, -1]
    error = standard_error(records, "side")
    return [
        claim_from_difference(
            "The accuracy of SCNN and Sparsenet is not affected by the size of the input (our"
            f" criterion: its range is at most {points(UNAFFECTED)}).",
            "not affected",
            ", ".join(f"range of {x}: {points(ranges[x])}" for x in ("SCNN", "Sparsenet")),
            UNAFFECTED - ranges[["SCNN", "Sparsenet"]].max(),
            error,
        ),
        claim_from_difference(
            "The accuracy of ASCNN and SAANN depends strongly on the size of the input (our"
            f" criterion: from the smallest to the largest digits it decreases by more than"
            f" {points(UNAFFECTED)}).",
            "strong dependence",
            ", ".join(f"decrease of {x}: {points(loss[x])}" for x in ("ASCNN", "SAANN")),
            loss[["ASCNN", "SAANN"]].min() - UNAFFECTED,
            error,
        ),
    ]


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
    "As in Figure 5, with 100 units. The digits are resized to 14×14, 18×18, 21×21, 24×24 and 28×28"
    " pixels (the paper gives the first and the last size).",
    runs,
    claims,
    tables,
    {"figure-9-digits-input-size": plot},
)
