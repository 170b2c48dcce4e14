"""Shared by Figures 5 to 9: networks trained, timed and classified on few digits for many λ."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from lincode.metrics import sparsity, sparsity_area
from paper.experiments.experiment import (
    Record,
    Run,
    Scale,
    Table,
    collect,
    complete_means,
    mean_and_deviation,
    table_of,
)
from paper.experiments.features import svm_errors
from paper.experiments.networks import NETWORKS, build, network_of, paper_lams, plot_lines
from paper.experiments.samples import Samples, Split

STOP: dict[str, dict[str, float]] = {
    "SCNN": {"tol": 1e-2},
    "ASCNN": {"max_iter": 50},
    "SAANN": {"max_iter": 50},
    "Sparsenet": {"max_iter": 3},
}
"""When training stops, for all numbers of units (see ``paper/benchmarks/digit_stops.py``)."""
TRAINING_TEXT = (
    "The length of training is the same for all sizes. It is the shortest of a few that were tried"
    " whose accuracy is within the standard error of 500 validation digits of the best, with 25,"
    " 100 and 150 units. SCNN stops when the relative change of the energy is below"
    f" {STOP['SCNN']['tol']:g}. ASCNN stops after {STOP['ASCNN']['max_iter']} passes, SAANN after"
    f" {STOP['SAANN']['max_iter']} and Sparsenet after {STOP['Sparsenet']['max_iter']}."
)
LINEAR = "SCNN, linear"
VARIANTS: dict[str, dict[str, float]] = {
    **{network: {} for network in NETWORKS},
    LINEAR: {"threshold": 0.0},
}
"""The paper's networks, with SCNN's codes soft-thresholded at λ; and SCNN with codes X Cᵀ."""
THRESHOLD_TEXT = (
    "SCNN’s codes are soft-thresholded at λ. The paper says so for Tables 2 and 3 only, but the"
    " sparsity areas of its Figure 8 cannot be reached without a threshold. “SCNN, linear” has no"
    " threshold; no claim depends on it."
)
CS = (0.1, 1.0, 10.0, 100.0)
REPETITIONS, LONG_SECONDS = 5, 0.1
"""Coding is timed as the median of so many repetitions, or once if it takes so many seconds."""
TYPICAL_ACCURACY = 0.87


def grid_run(
    group: str,
    scale: Scale,
    seed: int,
    embedded: bool,
    *,
    network: str,
    m: int,
    side: int,
    n: list[int],
    n_lams: int,
) -> Run:
    """Return the run of a network with all its λ."""
    own = VARIANTS[network]
    settings = {
        "network": network,
        "m": m,
        "side": side,
        "n": n,
        "lams": paper_lams(network, n_lams),
        "stop": STOP[network_of(network)],
        "Cs": list(CS),
        **({"own": own} if own else {}),
    }
    return Run(group, scale, seed, embedded, settings)


def measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    """Return lists with one entry per λ: accuracies, sparsity of the codes and seconds.

    One thread is used and its CPU time is measured, so that other processes do not matter.
    """
    with threadpool_limits(1), warnings.catch_warnings():
        # With λ at the ends of the paper's ranges all codes are zero, which causes warnings.
        warnings.simplefilter("ignore")
        data = samples.digits(tuple(run.settings["n"]), run.seed, run.settings["side"])
        rows = [measure_lam(run, data, lam) for lam in run.settings["lams"]]
    return {name: [float(f"{row[name]:.6g}") for row in rows] for name in rows[0]}


def measure_lam(run: Run, data: Split, lam: float) -> dict[str, float]:
    """Return the results of one λ."""
    settings = run.settings
    own = settings["stop"] | settings.get("own", {})
    network = build(settings["network"], settings["m"], lam, run.seed, **own)
    fit_seconds = cpu_seconds(lambda: network.fit(data.train))
    train, val, test = (network.transform(X) for X in (data.train, data.val, data.test))
    found = svm_errors((train, val, test), data, settings["Cs"])
    return {
        "val_accuracy": 1 - found["val_error"],
        "test_accuracy": 1 - found["test_error"],
        "C": found["C"],
        "zeros": sparsity(test),
        "val_sparsity_area": sparsity_area(val),
        "sparsity_area": sparsity_area(test),
        "fit_seconds": fit_seconds,
        "encode_seconds": encode_seconds(network, data.val),
    }


def encode_seconds(network: Any, X: Any) -> float:
    """Return the CPU seconds to compute the codes of X."""
    seconds = [cpu_seconds(lambda: network.transform(X))]
    while len(seconds) < REPETITIONS and seconds[0] < LONG_SECONDS:
        seconds.append(cpu_seconds(lambda: network.transform(X)))
    return float(np.median(seconds))


def cpu_seconds(work: Callable[[], object]) -> float:
    """Call a function and return the CPU seconds it took."""
    start = time.process_time()
    work()
    return time.process_time() - start


def chosen_accuracy(record: Record, min_area: float = 0.0) -> float | None:
    """Return the test accuracy with the λ that has the best validation accuracy.

    Of equal accuracies the largest λ is chosen. Only those λ count whose validation codes have a
    sparsity area of at least ``min_area``. If there is none, None is returned.
    """
    val = np.array(record["val_accuracy"])
    if min_area:
        val = np.where(np.array(record["val_sparsity_area"]) >= min_area, val, -1)
    best = len(val) - 1 - int(np.argmax(val[::-1]))
    return float(record["test_accuracy"][best]) if val[best] >= 0 else None


def shared_repetitions(records: Sequence[Record], by: str) -> list[Record]:
    """Return the repetitions that all four networks have, for each value of a setting.

    Networks must be compared on the same digits, because some samples of digits are easier than
    others. For a value of the setting without any such repetition, all records are returned.
    """
    networks: dict[tuple[Any, int], set[str]] = {}
    for record in records:
        networks.setdefault((record[by], record.run.seed), set()).add(record["network"])
    complete = {key for key, names in networks.items() if set(NETWORKS) <= names}
    values = {value for value, _ in complete}
    return [r for r in records if (r[by], r.run.seed) in complete or r[by] not in values]


def standard_error(records: Sequence[Record], by: str) -> float:
    """Return the largest standard error of a difference of two accuracies of about 87 %."""
    seeds: dict[Any, set[int]] = {}
    for record in shared_repetitions(records, by):
        seeds.setdefault(record[by], set()).add(record.run.seed)
    n_digits = min(map(len, seeds.values())) * records[0]["n"][2]
    return float(np.sqrt(2 * TYPICAL_ACCURACY * (1 - TYPICAL_ACCURACY) / n_digits))


def accuracies(records: Sequence[Record], by: str) -> pd.DataFrame:
    """Return the accuracies of all repetitions, by network and a setting."""
    return collect(
        ((r["network"], r[by], chosen_accuracy(r)) for r in shared_repetitions(records, by)),
        VARIANTS,
    )


def means(records: Sequence[Record], by: str) -> pd.DataFrame:
    """Return the mean accuracies for the values of a setting that all networks have."""
    return complete_means(accuracies(records, by), NETWORKS)


def accuracy_table(records: Sequence[Record], by: str, name: str, title: str, corner: str) -> Table:
    """Return the table of accuracies in per cent, by network and a setting."""
    return table_of(
        name, title, corner, accuracies(records, by), lambda v: mean_and_deviation(v, ".1f", 100)
    )


def plot_accuracies(figure: Any, records: Sequence[Record], by: str, label: str) -> None:
    """Plot the accuracy against a setting. The axis is long enough not to exaggerate."""
    axes = plot_lines(figure, accuracies(records, by), label, "test accuracy")
    axes.set_ylim(min(0.7, axes.get_ylim()[0]), 1)
