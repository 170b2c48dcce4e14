"""Figure 3: reconstruction of patches with missing pixels, by networks trained without any."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from lincode.metrics import rms_error
from paper.cache import Record, Run, Scale
from paper.codes import sparsity_curve
from paper.experiments.claims import Claim, Estimate, Margins, mean_of, verdict_of_number
from paper.experiments.networks import (
    NETWORKS,
    add_lines,
    build,
    encode,
    legend_below,
    parameters_of,
)
from paper.experiments.tables import (
    Experiment,
    Table,
    collect,
    mean_and_deviation,
    percent,
    span,
    table_of,
)
from paper.samples import Samples

LEVELS = [0.1, 0.2, 0.3, 0.4, 0.5]
"""Fractions of missing pixels."""
VARIANTS: dict[str, dict[str, float]] = {
    **{network: {} for network in NETWORKS},
    "SCNN": {"threshold": 0.0},
    "SCNN, soft threshold": {},
}
"""The paper's networks, and SCNN with soft-thresholded codes. As in Algorithm 1 of the paper, the
codes of SCNN itself are X Cᵀ without a threshold."""
LAMS: dict[str, list[float]] = {
    "SCNN": [0.15, 0.25, 0.4, 0.55, 0.7],
    "ASCNN": [0.1, 1.0, 4.0, 12.0, 40.0, 120.0],
    "SAANN": [0.02, 0.05, 0.1, 0.2, 0.4, 0.8],
    "Sparsenet": [0.02, 0.05, 0.1, 0.2, 0.3, 0.5],
    "SCNN, soft threshold": [0.003, 0.01, 0.03, 0.06, 0.1],
}
"""The λ of each network. Those of ASCNN exceed the paper's range, which ends at 1, because its
error still decreases there."""
UNSCALED_LAMS: dict[str, list[float]] = {
    "SCNN": [0.01, 0.02, 0.035, 0.05, 0.07],
    "ASCNN": [0.03, 0.1, 0.3, 1.0, 3.0],
    "SAANN": [0.0002, 0.0005, 0.001, 0.002, 0.005],
    "Sparsenet": [0.0003, 0.001, 0.003, 0.01, 0.03],
    "SCNN, soft threshold": [0.0003, 0.001, 0.003, 0.006, 0.01],
}
"""λ for pixels in [0, 1], of which the patches have a standard deviation of about 0.09."""
SCALED, UNSCALED = "scaled", "unscaled"
"""The readings of the paper: patches of standard deviation 1, and pixels in [0, 1]."""
CHOICE = "pixels"
REPETITIONS, FEW_REPETITIONS = 4, 3
"""Samples of patches, and those of soft-thresholded codes and of pixels in [0, 1]."""
COMPARABLE = 1.1
"""Two errors are comparable if neither is more than this many times the other. Our criterion."""


def runs(scale: Scale, embedded: bool) -> list[Run]:
    """Each network with all its λ, on four samples of patches; pixels in [0, 1] on three.

    The paper gives no number of units: 100, as for the digits.
    """
    sizes = {"smoke": ([200, 100, 100], 20, 1), "paper": ([2000, 2000, 2000], 100, REPETITIONS)}
    n, m, repetitions = sizes[scale]

    first = [
        Run(
            "missing-pixels",
            scale,
            k,
            embedded,
            {
                "network": network,
                "own": own if scale == "paper" else own | {"max_iter": 3},
                "m": m,
                "n": n,
                "levels": LEVELS,
                "deviation": 1.0,
                "lams": LAMS[network][:2] if scale == "smoke" else LAMS[network],
            },
        )
        for k in range(repetitions)
        for network, own in VARIANTS.items()
        if network in NETWORKS or k < FEW_REPETITIONS
    ]
    few = [run for run in first if run.seed < FEW_REPETITIONS]
    return [*first, *(unscaled(run) for run in few)]


def unscaled(run: Run) -> Run:
    """Return the same run with pixels in [0, 1]."""
    lams = UNSCALED_LAMS[run.settings["network"]][: len(run.settings["lams"])]
    own = {"deviation": None, "pixels": "pixels in [0, 1]", "lams": lams}
    return replace(run, settings={**run.settings, **own})


def measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    """Return validation errors for each λ and level, and test results for the chosen λ."""
    with warnings.catch_warnings():
        # With λ at the ends of the paper's ranges all codes are zero, which causes warnings.
        warnings.simplefilter("ignore")
        return _measure(run, samples)


def _measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    settings = run.settings
    data = samples.patches(tuple(settings["n"]), run.seed)
    deviation = settings["deviation"]
    unit = float(data.train.std()) / deviation if deviation else 1.0
    train, complete = data.train / unit, (data.val / unit, data.test / unit)
    incomplete = {
        level: tuple(remove_pixels(X, level, [run.seed, k]) for k, X in enumerate(complete))
        for level in settings["levels"]
    }
    threshold = settings["own"].get("threshold")
    val_rms: list[list[float]] = []
    best: dict[float, tuple[float, dict[str, Any]]] = {}
    for lam in settings["lams"]:
        network = build(settings["network"], settings["m"], lam, run.seed, **settings["own"])
        network.fit(train)
        row = []
        for level, (val, test) in incomplete.items():
            codes = encode(network, val, threshold=threshold)
            error = unit * rms_error(complete[0], network.inverse_transform(codes))
            row.append(float(f"{error:.6g}"))
            if error < best.get(level, (np.inf, {}))[0]:
                codes = encode(network, test, threshold=threshold)
                best[level] = error, results_on_test(network, lam, codes, complete[1], unit)
        val_rms.append(row)
    return {
        "val_rms": val_rms,
        "chosen": [best[level][1] for level in settings["levels"]],
        "parameters": parameters_of(network, without=["alpha"]),
    }


def remove_pixels(X: Any, level: float, seed: Sequence[int]) -> Any:
    """Return X with a fraction of the pixels of each patch set to zero."""
    rng = np.random.default_rng([*seed, round(100 * level)])
    n_missing = round(level * X.shape[1])
    missing = rng.random(X.shape).argsort(axis=1) < n_missing
    return np.where(missing, 0, X)


def results_on_test(
    network: Any, lam: float, codes: Any, complete: Any, unit: float
) -> dict[str, Any]:
    """Return the test error in grey levels of [0, 1], and the sparsity curve of the codes."""
    return {
        "lam": lam,
        "test_rms": unit * rms_error(complete, network.inverse_transform(codes)),
        "sparsity_curve": [round(float(s), 4) for s in sparsity_curve(codes)],
    }


def errors(records: Sequence[Record]) -> pd.DataFrame:
    """Return the test RMS errors by network and fraction of missing pixels."""
    values = (
        (record["network"], level, best["test_rms"])
        for record in records
        for level, best in zip(record["levels"], record["chosen"], strict=True)
    )
    return collect(values, VARIANTS)


def ratios(records: Sequence[Record]) -> pd.DataFrame:
    """Return all errors divided by those of SCNN on the same patches, like ``errors``."""
    scnn = {r.run.seed: r["chosen"] for r in records if r["network"] == "SCNN"}
    values = (
        (record["network"], level, best["test_rms"] / reference["test_rms"])
        for record in records
        for level, best, reference in zip(
            record["levels"], record["chosen"], scnn[record.run.seed], strict=True
        )
    )
    return collect(values, VARIANTS)


def by_reading(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the records by the reading of the paper."""
    found: dict[str, list[Record]] = {SCALED: [], UNSCALED: []}
    for record in records:
        found[UNSCALED if record["deviation"] is None else SCALED].append(record)
    return {x: own for x, own in found.items() if own}


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the paper's claims about Figure 3, for each reading."""
    found = {x: errors(own) for x, own in by_reading(records).items()}

    def here(one: str, *others: str) -> dict[str, str]:
        def ratios(own: pd.DataFrame, other: str) -> str:
            return span((ratio_of(own, one, other, level).value for level in own), ".2f")

        return {
            x: ", ".join(f"{ratios(own, y)} of {y}'s" for y in others) for x, own in found.items()
        }

    def less(one: str, *others: str) -> dict[str, Margins]:
        return {
            x: [ratio_of(own, y, one, level) - 1 for y in others for level in own]
            for x, own in found.items()
        }

    return [
        Claim(
            "SCNN reconstructs better than ASCNN and SAANN at all noise levels.",
            "smaller error",
            here("SCNN", "ASCNN", "SAANN"),
            less("SCNN", "ASCNN", "SAANN"),
            choice=CHOICE,
        ),
        Claim(
            "SAANN reconstructs worse than ASCNN.",
            "worse",
            here("SAANN", "ASCNN"),
            less("ASCNN", "SAANN"),
            choice=CHOICE,
        ),
        Claim(
            "SCNN's error is comparable with Sparsenet's (within 10 %).",
            "comparable",
            here("SCNN", "Sparsenet"),
            {
                x: [
                    ratio_of(own, "SCNN", "Sparsenet", level).distance_to(
                        1 / COMPARABLE, COMPARABLE
                    )
                    for level in own
                ]
                for x, own in found.items()
            },
            verdict_of_number,
            CHOICE,
        ),
    ]


