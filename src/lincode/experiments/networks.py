"""The networks that are compared, by name; and the λ each is tried with."""

from __future__ import annotations

from typing import Any

import numpy as np

from lincode import ASCNN, SAANN, SCNN, Sparsenet

NETWORKS = {"SCNN": SCNN, "ASCNN": ASCNN, "SAANN": SAANN, "Sparsenet": Sparsenet}
COLOURS = {
    "SCNN": "#0b6e99", "ASCNN": "#c2571a", "SAANN": "#7a3e9d", "Sparsenet": "#2e7d32",
    "PCA": "#555555",
}  # fmt: skip
MARKERS = {"SCNN": "o", "ASCNN": "s", "SAANN": "^", "Sparsenet": "D", "PCA": "x"}


PASSES = {"ASCNN": 50, "SAANN": 50, "Sparsenet": 30}
"""Over the samples. On 500 validation digits (100 units, three λ, two draws) the SVM is as right
with these as with the library's defaults, which take two to six times as long."""


def build(name: str, m: int, lam: float, seed: int) -> Any:
    """The network as the library has it, but for ``PASSES``; SCNN's threshold is the paper's, λ."""
    passes = {"max_iter": PASSES[name]} if name in PASSES else {}
    return NETWORKS[name](m, float(lam), random_state=seed, **passes)


def paper_lams(name: str, n: int) -> list[float]:
    """Equispaced λ: in [0.01, 20] for Sparsenet, in [0.01, 1] for the others."""
    return [round(float(lam), 6) for lam in np.linspace(0.01, 20 if name == "Sparsenet" else 1, n)]
