"""The U step for sparse rows: an active-set method on the Gram matrix, compiled by Numba.

The active set A contains the units that a row uses, with their signs s. On it, the lasso problem

    min_u  ½ u H uᵀ − b uᵀ + τ‖u‖₁,    gradient g = u H − b,

is the linear system u_A H_AA = b_A − τ s. The inverse of H_AA is updated whenever a unit enters or
leaves. A unit that violates its optimality condition |g_j| ≤ τ enters, and the row moves to the
solution of the new system. If a code changes its sign on the way, the row stops where it is zero,
the unit leaves, and the row continues to the solution for the smaller set. Every move lowers the
objective, so the method ends after finitely many sets.

A row with k non-zeros needs about k changes of the set, with k² multiplications each, and an update
of g by k·m multiplications for several changes, whereas one accelerated step of ``lasso.py``
needs m². The optimality conditions of each row are checked with a gradient that is computed anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lincode.core.arrays import Array
from lincode.core.compiler import compiled, inlined

if TYPE_CHECKING:
    from lincode.core.lasso import CodeProblem

ENTRY_FRACTION = 0.4
"""Units may enter between two updates of the gradient if their violation is at least this fraction
of the largest. A larger value needs more updates, a smaller one lets units enter that leave again.
"""
MAX_CANDIDATES = 64
"""The largest number of units that are considered between two updates of the gradient."""
MAX_ROUNDS, MAX_ROUNDS_PER_UNIT, MAX_CORRECTIONS = 50, 5, 5
"""A row is returned unfinished after this number of updates of the gradient, plus this number per
allowed unit, or after this number of updates in a row without an entering unit."""
TIGHTER_TOL = 0.1
"""The tolerance is multiplied by this if the objective is still higher than at the start."""
MIN_PIVOT = 1e-10
"""An atom depends on the active atoms if the squared length of its part that is orthogonal to them
is below this fraction of its squared length, or below the rounding error of this length."""
NEGLIGIBLE = 0.01
"""The gradient is not computed anew to check a row if the rounding error of one sum is at most this
fraction of the tolerance."""
ROUNDING_FACTOR = 2
"""The rounding error of a sum in machine epsilons of its terms."""
CHUNK = 64
"""The number of entries of the gradient of which the largest is found together."""
ALL = np.int64(-1)
"""Stands for all places of the active set."""
SIGN, LENGTH, CODE, MOVED, RESIDUAL, DIRECTION, COLUMN, PROJECTION = range(8)
"""The rows of the array ``active``, whose first k columns belong to the k active units.

- SIGN: the sign s, LENGTH: the length of the atom, CODE: the code;
- MOVED: the change of the code since the last update of the gradient;
- RESIDUAL: g + τ s, which is zero at the solution for the set;
- DIRECTION: the direction in which the codes move;
- COLUMN: the products of an entering atom with the active atoms;
- PROJECTION: COLUMN times the inverse, the entering atom as a combination of the active ones.

