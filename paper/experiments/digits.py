"""Shared by Figures 5, 8 and 9: networks on few digits for many λ, and their accuracies."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from paper.cache import Record, Run, Scale
from paper.codes import sparsity_area
from paper.experiments.claims import Estimate, Rate
from paper.experiments.features import common_scale, decode_wrong, svm_errors
from paper.experiments.networks import (
    BASELINES,
    NETWORKS,
    VARIED,
    add_lines,
    build,
    legend_below,
    network_of,
    parameters_of,
    wide_lams,
)
from paper.experiments.tables import (
    Table,
    collect,
    mean_and_deviation,
    table_of,
)
from paper.samples import Samples, Split
from paper.svm import unfitted_svm

STOP: dict[str, dict[str, float]] = {
    "SCNN": {"tol": 1e-2},
    "ASCNN": {"max_iter": 50},
    "SAANN": {"max_iter": 50},
    "Sparsenet": {"max_iter": 3},
}
"""When training stops, for all numbers of units.

The ``tol`` of SCNN was relative to the energy when the records were measured. Now it is relative to
the decrease of the energy since all codes were zero, if that is less, and training does not stop
while the decrease grows. For seed 0, the results with 100 units are the same. With 25 units, the
training is longer for λ = 0.01 and for λ ≥ 0.4, and for λ ≥ 0.4 the codes are less sparse and more
accurate than in the records.
"""
VARIANTS = (*NETWORKS, *BASELINES)
PAPER_START = "SCNN, weights in [−1, 1]"
"""SCNN started as in the paper, which the chapter on competitors needs."""
ALGORITHM_1 = "SCNN, Algorithm 1"
"""SCNN started and trained as in the paper, with few λ."""
ALGORITHM_LAMS = [0.0, 0.03, 0.1, 0.25, 0.6]
OWN: dict[str, dict[str, Any]] = {
    PAPER_START: {"init": "paper"},
    ALGORITHM_1: {"init": "paper", "solver": "paper", "tol": 1e-4},
}
COMPARABLE = 0.03
"""A difference of accuracies that counts as none. Our criterion."""
GOOD, OTHERS = ("SCNN", "Sparsenet"), ("ASCNN", "SAANN")
"""The networks that classify digits well according to the paper, and the others."""
CS = (0.1, 1.0, 10.0, 100.0)
REPETITIONS, MORE_REPETITIONS = 3, 10
"""Random samples of digits for all points, and for the points of the claims of Figures 8 and 9."""
WIDER_LAMS = {"ASCNN": [2.0, 5.0, 10.0, 20.0], "SAANN": [0.0, 2.0, 5.0, 10.0], "Sparsenet": [0.0]}
"""λ beyond the ends of the grids of ``wide_lams`` at which the best λ was found. They are measured
in runs of their own."""
FINER_LAMS = {"SCNN": [0.2, 0.3, 0.35]}
"""λ between those of ``wide_lams`` at which the sparsity area is near 0.8, on which claims of
Figure 8 depend. They are measured in runs of their own too."""
N = {"smoke": [100, 100, 100], "paper": [500, 500, 500]}
"""Digits for training, to choose λ and the SVM's C, and to test."""


def grid_runs(
    scale: Scale, seed: int, embedded: bool, network: str, m: int, side: int
) -> list[Run]:
    """Return the runs of a network: one with its λ, and one with further λ, if there are any.

    Those with 14×14 pixels are the runs of Figure 5, and the others those of Figure 9.
    """
    group = "digits-components" if side == 14 else "digits-input-size"
    n_lams = {"smoke": 2, "paper": 13}[scale]
    own = OWN.get(network, {})
    settings = {
        "network": network,
        "m": m,
        "side": side,
        "n": N[scale],
        "lams": (ALGORITHM_LAMS if network == ALGORITHM_1 else wide_lams(network, 13))[:n_lams],
        "stop": STOP.get(network_of(network), {}),
        "Cs": list(CS),
        **({"own": own} if own else {}),
        **({"scale": "common"} if network in BASELINES else {}),
    }
    grids: list[dict[str, Any]] = [{}]
    if network in WIDER_LAMS:
        grids.append({"lams": WIDER_LAMS[network][:n_lams], "grid": "wider grid"})
    if network in FINER_LAMS:
        grids.append({"lams": FINER_LAMS[network][:n_lams], "grid": "finer grid"})
    return [Run(group, scale, seed, embedded, settings | grid) for grid in grids]


