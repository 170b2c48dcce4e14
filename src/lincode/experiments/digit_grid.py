"""What three figures share: a network on a few digits, for each λ trained, timed and classified."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from lincode.experiments.drawing import draw_lines
from lincode.experiments.experiment import (
    Record,
    Run,
    Scale,
    Table,
    common,
    mean_and_deviation,
)
from lincode.experiments.linear_codes import svm_errors
from lincode.experiments.networks import NETWORKS, build, network_of, paper_lams
from lincode.experiments.samples import Samples
from lincode.metrics import sparsity, sparsity_area

STOP: dict[str, dict[str, float]] = {
    "SCNN": {"tol": 1e-2}, "ASCNN": {"max_iter": 50}, "SAANN": {"max_iter": 50},
    "Sparsenet": {"max_iter": 3},
}  # fmt: skip
"""Where training ends, the same at every size (``benchmarks/digit_stops.py``)."""
STOPS = (
    "Training ends by one setting for all sizes, the shortest of a few tried that is within the"
    " chance of 500 validation digits of the best with 25, 100 and 150 units: SCNN’s at a relative"
    f" change of the energy of {STOP['SCNN']['tol']:g}, after {STOP['ASCNN']['max_iter']} passes"
    f" for ASCNN, {STOP['SAANN']['max_iter']} for SAANN, {STOP['Sparsenet']['max_iter']} for"
    " Sparsenet."
)
LINEAR = "SCNN, linear"
LINES: dict[str, dict[str, float]] = {
    **{network: {} for network in NETWORKS}, LINEAR: {"threshold": 0.0},
}  # fmt: skip
"""The paper's networks, SCNN's codes soft-thresholded at λ; and SCNN with codes X Cᵀ."""
READING = (
    "SCNN’s codes are soft-thresholded at λ: the paper says so of Tables 2 and 3 only, but the"
    " sparsity areas of its Figure 8 are out of reach without. “SCNN, linear” is without; no claim"
    " rests on it."
)
CS = (0.1, 1.0, 10.0, 100.0)
REPEATS, ENOUGH = 5, 0.1
"""How often codes are made to time them, the median counts; once where it takes so many seconds."""


def grid_run(
    group: str, scale: Scale, seed: int, embedded: bool, *, network: str, m: int, side: int,
    n: list[int], n_lams: int,
) -> Run:  # fmt: skip
    """A network over its λ."""
    own = LINES[network]
    settings = {
        "network": network, "m": m, "side": side, "n": n, "lams": paper_lams(network, n_lams),
        "stop": STOP[network_of(network)], "Cs": list(CS), **({"own": own} if own else {}),
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
        "val_accuracy": [], "test_accuracy": [], "C": [], "zeros": [], "val_sparsity_area": [],
        "sparsity_area": [], "fit_seconds": [], "encode_seconds": [],
    }  # fmt: skip
    for lam in settings["lams"]:
        own = settings["stop"] | settings.get("own", {})
        network = build(settings["network"], settings["m"], lam, run.seed, **own)
        fit_seconds = seconds_of(lambda n=network: n.fit(data.train))  # type: ignore[misc]
        train, val, test = (network.transform(X) for X in (data.train, data.val, data.test))
        found = svm_errors((train, val, test), data, settings["Cs"])
        row = {
            "val_accuracy": 1 - found["val_error"],
            "test_accuracy": 1 - found["test_error"],
            "C": found["C"],
            "zeros": sparsity(test),
            "val_sparsity_area": sparsity_area(val),
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


def chosen_accuracy(record: Record, least_area: float = 0.0) -> float | None:
    """Test accuracy at the λ that is best on validation digits, the sparser of equals.

    Only λ count with which the sparsity area of validation codes is large enough; None if none is.
    """
    val = np.array(record["val_accuracy"])
    if least_area:
        val = np.where(np.array(record["val_sparsity_area"]) >= least_area, val, -1)
    best = len(val) - 1 - int(np.argmax(val[::-1]))
    return float(record["test_accuracy"][best]) if val[best] >= 0 else None


def shared_draws(records: Sequence[Record], by: str) -> list[Record]:
    """The draws that all four networks have, at each value of a setting that has such.

    Networks are compared on the same digits: one draw is easier than another.
    """
    there: dict[tuple[Any, int], set[str]] = {}
    for record in records:
        there.setdefault((record[by], record.run.seed), set()).add(record["network"])
    whole = {key for key, names in there.items() if set(NETWORKS) <= names}
    settled = {at for at, _ in whole}
    return [r for r in records if (r[by], r.run.seed) in whole or r[by] not in settled]


def chance(records: Sequence[Record], by: str) -> float:
    """The standard error of a difference of two accuracies of some 87 %, where it is largest."""
    seeds: dict[Any, set[int]] = {}
    for record in shared_draws(records, by):
        seeds.setdefault(record[by], set()).add(record.run.seed)
    fewest = min(map(len, seeds.values()))
    return float(np.sqrt(2 * 0.87 * 0.13 / (fewest * records[0]["n"][2])))


def over_seeds(records: Sequence[Record], by: str) -> dict[str, dict[Any, list[float]]]:
    """For each network and each value of a setting the accuracies of the draws."""
    found: dict[str, dict[Any, list[float]]] = {}
    for record in shared_draws(records, by):
        accuracy = chosen_accuracy(record)
        assert accuracy is not None
        found.setdefault(record["network"], {}).setdefault(record[by], []).append(accuracy)
    return {x: dict(sorted(found[x].items())) for x in LINES if x in found}


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


def draw_accuracies(figure: Any, records: Sequence[Record], by: str, label: str) -> None:
    """Accuracy against a setting, on an axis that does not make much of a point or two."""
    axes = draw_lines(figure, over_seeds(records, by), label, "test accuracy")
    axes.set_ylim(min(0.7, axes.get_ylim()[0]), 1)
