"""The networks that are compared: how they are built, their λ, and how plots show them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.preprocessing import FunctionTransformer

from lincode import SCNN
from paper.codes import soft_threshold
from paper.experiments.tables import deviation
from paper.networks import ASCNN, SAANN, PaperSCNN, Sparsenet

NETWORKS = {"SCNN": SCNN, "ASCNN": ASCNN, "SAANN": SAANN, "Sparsenet": Sparsenet}
RAW = "raw pixels"
BASELINES = (RAW, "PCA")
"""Features without a sparse network, with the same classifier."""
PAPER_ENCODER: dict[str, Any] = {
    "refine": False,
    "transform_algorithm": "paper",
    "encoder_ridge": 0,
}
"""The parameters with which SCNN and MiniBatchSCNN are the network of the paper, given λ as alpha.

- ``refine=False`` and ``transform_algorithm="paper"``: D and C minimise the energy of the paper,
  and the codes are X Cᵀ, soft-thresholded at λ. By default, lincode fits D, C and a threshold to
  the codes of the encoder.
- ``encoder_ridge=0``: the encoder has no ridge.

Older records have the names of parameters that lincode had before: ``threshold="alpha"``,
``threshold_mode="soft"`` and ``fit_gains=False`` were the same network."""
LAMS = (0.001, 0.003, 0.01, 0.03, 0.06, 0.1, 0.17, 0.25, 0.4, 0.6, 0.8, 1.0)
SPARSENET_LAMS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0)
VARIED = ("alpha", "C", "estimator", "estimator__C")
"""The parameters that have several values in a run, and one that is listed by its parts."""
COLOURS = {
    "SCNN": "#0072b2",
    "ASCNN": "#d55e00",
    "SAANN": "#cc79a7",
    "Sparsenet": "#009e73",
    "PCA": "#333333",
    RAW: "#e69f00",
}
"""The colours of Okabe and Ito, which colour-blind readers can tell apart, and a dark grey."""
CHOSEN_LABEL = "large: chosen λ"
MARKERS = {"SCNN": "o", "ASCNN": "s", "SAANN": "^", "Sparsenet": "D", "PCA": "x", RAW: "*"}
VARIANT_MARKER = "P"
"""A marker that can be open, for all variants of networks."""


def network_of(variant: str) -> str:
    """Return the network of a variant: that of "SCNN, Algorithm 1" is SCNN."""
    return variant.partition(",")[0]


def style_of(variant: str) -> dict[str, Any]:
    """Return the colour and the marker of a network, or of a variant, which has the same colour."""
    base = network_of(variant)
    return {"color": COLOURS[base], "marker": VARIANT_MARKER if variant != base else MARKERS[base]}


def build(variant: str, m: int, lam: float, seed: int, **settings: Any) -> Any:
    """Return an unfitted network with m units and the defaults of its class except ``settings``.

    SCNN's encoder is that of the paper. With ``init="paper"`` its start is that of the paper too,
    and with ``solver="paper"`` its training. The setting ``threshold`` is for :func:`encode` only.
    The baselines have no λ and no settings.
    """
    name = network_of(variant)
    if name == RAW:
        return FunctionTransformer()
    if name == "PCA":
        return PCA(m, random_state=seed)
    own: dict[str, Any] = {"n_components": m, "alpha": float(lam), "random_state": seed}
    if name != "SCNN":
        return NETWORKS[name](**own, **settings)
    settings.pop("threshold", None)
    init, solver = settings.pop("init", "data"), settings.pop("solver", "auto")
    if init == "paper":
        return PaperSCNN(
            solver="gradient" if solver == "paper" else "accelerated", **own, **settings
        )
    return SCNN(**own, **(PAPER_ENCODER | settings))


def encode(network: Any, X: Any, *, threshold: float | None = None) -> Any:
    """Return the codes of X: those of the network or, with a threshold, the soft-thresholded X Cᵀ.

    The threshold 0 gives linear codes.
    """
    if threshold is None:
        return network.transform(X)
    return soft_threshold(X @ network.encoder_.T, threshold)


def parameters_of(*estimators: Any, without: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Return all parameters of estimators, defaults included, by the names of their classes.

    ``without`` are the names of parameters that have several values in a run. They are settings of
    the run.
    """
    return {
        type(estimator).__name__: {
            name: value if value is None or isinstance(value, str | int | float) else repr(value)
            for name, value in estimator.get_params().items()
            if name not in without
        }
        for estimator in estimators
    }


def wide_lams(variant: str, n: int) -> list[float]:
    """Return the first n λ of a grid from a tenth of the paper's smallest λ to its largest.

    That of SCNN has λ = 0 too, because its best λ are close to 0.

    The grid is coarser than the paper's equispaced values, and denser near zero, where many of
    the chosen λ are. The baselines have no λ.
    """
    name = network_of(variant)
    if name in BASELINES:
        return [0.0]
    grids = {"SCNN": (0.0, *LAMS), "Sparsenet": SPARSENET_LAMS}
    return list(grids.get(name, LAMS))[:n]


def add_lines(axes: Any, lists: pd.DataFrame, shifted: bool = False) -> None:
    """Plot a line for each row of a table of lists: the means, with bars for the deviations.

    ``shifted`` lines are moved sideways, so that their bars do not cover each other. This is for
    lines that are almost level. If others were moved, they would seem to be higher or lower.
    """
    gaps = np.diff(np.asarray(lists.columns, dtype=float))
    width = gaps.min() * min(0.08, 0.5 / len(lists)) if shifted and len(gaps) else 0.0
    shifts = width * (np.arange(len(lists)) - (len(lists) - 1) / 2)
    for shift, (variant, row) in zip(shifts, lists.iterrows(), strict=True):
        row = row.dropna()
        axes.errorbar(
            np.asarray(row.index, dtype=float) + shift,
            row.map(np.mean),
            row.map(deviation) if row.map(len).max() > 1 else None,
            label=variant,
            capsize=2.5,
            linestyle=line_of(str(variant)),
            markersize=5.5,
            **style_of(str(variant)),
        )
    axes.set_xticks(list(lists.columns), [f"{x:g}" for x in lists.columns])


def line_of(variant: str) -> str:
    """Return the style of a line: solid for networks, dashed for baselines, dotted for variants."""
    if variant.endswith("Algorithm 1"):
        return "-."
    return ":" if variant != network_of(variant) else "--" if variant in BASELINES else "-"


def legend_below(figure: Any, axes: Any) -> None:
    """Add a legend below the axes, where it hides no data. The remark about markers comes last.

    It has at most four entries in a row, or three if one is long, and about the same number of
    entries in all rows.
    """
    found = zip(*axes.get_legend_handles_labels(), strict=True)
    entries = sorted(found, key=lambda entry: entry[1] == CHOSEN_LABEL)
    handles, labels = zip(*entries, strict=True)
    n_rows = math.ceil(len(entries) / (3 if max(map(len, labels)) > 20 else 4))
    n_columns = math.ceil(len(entries) / n_rows)
    figure.legend(handles, labels, loc="outside lower center", ncols=n_columns, fontsize=9)
