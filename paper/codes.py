"""Sparse codes: the soft threshold, and how sparse codes are."""

from __future__ import annotations

from typing import Any

import numpy as np

THRESHOLDS = np.linspace(0, 0.5, 51)
"""The thresholds of the paper's sparsity curves."""


def soft_threshold(Z: Any, t: float) -> Any:
    """Return argmin_V  ½‖V − Z‖² + t‖V‖₁, entry by entry."""
    return Z - np.clip(Z, -t, t)


def sparsity_curve(U: Any) -> Any:
    """Return the fraction of the codes u with |u| ≤ Th, for each Th of ``THRESHOLDS``.

    The paper prints u ≤ Th, by which large negative codes would count as small.
    """
    # Thresholds have the precision of the codes; otherwise the float32 number 0.1 is above 0.1.
    magnitudes = np.sort(np.abs(U), axis=None)
    return np.searchsorted(magnitudes, THRESHOLDS.astype(U.dtype), side="right") / U.size


def sparsity_area(U: Any) -> float:
    """Return the area under the sparsity curve, divided by that of codes that are all zero."""
    curve = sparsity_curve(U)
    return float(np.mean(curve[1:] + curve[:-1]) / 2)  # the thresholds are equally spaced
