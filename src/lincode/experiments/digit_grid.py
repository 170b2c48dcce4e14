"""What three figures share: a network on a few digits, for each λ trained, timed and classified."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from lincode.classifier import one_vs_one_svm
from lincode.experiments.experiment import Record, Run, Table
from lincode.experiments.networks import COLOURS, MARKERS, NETWORKS, build
from lincode.experiments.samples import Samples
from lincode.metrics import sparsity, sparsity_area

REPEATS = 5
"""How often codes are made to time them; the median counts."""


def measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    """For each λ: accuracy on validation and test digits, sparsity of test codes, seconds.

    On one thread, so that times compare whatever else runs.
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
        network = build(settings["network"], settings["m"], lam, run.seed)
        with warnings.catch_warnings():
            # λ at the ends of the paper's ranges empty the codes: a result, not a mistake.
            warnings.simplefilter("ignore")
            fit_seconds = seconds_of(lambda n=network: n.fit(data.train))  # type: ignore[misc]
        encode = [seconds_of(lambda n=network: n.transform(data.val)) for _ in range(REPEATS)]  # type: ignore[misc]
        train, val, test = (network.transform(X) for X in (data.train, data.val, data.test))
        scale = 1 / (np.sqrt(np.mean(np.square(train))) or 1)
        svm = one_vs_one_svm(train * scale, data.y_train, val * scale, data.y_val)
        row = {
            "val_accuracy": 1 - svm.validation_errors[svm.C],
            "test_accuracy": 1 - svm.error(test * scale, data.y_test),
            "C": svm.C,
            "zeros": sparsity(test),
            "sparsity_area": sparsity_area(test),
            "fit_seconds": fit_seconds,
            "encode_seconds": float(np.median(encode)),
        }
        for name, value in row.items():
            columns[name].append(float(f"{value:.6g}"))
    return columns


def seconds_of(work: Callable[[], object]) -> float:
    """Wall time."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


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
