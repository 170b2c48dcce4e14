"""Figure 8: accuracy against sparsity area, for 100 values of λ with 100 units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paper.experiments.digit_grid import (
    THRESHOLD_TEXT,
    TRAINING_TEXT,
    VARIANTS,
    chosen_accuracy,
    grid_run,
    shared_repetitions,
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
    percent,
)
from paper.experiments.networks import COLOURS, MARKERS, NETWORKS, network_of

SPARSE = 0.8
"""A sparsity area that counts as high. The paper recommends about 0.8."""
ACCURATE = 0.8
NEVER = "never that sparse"


def runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
    """Each network with 100 λ, on three samples of digits."""
    n, m, n_lams, repetitions = {
        "smoke": ([100, 100, 100], 20, 3, 1),
        "paper": ([500, 500, 500], 100, 100, 3),
    }[scale]
    return [
        grid_run(
            "accuracy-sparsity",
            scale,
            seed + k,
            embedded,
            network=network,
            m=m,
            side=14,
            n=n,
            n_lams=n_lams,
        )
        for k in range(repetitions)
        for network in VARIANTS
    ]


def by_variant(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the records of each network for the repetitions that all networks have."""
    shared = shared_repetitions(records, "m")
    return {x: own for x in VARIANTS if (own := [r for r in shared if r["network"] == x])}


def mean_accuracy(records: Sequence[Record], min_area: float = 0.0) -> float | None:
    """Return the mean test accuracy at a sparsity area of at least ``min_area``.

    Repetitions that are never that sparse are left out. If all are, None is returned.
    """
    found = [chosen_accuracy(record, min_area) for record in records]
    sparse = [accuracy for accuracy in found if accuracy is not None]
    return float(np.mean(sparse)) if sparse else None


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the paper's claims about Figure 8."""
    found = by_variant(records)
    if not set(NETWORKS) <= set(found):
        return []
    best = {x: mean_accuracy(found[x]) or 0.0 for x in NETWORKS}
    sparse = {x: mean_accuracy(found[x], SPARSE) for x in NETWORKS}
    best_text = ", ".join(f"{x} {percent(best[x])}" for x in NETWORKS)
    others = [accuracy for x in ("ASCNN", "SAANN") if (accuracy := sparse[x]) is not None]
    error = standard_error(records, "m")

    def accurate(x: str) -> Claim:
        accuracy = sparse[x]
        return Claim(
            f"{x} is accurate and sparse: more than {percent(ACCURATE, 0)} at a sparsity area of"
            f" about 0.8 (our criterion: at least {SPARSE}).",
            "> 80 %",
            f"{x} {accuracy_text(accuracy)}",
            None if accuracy is None else accuracy > ACCURATE,
        )

    return [
        claim_from_difference(
            "The best accuracies are those of SCNN and Sparsenet.",
            "SCNN, Sparsenet",
            best_text,
            min(best["SCNN"], best["Sparsenet"]) - max(best["ASCNN"], best["SAANN"]),
            error,
        ),
        claim_from_difference(
            "Sparsenet is the most accurate of all.",
            "Sparsenet, 88 %",
            best_text,
            best["Sparsenet"] - max(best[x] for x in NETWORKS if x != "Sparsenet"),
            error,
        ),
        accurate("SCNN"),
        accurate("Sparsenet"),
        Claim(
            f"When they are sparse (our criterion: an area of at least {SPARSE}), ASCNN and SAANN"
            f" stay below {percent(ACCURATE, 0)}.",
            "< 80 %",
            ", ".join(f"{x} {accuracy_text(sparse[x])}" for x in ("ASCNN", "SAANN")),
            max(others) < ACCURATE if others else None,
        ),
    ]


def accuracy_text(accuracy: float | None) -> str:
    """Return an accuracy as text."""
    return NEVER if accuracy is None else percent(accuracy)


def tables(records: Sequence[Record]) -> list[Table]:
    """Return the table of accuracies for several minimum sparsity areas."""
    areas = [0.0, 0.5, 0.7, 0.8, 0.9, 0.95]
    rows = [
        [x, *(accuracy_text(mean_accuracy(own, area)) for area in areas)]
        for x, own in by_variant(records).items()
    ]
    title = "Test accuracy at a sparsity area of at least …, λ chosen on validation digits"
    return [Table("accuracy-sparsity", title, ["area", *(f"{a:g}" for a in areas)], rows)]


def plot(figure: Any, records: Sequence[Record]) -> None:
    """Plot one point for each λ and repetition."""
    axes = figure.subplots()
    for x, own in by_variant(records).items():
        base = network_of(x)
        axes.scatter(
            [record["sparsity_area"] for record in own],
            [record["test_accuracy"] for record in own],
            s=14,
            alpha=0.6,
            color=COLOURS[base],
            marker="+" if x != base else MARKERS[base],
            label=x,
            linewidths=0.8 if x != base else 0,
        )
    axes.axhline(ACCURATE, color="#999999", linewidth=0.8)
    axes.axvline(SPARSE, color="#999999", linewidth=0.8)
    axes.set(xlabel="sparsity area", ylabel="test accuracy", xlim=(0, 1.02), ylim=(0, 1))
    axes.legend(loc="lower left")


EXPERIMENT = Experiment(
    "accuracy-sparsity",
    "Figure 8: accuracy against sparsity area",
    "mnist",
    "500/500/500 digits of 14×14 pixels, 100 units, 100 equispaced λ, three random samples of"
    " digits. Each point is one λ on one sample: the accuracy of the SVM on test digits, and the"
    " area under the sparsity curve of their codes. For the table and the claims, λ is the one with"
    " the best validation accuracy among those whose validation codes have at least the given area."
    f" {TRAINING_TEXT} {THRESHOLD_TEXT}",
    runs,
    claims,
    tables,
    {"figure-8-accuracy-sparsity": plot},
    "ASCNN and SAANN are more accurate here than in the paper. See Figure 5 for what was tried.",
)
