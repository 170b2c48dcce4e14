"""What three figures share: a network on a few digits, for each λ trained, timed and classified."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from lincode.experiments.experiment import Record, Run, Table
from lincode.experiments.linear_codes import svm_errors
from lincode.experiments.networks import COLOURS, MARKERS, NETWORKS, build
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


def measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    """For each λ: accuracy on validation and test digits, sparsity of test codes, seconds.

    On one thread and in seconds of that thread, so that times compare whatever else runs.
    """
    with threadpool_limits(1):
        return _measure(run, samples)


def _measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    settings = run.settings
    data = samples.digits(tuple(settings["n"]), run.seed, settings["side"])
    columns: dict[str, list[float]] = {
        "val_accuracy": [], "test_accuracy": [], "C": [], "zeros": [], "sparsity_area": [],
        "fit_seconds": [], "encode_seconds": [],
    }  # fmt: skip
    for lam in settings["lams"]:
        stop = STOP[settings["network"]]
        network = build(settings["network"], settings["m"], lam, run.seed, **stop)
        with warnings.catch_warnings():
            # λ at the ends of the paper's ranges empty the codes: a result, not a mistake.
            warnings.simplefilter("ignore")
            fit_seconds = seconds_of(lambda n=network: n.fit(data.train))  # type: ignore[misc]
        train, val, test = (network.transform(X) for X in (data.train, data.val, data.test))
        found = svm_errors((train, val, test), data, CS)
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


def over_seeds(
    records: Sequence[Record], by: str, value: Callable[[Record], float] = chosen_accuracy
) -> dict[str, dict[Any, tuple[float, float]]]:
    """For each network and each value of a setting: mean and deviation over the seeds."""
    found: dict[str, dict[Any, list[float]]] = {}
    for record in records:
        group = found.setdefault(record["network"], {}).setdefault(record[by], [])
        group.append(value(record))
    return {
        network: {x: (float(np.mean(v)), float(np.std(v))) for x, v in sorted(points.items())}
        for network, points in found.items()
    }


def table_of(records: Sequence[Record], by: str, name: str, title: str, what: str) -> Table:
    """Accuracies by network and a setting."""
    found = over_seeds(records, by)
    values = sorted({x for points in found.values() for x in points})
    rows = [
        [network, *(words(found[network].get(x)) for x in values)]
        for network in NETWORKS
        if network in found
    ]
    return Table(name, title, [what, *map(str, values)], rows)


def words(point: tuple[float, float] | None) -> str:
    """Mean ± deviation in per cent."""
    return f"{100 * point[0]:.1f} ± {100 * point[1]:.1f}" if point else ""


def draw_accuracy(figure: Any, records: Sequence[Record], by: str, label: str) -> None:
    """Test accuracy against a setting, with the deviation over draws."""
    axes = figure.subplots()
    found = over_seeds(records, by)
    for network in NETWORKS:
        points = found.get(network, {})
        axes.errorbar(
            list(points), [v[0] for v in points.values()], [v[1] for v in points.values()],
            label=network, color=COLOURS[network], marker=MARKERS[network], capsize=3,
        )  # fmt: skip
    axes.set(xlabel=label, ylabel="test accuracy")
    axes.legend()
