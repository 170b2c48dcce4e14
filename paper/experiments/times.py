"""Figures 6 and 7: seconds to train, and to code validation digits, by number of units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from paper.experiments.digit_grid import LINEAR, TRAINING_TEXT
from paper.experiments.digits_components import runs as all_runs
from paper.experiments.experiment import (
    Claim,
    Experiment,
    Record,
    Run,
    Scale,
    Table,
    claim_from_difference,
    collect,
    complete_means,
    mean_and_deviation,
    table_of,
)
from paper.experiments.networks import COLOURS, NETWORKS

EQUAL = 0.05
"""A relative difference of times that counts as none. Our criterion."""
LEARNING, CODING = "fit_seconds", "encode_seconds"


def runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
    """The runs of Figure 5, except SCNN without a threshold, which takes the same time."""
    return [run for run in all_runs(scale, seed, embedded) if run.settings["network"] != LINEAR]


def times(records: Sequence[Record], phase: str) -> pd.DataFrame:
    """Return the seconds for all λ and repetitions, by network and number of units."""
    return collect(
        ((r["network"], r["m"], seconds) for r in records for seconds in r[phase]), NETWORKS
    )


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the paper's claims about Figures 6 and 7."""
    learning, coding = (
        complete_means(times(records, phase), NETWORKS) for phase in (LEARNING, CODING)
    )
    if learning.empty:
        return []
    slower = (coding.loc["Sparsenet"] / coding.drop(index="Sparsenet").max()).min()
    return [
        faster_claim(
            "SCNN learns faster than the other methods with every number of units.",
            "faster everywhere",
            learning,
        ),
        Claim(
            "Sparsenet takes an order of magnitude longer than the others to code new digits.",
            "10 times",
            f"at least {slower:.3g} times the slowest of the others",
            bool(slower >= 10),
        ),
        faster_claim(
            "SCNN codes new digits faster than the other methods with every number of units.",
            "faster",
            coding,
        ),
    ]


def faster_claim(sentence: str, paper: str, mean: pd.DataFrame) -> Claim:
    """Return the claim that SCNN takes less time than each of the others."""
    ratio = (mean / mean.loc["SCNN"]).drop(index="SCNN")
    here = ", ".join(f"{x} {row.min():.3g} to {row.max():.3g}" for x, row in ratio.iterrows())
    return claim_from_difference(
        sentence, paper, f"relative to SCNN's time: {here}", ratio.min(axis=None) - 1, EQUAL
    )


def tables(records: Sequence[Record]) -> list[Table]:
    """Return the tables of both figures."""
    n, n_val, _ = records[0]["n"]
    return [
        time_table("times-learning", f"Seconds to learn from {n} digits", records, LEARNING, 1),
        time_table(
            "times-validation",
            f"Milliseconds to code {n_val} validation digits",
            records,
            CODING,
            1000,
        ),
    ]


def time_table(name: str, title: str, records: Sequence[Record], phase: str, unit: float) -> Table:
    """Return a table of times: mean and standard deviation over λ and repetitions."""
    title = f"{title}, mean ± standard deviation over λ and repetitions"
    return table_of(
        name, title, "units", times(records, phase), lambda v: mean_and_deviation(v, ".2f", unit)
    )


def plot_bars(figure: Any, found: pd.DataFrame, unit: float, title: str, label: str) -> None:
    """Plot a bar for each network and each number of units."""
    axes = figure.subplots()
    width = 0.8 / len(found)
    for k, (x, row) in enumerate(found.iterrows()):
        row = row.dropna()
        axes.bar(
            found.columns.get_indexer(row.index) + width * (k - (len(found) - 1) / 2),
            unit * row.map(np.mean),
            width,
            yerr=unit * row.map(np.std),
            label=x,
            color=COLOURS[str(x)],
            capsize=2,
        )
    axes.set_xticks(range(found.shape[1]), [str(m) for m in found.columns])
    axes.set(xlabel="units", ylabel=label, title=title)
    axes.legend()


def plot_learning(figure: Any, records: Sequence[Record]) -> None:
    """Plot Figure 6."""
    plot_bars(figure, times(records, LEARNING), 1, "Figure 6: learning", "CPU seconds to learn")


def plot_coding(figure: Any, records: Sequence[Record]) -> None:
    """Plot Figure 7. Sparsenet is left out because its bars are much too long."""
    found = times(records, CODING).drop(index="Sparsenet", errors="ignore")
    label = f"CPU milliseconds to code {records[0]['n'][1]} digits"
    plot_bars(figure, found, 1000, "Figure 7: coding (without Sparsenet)", label)


EXPERIMENT = Experiment(
    "times",
    "Figures 6 and 7: times to learn and to code",
    "mnist",
    "CPU seconds of the runs of Figure 5 on one thread: mean and standard deviation over λ and"
    " repetitions. Coding is measured as the median of five repetitions, or once if it takes 0.1 s."
    f" Figure 7 does not show Sparsenet, as in the paper. {TRAINING_TEXT} With fewer passes, ASCNN"
    " and SAANN learn faster than SCNN, but with few units their codes are much worse (see Figure"
    " 5).",
    runs,
    claims,
    tables,
    {"figure-6-times-learning": plot_learning, "figure-7-times-validation": plot_coding},
    "Three passes over the digits are enough for Sparsenet’s accuracy. After 30 passes, which were"
    " also tried, it had taken 3.2 to 8.5 times as long to learn as SCNN (trained to a change of"
    " 1e-3), and it took at least 39 times as long as the others to code. The codes of a dictionary"
    " that is trained longer take longer to find.",
)
