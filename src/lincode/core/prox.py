"""The proximity operators of the energy: of the ℓ1 norm, in two metrics, and of the unit ball."""

from __future__ import annotations

import numpy as np

from lincode.core.types import Array

NEWTON_STEPS = 30
"""Most looks at a row for the root of ψ; two are usual."""
ENOUGH = 0.1
"""κ is found when ψ(κ) is at most this share of it: a better one would not save steps."""
ROUNDING = 4
"""ψ cannot be told from zero below this many eps of ``at``."""


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
    """argmin_V  ½‖V − Z‖² + ½ρ (V·v − at)² + t‖V‖₁, row by row; over V ≥ 0 if ``positive``.

    A soft threshold that knows one stiff direction v, ‖v‖ = 1. With κ = V·v − at its minimiser is
    V = soft_threshold(Z − ρκ v, t), so each row has one number to find (here to a tenth of
    itself): the root of ψ(κ) = κ + at − V(κ)·v, which rises with slope 1 + ρ Σ v² over the units
    in use. Newton's steps, halved where they leave the bracket, find it in about two looks.

    Parameters
    ----------
    Z : array of shape (n, m)
    t : float
    v : array of shape (m,)
    rho : float
    at : array of shape (n,)
    slope : array of shape (n,)
        A guess of ψ' for the first step, replaced by the last one seen.
    positive : bool, default=False
    out, work : arrays of the shape of Z, optional
        Where to write the result (not Z itself), and room to work in.

    Returns
    -------
    array of shape (n, m)
    """
    V = np.empty_like(Z) if out is None else out
    work = np.empty_like(Z) if work is None else work
    v2 = v * v
    _shrink(Z, t, positive, out=V, work=work)
    reached = V @ v - at
    kappa = reached / slope
    low, high = np.minimum(reached, 0), np.maximum(reached, 0)  # ψ(0) = −reached, ψ' ≥ 1
    rounding = ROUNDING * np.finfo(Z.dtype).eps * np.abs(at)
    going = np.ones(len(Z), dtype=bool)
    for _ in range(NEWTON_STEPS):
        np.multiply(rho * kappa[:, None], v, out=work)
        _shrink(np.subtract(Z, work, out=V), t, positive, out=V, work=work)
        psi = kappa + at - V @ v
        # A row that is done keeps its κ, so that no row feels which others it is with.
        going &= np.abs(psi) > ENOUGH * np.abs(kappa) + rounding
        if not going.any():
            break
        np.copyto(low, kappa, where=psi < 0)
        np.copyto(high, kappa, where=psi > 0)
        np.not_equal(V, 0, out=work, casting="unsafe")
        np.copyto(slope, 1 + rho * (work @ v2), where=going)
        newton = kappa - psi / slope
        newton = np.where((newton < low) | (newton > high), (low + high) / 2, newton)
        np.copyto(kappa, newton, where=going)
    return V


def _shrink(Z: Array, t: float, positive: bool, *, out: Array, work: Array) -> Array:
    """``soft_threshold`` without an array of its own."""
    if positive:
        return np.maximum(np.subtract(Z, t, out=out), 0, out=out)
    return np.subtract(Z, np.clip(Z, -t, t, out=work), out=out)


def project_unit_ball(D: Array) -> Array:
    """argmin_V ‖V − D‖²  s.t. ‖V[j]‖ ≤ 1, row by row."""
    norms = np.linalg.norm(D, axis=1, keepdims=True)
    return np.asarray(D / np.maximum(norms, 1.0))
