"""Shared by Figures 5, 8 and 9: accuracies with the λ that is chosen on validation digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from paper.cache import Record, Run
from paper.experiments.claims import Estimate, Rate
from paper.experiments.digit_grid import VARIANTS
from paper.experiments.features import decode_wrong
from paper.experiments.networks import NETWORKS, add_lines, legend_below
from paper.experiments.tables import (
    Table,
    at_end,
    collect,
    complete_means,
    mean_and_deviation,
    shared_repetitions,
    table_of,
)

SHIFTED = (
    "Bars show the standard deviation. The markers are moved sideways a little, so that the bars do"
    " not cover each other. The axis of the accuracy does not begin at 0."
)
"""The last sentences of the captions of Figures 5 and 9."""
SHORTEST_AXIS = 0.1
"""The smallest range of accuracies that figures show."""
GRID_TEXT = "A * marks accuracies for which λ is the last of its grid, or the first if it is not 0"


def with_all_lams(records: Sequence[Record]) -> list[Record]:
    """Return one record for each network and sample of digits, with the λ of all its runs.

    Samples with fewer λ than others of the same network are left out, because a run is missing.
    """
    parts: dict[Run, list[Record]] = {}
    for record in records:
        settings = dict(record.run.settings) | {"lams": [], "grid": ""}
        parts.setdefault(replace(record.run, settings=settings), []).append(record)
    found = [joined(own) for own in parts.values()]
    most: dict[str, int] = {}
    for record in found:
        most[record["network"]] = max(most.get(record["network"], 0), len(record["lams"]))
    return [record for record in found if len(record["lams"]) == most[record["network"]]]


def joined(records: Sequence[Record]) -> Record:
    """Return a record with the λ of all records, in ascending order."""
    lams = [lam for record in records for lam in record["lams"]]
    order = np.argsort(lams)
    columns = {
        name: [value for record in records for value in record[name]] for name in records[0].result
    }
    first = records[0]
    return replace(
        first,
        run=replace(first.run, settings={**first.run.settings, "lams": [lams[k] for k in order]}),
        result={name: [values[k] for k in order] for name, values in columns.items()},
        seconds=sum(record.seconds for record in records),
    )


def chosen(record: Record, min_area: float = 0.0) -> int | None:
    """Return the index of the λ with the best validation accuracy, of equal ones the largest.

    Only those λ count whose validation codes have a sparsity area of at least ``min_area``. If
    there is none, None is returned.
    """
    val = np.array(record["val_accuracy"])
    if min_area:
        val = np.where(np.array(record["val_sparsity_area"]) >= min_area, val, -1)
    best = len(val) - 1 - int(np.argmax(val[::-1]))
    return best if val[best] >= 0 else None


def chosen_accuracy(record: Record, min_area: float = 0.0) -> float | None:
    """Return the test accuracy with the λ that is chosen on validation digits, if there is one."""
    best = chosen(record, min_area)
    return None if best is None else float(record["test_accuracy"][best])


def at_end_of_grid(record: Record, min_area: float = 0.0) -> bool:
    """Return whether the chosen λ is the smallest or the largest of several, except 0."""
    best, lams = chosen(record, min_area), record["lams"]
    return best is not None and lams[best] > 0 and len(lams) > 1 and at_end(lams[best], lams)


def chosen_hits(record: Record, min_area: float = 0.0) -> Any:
    """Return whether each test digit is classified correctly, or None if it was not recorded."""
    best = chosen(record, min_area)
    if best is None or "test_wrong" not in record.result:
        return None
    return ~decode_wrong(record["test_wrong"][best], int(record["n"][2]))


def rate(records: Sequence[Record], min_area: float = 0.0) -> Rate | None:
    """Return the accuracy of one network, over the repetitions that are sparse enough."""
    found = [r for r in records if chosen(r, min_area) is not None]
    if not found:
        return None
    hits = [chosen_hits(r, min_area) for r in found]
    return Rate(
        [float(r["test_accuracy"][chosen(r, min_area)]) for r in found],
        int(found[0]["n"][2]),
        None if any(h is None for h in hits) else np.array(hits),
    )


def difference(
    one: Sequence[Record],
    other: Sequence[Record],
    rate: Callable[[Sequence[Record]], Rate | None] = rate,
) -> Estimate:
    """Return the difference of the accuracies of two networks on the repetitions of both.

    Without a repetition of both, the digits differ and the accuracies are independent.
    """
    seeds = {r.run.seed for r in one} & {r.run.seed for r in other}

    def own(records: Sequence[Record]) -> Rate:
        kept = [r for r in records if r.run.seed in seeds] or records
        found = rate(sorted(kept, key=lambda r: r.run.seed))
        assert found is not None
        return found

    return own(one) - own(other) if seeds else own(one).estimate - own(other).estimate


def shared(records: Sequence[Record], by: str) -> list[Record]:
    """Return the repetitions that all networks have, with all λ, for each value of a setting."""
    return shared_repetitions(with_all_lams(records), by, "network", NETWORKS)


def cells(records: Sequence[Record], by: str) -> dict[str, dict[Any, list[Record]]]:
    """Return the shared repetitions of each network for the values that all networks have."""
    found: dict[str, dict[Any, list[Record]]] = {x: {} for x in VARIANTS}
    for record in shared(records, by):
        found[record["network"]].setdefault(record[by], []).append(record)
    values = set.intersection(*(set(found[x]) for x in NETWORKS))
    return {x: {v: own[v] for v in sorted(values & set(own))} for x, own in found.items()}


def accuracies(records: Sequence[Record], by: str) -> pd.DataFrame:
    """Return the accuracies of all repetitions, by network and a setting."""
    return collect(
        ((r["network"], r[by], chosen_accuracy(r)) for r in shared(records, by)),
        VARIANTS,
    )


def means(records: Sequence[Record], by: str) -> pd.DataFrame:
    """Return the mean accuracies for the values of a setting that all networks have."""
    return complete_means(accuracies(records, by), NETWORKS)


def ends(records: Sequence[Record], by: str) -> pd.DataFrame:
    """Return for all repetitions whether the chosen λ is at the end of its grid."""
    return collect(
        ((r["network"], r[by], at_end_of_grid(r)) for r in shared(records, by)),
        VARIANTS,
    )


def accuracy_table(records: Sequence[Record], by: str, name: str, title: str, corner: str) -> Table:
    """Return the table of accuracies in per cent, by network and a setting."""
    table = table_of(
        name, title, corner, accuracies(records, by), lambda v: mean_and_deviation(v, ".1f", 100)
    )
    rows = marked(table.rows, ends(records, by))
    return Table(name, f"{title}. {GRID_TEXT}", table.columns, rows)


def marked(rows: Sequence[Sequence[str]], ends: pd.DataFrame, mark: str = "*") -> list[list[str]]:
    """Return the rows of a table with a mark in each cell for which one of ``ends`` is true."""
    marks = ends.map(lambda v: mark if isinstance(v, list) and any(v) else "")
    return [
        [row[0], *(cell + mark for cell, mark in zip(row[1:], own, strict=True))]
        for row, own in zip(rows, marks.to_numpy(), strict=True)
    ]


def plot_accuracies(figure: Any, records: Sequence[Record], by: str, label: str) -> None:
    """Plot the accuracy against a setting. The axis is long enough not to exaggerate."""
    axes = figure.subplots()
    add_lines(axes, accuracies(records, by), ends(records, by), shifted=True)
    axes.set(xlabel=label, ylabel="test accuracy")
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, high - SHORTEST_AXIS), min(1, high))
    legend_below(figure, axes)
