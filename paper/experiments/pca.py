"""Figure 2: without sparsity (λ = 0) the networks reconstruct almost like PCA."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

from lincode.metrics import rms_error
from paper.cache import Record, Run, Scale
from paper.experiments.claims import (
    Claim,
    Estimate,
    mean_of,
    verdict_of_number,
    verdict_of_ordering,
)
from paper.experiments.networks import add_lines, build, legend_below, parameters_of
from paper.experiments.tables import (
    Experiment,
    Table,
    collect,
    deviation,
    mean_and_deviation,
    percent,
    span,
    table_of,
)
from paper.samples import Samples

SIMILAR = 0.01
"""Relative difference of two errors that counts as very similar. Our criterion."""
METHODS = ("SCNN", "ASCNN", "SAANN", "PCA")
LONGER: dict[str, dict[str, float]] = {
    "ASCNN, 600 passes": {"max_iter": 600},
    "SAANN, 1200 passes": {"max_iter": 1200},
}
"""Four times as many passes as the defaults of the library, which are not part of the claims."""
ALGORITHM_1 = "SCNN, Algorithm 1"
STOP: dict[str, dict[str, Any]] = {
    "SCNN": {"tol": 1e-6, "max_iter": 1000},
    ALGORITHM_1: {"init": "paper", "solver": "paper", "tol": 1e-6},
    "ASCNN, weights in [−1, 1]": {"init": "paper"},
    "SAANN, weights in [−1, 1]": {"init": "paper"},
    **LONGER,
}
"""When training stops, if not by the defaults of the library."""
PAPER_STARTS = (ALGORITHM_1, "ASCNN, weights in [−1, 1]", "SAANN, weights in [−1, 1]")
CHOICE = "start"
READINGS = {"scaled": METHODS[:3], "[−1, 1]": PAPER_STARTS}
FITTED = (*METHODS[:3], *PAPER_STARTS, *LONGER)
FEW_REPETITIONS = 5
"""Repetitions of other starts and of longer training."""


def runs(scale: Scale, embedded: bool) -> list[Run]:
    """Each method with each number of units, 20 times with other patches and initial weights."""
    n, sizes, repetitions = {"smoke": (300, [5, 10], 1), "paper": (2000, [10, 30, 50], 20)}[scale]
    stop = STOP if scale == "paper" else {x: STOP.get(x, {}) | {"max_iter": 3} for x in FITTED}
    return [
        Run(
            "pca",
            scale,
            k,
            embedded,
            {"method": method, "m": m, "n": n, "stop": stop.get(method, {})},
        )
        for k in range(repetitions)
        for m in sizes
        for method in (*METHODS, *((*PAPER_STARTS, *LONGER) if k < FEW_REPETITIONS else ()))
    ]


def measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    """Return the RMS error of the training patches, as in the paper."""
    X = samples.patches((run.settings["n"], 0, 0), run.seed).train
    m = run.settings["m"]
    if run.settings["method"] == "PCA":
        network = PCA(m)
    else:
        network = build(run.settings["method"], m, 0.0, run.seed, **run.settings["stop"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        codes = network.fit_transform(X)
    rms = rms_error(X, network.inverse_transform(codes))
    return {"rms": rms, "parameters": parameters_of(network)}


def errors(records: Sequence[Record]) -> pd.DataFrame:
    """Return the RMS errors of all repetitions, by method and number of units."""
    return collect(
        ((r["method"], r["m"], r["rms"]) for r in records), [*METHODS, *PAPER_STARTS, *LONGER]
    )


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the paper's claims about Figure 2, with our training and with that of the paper."""
    found = errors(records)
    n = {reading: len(found.loc[names[0]].iloc[0]) for reading, names in READINGS.items()}
    readings = {
        reading: found.loc[[*names, "PCA"]].set_axis(METHODS).map(lambda v, k=n[reading]: v[:k])
        for reading, names in READINGS.items()
    }
    widest = max(own.map(deviation).max(axis=None) for own in readings.values())
    repeated = {x: own.map(len).min(axis=None) > 1 for x, own in readings.items()}

    def here(value: Callable[[pd.DataFrame], str]) -> dict[str, str]:
        return {x: value(own) for x, own in readings.items()}

    def claim(sentence: str, paper: str, here: Any, margins: Any, verdict: Any) -> Claim:
        found = {x: margins(own) for x, own in readings.items()}
        return Claim(sentence, paper, here, found, verdict, CHOICE)

    return [
        claim(
            f"SCNN's error is like that of PCA (at most {percent(SIMILAR, 0)} larger).",
            "very similar",
            here(lambda own: excess_text(own, "SCNN")),
            lambda own: [excess(own, "SCNN", m).distance_to(-1, SIMILAR) for m in own],
            verdict_of_number,
        ),
        claim(
            "SCNN and ASCNN approximate PCA better than SAANN.",
            "better",
            here(lambda own: ", ".join(f"{x} {excess_text(own, x)}" for x in METHODS[1:3])),
            lambda own: [difference(own, "SAANN", x, m) for x in METHODS[:2] for m in own],
            verdict_of_ordering,
        ),
        claim(
            "With more units, the errors of SCNN and ASCNN decrease more than SAANN's.",
            "larger decrease",
            here(
                lambda own: ", ".join(
                    f"{x} {np.mean(decrease(own, x)):.3f}".replace("-", "−") for x in METHODS[:3]
                )
            ),
            lambda own: [mean_of(decrease(own, x) - decrease(own, "SAANN")) for x in METHODS[:2]],
            verdict_of_ordering,
        ),
        claim(
            "The standard deviation is below 0.02 for all methods.",
            "< 0.02",
            f"at most {widest:.4f}",
            lambda own: (
                [Estimate(own.map(deviation).max(axis=None)).distance_to(0, 0.02)]
                if all(repeated.values())
                else []
            ),
            verdict_of_number,
        ),
    ]


def excess(found: pd.DataFrame, x: str, m: int) -> Estimate:
    """Return the relative difference of an error from that of PCA on the same patches."""
    return mean_of(np.divide(found.loc[x, m], found.loc["PCA", m]) - 1)


def excess_text(found: pd.DataFrame, x: str) -> str:
    """Return these differences for all numbers of units as text."""
    return span((100 * excess(found, x, m).value for m in found), ".3g") + " %"


def decrease(found: pd.DataFrame, x: str) -> Any:
    """Return by how much an error decreases from the fewest to the most units."""
    return np.subtract(found.loc[x, found.columns[0]], found.loc[x, found.columns[-1]])


def difference(found: pd.DataFrame, one: str, other: str, m: int) -> Estimate:
    """Return the difference of the errors of two methods on the same patches."""
    return mean_of(np.subtract(found.loc[one, m], found.loc[other, m]))


def tables(records: Sequence[Record]) -> list[Table]:
    """Return the table of RMS errors."""
    title = "RMS error of the reconstruction at λ = 0, mean ± standard deviation over repetitions"
    return [
        table_of("pca", title, "units", errors(records), lambda v: mean_and_deviation(v, ".5f"))
    ]


def plot(figure: Any, records: Sequence[Record]) -> None:
    """Plot the RMS error against the number of units."""
    found = errors(records).drop(index=list(LONGER), errors="ignore")
    axes = figure.subplots()
    add_lines(axes, found)
    axes.set(xlabel="units (principal components)", ylabel="RMS error", ylim=(0, None))
    legend_below(figure, axes)


EXPERIMENT = Experiment(
    "pca",
    "Figure 2: λ = 0 compared with PCA",
    "bsds300",
    runs,
    claims,
    tables,
    {"figure-2-pca": plot},
)
