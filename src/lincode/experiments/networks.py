"""The networks that are compared, by name; and the λ each is tried with."""

from __future__ import annotations

from typing import Any

import numpy as np

from lincode import ASCNN, SAANN, SCNN, Sparsenet

NETWORKS = {"SCNN": SCNN, "ASCNN": ASCNN, "SAANN": SAANN, "Sparsenet": Sparsenet}


def network_of(line: str) -> str:
    """The network a line of a figure is of: "SCNN, linear" is one of SCNN."""
    return line.partition(",")[0]


def build(name: str, m: int, lam: float, seed: int, **settings: Any) -> Any:
    """The network with the library's defaults but for ``settings``; SCNN's threshold is λ."""
    return NETWORKS[network_of(name)](m, float(lam), random_state=seed, **settings)


def paper_lams(name: str, n: int) -> list[float]:
    """Equispaced λ: in [0.01, 20] for Sparsenet, in [0.01, 1] for the others."""
    return [
        round(float(lam), 6)
        for lam in np.linspace(0.01, 20 if network_of(name) == "Sparsenet" else 1, n)
    ]
