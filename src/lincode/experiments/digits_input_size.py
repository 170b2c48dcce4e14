"""Figure 9: accuracy on digits of growing size at a fixed number of units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lincode.experiments.digit_grid import draw_accuracy, over_seeds, table_of
from lincode.experiments.experiment import (
    Claim,
    Experiment,
    Record,
    Run,
    Scale,
    Table,
    common,
    percent,
)
from lincode.experiments.networks import NETWORKS, paper_lams

UNAFFECTED = 0.03
"""A range of accuracies over the sizes that counts as none. Our measure."""


def runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
    """Each network at each size over its λ; the paper names the first and the last size."""
    n, m, sides, n_lams, draws = {
        "smoke": ([100, 100, 100], 20, [14, 28], 2, 1),
        "paper": ([500, 500, 500], 100, [14, 18, 21, 24, 28], 40, 3),
    }[scale]
    return [
        Run("digits-input-size", scale, seed + k, embedded, {
            "network": network, "m": m, "side": side, "n": n, "lams": paper_lams(network, n_lams),
        })
        for k in range(draws)
        for side in sides
        for network in NETWORKS
    ]  # fmt: skip


def claims(records: Sequence[Record]) -> list[Claim]:
    """What the paper says of Figure 9."""
    found = common(over_seeds(records, "side"), NETWORKS)
    if not found:
        return []
    accuracies = {x: [v[0] for v in found[x].values()] for x in NETWORKS}
    spread = {x: max(accuracies[x]) - min(accuracies[x]) for x in NETWORKS}
    return [
        Claim(
            "The accuracy of SCNN and Sparsenet is not affected by the size of the input (our"
            " measure: it ranges over at most 3 points).",
            "not affected",
            ", ".join(f"{x} ranges over {percent(spread[x])}" for x in ("SCNN", "Sparsenet")),
            max(spread["SCNN"], spread["Sparsenet"]) <= UNAFFECTED,
        ),
        Claim(
            "ASCNN and SAANN depend strongly on it (our measure: more than 3 points).",
            "strongly dependent",
            ", ".join(f"{x} ranges over {percent(spread[x])}" for x in ("ASCNN", "SAANN")),
            min(spread["ASCNN"], spread["SAANN"]) > UNAFFECTED,
        ),
    ]


def tables(records: Sequence[Record]) -> list[Table]:
    """Test accuracies."""
    title = "Test accuracy (%) by side of the digits at 100 units"
    return [table_of(records, "side", "digits-input-size", title, "side")]


def draw(figure: Any, records: Sequence[Record]) -> None:
    """Accuracy against the side of the digits."""
    draw_accuracy(figure, records, "side", "side of the digits (pixels)")


EXPERIMENT = Experiment(
    "digits-input-size",
    "Figure 9: accuracy against the size of the input",
    "As Figure 5 at 100 units, digits resized to 14×14, 18×18, 21×21, 24×24 and 28×28 (the paper"
    " names the first and the last).",
    runs, claims, tables, {"figure-9-digits-input-size": draw},
)  # fmt: skip
