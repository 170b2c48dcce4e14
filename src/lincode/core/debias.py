"""Least squares on the support of codes, compiled by Numba.

The ℓ1 penalty makes codes smaller than those of least squares. Debiased codes have the same support
and minimise ½ u H uᵀ − b uᵀ on it. This module imports Numba, so it is imported only when it is
needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lincode.core.compiler import compiled, inlined
from lincode.core.types import Array

MIN_PIVOT_EPS = 100
"""An atom depends on others if its pivot is below this many machine epsilons of its square."""


def debias(U: Array, b: Array, H: Array, *, positive: bool) -> Array:
    """Return least-squares codes on the support of U.

    Atoms that depend on others of the support get the code 0. With ``positive``, the unit with
    the lowest code leaves the support until no code is negative.

    Parameters
    ----------
    U : array of shape (n, m)
        Codes.
    b : array of shape (n, m)
        The products X Dᵀ.
    H : array of shape (m, m)
        The products D Dᵀ.
    positive : bool
        Whether the codes must be at least 0.

    Returns
    -------
    array of shape (n, m)
    """
    V = np.zeros(U.shape, dtype=U.dtype)
    largest = int(np.count_nonzero(U, axis=1).max(initial=0))
    min_pivot = MIN_PIVOT_EPS * float(np.finfo(H.dtype).eps)
    _debias(np.ascontiguousarray(U), np.ascontiguousarray(b), H, V, largest, min_pivot, positive)
    return V


@compiled
def _debias(U: Any, b: Any, H: Any, V: Any, largest: int, min_pivot: float, positive: bool) -> None:
    """Write the codes to V."""
    units = np.empty(largest, np.int64)
    L, code = np.empty((largest, largest)), np.empty(largest)
    for i in range(U.shape[0]):
        n = 0
        for j in range(U.shape[1]):
            if U[i, j] != 0:
                units[n] = j
                n += 1
        while True:
            n = _factor(H, units, n, L, min_pivot)
            _solve(L, n, b, i, units, code)
            lowest = 0
            for r in range(n):
                if code[r] < code[lowest]:
                    lowest = r
            if not positive or n == 0 or code[lowest] >= 0:
                break
            n -= 1
            for r in range(lowest, n):
                units[r] = units[r + 1]
        for r in range(n):
            V[i, units[r]] = code[r]


@inlined
def _factor(H: Any, units: Any, n: int, L: Any, min_pivot: float) -> int:
    """Compute the Cholesky factor of H on the units, without dependent ones; return how many."""
    k = 0
    for q in range(n):
        unit = units[q]
        pivot = float(H[unit, unit])
        for r in range(k):
            total = float(H[unit, units[r]])
            for s in range(r):
                total -= L[k, s] * L[r, s]
            L[k, r] = total / L[r, r]
            pivot -= L[k, r] ** 2
        if pivot > min_pivot * H[unit, unit]:
            L[k, k] = np.sqrt(pivot)
            units[k] = unit
            k += 1
    return k


@inlined
def _solve(L: Any, k: int, b: Any, i: int, units: Any, code: Any) -> None:
    """Solve L Lᵀ code = b[i, units]."""
    for r in range(k):
        total = float(b[i, units[r]])
        for s in range(r):
            total -= L[r, s] * code[s]
        code[r] = total / L[r, r]
    for r in range(k - 1, -1, -1):
        code[r] /= L[r, r]
        for s in range(r):
            code[s] -= L[r, s] * code[r]
