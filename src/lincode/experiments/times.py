"""Figures 6 and 7: seconds to learn, and to code validation digits, against the number of units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lincode.experiments.digit_grid import LINEAR, STOPS
from lincode.experiments.digits_components import runs as all_runs
from lincode.experiments.drawing import COLOURS
from lincode.experiments.experiment import (
    Claim,
    Experiment,
    Record,
    Run,
    Scale,
    Table,
    common,
    weighed,
)
from lincode.experiments.networks import NETWORKS

EQUAL = 0.05
"""A share of the time that counts as no difference. Our measure."""
LEARNING, VALIDATION = "fit_seconds", "encode_seconds"
Times = dict[str, dict[int, tuple[float, float]]]


def runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
    """Those of Figure 5 but SCNN's without a threshold, which takes the same time."""
    return [run for run in all_runs(scale, seed, embedded) if run.settings["network"] != LINEAR]


def times(records: Sequence[Record], phase: str) -> Times:
    """By network and number of units: mean and deviation over λ and draws."""
    found: dict[str, dict[int, list[float]]] = {}
    for record in records:
        found.setdefault(record["network"], {}).setdefault(record["m"], []).extend(record[phase])
    return {
        x: {m: (float(np.mean(v)), float(np.std(v))) for m, v in sorted(found[x].items())}
        for x in NETWORKS
        if x in found
    }


def claims(records: Sequence[Record]) -> list[Claim]:
    """What the paper says of Figures 6 and 7."""
    learning, validation = (
        common(times(records, phase), NETWORKS) for phase in (LEARNING, VALIDATION)
    )
    if not learning:
        return []
    others = [x for x in NETWORKS if x != "SCNN"]
    slower = min(
        validation["Sparsenet"][m][0] / max(validation[x][m][0] for x in ("SCNN", "ASCNN", "SAANN"))
        for m in validation["SCNN"]
    )
    return [
        weighed(
            "SCNN learns faster than the other methods at every number of units.",
            "uniformly faster", f"times SCNN's: {ratios(learning, others)}",
            least_ratio(learning, others) - 1, EQUAL,
        ),
        Claim(
            "Sparsenet takes an order of magnitude longer than the others to code new digits.",
            "10 times", f"at least {slower:.3g} times the slowest of the others", slower >= 10,
        ),
        weighed(
            "SCNN codes new digits faster than the other methods at every number of units.",
            "faster", f"times SCNN's: {ratios(validation, others)}",
            least_ratio(validation, others) - 1, EQUAL,
        ),
    ]  # fmt: skip


def least_ratio(found: Times, others: Sequence[str]) -> float:
    """How many times SCNN's seconds the others take, where that is least."""
    return min(found[x][m][0] / found["SCNN"][m][0] for x in others for m in found["SCNN"])


def ratios(found: Times, others: Sequence[str]) -> str:
    """How many times SCNN's seconds the others take, from the least to the most."""
    words = []
    for x in others:
        ratio = [found[x][m][0] / found["SCNN"][m][0] for m in found["SCNN"]]
        words.append(f"{x} {min(ratio):.3g} to {max(ratio):.3g}")
    return ", ".join(words)


def tables(records: Sequence[Record]) -> list[Table]:
    """Both figures' numbers."""
    n, n_val, _ = records[0]["n"]
    return [
        table("times-learning", f"Seconds to learn from {n} digits", times(records, LEARNING), 1),
        table(
            "times-validation", f"Milliseconds to code {n_val} validation digits",
            times(records, VALIDATION), 1000,
        ),
    ]  # fmt: skip


def table(name: str, title: str, found: Times, unit: float) -> Table:
    """Mean ± deviation over λ."""
    sizes = sorted({m for points in found.values() for m in points})
    rows = [
        [x, *(f"{unit * found[x][m][0]:.2f} ± {unit * found[x][m][1]:.2f}" if m in found[x] else ""
              for m in sizes)]
        for x in found
    ]  # fmt: skip
    return Table(
        name, f"{title}, mean ± deviation over λ and draws", ["units", *map(str, sizes)], rows
    )


def bars(figure: Any, found: Times, unit: float, title: str, label: str) -> None:
    """A bar for each network at each number of units."""
    axes = figure.subplots()
    sizes = sorted({m for points in found.values() for m in points})
    for k, (x, points) in enumerate(found.items()):
        at = np.array([sizes.index(m) for m in points]) + 0.8 * (k - (len(found) - 1) / 2) / len(
            found
        )
        axes.bar(
            at, [unit * v[0] for v in points.values()], 0.8 / len(found),
            yerr=[unit * v[1] for v in points.values()], label=x, color=COLOURS[x], capsize=2,
        )  # fmt: skip
    axes.set_xticks(range(len(sizes)), [str(m) for m in sizes])
    axes.set(xlabel="units", ylabel=label, title=title)
    axes.legend()


def draw_learning(figure: Any, records: Sequence[Record]) -> None:
    """Figure 6."""
    bars(figure, times(records, LEARNING), 1, "Figure 6: learning", "CPU seconds to learn")


def draw_validation(figure: Any, records: Sequence[Record]) -> None:
    """Figure 7: Sparsenet is off the scale, as in the paper."""
    found = {x: v for x, v in times(records, VALIDATION).items() if x != "Sparsenet"}
    label = f"CPU milliseconds to code {records[0]['n'][1]} digits"
    bars(figure, found, 1000, "Figure 7: coding (Sparsenet left out)", label)


EXPERIMENT = Experiment(
    "times",
    "Figures 6 and 7: times to learn and to code",
    "mnist",
    "CPU seconds of the runs of Figure 5, on one thread: mean and deviation over λ and draws."
    " Coding is the median of five times, or once where that takes 0.1 s. Figure 7 leaves"
    f" Sparsenet out, as the paper does. {STOPS} With fewer passes ASCNN and SAANN learn faster"
    " than SCNN, and with few units their codes are much worse (see Figure 5).",
    runs, claims, tables,
    {"figure-6-times-learning": draw_learning, "figure-7-times-validation": draw_validation},
    "Three passes over the digits are enough for Sparsenet’s accuracy. After 30 passes, when it was"
    " tried, it had taken 3.2 to 8.5 times as long to learn as SCNN (to a change of 1e-3), and took"
    " at least 39 times as long as the others to code: a dictionary that is trained further gives"
    " codes that take longer to find.",
)  # fmt: skip