The units are in the array ``units``. Units that have left since the last update of the gradient
are in the columns after k.
"""


def solve_rows(
    U: Array,
    b: Array,
    rows: NDArray[np.intp],
    problem: CodeProblem,
    *,
    tol: float,
    scale: Array,
    max_units: int,
    violation: Array,
    value: Array,
) -> NDArray[np.bool_]:
    """Solve the given rows of U in place, starting from U; return which of them are finished.

    A row is finished if its largest violation of the optimality conditions is at most ``tol``
    times ``scale``, its max|b|, or below the rounding error. Rows that need more than ``max_units``
    units or too many rounds are unfinished. Their objective is not higher than at the start.

    The largest violation of finished rows is written to ``violation``, and the objective of all
    rows to ``value``. All arrays but ``rows`` have one entry or row per row of U.
    """
    dtype = U.dtype
    rounding = ROUNDING_FACTOR * float(np.finfo(dtype).eps)
    tolerance = float(tol), rounding, problem.H.diagonal().max()
    rank = problem.W.shape[1] if problem.mu == 0 else len(problem.W)
    limits = tolerance, (MIN_PIVOT, rounding), max_units, rank
    # The gradient is padded with zeros to whole chunks. The kernel also reads it as integers.
    g = np.zeros(-(-U.shape[1] // CHUNK) * CHUNK, dtype)
    peaks = np.zeros(len(g) // CHUNK + 1, dtype)
    integer = np.int32 if dtype == np.float32 else np.int64
    finished = np.zeros(len(rows), np.bool_)
    measures = violation, value, finished
    gradient = g, g.view(integer), peaks, peaks.view(integer)
    b, penalty = np.ascontiguousarray(b), (float(problem.tau), problem.positive)
    _solve_rows(U, b, rows, problem.H, penalty, scale, limits, gradient, measures)
    return finished


@compiled
def _solve_rows(
    U: Any,
    b: Any,
    rows: Any,
    H: Any,
    penalty: Any,
    scale: Any,
    limits: Any,
    gradient: Any,
    measures: Any,
) -> None:
    """Do what ``solve_rows`` says. ``bits`` and ``peak_bits`` are g and ``peaks`` as integers."""
    (tau, positive), (tolerance, min_pivot, max_units, _) = penalty, limits
    (g, bits, peaks, peak_bits), (violation, value, finished) = gradient, measures
    m, size = U.shape[1], max_units + 2
    units, active, inverse = np.empty(size, np.int64), np.empty((8, size)), np.empty((size, size))
    is_active, candidates = np.zeros(m, np.bool_), np.empty(MAX_CANDIDATES, np.int64)
    state = units, active, inverse, is_active
    for q in range(len(rows)):
        i = rows[q]
        k = _read_start(U, i, H, positive, max_units, units, active, is_active)
        if k < 0:
            continue
        _compute_gradient(b, i, H, units, active, k, g)
        value[i], _ = _objective(b, i, tau, units, active, k, g)
        tol, rounding, diagonal = tolerance
        exact, factored, corrections = True, k == 0, -1
        for _ in range(MAX_ROUNDS + MAX_ROUNDS_PER_UNIT * max_units):
            unused = _find_peaks(positive, bits, peaks, peak_bits) - tau
            used, limit, error = _measure_active(
                tau, (tol, rounding, diagonal), scale[i], units, active, k, g
            )
            if max(used, unused) <= limit:
                # If the gradient contains NaN, `unused` is NaN, and the gradient is computed anew.
                exact = exact or (error < NEGLIGIBLE * limit and unused <= limit)
                if exact:
                    reached, terms = _objective(b, i, tau, units, active, k, g)
                    if reached <= value[i] + rounding * terms:
                        violation[i], finished[q] = max(used, unused, 0.0), True
                        break
                    if tol < rounding:
                        break
                    tol *= TIGHTER_TOL  # the start was better, although it violates more
                    continue
                for r in range(k):
                    active[CODE, r] = H.dtype.type(active[CODE, r])
                _compute_gradient(b, i, H, units, active, k, g)
                exact = True
                continue
            n_before, exact = k, False
            if not factored or (used > limit and corrections == 1):
                # The second time, rounding errors of the updates have become too large.
                k = _factor(H, min_pivot, units, active, inverse, k, is_active)
                n_left, factored, succeeded = n_before - k, True, True
                corrections += 1
            elif used > limit:
                k = _descend(units, active, inverse, k, ALL, is_active)
                n_left, corrections = n_before - k, corrections + 1
                succeeded = corrections <= MAX_CORRECTIONS and used < np.inf
            else:
                least = max(limit, ENTRY_FRACTION * unused)
                n = _list_candidates(tau, positive, g, peaks, least, is_active, candidates)
                k, n_left, succeeded = _enter_units(
                    H, penalty, limits, candidates, n, least, g, state, k
                )
                corrections = 0
            if not succeeded:
                break
            _add_rows(active[MOVED], units, k + n_left, H, g)
            for r in range(k + n_left):
                active[MOVED, r] = 0.0
        if not exact:
            _compute_gradient(b, i, H, units, active, k, g)
        reached, _ = _objective(b, i, tau, units, active, k, g)
        if finished[q] or reached < value[i]:
            value[i] = reached
            for j in range(m):
                U[i, j] = 0
            for r in range(k):
                U[i, units[r]] = active[CODE, r]
        for r in range(k):
            is_active[units[r]] = False


@inlined
def _read_start(
    U: Any, i: int, H: Any, positive: bool, max_units: int, units: Any, active: Any, is_active: Any
) -> int:
    """Store the units that row i uses, and return their number; −1 if there are too many."""
    k = 0
    for j in range(U.shape[1]):
        k += U[i, j] != 0
    if k == 0 or k > max_units:
        return 0 if k == 0 else -1
    k = 0
    for j in range(U.shape[1]):
        if U[i, j] != 0 and not (positive and U[i, j] < 0):
            _store_unit(H, units, active, k, j, 1.0 if U[i, j] > 0 else -1.0, U[i, j])
            is_active[j] = True
            k += 1
    return k


@inlined
def _objective(
    b: Any, i: int, tau: float, units: Any, active: Any, k: int, g: Any
) -> tuple[float, float]:
    """Return ½ u H uᵀ − b uᵀ + τ‖u‖₁ = ½ u (g − b) + τ‖u‖₁, and the sum of absolute terms."""
    total, terms = 0.0, 0.0
    for r in range(k):
        j, code = units[r], active[CODE, r]
        total += 0.5 * code * (g[j] - b[i, j]) + tau * abs(code)
        terms += abs(code) * (abs(g[j]) + abs(b[i, j]) + tau)
    return total, terms


@inlined
def _store_unit(
    H: Any, units: Any, active: Any, k: int, unit: int, sign: float, code: float
) -> None:
    """Store a unit at place k, with a gradient that includes its code."""
    units[k], active[SIGN, k], active[LENGTH, k] = unit, sign, np.sqrt(H[unit, unit])
    active[CODE, k], active[MOVED, k] = code, 0.0


@inlined
def _compute_gradient(b: Any, i: int, H: Any, units: Any, active: Any, k: int, g: Any) -> None:
    """Compute g = u H − b for row i."""
    for j in range(b.shape[1]):
        g[j] = -b[i, j]
    _add_rows(active[CODE], units, k, H, g)


@inlined
def _add_rows(weights: Any, units: Any, n: int, H: Any, g: Any) -> None:
    """Add Σ_r weights[r] H[units[r]] over r < n to g, four rows of H at a time."""
    m, dtype = H.shape[0], H.dtype.type
    r = 0
    while r + 4 <= n:
        a0, a1 = dtype(weights[r]), dtype(weights[r + 1])
        a2, a3 = dtype(weights[r + 2]), dtype(weights[r + 3])
        u0, u1, u2, u3 = units[r], units[r + 1], units[r + 2], units[r + 3]
        for j in range(m):
            g[j] += (a0 * H[u0, j] + a1 * H[u1, j]) + (a2 * H[u2, j] + a3 * H[u3, j])
        r += 4
    while r < n:
        a0, u0 = dtype(weights[r]), units[r]
        for j in range(m):
            g[j] += a0 * H[u0, j]
        r += 1


@inlined
def _find_peaks(positive: bool, bits: Any, peaks: Any, peak_bits: Any) -> float:
    """Store the largest |g| (with ``positive``, −g) of each chunk, and of all; return the latter.

    ``bits`` and ``peak_bits`` are g and ``peaks`` as integers. Non-negative numbers have the order
    of their bits, and the compiler vectorises the maximum of integers but not that of floats.
    """
    zero, magnitude_bits = bits.dtype.type(0), np.iinfo(bits.dtype).max
    largest, n_chunks = zero, len(peaks) - 1
    for c in range(n_chunks):
        peak = zero
        if positive:
            for j in range(c * CHUNK, (c + 1) * CHUNK):
                peak = max(peak, bits[j] & magnitude_bits if bits[j] < 0 else zero)
        else:
            for j in range(c * CHUNK, (c + 1) * CHUNK):
                peak = max(peak, bits[j] & magnitude_bits)
        peak_bits[c] = peak
        largest = max(largest, peak)
    peak_bits[n_chunks] = largest
    return float(peaks[n_chunks])


@inlined
def _measure_active(
    tau: float, tolerance: Any, scale: float, units: Any, active: Any, k: int, g: Any
) -> tuple[float, float, float]:
    """Compute the residuals, and return the largest.

    Also return the violation at which a row is finished, and the rounding error of the gradient.
    """
    tol, rounding, diagonal = tolerance
    largest, l1 = 0.0, 0.0
    for r in range(k):
        residual = g[units[r]] + tau * active[SIGN, r]
        active[RESIDUAL, r] = residual
        largest = max(largest, abs(residual))
        l1 += abs(active[CODE, r])
    terms = l1 * diagonal + scale
    if not terms < np.inf:  # overflow, or not a number: the row cannot be finished
        return np.inf, 0.0, np.inf
    return largest, max(tol * scale, rounding * terms), rounding * terms


@inlined
def _factor(
    H: Any, min_pivot: Any, units: Any, active: Any, inverse: Any, n: int, is_active: Any
) -> int:
    """Compute the inverse for n units; return how many of them are independent.

    The others leave: their codes become zero. Their places are after the independent ones.
    """
    k = 0
    for r in range(n):
        _load_column(H, units, active, k, units[r])
        if _append(active, inverse, k, H[units[r], units[r]], min_pivot):
            _swap(units, active, r, k)
            k += 1
        else:
            active[MOVED, r], active[CODE, r] = -active[CODE, r], 0.0
            is_active[units[r]] = False
    return k


@inlined
def _swap(units: Any, active: Any, first: int, second: int) -> None:
    """Exchange the units at two places."""
    units[first], units[second] = units[second], units[first]
    for q in range(RESIDUAL + 1):
        active[q, first], active[q, second] = active[q, second], active[q, first]


@inlined
def _load_column(H: Any, units: Any, active: Any, k: int, unit: int) -> None:
    """Store the products of a unit's atom with the first k active atoms."""
    for r in range(k):
        active[COLUMN, r] = H[unit, units[r]]