def all_runs(scale: Scale, embedded: bool, shapes: Mapping[tuple[int, int], int]) -> list[Run]:
    """Return the runs of all networks, given the number of repetitions for each (m, side)."""
    return [
        run
        for (m, side), repetitions in shapes.items()
        for k in range(repetitions if scale == "paper" else 1)
        for network in VARIANTS
        for run in grid_runs(scale, k, embedded, network, m, side)
    ]


def measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    """Return lists with one entry per λ: accuracies, sparsity of the codes, predictions, seconds.

    One thread is used.
    """
    with threadpool_limits(1), warnings.catch_warnings():
        # With λ at the ends of the paper's ranges all codes are zero, which causes warnings.
        warnings.simplefilter("ignore")
        data = samples.digits(tuple(run.settings["n"]), run.seed, run.settings["side"])
        rows = [measure_lam(run, data, lam) for lam in run.settings["lams"]]
    columns: dict[str, Any] = {name: [short(row[name]) for row in rows] for name in rows[0]}
    estimator = build_for(run, run.settings["lams"][0])
    return columns | {
        "parameters": parameters_of(estimator, unfitted_svm(run.settings["n"][0]), without=VARIED)
    }


def short(value: float | str) -> float | str:
    """Return a number rounded to six digits. A text is unchanged."""
    return value if isinstance(value, str) else float(f"{value:.6g}")


def build_for(run: Run, lam: float) -> Any:
    """Return the unfitted network of a run."""
    settings = run.settings
    own = settings["stop"] | settings.get("own", {})
    return build(settings["network"], settings["m"], lam, run.seed, **own)


def measure_lam(run: Run, data: Split, lam: float) -> dict[str, float | str]:
    """Return the results of one λ."""
    network = build_for(run, lam)
    fit_seconds = cpu_seconds(lambda: network.fit(data.train))
    train, val, test = (network.transform(X) for X in (data.train, data.val, data.test))
    scaling = common_scale if run.settings.get("scale") == "common" else None
    found = svm_errors((train, val, test), data, run.settings["Cs"], scaling)
    return {
        "val_accuracy": 1 - found["val_error"],
        "test_accuracy": 1 - found["test_error"],
        "C": found["C"],
        "zeros": float(np.mean(test == 0)),
        "val_sparsity_area": sparsity_area(val),
        "sparsity_area": sparsity_area(test),
        "fit_seconds": fit_seconds,
        "test_predictions": found["test_predictions"],
        "test_wrong": found["test_wrong"],
    }


def cpu_seconds(work: Callable[[], object]) -> float:
    """Call a function and return the CPU seconds it took."""
    start = time.process_time()
    work()
    return time.process_time() - start


SHORTEST_AXIS = 0.1
"""The smallest range of accuracies that figures show."""


def with_all_lams(records: Sequence[Record]) -> list[Record]:
    """Return one record for each network and sample of digits, with the λ of all its runs."""
    parts: dict[Run, list[Record]] = {}
    for record in records:
        settings = dict(record.run.settings) | {"lams": [], "grid": ""}
        parts.setdefault(replace(record.run, settings=settings), []).append(record)
    return [joined(own) for own in parts.values()]


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


def cells(records: Sequence[Record], by: str) -> dict[str, dict[Any, list[Record]]]:
    """Return the records of each network for the values of a setting that all networks have."""
    found: dict[str, dict[Any, list[Record]]] = {x: {} for x in VARIANTS}
    for record in with_all_lams(records):
        found[record["network"]].setdefault(record[by], []).append(record)
    values = set.intersection(*(set(found[x]) for x in NETWORKS))
    return {x: {v: own[v] for v in sorted(values & set(own))} for x, own in found.items()}


def accuracies(records: Sequence[Record], by: str) -> pd.DataFrame:
    """Return the accuracies of all repetitions, by network and a setting."""
    return collect(
        ((r["network"], r[by], chosen_accuracy(r)) for r in with_all_lams(records)), VARIANTS
    )


def accuracy_table(records: Sequence[Record], by: str, name: str, title: str, corner: str) -> Table:
    """Return the table of accuracies in per cent, by network and a setting."""
    found = accuracies(records, by)
    return table_of(name, title, corner, found, lambda v: mean_and_deviation(v, ".1f", 100))


def plot_accuracies(
    figure: Any, records: Sequence[Record], by: str, label: str, others: pd.DataFrame
) -> None:
    """Plot the accuracy against a setting. The axis is long enough not to exaggerate.

    ``others`` are the accuracies of networks that start as in the paper.
    """
    axes = figure.subplots()
    add_lines(axes, pd.concat([accuracies(records, by), others]), shifted=True)
    axes.set(xlabel=label, ylabel="test accuracy")
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, high - SHORTEST_AXIS), min(1, high))
    legend_below(figure, axes)
