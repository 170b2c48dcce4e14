"""Figure 9: accuracy on digits of growing size at a fixed number of units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lincode.experiments.digit_grid import LINES, chance, draw_accuracies, grid_run, means, table_of
from lincode.experiments.experiment import (
    Claim,
    Experiment,
    Record,
    Run,
    Scale,
    Table,
    points,
    weighed,
)
from lincode.experiments.networks import NETWORKS

UNAFFECTED = 0.03
"""A range of accuracies over the sizes that counts as none. Our measure."""


def runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
    """Each network at each size over its λ; the paper names the first and the last size."""
    n, m, sides, n_lams, draws = {
        "smoke": ([100, 100, 100], 20, [14, 28], 2, 1),
        "paper": ([500, 500, 500], 100, [14, 18, 21, 24, 28], 40, 3),
    }[scale]
    return [
        # What Figure 5 has already is not made twice.
        grid_run(
            "digits-components" if side == 14 else "digits-input-size", scale, seed + k, embedded,
            network=network, m=m, side=side, n=n, n_lams=n_lams,
        )
        for k in range(draws)
        for side in sides
        for network in LINES
    ]  # fmt: skip


def claims(records: Sequence[Record]) -> list[Claim]:
    """What the paper says of Figure 9."""
    mean = means(records, "side")
    if not mean or len(mean["SCNN"]) < 2:
        return []
    spread = {x: max(mean[x].values()) - min(mean[x].values()) for x in NETWORKS}
    least, most = min(mean["SCNN"]), max(mean["SCNN"])
    loss = {x: mean[x][least] - mean[x][most] for x in NETWORKS}
    return [
        weighed(
            "The accuracy of SCNN and Sparsenet is not affected by the size of the input (our"
            f" measure: it ranges over at most {points(UNAFFECTED)}).",
            "not affected",
            ", ".join(f"{x} ranges over {points(spread[x])}" for x in ("SCNN", "Sparsenet")),
            UNAFFECTED - max(spread["SCNN"], spread["Sparsenet"]), chance(records, "side"),
        ),
        weighed(
            "ASCNN and SAANN depend strongly on it (our measure: from the smallest to the largest"
            f" digits they lose more than {points(UNAFFECTED)}).",
            "strongly dependent",
            ", ".join(f"{x} loses {points(loss[x])}" for x in ("ASCNN", "SAANN")),
            min(loss["ASCNN"], loss["SAANN"]) - UNAFFECTED, chance(records, "side"),
        ),
    ]  # fmt: skip


def tables(records: Sequence[Record]) -> list[Table]:
    """Test accuracies."""
    title = f"Test accuracy (%) by side of the digits at {records[0]['m']} units"
    return [table_of(records, "side", "digits-input-size", title, "side")]


def draw(figure: Any, records: Sequence[Record]) -> None:
    """Accuracy against the side of the digits."""
    draw_accuracies(figure, records, "side", "side of the digits (pixels)")


EXPERIMENT = Experiment(
    "digits-input-size",
    "Figure 9: accuracy against the size of the input",
    "mnist",
    "As Figure 5 at 100 units, digits resized to 14×14, 18×18, 21×21, 24×24 and 28×28 (the paper"
    " names the first and the last).",
    runs, claims, tables, {"figure-9-digits-input-size": draw},
)  # fmt: skip
