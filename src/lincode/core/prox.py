"""Proximal operators: the soft threshold, and the projection onto the unit ball."""

from __future__ import annotations

import numpy as np

from lincode.core.types import Array


def soft_threshold(
    Z: Array, t: float, *, positive: bool = False, out: Array | None = None
) -> Array:
    """Compute argmin_V  ½‖V − Z‖² + t‖V‖₁ for each entry (equation 13 of the paper).

    Parameters
    ----------
    Z : array of any shape
        The input.
    t : float
        The threshold, at least 0.
    positive : bool, default=False
        Whether to minimise over V ≥ 0 only.
    out : array of the same shape as Z, optional
        Where the result is written. It may be Z itself.

    Returns
    -------
    V : array of the same shape as Z

    Examples
    --------
    >>> import numpy as np
    >>> from lincode import soft_threshold
    >>> soft_threshold(np.array([-3.0, -0.5, 0.0, 2.0]), 1.0)
    array([-2.,  0.,  0.,  1.])
    """
    t = min(t, float(np.finfo(Z.dtype).max))
    if positive:
        V = np.subtract(Z, t, out=out)
        return np.maximum(V, 0, out=V)
    return np.subtract(Z, np.clip(Z, -t, t), out=out)


def project_unit_ball(D: Array, *, positive: bool = False) -> Array:
    """Compute argmin_V ‖V − D‖²  s.t. ‖V[j]‖ ≤ 1 for each row, and V ≥ 0 if ``positive``."""
    if positive:
        D = np.maximum(D, 0)
    norms = np.linalg.norm(D, axis=1, keepdims=True)
    return np.asarray(D / np.maximum(norms, 1.0))
