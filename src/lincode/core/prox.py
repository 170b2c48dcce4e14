"""Proximal operators: of the ℓ1 norm in two metrics, and the projection onto the unit ball."""

from __future__ import annotations

import numpy as np

from lincode.core.types import Array

MAX_NEWTON_STEPS = 30
"""Limit on the root-finding iterations per row; two are typical."""
ROOT_RTOL = 0.1
"""Relative accuracy to which κ is computed. A higher accuracy does not save proximal steps."""
ROUNDING_FACTOR = 4
"""Values of ψ below this many machine epsilons of ``at`` are indistinguishable from zero."""


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


def soft_threshold_along(
    Z: Array,
    t: float,
    v: Array,
    rho: float,
    at: Array,
    *,
    slope: Array,
    positive: bool = False,
    out: Array | None = None,
    work: Array | None = None,
) -> Array:
    """Compute argmin_V  ½‖V − Z‖² + ½ρ (V·v − at)² + t‖V‖₁ for each row.

    This is a soft threshold in a metric with one stiff direction v, ‖v‖ = 1. With
    κ = V·v − at the minimiser is V = soft_threshold(Z − ρκ v, t), so each row has one scalar
    unknown: the root of ψ(κ) = κ + at − V(κ)·v. The function ψ increases with slope
    1 + ρ Σ v², where the sum is over the non-zero entries of V. The root is found by Newton steps,
    with bisection where a step leaves the bracket.

    Parameters
    ----------
    Z : array of shape (n, m)
        The input.
    t : float
        The threshold.
    v : array of shape (m,)
        The stiff direction.
    rho : float
        The additional stiffness along v.
    at : array of shape (n,)
        The target of V·v in each row.
    slope : array of shape (n,)
        An estimate of ψ' for the first step. It is overwritten by the last slope computed.
    positive : bool, default=False
        Whether to minimise over V ≥ 0 only.
    out, work : arrays of the same shape as Z, optional
        Where the result is written (not Z itself), and a buffer for intermediate results.

    Returns
    -------
    V : array of shape (n, m)
    """
    V = np.empty_like(Z) if out is None else out
    work = np.empty_like(Z) if work is None else work
    v2 = v * v
    _soft_threshold_into(Z, t, positive, out=V, work=work)
    reached = V @ v - at
    kappa = reached / slope
    low, high = np.minimum(reached, 0), np.maximum(reached, 0)  # ψ(0) = −reached and ψ' ≥ 1
    rounding = ROUNDING_FACTOR * np.finfo(Z.dtype).eps * np.abs(at)
    active = np.ones(len(Z), dtype=bool)
    for _ in range(MAX_NEWTON_STEPS):
        np.multiply(rho * kappa[:, None], v, out=work)
        _soft_threshold_into(np.subtract(Z, work, out=V), t, positive, out=V, work=work)
        psi = kappa + at - V @ v
        # A finished row keeps its κ, so its result does not depend on the other rows.
        active &= np.abs(psi) > ROOT_RTOL * np.abs(kappa) + rounding
        if not active.any():
            break
        np.copyto(low, kappa, where=psi < 0)
        np.copyto(high, kappa, where=psi > 0)
        np.not_equal(V, 0, out=work, casting="unsafe")
        np.copyto(slope, 1 + rho * (work @ v2), where=active)
        newton = kappa - psi / slope
        newton = np.where((newton < low) | (newton > high), (low + high) / 2, newton)
        np.copyto(kappa, newton, where=active)
    return V


def _soft_threshold_into(Z: Array, t: float, positive: bool, *, out: Array, work: Array) -> Array:
    """Apply ``soft_threshold`` without allocating an array."""
    if positive:
        return np.maximum(np.subtract(Z, t, out=out), 0, out=out)
    return np.subtract(Z, np.clip(Z, -t, t, out=work), out=out)


def project_unit_ball(D: Array, *, positive: bool = False) -> Array:
    """Compute argmin_V ‖V − D‖²  s.t. ‖V[j]‖ ≤ 1 for each row, and V ≥ 0 if ``positive``."""
    if positive:
        D = np.maximum(D, 0)
    norms = np.linalg.norm(D, axis=1, keepdims=True)
    return np.asarray(D / np.maximum(norms, 1.0))