def ratio_of(found: pd.DataFrame, one: str, other: str, level: float) -> Estimate:
    """Return the ratio of the errors of two networks on the same patches."""
    return mean_of(np.divide(found.loc[one, level], found.loc[other, level]))


def tables(records: Sequence[Record]) -> list[Table]:
    """Return the table of test errors and of the chosen λ."""
    title = "RMS error of test patches with missing pixels, λ chosen on validation patches"
    records = by_reading(records)[SCALED]
    found = errors(records).rename(columns=lambda level: percent(level, 0))
    table = table_of(
        "missing-pixels", title, "missing", found, lambda v: mean_and_deviation(v, ".4f")
    )
    pairs = ((r, zip(r["levels"], r["chosen"], strict=True)) for r in records)
    values = ((r["network"], level, f"{x['lam']:g}") for r, own in pairs for level, x in own)
    chosen = collect(values, VARIANTS)
    lams = [[f"λ of {x}", *(", ".join(cell) for cell in row)] for x, row in chosen.iterrows()]
    return [Table(table.name, title, table.columns, [*table.rows, *lams])]


def plot(figure: Any, records: Sequence[Record]) -> None:
    """Plot the test error against the fraction of missing pixels, and its ratio to SCNN's."""
    records = by_reading(records)[SCALED]
    figure.set_size_inches(6.4, 6.4)
    panels = figure.subplots(2, sharex=True)
    add_lines(panels[0], errors(records))
    panels[0].set(ylabel="RMS error", ylim=(0, None))
    add_lines(panels[1], ratios(records), shifted=True)
    panels[1].set(ylabel="RMS error / that of SCNN", xlabel="fraction of missing pixels")
    legend_below(figure, panels[0])


EXPERIMENT = Experiment(
    "missing-pixels",
    "Figure 3: reconstruction of patches with missing pixels",
    "bsds300",
    runs,
    claims,
    tables,
    {"figure-3-missing-pixels": plot},
)
