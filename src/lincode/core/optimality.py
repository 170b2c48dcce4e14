"""How far each step is from its optimum: the certificates every solver is stopped and tested by.

All three are relative, so they read the same for any data: 0 is optimal, 1 is where
nothing was done.
"""

from __future__ import annotations

import numpy as np

from lincode.core.encoder_step import EncoderFactor
from lincode.core.stats import CodeStats
from lincode.core.types import Array


def code_violation(U: Array, G: Array, tau: float, *, positive: bool = False) -> Array:
    """Largest violation of the U step's optimality in each row; G = U H − b is the gradient.

    |G + τ sign U| = 0 where U ≠ 0 and |G| ≤ τ where U = 0; with U ≥ 0 demanded, G ≥ −τ there.
    """
    at_zero = np.maximum(-G - tau, 0) if positive else np.maximum(np.abs(G) - tau, 0)
    violation = np.where(U == 0, at_zero, np.abs(G + tau * np.sign(U)))
    return np.asarray(violation.max(axis=1, initial=0))


def dictionary_residual(D: Array, stats: CodeStats) -> float:
    """Largest move of any used atom under one projected gradient step of its own length.

    The atoms are in the unit ball, so this is relative as it stands.
    """
    scale = np.diag(stats.UtU)
    used = scale > 0
    if not used.any():
        return 0.0
    target = D[used] + (stats.UtX[used] - stats.UtU[used] @ D) / scale[used, None]
    target /= np.maximum(np.linalg.norm(target, axis=1, keepdims=True), 1.0)
    return float(np.linalg.norm(target - D[used], axis=1).max())


def encoder_residual(C: Array, stats: CodeStats, factor: EncoderFactor) -> float:
    """Max |C XtX − UtX| relative to max |UtX|, the value at C = 0."""
    scale = float(np.abs(stats.UtX).max(initial=0))
    if scale == 0:
        return 0.0
    CXtX = (C @ factor.V * factor.s2) @ factor.V.T
    return float(np.abs(CXtX - stats.UtX).max() / scale)
