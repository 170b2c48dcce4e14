"""Sparse rows of the U step: coordinate descent on the few units in use, compiled by Numba.

A row that uses k of m units needs k² multiplications for a pass over them and k·m to look at
all, where a step of ``code_step.py`` needs m². Below a sixth of the units that is several times
faster from a good start, so there ``code_step`` hands rows over. Without Numba it goes on alone:
slower, to the same optimum.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from lincode.core.code_problem import CodeProblem
from lincode.core.types import Array

SPARSE = 1 / 6
"""Rows that use at most this share of the units are handed over."""
WIDE = 1 / 5
"""Rows that come to want more than this share of the units are handed back as they are."""
FEWEST_UNITS = 64
"""With fewer, the product is so cheap that nothing is gained."""
EAGER = 0.8
"""Units not in use are taken up if they violate their condition by this share of the worst: fewer
at a time would take more rounds, more would make rows wide that end up sparse."""
MOST_ROUNDS, MOST_SWEEPS = 100, 50
"""Choices of the units to work on, and passes over them, before a row is handed back."""


def sparse_rows(U: Array, problem: CodeProblem) -> Array:
    """Which rows are better off here: those that use few units; none without Numba.

    How many a row without a code will use is not known. Such rows are tried where accelerated
    steps are slow for want of curvature (μ = 0).
    """
    n, m = U.shape
    if m < FEWEST_UNITS or not n or _compiled() is None:
        return np.zeros(n, dtype=bool)
    used = np.count_nonzero(U, axis=1)
    return np.asarray((used <= SPARSE * m) & ((used > 0) | (problem.mu == 0)))


def descend(U: Array, b: Array, problem: CodeProblem, enough: Array) -> Array:
    """Codes of the rows, each until its violation is ``enough`` or it is to be handed back."""
    kernel = _compiled()
    assert kernel is not None, "sparse_rows finds none without Numba"
    U, b = np.array(U, order="C"), np.ascontiguousarray(b)
    tau = U.dtype.type(problem.tau)
    kernel(U, b, problem.H, tau, problem.positive, enough.astype(U.dtype), int(WIDE * U.shape[1]))
    return U


@cache
def _compiled() -> Callable[..., None] | None:
    """The kernel in machine code, kept on disk from the first time on; None without Numba."""
    try:
        import numba
    except ImportError:
        return None
    options: dict[str, Any] = {  # sums may be made in any order
        "nogil": True,
        "fastmath": {"reassoc", "contract", "nsz"},
    }
    kernel: Callable[..., None]
    try:
        kernel = numba.njit(cache=True, **options)(_descend_rows)
    except RuntimeError:  # no folder to keep it in can be written: compiled anew in each process
        kernel = numba.njit(**options)(_descend_rows)
    return kernel


def _descend_rows(
    U: Any, b: Any, H: Any, tau: Any, positive: bool, enough: Any, widest: int
) -> None:
    """min_u ½ u H uᵀ − b uᵀ + τ‖u‖₁, row by row and in place.

    In rounds: the units to work on are those in use and those that violate their optimality
    condition nearly as much as the worst; their codes by passes of soft thresholds,
    with their part of the gradient g = u H − b at hand; then the whole gradient is brought up
    to date.
    """
    n, m = U.shape
    zero = tau * 0
    g, units = np.empty(m, U.dtype), np.empty(m, np.int64)
    code, start, slope = np.empty(m, U.dtype), np.empty(m, U.dtype), np.empty(m, U.dtype)
    curvature = np.empty((m, m), U.dtype)
    for i in range(n):
        u = U[i]
        for j in range(m):
            g[j] = -b[i, j]
        for j in range(m):
            if u[j] != 0:
                value, row = u[j], H[j]
                for t in range(m):
                    g[t] += value * row[t]
        for _ in range(MOST_ROUNDS):
            in_use, wanted = zero, zero  # the worst violations
            for j in range(m):
                if u[j] > 0:
                    in_use = max(in_use, abs(g[j] + tau))
                elif u[j] < 0:
                    in_use = max(in_use, abs(g[j] - tau))
                else:
                    wanted = max(wanted, (-g[j] if positive else abs(g[j])) - tau)
            worst = max(in_use, wanted)
            if worst <= enough[i]:
                break
            k, least = 0, max(enough[i], EAGER * wanted)
            for j in range(m):
                if u[j] != 0 or (-g[j] if positive else abs(g[j])) - tau >= least:
                    units[k] = j
                    k += 1
            if k > widest:
                break
            for s in range(k):
                j = units[s]
                code[s], start[s], slope[s] = u[j], u[j], g[j]
                row, among = H[j], curvature[s]
                for t in range(k):
                    among[t] = row[units[t]]
            for _ in range(MOST_SWEEPS):
                moved = zero
                for s in range(k):
                    h = curvature[s, s]
                    if h <= 0:
                        continue
                    z = h * code[s] - slope[s]
                    new = zero
                    if z > tau:
                        new = (z - tau) / h
                    elif z < -tau and not positive:
                        new = (z + tau) / h
                    step = new - code[s]
                    if step != 0:
                        moved = max(moved, abs(step) * h)
                        code[s] = new
                        among = curvature[s]
                        for t in range(k):
                            slope[t] += step * among[t]
                if moved <= max(enough[i] / 2, worst / 5):
                    break
            for s in range(k):
                step = code[s] - start[s]
                if step != 0:
                    u[units[s]] = code[s]
                    row = H[units[s]]
                    for t in range(m):
                        g[t] += step * row[t]
