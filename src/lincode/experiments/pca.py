"""Figure 2: without sparsity (λ = 0) the network reconstructs like PCA."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lincode.experiments.experiment import Claim, Experiment, Record, Run, Scale, Table, common
from lincode.experiments.networks import COLOURS, MARKERS, build
from lincode.experiments.samples import Samples
from lincode.metrics import rms_error

METHODS = ("SCNN", "ASCNN", "SAANN", "PCA")


def runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
    """Each network at each number of units, 20 times: other patches and other weights each."""
    n, sizes, repeats = {"smoke": (300, [5, 10], 1), "paper": (2000, [10, 30, 50], 20)}[scale]
    return [
        Run("pca", scale, seed + k, embedded, {"method": method, "m": m, "n": n})
        for k in range(repeats)
        for m in sizes
        for method in METHODS
    ]


def measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    """RMS error of the training patches, as in the paper."""
    X = samples.patches((run.settings["n"], 0, 0), run.seed).train
    m = run.settings["m"]
    if run.settings["method"] == "PCA":
        from sklearn.decomposition import PCA

        network = PCA(m)
    else:
        network = build(run.settings["method"], m, 0.0, run.seed)
        if run.settings["method"] == "SCNN":
            network.set_params(tol=1e-6, max_iter=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        codes = network.fit_transform(X)
    return {"rms": rms_error(X, network.inverse_transform(codes))}


def curves(records: Sequence[Record]) -> dict[str, dict[int, tuple[float, float]]]:
    """Mean and deviation over the repetitions, by method and number of units."""
    found: dict[str, dict[int, list[float]]] = {}
    for record in records:
        found.setdefault(record["method"], {}).setdefault(record["m"], []).append(record["rms"])
    return {
        method: {m: (float(np.mean(v)), float(np.std(v))) for m, v in sorted(found[method].items())}
        for method in METHODS
        if method in found
    }


def claims(records: Sequence[Record]) -> list[Claim]:
    """What the paper says of Figure 2, and our own goal of 1 %."""
    found = common(curves(records), METHODS)
    if not found:
        return []
    sizes = list(found["PCA"])
    mean = {method: {m: found[method][m][0] for m in sizes} for method in METHODS}
    excess = {x: [mean[x][m] / mean["PCA"][m] - 1 for m in sizes] for x in METHODS}
    fall = {x: mean[x][sizes[0]] - mean[x][sizes[-1]] for x in METHODS}
    deviation = max(found[x][m][1] for x in METHODS for m in sizes)
    above = {x: ", ".join(f"{100 * e:.2g}" for e in excess[x]) + " %" for x in METHODS}
    return [
        Claim(
            "SCNN reconstructs like PCA (our measure: at most 1 % above it at each size).",
            "curves coincide", f"{above['SCNN']} above PCA", max(excess["SCNN"]) <= 0.01,
        ),
        Claim(
            "SCNN and ASCNN approximate PCA better than SAANN does.",
            "at each size", f"above PCA: ASCNN {above['ASCNN']}; SAANN {above['SAANN']}",
            all(
                max(a, b) < c
                for a, b, c in zip(*(excess[x] for x in ("SCNN", "ASCNN", "SAANN")), strict=True)
            ),
        ),
        Claim(
            "With more units the error of SCNN and ASCNN falls more than SAANN's.",
            "falls more",
            "falls by " + ", ".join(f"{x} {fall[x]:.4f}" for x in METHODS[:3]),
            min(fall["SCNN"], fall["ASCNN"]) > fall["SAANN"],
        ),
        Claim(
            "The deviation over the repetitions is below 0.02 for all methods.",
            "< 0.02", f"at most {deviation:.4f}", deviation < 0.02,
        ),
    ]  # fmt: skip


def tables(records: Sequence[Record]) -> list[Table]:
    """RMS errors."""
    found = curves(records)
    sizes = sorted({m for points in found.values() for m in points})
    rows = [
        [x, *("{:.5f} ± {:.5f}".format(*found[x][m]) if m in found[x] else "" for m in sizes)]
        for x in found
    ]
    title = "RMS error of the reconstruction at λ = 0, mean ± deviation over the repetitions"
    return [Table("pca", title, ["units", *map(str, sizes)], rows)]


def draw(figure: Any, records: Sequence[Record]) -> None:
    """RMS error against the number of units."""
    axes = figure.subplots()
    for method, points in curves(records).items():
        axes.errorbar(
            list(points), [v[0] for v in points.values()], [v[1] for v in points.values()],
            label=method, color=COLOURS[method], marker=MARKERS[method], capsize=3,
            linestyle="--" if method == "PCA" else "-",
        )  # fmt: skip
    axes.set(xlabel="units (principal components)", ylabel="RMS error", ylim=(0, None))
    axes.legend()


EXPERIMENT = Experiment(
    "pca",
    "Figure 2: λ = 0 compared with PCA",
    "2000 patches of 8×8, each of mean 0; each network at 10, 30 and 50 units, 20 times with other"
    " patches and weights. The error is that of the training patches, as in the paper. SCNN is"
    " trained to a relative change of the energy of 1e-6.",
    runs, claims, tables, {"figure-2-pca": draw},
)  # fmt: skip
