"""What three figures share: a network on a few digits, for each λ trained, timed and classified."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from lincode.experiments.experiment import (
    Record,
    Run,
    Scale,
    Table,
    common,
    mean_and_deviation,
)
from lincode.experiments.linear_codes import svm_errors
from lincode.experiments.networks import NETWORKS, build, paper_lams
from lincode.experiments.samples import Samples
from lincode.metrics import sparsity, sparsity_area

STOP: dict[str, dict[str, float]] = {
    "SCNN": {"tol": 1e-3}, "ASCNN": {"max_iter": 50}, "SAANN": {"max_iter": 50},
    "Sparsenet": {"max_iter": 30},
}  # fmt: skip
"""Where training ends: with more (the library's defaults take two to six times as long) the SVM is
hardly more often right on validation digits (100 units, three λ, two draws: one point at most)."""
CS = (0.1, 1.0, 10.0, 100.0)
REPEATS, ENOUGH = 5, 0.1
"""How often codes are made to time them, the median counts; once where it takes so many seconds."""


def grid_run(
    group: str, scale: Scale, seed: int, embedded: bool, *, network: str, m: int, side: int,
    n: list[int], n_lams: int,
) -> Run:  # fmt: skip
    """A network over its λ."""
    settings = {
        "network": network, "m": m, "side": side, "n": n, "lams": paper_lams(network, n_lams),
        "stop": STOP[network], "Cs": list(CS),
    }  # fmt: skip
    return Run(group, scale, seed, embedded, settings)


def measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    """For each λ: accuracy on validation and test digits, sparsity of test codes, seconds.

    On one thread and in seconds of that thread, so that times compare whatever else runs.
    """
    with threadpool_limits(1), warnings.catch_warnings():
        # λ at the ends of the paper's ranges empty the codes: a result, not a mistake.
        warnings.simplefilter("ignore")
        return _measure(run, samples)


def _measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    settings = run.settings
    data = samples.digits(tuple(settings["n"]), run.seed, settings["side"])
    columns: dict[str, list[float]] = {
        "val_accuracy": [], "test_accuracy": [], "C": [], "zeros": [], "sparsity_area": [],
        "fit_seconds": [], "encode_seconds": [],
    }  # fmt: skip
    for lam in settings["lams"]:
        network = build(settings["network"], settings["m"], lam, run.seed, **settings["stop"])
        fit_seconds = seconds_of(lambda n=network: n.fit(data.train))  # type: ignore[misc]
        train, val, test = (network.transform(X) for X in (data.train, data.val, data.test))
        found = svm_errors((train, val, test), data, settings["Cs"])
        row = {
            "val_accuracy": 1 - found["val_error"],
            "test_accuracy": 1 - found["test_error"],
            "C": found["C"],
            "zeros": sparsity(test),
            "sparsity_area": sparsity_area(test),
            "fit_seconds": fit_seconds,
            "encode_seconds": encode_seconds(network, data.val),
        }
        for name, value in row.items():
            columns[name].append(float(f"{value:.6g}"))
    return columns


def encode_seconds(network: Any, X: Any) -> float:
    """To make the codes of X."""
    seconds = [seconds_of(lambda: network.transform(X))]
    while len(seconds) < REPEATS and seconds[0] < ENOUGH:
        seconds.append(seconds_of(lambda: network.transform(X)))
    return float(np.median(seconds))


def seconds_of(work: Callable[[], object]) -> float:
    """CPU time."""
    start = time.process_time()
    work()
    return time.process_time() - start


def chosen_accuracy(record: Record) -> float:
    """Test accuracy at the λ that is best on validation digits, the sparser of equals."""
    val = np.array(record["val_accuracy"])
    best = len(val) - 1 - int(np.argmax(val[::-1]))
    return float(record["test_accuracy"][best])


def over_seeds(records: Sequence[Record], by: str) -> dict[str, dict[Any, list[float]]]:
    """For each network and each value of a setting the accuracies of all draws."""
    found: dict[str, dict[Any, list[float]]] = {}
    for record in records:
        draws = found.setdefault(record["network"], {}).setdefault(record[by], [])
        draws.append(chosen_accuracy(record))
    return {x: dict(sorted(found[x].items())) for x in NETWORKS if x in found}


def means(records: Sequence[Record], by: str) -> dict[str, dict[Any, float]]:
    """The means over draws, at the points that all networks have."""
    found = common(over_seeds(records, by), NETWORKS)
    return {x: {at: float(np.mean(v)) for at, v in found[x].items()} for x in found}


def table_of(records: Sequence[Record], by: str, name: str, title: str, what: str) -> Table:
    """Accuracies in per cent by network and a setting."""
    found = over_seeds(records, by)
    at = sorted({x for points in found.values() for x in points})
    rows = [
        [
            network,
            *(
                mean_and_deviation(100 * np.array(points[x]), ".1f") if x in points else ""
                for x in at
            ),
        ]
        for network, points in found.items()
    ]
    return Table(name, title, [what, *map(str, at)], rows)
