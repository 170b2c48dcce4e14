"""Figure 3: patches with missing pixels, reconstructed by networks that never saw any."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lincode.experiments.experiment import Claim, Experiment, Record, Run, Scale, Table
from lincode.experiments.networks import COLOURS, MARKERS, NETWORKS, build, paper_lams
from lincode.experiments.samples import Samples
from lincode.metrics import THRESHOLDS, rms_error, sparsity_curve

LEVELS = [0.1, 0.2, 0.3, 0.4, 0.5]
COMPARABLE = 1.1
"""Errors at most this many times another's count as comparable with it. Our measure."""


def runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
    """Each network over its λ; the paper does not say how many units: 100, as for the digits."""
    n, m, n_lams = {"smoke": ([200, 100, 100], 20, 2), "paper": ([2000, 2000, 2000], 100, 40)}[
        scale
    ]
    return [
        Run("missing-pixels", scale, seed, embedded, {
            "network": network, "m": m, "n": n, "levels": LEVELS,
            "lams": paper_lams(network, n_lams),
        })
        for network in NETWORKS
    ]  # fmt: skip


def measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    """For each λ and share of missing pixels the errors; sparsity curves where the λ was chosen."""
    settings = run.settings
    data = samples.patches(tuple(settings["n"]), run.seed)
    holes = {level: (with_holes(data.val, level, run.seed), with_holes(data.test, level, run.seed))
             for level in settings["levels"]}  # fmt: skip
    val_rms: list[list[float]] = []
    best: dict[float, tuple[float, dict[str, Any]]] = {}
    for lam in settings["lams"]:
        network = build(settings["network"], settings["m"], lam, run.seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            network.fit(data.train)
        row = []
        for level, (val, test) in holes.items():
            error = rms_error(data.val, network.inverse_transform(network.transform(val)))
            row.append(float(f"{error:.6g}"))
            if error < best.get(level, (np.inf, {}))[0]:
                best[level] = error, chosen(network, lam, data.test, test)
        val_rms.append(row)
    return {"val_rms": val_rms, "chosen": [best[level][1] for level in settings["levels"]]}


def with_holes(X: Any, level: float, seed: int) -> Any:
    """X with a share of the pixels of each patch set to zero."""
    rng = np.random.default_rng([seed, round(100 * level)])
    n_holes = round(level * X.shape[1])
    missing = rng.random(X.shape).argsort(axis=1) < n_holes
    return np.where(missing, 0, X)


def chosen(network: Any, lam: float, whole: Any, corrupted: Any) -> dict[str, Any]:
    """The test error at a λ, and how sparse the codes are."""
    codes = network.transform(corrupted)
    return {
        "lam": lam,
        "test_rms": rms_error(whole, network.inverse_transform(codes)),
        "sparsity_curve": [round(float(s), 4) for s in sparsity_curve(codes, THRESHOLDS)],
    }


def errors(records: Sequence[Record]) -> dict[str, dict[float, tuple[float, float]]]:
    """Test RMS by network and share of missing pixels: mean and deviation over seeds."""
    found: dict[str, dict[float, list[float]]] = {}
    for record in records:
        for level, best in zip(record["levels"], record["chosen"], strict=True):
            found.setdefault(record["network"], {}).setdefault(level, []).append(best["test_rms"])
    return {
        x: {level: (float(np.mean(v)), float(np.std(v))) for level, v in found[x].items()}
        for x in NETWORKS
        if x in found
    }


def claims(records: Sequence[Record]) -> list[Claim]:
    """What the paper says of Figure 3."""
    found = errors(records)
    if set(found) != set(NETWORKS):
        return []
    rms = {x: np.array([v[0] for v in found[x].values()]) for x in NETWORKS}
    ratio = {x: rms["SCNN"] / rms[x] for x in NETWORKS}
    words = {x: ", ".join(f"{r:.2f}" for r in ratio[x]) for x in NETWORKS}
    return [
        Claim(
            "SCNN reconstructs better than ASCNN and SAANN at all noise levels.",
            "lower at 10 … 50 %",
            f"SCNN's error is {words['ASCNN']} of ASCNN's and {words['SAANN']} of SAANN's",
            bool((ratio["ASCNN"] < 1).all() and (ratio["SAANN"] < 1).all()),
        ),
        Claim(
            "SCNN's reconstruction is comparable with Sparsenet's (our measure: at most 1.1 times"
            " its error).",
            "comparable", f"SCNN's error is {words['Sparsenet']} of Sparsenet's",
            bool((ratio["Sparsenet"] <= COMPARABLE).all()),
        ),
    ]  # fmt: skip


def tables(records: Sequence[Record]) -> list[Table]:
    """Test errors, and the λ that were chosen."""
    found = errors(records)
    columns = ["missing", *(f"{100 * level:.0f} %" for level in LEVELS)]
    rows = [[x, *(f"{v[0]:.4f}" for v in found[x].values())] for x in found]
    rows += [
        [f"λ of {r['network']}", *(f"{best['lam']:.3g}" for best in r["chosen"])]
        for r in sorted(records, key=lambda r: list(NETWORKS).index(r["network"]))
    ]
    title = "RMS error of test patches with missing pixels, λ chosen on validation patches"
    return [Table("missing-pixels", title, columns, rows)]


def draw(figure: Any, records: Sequence[Record]) -> None:
    """Test error against the share of missing pixels."""
    axes = figure.subplots()
    for x, points in errors(records).items():
        axes.errorbar(
            [100 * level for level in points], [v[0] for v in points.values()],
            [v[1] for v in points.values()], label=x, color=COLOURS[x], marker=MARKERS[x],
            capsize=3,
        )  # fmt: skip
    axes.set(xlabel="missing pixels (%)", ylabel="RMS error of the reconstruction", ylim=(0, None))
    axes.legend()


EXPERIMENT = Experiment(
    "missing-pixels",
    "Figure 3: reconstruction of patches with missing pixels",
    "Trained on 2000 whole patches of 8×8; λ (40 values) chosen by the error on 2000 validation"
    " patches with the same share of pixels set to zero; reported on 2000 patches of images no"
    " network has seen. 100 units (the paper gives no number). Codes by the encoder, Sparsenet's by"
    " its optimisation.",
    runs, claims, tables, {"figure-3-missing-pixels": draw},
)  # fmt: skip
