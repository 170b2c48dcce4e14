"""Figure 2: without sparsity (λ = 0) the networks reconstruct almost like PCA."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

from lincode.metrics import rms_error
from paper.cache import Record, Run, Scale
from paper.experiments.claims import Claim, Estimate, mean_of
from paper.experiments.networks import add_lines, build, legend_below, parameters_of
from paper.experiments.tables import (
    Experiment,
    Table,
    collect,
    deviation,
    equal_repetitions,
    mean_and_deviation,
    percent,
    shared_repetitions,
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
FITTED = (*METHODS[:3], *PAPER_STARTS, *LONGER)
LONGER_REPETITIONS = 5


def runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
    """Each method with each number of units, 20 times with other patches and initial weights."""
    n, sizes, repetitions = {"smoke": (300, [5, 10], 1), "paper": (2000, [10, 30, 50], 20)}[scale]
    stop = STOP if scale == "paper" else {x: STOP.get(x, {}) | {"max_iter": 3} for x in FITTED}
    return [
        Run(
            "pca",
            scale,
            seed + k,
            embedded,
            {"method": method, "m": m, "n": n, "stop": stop.get(method, {})},
        )
        for k in range(repetitions)
        for m in sizes
        for method in (*METHODS, *PAPER_STARTS, *(LONGER if k < LONGER_REPETITIONS else ()))
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
    shared = shared_repetitions(records, "m", "method", METHODS)
    return collect(
        ((r["method"], r["m"], r["rms"]) for r in shared), [*METHODS, *PAPER_STARTS, *LONGER]
    )


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the paper's claims about Figure 2."""
    found = equal_repetitions(errors(records), METHODS)
    if found.empty:
        return []
    rms = found.map(mean_of)
    excess = {x: [difference(found, x, "PCA", m) for m in found] for x in METHODS}
    pca = [rms.loc["PCA", m].value for m in found]
    above = {
        x: ", ".join(f"{100 * e.value / p:.2g}" for e, p in zip(excess[x], pca, strict=True)) + " %"
        for x in METHODS
    }
    first, last = found.columns[0], found.columns[-1]
    decrease = {x: np.subtract(found.loc[x, first], found.loc[x, last]) for x in METHODS}
    widest = found.map(deviation).max(axis=None)
    repeated = found.map(len).min(axis=None) > 1
    good = ("SCNN", "ASCNN")
    return [
        Claim(
            "SCNN reconstructs like PCA (our criterion: its error is at most"
            f" {percent(SIMILAR, 0)} larger).",
            "very similar",
            f"{above['SCNN']} larger than that of PCA",
            [SIMILAR * p - e for e, p in zip(excess["SCNN"], pca, strict=True)],
        ),
        Claim(
            "SCNN and ASCNN approximate PCA better than SAANN does.",
            "for each number of units",
            f"error larger than that of PCA by: ASCNN {above['ASCNN']}; SAANN {above['SAANN']}",
            [difference(found, "SAANN", x, m) for x in good for m in found],
        ),
        Claim(
            "With more units, the errors of SCNN and ASCNN decrease more than that of SAANN.",
            "larger decrease",
            "decrease: " + ", ".join(f"{x} {np.mean(decrease[x]):.4f}" for x in METHODS[:3]),
            [mean_of(decrease[x] - decrease["SAANN"]) for x in good],
            decrease_text(rms),
            ("pca",),
        ),
        Claim(
            "The standard deviation over the repetitions is below 0.02 for all methods.",
            "< 0.02",
            f"at most {widest:.4f}",
            [Estimate(0.02 - widest)] if repeated else (),
        ),
    ]


def difference(found: pd.DataFrame, one: str, other: str, m: int) -> Estimate:
    """Return the difference of the errors of two methods on the same patches."""
    return mean_of(np.subtract(found.loc[one, m], found.loc[other, m]))


def decrease_text(rms: pd.DataFrame) -> str:
    """Return why SAANN's error decreases most, if it does."""
    relative = ", ".join(
        f"{percent(1 - row.iloc[-1].value / row.iloc[0].value)} for {x}"
        for x, row in rms.loc[list(METHODS[:3])].iterrows()
    )
    return (
        "SAANN’s error decreases most because it is the largest with the fewest units. Relative to"
        f" that error, the errors decrease by {relative}. Training ASCNN and SAANN four times as"
        " long does not change the order (see the table)."
    )


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