@inlined
def _append(active: Any, inverse: Any, k: int, diagonal: float, min_pivot: Any) -> bool:
    """Extend the inverse of k units by the loaded column; report whether it is independent.

    The pivot is the squared length of the part of the new atom that is orthogonal to the others.
    """
    fraction, rounding = min_pivot
    pivot, terms = float(diagonal), np.sqrt(diagonal)
    for r in range(k):
        total = 0.0
        for c in range(k):
            total += inverse[r, c] * active[COLUMN, c]
        active[PROJECTION, r] = total
        pivot -= total * active[COLUMN, r]
        terms += abs(total) * active[LENGTH, r]
    if not pivot > max(fraction * diagonal, rounding * terms**2):
        return False
    for r in range(k):
        factor = active[PROJECTION, r] / pivot
        for c in range(k):
            inverse[r, c] += factor * active[PROJECTION, c]
        inverse[r, k] = inverse[k, r] = -factor
    inverse[k, k] = 1 / pivot
    return True


@inlined
def _remove(units: Any, active: Any, inverse: Any, k: int, out: int) -> None:
    """Remove the unit at a place from k units and from the inverse. The last takes its place."""
    last = k - 1
    for r in range(k):
        active[COLUMN, r] = inverse[out, r]
    for r in range(k):
        factor = active[COLUMN, r] / active[COLUMN, out]
        for c in range(k):
            inverse[r, c] -= factor * active[COLUMN, c]
    for r in range(last):
        inverse[out, r] = inverse[last, r]
        inverse[r, out] = inverse[r, last]
    inverse[out, out] = inverse[last, last]
    _swap(units, active, out, last)


