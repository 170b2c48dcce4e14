"""The first atoms, and the D step (B-SCNN weight update, equations 7 and 9).

    min_D ⟨UtU, D Dᵀ⟩ − 2⟨UtX, D⟩      s.t. ‖D[j]‖ ≤ 1

All atoms are computed together by Newton's method on the dual problem (Lee, Battle, Raina and Ng
2007). With a multiplier λ[j] ≥ 0 for each constraint, the dictionary is explicit,

    D(λ) = (UtU + diag λ)⁻¹ UtX,

and λ maximises the dual −⟨UtX, D(λ)⟩ − Σλ. The dual is smooth and concave, with the gradient
‖D[j]‖² − 1 and the Hessian −2 (D Dᵀ) ∘ (UtU + diag λ)⁻¹. Starting from the multipliers of a nearly
optimal dictionary, one or two steps are enough in training. If UtU + diag λ is singular, or if
the atoms are constrained to D ≥ 0, sweeps that update one atom at a time are used instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import DTypeLike, NDArray

from lincode.core.arrays import Array
from lincode.core.compiler import compiled
from lincode.core.energy import CodeStats

MAX_DUAL_ATOMS = 4096
"""With more atoms, the cubic cost of the dual method is too high and only sweeps are used."""
MAX_NEWTON_STEPS = 30
MIN_STEP = 1e-6
"""The line search fails below this fraction of the Newton step."""
ATOMS_PER_BLOCK = 32
"""The number of atoms per block of a sweep. It affects the speed only."""
MAX_ENTRY = 1e100
"""Atoms with a larger entry are divided by it first, because the squares of entries overflow."""


@dataclass(frozen=True)
class Start:
    """The initial D and C in float64."""

    D: Array
    C: Array


def start_from_data(
    take: Callable[[NDArray[np.intp]], Array],
    shape: tuple[int, int],
    m: int,
    rng: np.random.RandomState,
) -> Start:
    """Use random rows of X, normalised to length 1, as atoms. The encoder is zero.

    ``take(indices)`` returns rows of X as a dense array, and ``shape`` is the shape of X. Equal
    atoms would remain equal in training, so that each is used once. If X has fewer than m
    different rows that are not zero, the other atoms are random directions.
    """
    N, p = shape
    order = rng.permutation(N)
    atoms: dict[bytes, Array] = {}
    for first in range(0, N, m):
        rows = _unit_rows(take(order[first : first + m]).astype(np.float64))
        atoms |= {row.tobytes(): row for row in rows}
        if len(atoms) >= m:
            break
    D = np.array([*atoms.values()][:m]).reshape(-1, p)
    D = np.vstack([D, _unit_rows(rng.standard_normal((m - len(D), p)))])
    return Start(D=D, C=np.zeros_like(D))


def start_from_dictionary(D: Array) -> Start:
    """Use given atoms, projected onto the unit balls. The encoder is zero."""
    D = np.array(D, dtype=np.float64)
    largest = np.abs(D).max(axis=1, keepdims=True)
    D = project_unit_ball(D / np.where(largest > MAX_ENTRY, largest, 1.0))
    return Start(D=D, C=np.zeros_like(D))


def _unit_rows(A: Array) -> Array:
    """Return the rows of A that are not zero, normalised to length 1."""
    norms = np.linalg.norm(A, axis=1, keepdims=True)
    return np.asarray(A[norms[:, 0] > 0] / norms[norms > 0, None])


def nonnegative_atoms(D: Array, *, signed: bool) -> Array:
    """Replace atoms with negative entries by non-negative atoms of length 1.

    They are the ``longer_parts`` of the atoms. Atoms without negative entries are unchanged.
    """
    parts = longer_parts(D, signed=signed)
    norms = np.linalg.norm(parts, axis=1, keepdims=True)
    unit = np.divide(parts, norms, out=np.zeros_like(parts), where=norms > 0)
    return np.where((D < 0).any(axis=1, keepdims=True), unit, D)


def longer_parts(D: Array, *, signed: bool) -> Array:
    """Return the positive part of each row, or the negative part if it is longer and ``signed``."""
    positive, negative = np.maximum(D, 0), np.maximum(-D, 0)
    if not signed:
        return positive
    longer = np.linalg.norm(negative, axis=1) > np.linalg.norm(positive, axis=1)
    return np.where(longer[:, None], negative, positive)


def project_unit_ball(D: Array, *, positive: bool = False) -> Array:
    """Compute argmin_V ‖V − D‖²  s.t. ‖V[j]‖ ≤ 1 for each row, and V ≥ 0 if ``positive``."""
    if positive:
        D = np.maximum(D, 0)
    norms = np.linalg.norm(D, axis=1, keepdims=True)
    return np.asarray(D / np.maximum(norms, 1.0))


def dictionary_step(
    D: Array,
    stats: CodeStats,
    *,
    tol: float = 1e-6,
    max_sweeps: int = 100,
    positive: bool = False,
) -> tuple[Array, float]:
    """Return a dictionary that is optimal to ``tol`` for all used atoms, and its residual.

    The objective never increases. Atoms that no row uses are unchanged. With ``positive``, D must
    be at least 0 and remains so.
    """
    dual = None if positive else _solve_by_dual(D, stats, tol)
    if dual is not None and dictionary_objective(dual, stats) <= dictionary_objective(D, stats):
        D = dual
    residual = dictionary_residual(D, stats, positive=positive)
    for _ in range(max_sweeps):
        if residual <= tol:
            break
        D = dictionary_sweep(D, stats, positive=positive)
        residual = dictionary_residual(D, stats, positive=positive)
    return D, residual


def dictionary_objective(D: Array, stats: CodeStats) -> float:
    """Compute ⟨UtU, D Dᵀ⟩ − 2⟨UtX, D⟩."""
    return float(np.vdot(stats.UtU, D @ D.T) - 2 * np.vdot(stats.UtX, D))


def dictionary_residual(D: Array, stats: CodeStats, *, positive: bool = False) -> float:
    """Return the largest change of any used atom under one projected gradient step.

    The step of an atom has the length 1/UtU[j, j]. Atoms are in the unit ball, so the residual is
    relative without further scaling. It is zero at the optimum.
    """
    scale = np.diag(stats.UtU)
    used = scale > 0
    if not used.any():
        return 0.0
    target: Array = D[used] + (stats.UtX[used] - stats.UtU[used] @ D) / scale[used, None]
    target = project_unit_ball(target, positive=positive)
    return float(np.linalg.norm(target - D[used], axis=1).max())


def dictionary_sweep(
    D: Array, stats: CodeStats, *, positive: bool = False, dtype: DTypeLike = np.float64
) -> Array:
    """Update each atom in turn to its minimiser given the others.

    D[j] ← project( D[j] + (UtX[j] − UtU[j] D) / UtU[j, j] )

    The product UtU[j] D is computed for a block of atoms at once and corrected within the block
    as atoms change (``update_block``). The iterates are the same, but most of the work is a matrix
    product, which is computed in ``dtype``.
    """
    D = np.array(D, order="C")
    UtU, UtX = stats.UtU, stats.UtX
    used = np.flatnonzero(np.diag(UtU))
    change = np.empty((ATOMS_PER_BLOCK, D.shape[1]))
    factor, atoms = UtU.astype(dtype, copy=False), D.astype(dtype, copy=False)
    for start in range(0, len(used), ATOMS_PER_BLOCK):
        block = used[start : start + ATOMS_PER_BLOCK]
        negative_gradient = np.ascontiguousarray(UtX[block] - factor[block] @ atoms)
        UtU_block = np.ascontiguousarray(UtU[np.ix_(block, block)])
        update_block(D, block, UtU_block, negative_gradient, change, positive)
        atoms[block] = D[block]
    return D


def _solve_by_dual(D: Array, stats: CodeStats, tol: float) -> Array | None:
    """Return the dictionary with the used atoms computed by the dual; None if that fails."""
    used = np.flatnonzero(np.diag(stats.UtU))
    if len(used) > MAX_DUAL_ATOMS:
        return None
    atoms = solve_dual(D[used], stats.UtU[np.ix_(used, used)], stats.UtX[used], 0.5 * tol)
    if atoms is None:
        return None
    D = D.copy()
    D[used] = atoms
    return D


def solve_dual(D: Array, UtU: Array, UtX: Array, tol: float) -> Array | None:
    """Return the optimal dictionary if all atoms are used, starting from D; None if it fails.

    It fails if UtU + diag λ is singular: with fewer rows than atoms, or with atoms whose
    constraint is not active. It stops when every ‖D[j]‖² with λ[j] > 0 is within ``tol`` of 1.
    """
    multipliers = np.maximum(np.einsum("ij,ij->i", UtX - UtU @ D, D), 0.0)
    try:
        point = _DualPoint(multipliers, UtU, UtX)
        for _ in range(MAX_NEWTON_STEPS):
            squares = np.einsum("ij,ij->i", point.D, point.D)
            gradient = squares - 1
            free = np.flatnonzero((point.multipliers > 0) | (gradient > 0))
            if np.abs(gradient[free]).max(initial=0) <= tol:
                return project_unit_ball(point.D)
            hessian = point.negative_hessian()
            if len(free) < len(gradient):
                hessian = hessian[np.ix_(free, free)]
            factor = scipy.linalg.cho_factor(hessian, lower=True, overwrite_a=True)
            step = np.zeros_like(gradient)
            # Newton's method for 1/‖D[j]‖ = 1, which is nearly linear in λ[j], needs fewer steps
            # than for ‖D[j]‖² = 1, and has the same matrix.
            target = 2 * squares * (np.sqrt(squares) - 1)
            step[free] = scipy.linalg.cho_solve(factor, target[free])
            point = _line_search(point, step, UtU, UtX)
    except (np.linalg.LinAlgError, ValueError):  # singular, or overflow because nearly singular
        pass
    return None


class _DualPoint:
    """Multipliers, the dictionary they define, and the value of the dual."""

    def __init__(self, multipliers: Array, UtU: Array, UtX: Array) -> None:
        self.multipliers = multipliers
        shifted = UtU.copy()
        shifted.flat[:: len(UtU) + 1] += multipliers
        # The transpose of a symmetric matrix has the order of memory that LAPACK needs.
        self.factor = scipy.linalg.cho_factor(shifted.T, lower=True, overwrite_a=True)
        self.D: Array = scipy.linalg.cho_solve(self.factor, UtX)
        self.value = -float(np.vdot(UtX, self.D)) - float(multipliers.sum())

    def negative_hessian(self) -> Array:
        """Compute the lower triangle of 2 (D Dᵀ) ∘ (UtU + diag λ)⁻¹."""
        inverse, _ = scipy.linalg.lapack.dpotri(self.factor[0], lower=True)
        inverse *= 2 * (self.D @ self.D.T).T
        return np.asarray(inverse)


def _line_search(point: _DualPoint, step: Array, UtU: Array, UtX: Array) -> _DualPoint:
    """Return the point after the first of step, step/2, step/4, … that does not lower the dual."""
    length = 1.0
    while length > MIN_STEP:
        new = _DualPoint(np.maximum(point.multipliers + length * step, 0.0), UtU, UtX)
        if new.value >= point.value - 1e-12 * abs(point.value):
            return new
        length /= 2
    raise np.linalg.LinAlgError("no step increases the dual")


@compiled
def update_block(
    D: Any, block: Any, UtU: Any, negative_gradient: Any, change: Any, positive: bool
) -> None:
    """Update the atoms of a block in turn, in place.

    ``UtU`` is that of the block, shape (n, n). ``negative_gradient`` (n, p) is UtX − UtU D for the
    atoms before the update, and is overwritten. ``change`` is scratch memory of the same shape:
    the changes of the atoms that are already updated correct the gradient of the next one.
    """
    n, p = negative_gradient.shape
    for k in range(n):
        j = block[k]
        for i in range(k):
            weight = UtU[k, i]
            if weight != 0:
                for q in range(p):
                    negative_gradient[k, q] -= weight * change[i, q]
        square = 0.0
        for q in range(p):
            entry = D[j, q] + negative_gradient[k, q] / UtU[k, k]
            if positive:
                entry = max(entry, 0.0)
            negative_gradient[k, q] = entry
            square += entry * entry
        length = max(np.sqrt(square), 1.0)
        for q in range(p):
            entry = negative_gradient[k, q] / length
            change[k, q] = entry - D[j, q]
            D[j, q] = entry
