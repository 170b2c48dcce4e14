"""Figure 5: accuracy of a linear SVM on the codes of digits, against the number of units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from paper.cache import Record, Run, Scale
from paper.experiments.claims import Claim
from paper.experiments.digits import (
    COMPARABLE,
    GOOD,
    MORE_REPETITIONS,
    OTHERS,
    WHY_COMPETITORS,
    accuracy_table,
    all_runs,
    cells,
    difference,
    means,
    plot_accuracies,
    rate,
)
from paper.experiments.networks import NETWORKS
from paper.experiments.tables import Experiment, Table, percent, points

WEAK = 0.05
"""A loss of accuracy with the fewest units that counts as a weak dependence. Our criterion."""
HIGH = 0.8
"""An accuracy that counts as high, as in the paper's text about Figure 8."""


def runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
    """Each network and baseline with each number of units and all λ, on ten samples of digits."""
    sizes = [5, 10] if scale == "smoke" else [25, 50, 75, 100, 125, 150]
    return all_runs(scale, seed, embedded, {(m, 14): MORE_REPETITIONS for m in sizes})


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the paper's claims about Figure 5."""
    found = cells(records, "m")
    if not found["SCNN"]:
        return []
    mean = means(records, "m")
    few, many = mean.columns[0], mean.columns[-1]
    best = {x: int(mean.loc[x].idxmax()) for x in GOOD}
    here = ", ".join(
        f"{x} {percent(mean.loc[x, few])}, {points(mean.loc[x].max() - mean.loc[x, few])} below its"
        " best"
        for x in GOOD
    )
    margins = []
    for x in GOOD:
        high = rate(found[x][few])
        assert high is not None
        margins += [high.estimate - HIGH, WEAK - difference(found[x][best[x]], found[x][few])]
    return [
        Claim(
            "SCNN and Sparsenet reach a high accuracy with few units and depend weakly on their"
            f" number (our criterion: at least {percent(HIGH, 0)} with the fewest units, and at"
            f" most {points(WEAK)} below their best).",
            "weak dependence",
            f"with {few} units {here}",
            margins,
        ),
        Claim(
            "ASCNN and SAANN need more than 100 units to be as accurate as SCNN and Sparsenet (our"
            f" criterion: with up to 100 units, they are more than {points(COMPARABLE)} less"
            " accurate than both).",
            "> 100 units",
            less_accurate_text(mean),
            [
                difference(found[good][m], found[x][m]) - COMPARABLE
                for x in OTHERS
                for good in GOOD
                for m in found[x]
                if m <= 100
            ]
            if many > 100
            else (),
            *WHY_COMPETITORS,
        ),
    ]


def less_accurate_text(mean: pd.DataFrame) -> str:
    """Return by how much ASCNN and SAANN are less accurate than the worse of the good ones."""
    behind = 100 * (mean.loc[list(GOOD)].min() - mean.loc[list(OTHERS)])
    few = [m for m in mean.columns if m <= 100]
    values = {
        x: ", ".join(f"{d:.1f}".replace("-", "−") for d in behind.loc[x, few]) for x in OTHERS
    }
    found = "; ".join(f"{x} {own}" for x, own in values.items())
    units = ", ".join(map(str, few))
    return f"points below the less accurate of the two with {units} units: {found}"


def tables(records: Sequence[Record]) -> list[Table]:
    """Return the table of test accuracies."""
    title = "Test accuracy (%) by number of units, λ and the SVM's C chosen on validation digits"
    return [accuracy_table(records, "m", "digits-components", title, "units")]


def plot(figure: Any, records: Sequence[Record]) -> None:
    """Plot the accuracy against the number of units."""
    plot_accuracies(figure, records, "m", "units")


EXPERIMENT = Experiment(
    "digits-components",
    "Figure 5: accuracy against the number of units",
    "mnist",
    runs,
    claims,
    tables,
    {"figure-5-digits-components": plot},
    used_by_claims=lambda run: run.settings["network"] in NETWORKS,
)