@inlined
def _first_zero(active: Any, k: int, longest: float) -> tuple[float, int]:
    """Return how far the codes can move along the direction, and the place of the first zero.

    The place is −1 if no code changes its sign before ``longest``.
    """
    length, out = longest, -1
    for r in range(k):
        code, direction = active[CODE, r], active[DIRECTION, r]
        if (code + length * direction) * active[SIGN, r] < 0:
            length, out = -code / direction, r
    return length, out


@inlined
def _move(active: Any, k: int, length: float, out: int) -> None:
    """Move the codes along the direction. The code at the place ``out`` becomes zero."""
    for r in range(k):
        step = length * active[DIRECTION, r]
        active[CODE, r] += step
        active[MOVED, r] += step
        active[RESIDUAL, r] *= 1 - length
    if out >= 0:
        active[MOVED, out] -= active[CODE, out]
        active[CODE, out] = 0


@inlined
def _descend(units: Any, active: Any, inverse: Any, k: int, only: int, is_active: Any) -> int:
    """Move to the solution for the active set without the units whose sign would change.

    Return the number of units that remain. The residuals at places other than ``only`` are zero,
    unless it is ``ALL``.
    """
    while k > 0:
        for r in range(k):
            if only >= 0:
                direction = -inverse[only, r] * active[RESIDUAL, only]
            else:
                direction = 0.0
                for c in range(k):
                    direction -= inverse[r, c] * active[RESIDUAL, c]
            active[DIRECTION, r] = direction
        length, out = _first_zero(active, k, 1.0)
        _move(active, k, length, out)
        if out < 0:
            break
        is_active[units[out]] = False
        _remove(units, active, inverse, k, out)
        k -= 1
        if out == only:
            break
        if only == k:
            only = out
    return k


