"""How far each step is from its optimum: the certificates every solver is stopped and tested by.

All three are relative, so they read the same for data of any scale, and 0 is optimal.
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
    """Largest |C XtX − UtX| relative to the lengths of its column of U and its column of X.

    That is the cosine between what the encoder leaves of a code and a feature: 0 where the
    feature can tell nothing more about the code, whatever its scale.
    """
    CXtX = (C @ factor.V * factor.s2) @ factor.V.T
    lengths = np.outer(np.sqrt(np.diag(stats.UtU)), factor.lengths)
    cosine = np.zeros_like(lengths)
    np.divide(np.abs(CXtX - stats.UtX), lengths, out=cosine, where=lengths > 0)
    return float(cosine.max(initial=0))
