"""Figure 3: reconstruction of patches with missing pixels, by networks trained without any."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from lincode.metrics import THRESHOLDS, rms_error, sparsity_curve
from paper.experiments.experiment import (
    Claim,
    Experiment,
    Record,
    Run,
    Scale,
    Table,
    collect,
    complete_means,
    mean_and_deviation,
    percent,
    table_of,
)
from paper.experiments.networks import NETWORKS, build, paper_lams, plot_lines
from paper.experiments.samples import Samples

LEVELS = [0.1, 0.2, 0.3, 0.4, 0.5]
"""Fractions of missing pixels."""
VARIANTS: dict[str, dict[str, float]] = {
    **{network: {} for network in NETWORKS},
    "SCNN": {"threshold": 0.0},
    "SCNN, soft threshold": {},
}
"""The paper's networks, and SCNN with soft-thresholded codes. As in Algorithm 1 of the paper, the
codes of SCNN itself are X Cᵀ without a threshold."""
COMPARABLE = 1.1
"""Two errors are comparable if neither is more than this many times the other. Our criterion."""


def runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
    """Each network with all its λ. The paper gives no number of units: 100, as for the digits."""
    sizes = {"smoke": ([200, 100, 100], 20, 2), "paper": ([2000, 2000, 2000], 100, 40)}
    n, m, n_lams = sizes[scale]
    return [
        Run(
            "missing-pixels",
            scale,
            seed,
            embedded,
            {
                "network": network,
                "own": own,
                "m": m,
                "n": n,
                "levels": LEVELS,
                "deviation": 1.0,
                "lams": paper_lams(network, n_lams),
            },
        )
        for network, own in VARIANTS.items()
    ]


def measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    """Return validation errors for each λ and level, and test results for the chosen λ."""
    with warnings.catch_warnings():
        # With λ at the ends of the paper's ranges all codes are zero, which causes warnings.
        warnings.simplefilter("ignore")
        return _measure(run, samples)


def _measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    settings = run.settings
    data = samples.patches(tuple(settings["n"]), run.seed)
    unit = float(data.train.std()) / settings["deviation"]
    train, complete = data.train / unit, (data.val / unit, data.test / unit)
    incomplete = {
        level: tuple(remove_pixels(X, level, [run.seed, k]) for k, X in enumerate(complete))
        for level in settings["levels"]
    }
    val_rms: list[list[float]] = []
    best: dict[float, tuple[float, dict[str, Any]]] = {}
    for lam in settings["lams"]:
        network = build(settings["network"], settings["m"], lam, run.seed, **settings["own"])
        network.fit(train)
        row = []
        for level, (val, test) in incomplete.items():
            error = unit * rms_error(complete[0], network.inverse_transform(network.transform(val)))
            row.append(float(f"{error:.6g}"))
            if error < best.get(level, (np.inf, {}))[0]:
                best[level] = error, results_on_test(network, lam, complete[1], test, unit)
        val_rms.append(row)
    return {"val_rms": val_rms, "chosen": [best[level][1] for level in settings["levels"]]}


def remove_pixels(X: Any, level: float, seed: Sequence[int]) -> Any:
    """Return X with a fraction of the pixels of each patch set to zero."""
    rng = np.random.default_rng([*seed, round(100 * level)])
    n_missing = round(level * X.shape[1])
    missing = rng.random(X.shape).argsort(axis=1) < n_missing
    return np.where(missing, 0, X)


def results_on_test(
    network: Any, lam: float, complete: Any, incomplete: Any, unit: float
) -> dict[str, Any]:
    """Return the test error in grey levels of [0, 1], and the sparsity curve of the codes."""
    codes = network.transform(incomplete)
    return {
        "lam": lam,
        "test_rms": unit * rms_error(complete, network.inverse_transform(codes)),
        "sparsity_curve": [round(float(s), 4) for s in sparsity_curve(codes, THRESHOLDS)],
    }


def errors(records: Sequence[Record]) -> pd.DataFrame:
    """Return the test RMS errors of all repetitions, by network and fraction of missing pixels."""
    values = (
        (record["network"], level, best["test_rms"])
        for record in records
        for level, best in zip(record["levels"], record["chosen"], strict=True)
    )
    return collect(values, VARIANTS)


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the paper's claims about Figure 3."""
    mean = complete_means(errors(records), NETWORKS)
    if mean.empty:
        return []
    ratio = mean.loc["SCNN"] / mean
    words = {x: ", ".join(f"{r:.2f}" for r in ratio.loc[x]) for x in NETWORKS}
    largest = np.maximum(ratio.loc["Sparsenet"], 1 / ratio.loc["Sparsenet"]).max()
    return [
        Claim(
            "SCNN reconstructs better than ASCNN and SAANN at all noise levels.",
            "smaller error at 10 to 50 %",
            f"SCNN's error is {words['ASCNN']} times ASCNN's and {words['SAANN']} times SAANN's",
            bool((ratio.loc[["ASCNN", "SAANN"]] < 1).all(axis=None)),
        ),
        Claim(
            "SCNN's reconstruction is comparable with Sparsenet's (our criterion: neither error is"
            f" more than {COMPARABLE} times the other).",
            "comparable",
            f"SCNN's error is {words['Sparsenet']} times Sparsenet's",
            bool(largest <= COMPARABLE),
        ),
    ]


def tables(records: Sequence[Record]) -> list[Table]:
    """Return the table of test errors and of the chosen λ."""
    title = "RMS error of test patches with missing pixels, λ chosen on validation patches"
    found = errors(records).rename(columns=lambda level: percent(level, 0))
    table = table_of(
        "missing-pixels", title, "missing", found, lambda v: mean_and_deviation(v, ".4f")
    )
    lams = [
        [f"λ of {r['network']}", *(lam_text(best["lam"], r["lams"]) for best in r["chosen"])]
        for r in sorted(records, key=lambda r: list(VARIANTS).index(r["network"]))
    ]
    return [Table(table.name, title, table.columns, [*table.rows, *lams])]


def lam_text(lam: float, lams: Sequence[float]) -> str:
    """Return the chosen λ, and whether it is the first or the last of those tried."""
    return f"{lam:.3g}" + (" (end of range)" if lam in (lams[0], lams[-1]) else "")


def plot(figure: Any, records: Sequence[Record]) -> None:
    """Plot the test error against the fraction of missing pixels."""
    axes = plot_lines(figure, errors(records), "fraction of missing pixels", "RMS error")
    axes.set_ylim(0, None)


EXPERIMENT = Experiment(
    "missing-pixels",
    "Figure 3: reconstruction of patches with missing pixels",
    "bsds300",
    "The networks are trained on 2000 complete patches of 8×8 pixels. Each patch is centred to mean"
    " 0, and all are scaled to a standard deviation of 1. (The paper gives no scale. With pixels in"
    " [0, 1] the best λ is below the paper's range for three of the four networks.) λ (40 values)"
    " is chosen by the error on 2000 validation patches with the same fraction of pixels set to"
    " zero. The reported error, in grey levels of [0, 1], is that of 2000 patches of other images"
    " with other missing pixels. The networks have 100 units (the paper gives no number). Codes are"
    " computed by the encoder, those of Sparsenet by its optimisation. SCNN's codes are linear, X"
    " Cᵀ, as in the paper's Algorithm 1. The fifth line is SCNN with codes soft-thresholded at λ."
    " No claim depends on it.",
    runs,
    claims,
    tables,
    {"figure-3-missing-pixels": plot},
)
