"""Least-squares codes on a given support, compiled by Numba.

The code v of a row x on the support S minimises ‖x − v D[S]‖². It solves v G = b with the Gram
matrix G = D[S] D[S]ᵀ = L Lᵀ and b = x D[S]ᵀ, in two steps: y Lᵀ = b and v L = y.

The systems of several rows, called lanes, are solved together. The same entry of all of them is
stored in consecutive memory, so that each step is a vector instruction. Rows with supports of
similar size form a group, and the smaller ones are extended by zeros. b is stored below G, where
the loop that factors G turns it into y.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from lincode.core.arrays import Array, Rows
from lincode.core.compiler import compiled, inlined
from lincode.core.threshold import compress_rows

MIN_PIVOT_EPS = 100
"""An atom depends on others if the square of its orthogonal part is below this many machine
epsilons of its square."""
MAX_UNITS = 512
"""Rows with larger supports are solved by LAPACK, one by one. This limits the memory of the lanes.
"""
N_LANES = 16
# Unsigned constants keep indices unsigned. Numba tests whether other indices are negative.
ONE, LANES, LANES2, LANES3, LANES4 = (np.uint64(n) for n in (1, 16, 32, 48, 64))


def project_codes(U: Array, X: Rows, D: Array, gram: Array, *, positive: bool) -> None:
    """Replace the codes U by those of least squares on their support, for gram = D Dᵀ.

    Atoms that depend on others of the support get the code 0. With ``positive``, the unit with the
    lowest code leaves the support until no code is negative. All arrays have the same dtype, which
    is also that of the calculation.
    """
    counts, columns, _ = compress_rows(U, split=False)
    starts, b = np.cumsum(counts) - counts, np.empty(len(columns), U.dtype)
    if scipy.sparse.issparse(X):
        _sparse_products(X.data, X.indices, X.indptr, np.ascontiguousarray(D), counts, columns, b)
    else:
        _products(np.ascontiguousarray(X), np.ascontiguousarray(D), counts, columns, b)
    min_pivot = gram.dtype.type(MIN_PIVOT_EPS * np.finfo(gram.dtype).eps)
    for i in np.flatnonzero(counts > MAX_UNITS):
        support = slice(starts[i], starts[i] + counts[i])
        _project_large(U[i], gram, b[support], columns[support], min_pivot, positive)
    rows = np.flatnonzero((counts > 0) & (counts <= MAX_UNITS))
    size = int(counts[rows].max(initial=0)) + 4  # sums run up to the next multiple of four
    L = np.zeros((size, size * N_LANES), U.dtype)
    work, supports = np.empty((2, N_LANES), U.dtype), (counts, starts, columns)
    while len(rows):
        rows = rows[np.argsort(counts[rows], kind="stable")]
        rows = rows[_project_groups(U, gram, b, supports, rows, L, work, min_pivot, positive)]


def _project_large(
    u: Array, gram: Array, b: Array, units: Any, min_pivot: Any, positive: bool
) -> None:
    """Write the code of one row by a Cholesky factorization with pivoting."""
    (factor,) = scipy.linalg.get_lapack_funcs(("pstrf",), (gram,))
    u[units] = 0
    while len(units):
        lengths = np.sqrt(gram[units, units])
        scales = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        G = gram[np.ix_(units, units)] * scales * scales[:, None]
        R, pivots, rank, _ = factor(G, tol=min_pivot)
        chosen = pivots[:rank] - 1
        code = scipy.linalg.cho_solve((R[:rank, :rank], False), (b * scales)[chosen])
        code *= scales[chosen]
        if not (positive and code.min(initial=0) < 0):
            u[units[chosen]] = code
            return
        kept = np.delete(chosen, np.argmin(code))
        units, b = units[kept], b[kept]


@compiled
def _products(X: Any, D: Any, counts: Any, columns: Any, b: Any) -> None:
    """Compute b for the supports of all rows, four atoms at a time."""
    n, p = X.shape
    zero, r = b.dtype.type(0), 0
    for i in range(n):
        x, end = X[i], r + counts[i]
        while r + 4 <= end:
            d0, d1 = D[columns[r]], D[columns[r + 1]]
            d2, d3 = D[columns[r + 2]], D[columns[r + 3]]
            b0, b1, b2, b3 = zero, zero, zero, zero
            for j in range(p):
                b0 += x[j] * d0[j]
                b1 += x[j] * d1[j]
                b2 += x[j] * d2[j]
                b3 += x[j] * d3[j]
            b[r], b[r + 1], b[r + 2], b[r + 3] = b0, b1, b2, b3
            r += 4
        while r < end:
            d0, b0 = D[columns[r]], zero
            for j in range(p):
                b0 += x[j] * d0[j]
            b[r] = b0
            r += 1


@compiled
def _sparse_products(
    data: Any, indices: Any, indptr: Any, D: Any, counts: Any, columns: Any, b: Any
) -> None:
    """Compute b for the supports of all rows of a CSR matrix."""
    r = 0
    for i in range(len(counts)):
        for _ in range(counts[i]):
            d, total = D[columns[r]], b.dtype.type(0)
            for s in range(indptr[i], indptr[i + 1]):
                total += data[s] * d[indices[s]]
            b[r] = total
            r += 1


@compiled
def _project_groups(
    U: Any,
    gram: Any,
    b: Any,
    supports: Any,
    rows: Any,
    L: Any,
    work: Any,
    min_pivot: Any,
    positive: bool,
) -> Any:
    """Write the codes of some rows. Return which of them lost a unit with a negative code."""
    counts, starts, columns = supports
    size = L.shape[0]
    L, stride = L.ravel(), np.uint64(size) * LANES
    units, inverse = np.empty(size, np.uint64), np.empty(stride, L.dtype)
    again = np.zeros(len(rows), np.bool_)
    for first in range(0, len(rows), N_LANES):
        group = rows[first : first + N_LANES]
        k = np.uint64(counts[group[-1]])
        for lane in range(N_LANES):
            i = group[min(lane, len(group) - 1)]  # lanes without a row repeat the last one
            start, end = starts[i], starts[i] + counts[i]
            _fill_lane(L, stride, lane, k, gram, b[start:end], columns[start:end], units)
        _factor(L, stride, k, min_pivot, inverse, work)
        _solve(L, stride, k, inverse)
        for lane in range(len(group)):
            i, codes = group[lane], L[k * stride + np.uint64(lane) :: LANES]
            start, end, lowest = starts[i], starts[i] + counts[i], 0
            for r in range(end - start):
                U[i, columns[start + r]] = codes[r]
                lowest = r if codes[r] < codes[lowest] else lowest
            if positive and codes[lowest] < 0:
                again[first + lane] = True
                counts[i] -= 1
                U[i, columns[start + lowest]] = 0
                for r in range(start + lowest, end - 1):
                    columns[r], b[r] = columns[r + 1], b[r + 1]
    return again


@inlined
def _fill_lane(
    L: Any, stride: Any, lane: Any, k: Any, gram: Any, b: Any, support: Any, units: Any
) -> None:
    """Write the lower half of the Gram matrix of the support to one lane, and b below it."""
    n, lane = np.uint64(len(support)), np.uint64(lane)
    last = k * stride + lane
    for r in range(n):
        units[r] = support[r]
        L[last + r * LANES] = b[r]
    for r in range(n):
        row, entry = gram[units[r]], r * stride + lane
        for s in range(r + ONE):
            L[entry + s * LANES] = row[units[s]]
    for r in range(n, k):
        L[last + r * LANES] = 0
        for s in range(r + ONE):
            L[r * stride + lane + s * LANES] = 0


@inlined
def _factor(L: Any, stride: Any, k: Any, min_pivot: Any, inverse: Any, work: Any) -> None:
    """Replace the Gram matrices by their Cholesky factors, and b by y.

    The diagonal becomes 0; its inverse is stored separately, and is 0 for dependent atoms. As the
    entries (j, s) with s ≥ j are 0, sums over s < j may run up to the next multiple of four.
    """
    zero, one = L.dtype.type(0), L.dtype.type(1)
    total, smallest = work[0], work[1]
    n_lanes = np.uint64(len(total))  # LANES; short loops up to a constant are not vectorised
    for i in range(k + ONE):
        for j in range(min(i + ONE, k)):
            entry, a, b, diagonal = i * stride + j * LANES, i * stride, j * stride, j * LANES
            end = b + diagonal
            for q in range(LANES):
                total[q] = L[entry + q]
            if i == j:
                for q in range(LANES):
                    smallest[q] = min_pivot * L[entry + q]
                    L[entry + q] = zero
            while b < end:
                for q in range(LANES):
                    total[q] -= (L[a + q] * L[b + q] + L[a + LANES + q] * L[b + LANES + q]) + (
                        L[a + LANES2 + q] * L[b + LANES2 + q]
                        + L[a + LANES3 + q] * L[b + LANES3 + q]
                    )
                a, b = a + LANES4, b + LANES4
            if j < i:
                for q in range(n_lanes):
                    L[entry + q] = total[q] * inverse[diagonal + q]
            else:
                for q in range(n_lanes):
                    value = one / np.sqrt(total[q])
                    inverse[diagonal + q] = value if total[q] > smallest[q] else zero


@inlined
def _solve(L: Any, stride: Any, k: Any, inverse: Any) -> None:
    """Replace y by the codes v, the solutions of v L = y."""
    y, r = k * stride, k
    while r > 0:
        r -= ONE
        code, row = y + r * LANES, r * stride
        for q in range(LANES):
            L[code + q] *= inverse[r * LANES + q]
        for s in range(r):
            a, b = y + s * LANES, row + s * LANES
            for q in range(LANES):
                L[a + q] -= L[b + q] * L[code + q]
