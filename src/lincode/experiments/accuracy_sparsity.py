"""Figure 8: accuracy against sparsity area, over 100 values of λ at 100 units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lincode.experiments.experiment import Claim, Experiment, Record, Run, Scale, Table, percent
from lincode.experiments.networks import COLOURS, MARKERS, NETWORKS, paper_lams

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
        Run("accuracy-sparsity", scale, seed + k, embedded, {
            "network": network, "m": m, "side": 14, "n": n, "lams": paper_lams(network, n_lams),
        })
        for k in range(draws)
        for network in NETWORKS
    ]  # fmt: skip


def points(records: Sequence[Record]) -> dict[str, tuple[Any, Any]]:
    """By network: sparsity areas and test accuracies, each (draw, λ)."""
    found: dict[str, list[tuple[list[float], list[float]]]] = {}
    for record in records:
        pair = (record["sparsity_area"], record["test_accuracy"])
        found.setdefault(record["network"], []).append(pair)
    return {
        x: (np.array([a for a, _ in found[x]]), np.array([b for _, b in found[x]]))
        for x in NETWORKS
        if x in found
    }


def best(area: Any, accuracy: Any, least: float = 0.0) -> float:
    """The highest accuracy at an area of at least this, the mean over draws; 0 if there is none."""
    return float(np.where(area >= least, accuracy, 0).max(axis=1).mean())


def claims(records: Sequence[Record]) -> list[Claim]:
    """What the paper says of Figure 8."""
    found = points(records)
    if set(found) != set(NETWORKS):
        return []
    top = {x: best(*found[x]) for x in NETWORKS}
    sparse = {x: best(*found[x], least=SPARSE) for x in NETWORKS}
    tops = ", ".join(f"{x} {percent(top[x])}" for x in NETWORKS)
    return [
        Claim(
            "The best accuracies are those of SCNN and Sparsenet.",
            "SCNN, Sparsenet", tops,
            min(top["SCNN"], top["Sparsenet"]) > max(top["ASCNN"], top["SAANN"]),
        ),
        Claim(
            "Sparsenet reaches the highest accuracy, 0.88.", "0.88", tops,
            top["Sparsenet"] >= max(top.values()),
        ),
        Claim(
            "SCNN is both accurate and sparse: more than 0.80 at a sparsity area of about 0.8.",
            "> 80 %", f"{percent(sparse['SCNN'])} at areas from {SPARSE}",
            sparse["SCNN"] > ACCURATE,
        ),
        Claim(
            "Where they are sparse, ASCNN and SAANN stay below 0.80.", "< 80 %",
            ", ".join(f"{x} {percent(sparse[x])}" for x in ("ASCNN", "SAANN"))
            + f" at areas from {SPARSE}",
            max(sparse["ASCNN"], sparse["SAANN"]) < ACCURATE,
        ),
    ]  # fmt: skip


def tables(records: Sequence[Record]) -> list[Table]:
    """The highest accuracies at sparsity areas from a value on."""
    least = [0.0, 0.5, 0.7, 0.8, 0.9, 0.95]
    rows = [[x, *(percent(best(*p, least=a)) for a in least)] for x, p in points(records).items()]
    rows = [[cell if cell != "0.0 %" else "none" for cell in row] for row in rows]
    title = "Highest test accuracy over λ at a sparsity area of at least …"
    return [Table("accuracy-sparsity", title, ["area", *(f"{a:g}" for a in least)], rows)]


def draw(figure: Any, records: Sequence[Record]) -> None:
    """A point for each λ and draw."""
    axes = figure.subplots()
    for x, (area, accuracy) in points(records).items():
        axes.scatter(
            area, accuracy, s=14, alpha=0.6, color=COLOURS[x], marker=MARKERS[x], label=x,
            linewidths=0,
        )  # fmt: skip
    axes.axhline(ACCURATE, color="#999999", linewidth=0.8)
    axes.axvline(SPARSE, color="#999999", linewidth=0.8)
    axes.set(xlabel="sparsity area", ylabel="test accuracy", xlim=(0, 1.02), ylim=(0, 1))
    axes.legend(loc="lower left")


EXPERIMENT = Experiment(
    "accuracy-sparsity",
    "Figure 8: accuracy against sparsity area",
    "500/500/500 digits of 14×14, 100 units, 100 equispaced λ; a point is one λ of one draw: the"
    " accuracy of the SVM on test digits, and the area under the sparsity curve of their codes. As"
    " in the paper nothing is chosen here but the SVM's C, on validation digits.",
    runs, claims, tables, {"figure-8-accuracy-sparsity": draw},
)  # fmt: skip