@inlined
def _list_candidates(
    tau: float, positive: bool, g: Any, peaks: Any, least: float, is_active: Any, candidates: Any
) -> int:
    """List unused units that violate their condition by at least ``least``, first the worst."""
    n, n_chunks = 0, len(peaks) - 1
    worst = np.argmax(peaks[:n_chunks])
    for c in range(-1, n_chunks):  # the chunk of the worst unit comes first
        chunk = worst if c < 0 else c
        if peaks[chunk] - tau < least or c == worst:
            continue
        for j in range(chunk * CHUNK, min((chunk + 1) * CHUNK, len(is_active))):
            magnitude = -g[j] if positive else abs(g[j])
            if magnitude - tau < least or is_active[j]:
                continue
            candidates[n] = j
            if magnitude == peaks[worst]:
                candidates[n], candidates[0] = candidates[0], j
            n += 1
            if n == MAX_CANDIDATES:
                return n
    return n


@inlined
def _enter_units(
    H: Any,
    penalty: Any,
    limits: Any,
    candidates: Any,
    n: int,
    least: float,
    g: Any,
    state: Any,
    k: int,
) -> tuple[int, int, bool]:
    """Let candidates enter whose violation is still at least ``least``, until a unit leaves.

    Return the number of units, the number of units that have left, and whether to continue.
    """
    (tau, positive), (_, min_pivot, max_units, rank) = penalty, limits
    units, active, inverse, is_active = state
    for q in range(n):
        unit = candidates[q]
        _load_column(H, units, active, k, unit)
        gradient = float(g[unit])
        for r in range(k):
            gradient += active[COLUMN, r] * active[MOVED, r]
        if (-gradient if positive else abs(gradient)) - tau < least:
            continue
        sign = -1.0 if gradient > 0 else 1.0
        fraction, rounding = min_pivot
        if k == rank:  # every atom depends on that many, whatever rounding makes of the pivot
            fraction = np.inf
        if not _append(active, inverse, k, H[unit, unit], (fraction, rounding)):
            return _exchange(H, min_pivot, unit, sign, state, k)  # type: ignore[no-any-return]
        if k == max_units:
            return k, 0, False
        _store_unit(H, units, active, k, unit, sign, 0.0)
        is_active[unit] = True
        for r in range(k):
            active[RESIDUAL, r] = 0.0
        active[RESIDUAL, k] = gradient + tau * sign
        n_units = k + 1
        k = _descend(units, active, inverse, n_units, n_units - 1, is_active)
        if k < n_units:
            return k, n_units - k, True
    return k, 0, True


@inlined
def _exchange(
    H: Any, min_pivot: Any, unit: int, sign: float, state: Any, k: int
) -> tuple[int, int, bool]:
    """Let a unit enter whose atom is a combination of the active atoms.

    The codes move in the direction that does not change the reconstruction until one of them is
    zero, and its unit leaves. The returned values are those of ``_enter_units``.
    """
    units, active, inverse, is_active = state
    for r in range(k):
        active[DIRECTION, r] = -sign * active[PROJECTION, r]
    length, out = _first_zero(active, k, np.inf)
    if out < 0:
        return k, 0, False
    _move(active, k, length, out)
    is_active[units[out]] = False
    _remove(units, active, inverse, k, out)
    k -= 1
    units[k + 1], active[MOVED, k + 1] = units[k], active[MOVED, k]
    _store_unit(H, units, active, k, unit, sign, length * sign)
    active[MOVED, k] = length * sign
    is_active[unit] = True
    _load_column(H, units, active, k, unit)
    independent = _append(active, inverse, k, H[unit, unit], min_pivot)
    return k + 1, 1, independent
