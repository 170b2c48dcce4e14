"""The U step for sparse rows: coordinate descent on the units in use, compiled by Numba.

A row that uses k of m units needs k² multiplications for one sweep over these units and k·m for a
check of all units, whereas an accelerated step of ``code_step.py`` needs m². This is several
times faster for rows that use at most a sixth of the units. This module imports Numba, so
``code_step.py`` imports it only when it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lincode.core.compiler import compiled
from lincode.core.types import Array

if TYPE_CHECKING:
    from lincode.core.code_step import CodeProblem

MAX_DENSITY = 1 / 5
"""Rows whose working set exceeds this fraction of the units are returned unfinished."""
ENTRY_FRACTION = 0.8
"""Unused units join the working set if their violation is at least this fraction of the largest.
A larger value needs more rounds, a smaller one makes working sets too large."""
MAX_ROUNDS, MAX_SWEEPS = 100, 50
"""Limits on the number of working sets per row, and of sweeps per working set."""


def solve_rows(U: Array, b: Array, problem: CodeProblem, tolerance: Array) -> Array:
    """Return the codes of rows, starting from U, each to its absolute tolerance.

    Rows whose working set becomes too large, or that need too many rounds, are returned
    unfinished.
    """
    U, b = np.array(U, order="C"), np.ascontiguousarray(b)
    tau, max_units = U.dtype.type(problem.tau), int(MAX_DENSITY * U.shape[1])
    _solve_rows(U, b, problem.H, tau, problem.positive, tolerance.astype(U.dtype), max_units)
    return U


@compiled
def _solve_rows(
    U: Any, b: Any, H: Any, tau: Any, positive: bool, tolerance: Any, max_units: int
) -> None:
    """Minimise ½ u H uᵀ − b uᵀ + τ‖u‖₁ for each row of U, in place.

    Each round selects a working set: the units in use and those that violate their optimality
    condition nearly as much as the worst one. Sweeps of soft thresholds update the codes of the
    working set and its part of the gradient g = u H − b. Then the whole gradient is updated.
    """
    n, m = U.shape
    zero = tau * 0
    g, units = np.empty(m, U.dtype), np.empty(m, np.int64)
    code, start, gradient = np.empty(m, U.dtype), np.empty(m, U.dtype), np.empty(m, U.dtype)
    H_set = np.empty((m, m), U.dtype)
    for i in range(n):
        u = U[i]
        for j in range(m):
            g[j] = -b[i, j]
        for j in range(m):
            if u[j] != 0:
                value, row = u[j], H[j]
                for t in range(m):
                    g[t] += value * row[t]
        for _ in range(MAX_ROUNDS):
            worst_used, worst_unused = zero, zero  # the largest violations
            for j in range(m):
                if u[j] > 0:
                    worst_used = max(worst_used, abs(g[j] + tau))
                elif u[j] < 0:
                    worst_used = max(worst_used, abs(g[j] - tau))
                else:
                    worst_unused = max(worst_unused, (-g[j] if positive else abs(g[j])) - tau)
            worst = max(worst_used, worst_unused)
            if worst <= tolerance[i]:
                break
            k, least = 0, max(tolerance[i], ENTRY_FRACTION * worst_unused)
            for j in range(m):
                if u[j] != 0 or (-g[j] if positive else abs(g[j])) - tau >= least:
                    units[k] = j
                    k += 1
            if k > max_units:
                break
            for s in range(k):
                j = units[s]
                code[s], start[s], gradient[s] = u[j], u[j], g[j]
                row, H_row = H[j], H_set[s]
                for t in range(k):
                    H_row[t] = row[units[t]]
            for _ in range(MAX_SWEEPS):
                largest_change = zero
                for s in range(k):
                    h = H_set[s, s]
                    if h <= 0:
                        continue
                    z = h * code[s] - gradient[s]
                    new = zero
                    if z > tau:
                        new = (z - tau) / h
                    elif z < -tau and not positive:
                        new = (z + tau) / h
                    step = new - code[s]
                    if step != 0:
                        largest_change = max(largest_change, abs(step) * h)
                        code[s] = new
                        H_row = H_set[s]
                        for t in range(k):
                            gradient[t] += step * H_row[t]
                if largest_change <= max(tolerance[i] / 2, worst / 5):
                    break
            for s in range(k):
                step = code[s] - start[s]
                if step != 0:
                    u[units[s]] = code[s]
                    row = H[units[s]]
                    for t in range(m):
                        g[t] += step * row[t]
