"""Figure 8: accuracy against sparsity area, over 100 values of λ at 100 units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lincode.experiments.digit_grid import (
    LINES,
    READING,
    STOPS,
    chance,
    chosen_accuracy,
    grid_run,
    shared_draws,
)
from lincode.experiments.drawing import COLOURS, MARKERS
from lincode.experiments.experiment import (
    Claim,
    Experiment,
    Record,
    Run,
    Scale,
    Table,
    percent,
    weighed,
)
from lincode.experiments.networks import NETWORKS, network_of

SPARSE = 0.8
"""A sparsity area that counts as high; the paper's compromise is at about 0.8."""
ACCURATE = 0.8


def runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
    """Each network over 100 λ."""
    n, m, n_lams, draws = {
        "smoke": ([100, 100, 100], 20, 3, 1),
        "paper": ([500, 500, 500], 100, 100, 3),
    }[scale]
    return [
        grid_run(
            "accuracy-sparsity", scale, seed + k, embedded, network=network, m=m, side=14, n=n,
            n_lams=n_lams,
        )
        for k in range(draws)
        for network in LINES
    ]  # fmt: skip


def clouds(records: Sequence[Record]) -> dict[str, list[Record]]:
    """The draws of each network, those that all have."""
    shared = shared_draws(records, "m")
    return {x: own for x in LINES if (own := [r for r in shared if r["network"] == x])}


def best(draws: Sequence[Record], least: float = 0.0) -> float | None:
    """Test accuracy at a sparsity area of at least this: the mean over the draws that have one."""
    found = [chosen_accuracy(record, least) for record in draws]
    sparse = [accuracy for accuracy in found if accuracy is not None]
    return float(np.mean(sparse)) if sparse else None


def claims(records: Sequence[Record]) -> list[Claim]:
    """What the paper says of Figure 8."""
    found = clouds(records)
    if not set(NETWORKS) <= set(found):
        return []
    top = {x: best(found[x]) or 0.0 for x in NETWORKS}
    sparse = {x: best(found[x], SPARSE) for x in NETWORKS}
    tops = ", ".join(f"{x} {percent(top[x])}" for x in NETWORKS)
    others = [accuracy for x in ("ASCNN", "SAANN") if (accuracy := sparse[x]) is not None]
    error = chance(records, "m")

    def accurate(x: str) -> Claim:
        accuracy = sparse[x]
        return Claim(
            f"{x} is accurate and sparse: more than {percent(ACCURATE, 0)} at a sparsity area of"
            f" about 0.8 (our measure: at least {SPARSE}).",
            "> 80 %", f"{x} {or_none(accuracy)}",
            None if accuracy is None else accuracy > ACCURATE,
        )  # fmt: skip

    return [
        weighed(
            "The best accuracies are those of SCNN and Sparsenet.", "SCNN, Sparsenet", tops,
            min(top["SCNN"], top["Sparsenet"]) - max(top["ASCNN"], top["SAANN"]), error,
        ),
        weighed(
            "Sparsenet is the most accurate of all.", "Sparsenet, 88 %", tops,
            top["Sparsenet"] - max(top[x] for x in NETWORKS if x != "Sparsenet"), error,
        ),
        accurate("SCNN"),
        accurate("Sparsenet"),
        Claim(
            f"Where they are sparse (our measure: an area of at least {SPARSE}), ASCNN and SAANN"
            f" stay below {percent(ACCURATE, 0)}.",
            "< 80 %", ", ".join(f"{x} {or_none(sparse[x])}" for x in ("ASCNN", "SAANN")),
            max(others) < ACCURATE if others else None,
        ),
    ]  # fmt: skip


def or_none(accuracy: float | None) -> str:
    """In words."""
    return "never so sparse" if accuracy is None else percent(accuracy)


def tables(records: Sequence[Record]) -> list[Table]:
    """Accuracies at sparsity areas from a value on."""
    least = [0.0, 0.5, 0.7, 0.8, 0.9, 0.95]
    rows = [[x, *(or_none(best(own, a)) for a in least)] for x, own in clouds(records).items()]
    title = "Test accuracy at a sparsity area of at least …, λ chosen on validation digits"
    return [Table("accuracy-sparsity", title, ["area", *(f"{a:g}" for a in least)], rows)]


def draw(figure: Any, records: Sequence[Record]) -> None:
    """A point for each λ and draw."""
    axes = figure.subplots()
    for x, draws in clouds(records).items():
        base = network_of(x)
        axes.scatter(
            [record["sparsity_area"] for record in draws],
            [record["test_accuracy"] for record in draws],
            s=14, alpha=0.6, color=COLOURS[base], marker="+" if x != base else MARKERS[base],
            label=x, linewidths=0.8 if x != base else 0,
        )  # fmt: skip
    axes.axhline(ACCURATE, color="#999999", linewidth=0.8)
    axes.axvline(SPARSE, color="#999999", linewidth=0.8)
    axes.set(xlabel="sparsity area", ylabel="test accuracy", xlim=(0, 1.02), ylim=(0, 1))
    axes.legend(loc="lower left")


EXPERIMENT = Experiment(
    "accuracy-sparsity",
    "Figure 8: accuracy against sparsity area",
    "mnist",
    "500/500/500 digits of 14×14, 100 units, 100 equispaced λ, three draws; a point is one λ of"
    " one draw: the accuracy of the SVM on test digits, and the area under the sparsity curve of"
    " their codes. For the table and the claims λ is the one most accurate on validation digits"
    f" among those with which their codes have at least that area. {STOPS} {READING}",
    runs, claims, tables, {"figure-8-accuracy-sparsity": draw},
    "ASCNN and SAANN are better here than in the paper; see Figure 5 for what was tried.",
)  # fmt: skip
