"""The two proximity operators of the energy: of the l1 norm, and of the unit ball."""

from __future__ import annotations

import numpy as np

from lincode.core.types import Array


def soft_threshold(
    Z: Array, t: float, *, positive: bool = False, out: Array | None = None
) -> Array:
    """argmin_V  ½‖V − Z‖² + t‖V‖₁, entry by entry; over V ≥ 0 if ``positive``. (Paper eq. 13.)

    Parameters
    ----------
    Z : array of any shape
    t : float
        Threshold, at least 0.
    positive : bool, default=False
        Keep the positive part only.
    out : array of the shape of Z, optional
        Where to write the result; may be Z itself.

    Returns
    -------
    array of the shape of Z

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


def project_unit_ball(D: Array) -> Array:
    """argmin_V ‖V − D‖²  s.t. ‖V[j]‖ ≤ 1, row by row."""
    norms = np.linalg.norm(D, axis=1, keepdims=True)
    return np.asarray(D / np.maximum(norms, 1.0))
