"""The networks that are compared: how they are built, their λ, and how plots show them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from lincode import ASCNN, SAANN, SCNN, MiniBatchSCNN, Sparsenet

NETWORKS = {"SCNN": SCNN, "ASCNN": ASCNN, "SAANN": SAANN, "Sparsenet": Sparsenet}
PAPER_ENCODER: dict[str, Any] = {
    "threshold": "alpha",
    "threshold_mode": "soft",
    "fit_gains": False,
    "encoder_ridge": 0,
}
"""SCNN's encoder as in the paper: soft threshold λ (divided by the weight of the encoder, which is
1), without the calibration and the ridge that lincode adds by default."""
RELEARN = {"transform_algorithm": "lasso"}
"""SCNN's codes are those that minimise reconstruction error and ℓ1 norm, without the encoder."""
COLOURS = {
    "SCNN": "#0b6e99",
    "ASCNN": "#c2571a",
    "SAANN": "#7a3e9d",
    "Sparsenet": "#2e7d32",
    "PCA": "#555555",
}
MARKERS = {"SCNN": "o", "ASCNN": "s", "SAANN": "^", "Sparsenet": "D", "PCA": "x"}


def network_of(variant: str) -> str:
    """Return the network of a variant: that of "SCNN, linear" is SCNN."""
    return variant.partition(",")[0]


def build(variant: str, m: int, lam: float, seed: int, **settings: Any) -> Any:
    """Return an unfitted network with m units and the library's defaults except ``settings``.

    SCNN's encoder is that of the paper by default.
    """
    name = network_of(variant)
    settings = (PAPER_ENCODER if name == "SCNN" else {}) | settings
    return NETWORKS[name](n_components=m, alpha=float(lam), random_state=seed, **settings)


def build_minibatch(m: int, lam: float, seed: int, encoder_ridge: float = 0) -> MiniBatchSCNN:
    """Return an unfitted SCNN that is trained on mini-batches."""
    settings = PAPER_ENCODER | {"encoder_ridge": encoder_ridge}
    return MiniBatchSCNN(n_components=m, alpha=float(lam), random_state=seed, **settings)


def relearned_codes(scnn: Any, X: Any) -> Any:
    """Return the codes of shape (n_samples, m) that are optimal for the dictionary alone."""
    return scnn.set_params(**RELEARN).transform(X)


def paper_lams(variant: str, n: int) -> list[float]:
    """Return n equispaced λ, from 0.01 to 20 for Sparsenet and from 0.01 to 1 for the others."""
    largest = 20 if network_of(variant) == "Sparsenet" else 1
    return [round(float(lam), 6) for lam in np.linspace(0.01, largest, n)]


def plot_lines(figure: Any, lists: pd.DataFrame, xlabel: str, ylabel: str) -> Any:
    """Plot a line for each row of a table of lists: the means, with bars for the deviations.

    A variant has the colour of its network and is dotted. Returns the axes.
    """
    axes = figure.subplots()
    for variant, row in lists.iterrows():
        row = row.dropna()
        base = network_of(str(variant))
        axes.errorbar(
            list(row.index),
            row.map(np.mean),
            row.map(np.std),
            label=variant,
            color=COLOURS[base],
            marker=MARKERS[base],
            capsize=3,
            linestyle=":" if variant != base else "--" if variant == "PCA" else "-",
        )
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.legend()
    return axes
