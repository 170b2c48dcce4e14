"""Greedy codes with a given number of non-zeros, on the Gram matrix, compiled by Numba.

The atoms of a row are chosen one after the other, and the codes of the chosen atoms are those of
least squares. With r the residual, the next atom is the one

- with the largest correlation |D[j] r| / ‖D[j]‖: orthogonal matching pursuit, computed as in
  Batch-OMP (Rubinstein, Zibulevsky and Elad 2008); or
- after which the residual is shortest: orthogonal least squares (Chen, Billings and Luo 1989).

With unit atoms, H = D Dᵀ and a = D r, let e_1, e_2, … be the chosen atoms made orthonormal,
q_i = D e_i, and s[j] = 1 − Σ q_i[j]² the squared length of the part of atom j that is orthogonal
to them. Orthogonal least squares chooses the largest a[j]²/s[j]. When atom j is chosen,

    w_i = q_i[j],   q = (H[j] − Σ w_i q_i) / √s[j],   c = a[j] / √s[j],
    a ← a − c q,    s ← s − q²,   ‖r‖² ← ‖r‖² − c²,

which takes k·m multiplications for the k-th atom. The vectors w and √s[j] are the rows of the
Cholesky factor L of the chosen part of H, so that the codes are the solution of u L = c at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from lincode.core.arrays import Array, Rows, row_squares
from lincode.core.compiler import compiled, inlined

MIN_PIVOT_EPS = 100
"""An atom depends on the chosen ones if s[j] is below this many machine epsilons, divided by the
smallest s of the chosen atoms, because rounding errors grow with the condition number."""
MIN_CORRELATION_EPS = 64
"""The residual is orthogonal to all atoms if its largest correlation is below this many machine
epsilons of the length of the row, divided by the root of the same number."""
MAX_HALF_PRODUCT = 8
"""The whole Gram matrix is computed if there are at least so many times as many atoms as features.
"""


@dataclass(frozen=True)
class MatchingProblem:
    """A dictionary for greedy codes, scaled to atoms of length 1."""

    H: Array
    """The Gram matrix of the scaled atoms, shape (m, m)"""
    inverse_lengths: Array
    """1/‖D[j]‖, and 0 for atoms of length 0, shape (m,)"""

    @classmethod
    def of(cls, D: Array, gram: Array | None = None) -> MatchingProblem:
        """Return the problem for the atoms D, with their dtype. ``gram`` is D Dᵀ if it is known."""
        m, p = D.shape
        squares = row_squares(D) if gram is None else np.maximum(gram.diagonal(), 0)
        lengths = np.sqrt(squares).astype(D.dtype)
        inverse = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        if gram is None:
            atoms = D * inverse[:, None]
            # NumPy computes one half of the product of a matrix with its own transpose. Copying it
            # to the other half takes longer than the product if there are few features.
            return cls(atoms @ (atoms.T if m < MAX_HALF_PRODUCT * p else atoms.copy().T), inverse)
        H = np.multiply(gram, inverse, order="C")
        H *= inverse[:, None]  # in two steps, because the product of two lengths might overflow
        return cls(H, inverse)

    def write_codes(
        self,
        U: Array,
        b: Array,
        squares: Array,
        *,
        n_nonzero: int,
        tol: float,
        least_squares: bool = False,
    ) -> None:
        """Write codes with at most ``n_nonzero`` non-zeros to U, for b = X Dᵀ and ‖x‖² of each row.

        A row is finished when its squared residual is at most ``tol``. With ``least_squares``,
        atoms are chosen by orthogonal least squares.
        """
        m = len(self.H)
        U[...] = 0
        if not U.size:
            return
        eps = float(np.finfo(b.dtype).eps)
        limits = float(tol), MIN_PIVOT_EPS * eps, MIN_CORRELATION_EPS * eps
        score = np.empty(m, dtype=b.dtype)
        bits = score.view(np.int32 if b.dtype == np.float32 else np.int64)
        _choose_atoms(
            U,
            np.ascontiguousarray(b),
            squares.astype(np.float64, copy=False),
            self.H,
            self.inverse_lengths,
            min(n_nonzero, m),
            limits,
            least_squares,
            score,
            bits,
        )


def squared_lengths(X: Rows) -> Array:
    """Return ‖x‖² of each row in float64, without a copy of dense rows."""
    if scipy.sparse.issparse(X):
        return row_squares(X)
    squares = np.empty(len(X))
    _add_squares(np.asarray(X), squares)
    return squares


@compiled
def _add_squares(X: Any, squares: Any) -> None:
    n, p = X.shape
    for i in range(n):
        row, total = X[i], 0.0
        for j in range(p):
            value = np.float64(row[j])  # float() of Numba does not convert float32
            total += value * value
        squares[i] = total


@compiled
def _choose_atoms(
    U: Any,
    b: Any,
    squares: Any,
    H: Any,
    inverse_lengths: Any,
    n_nonzero: int,
    limits: Any,
    least_squares: bool,
    score: Any,
    bits: Any,
) -> None:
    """Write the codes to U. ``bits`` is the memory of ``score`` as integers."""
    tol, min_pivot, min_correlation = limits
    n, m = b.shape
    a, s, q = np.empty(m, H.dtype), np.empty(m, H.dtype), np.empty(m, H.dtype)
    Q = np.empty((n_nonzero, m), H.dtype)
    L, G = np.empty((n_nonzero, n_nonzero)), np.empty((n_nonzero, n_nonzero))
    units, products = np.empty(n_nonzero, np.int64), np.empty(n_nonzero)
    c, code = np.empty(n_nonzero), np.empty(n_nonzero)
    for i in range(n):
        for j in range(m):
            a[j] = b[i, j] * inverse_lengths[j]
            s[j] = 1
            score[j] = abs(a[j])
        square, k = squares[i], 0
        norm = np.sqrt(square)
        smallest, limit, weakest = min_correlation * norm, min_pivot, 1.0
        best = _first_of_largest(bits)
        while k < n_nonzero and square > tol and abs(a[best]) > smallest:
            pivot = float(H[best, best])
            for r in range(k):
                L[k, r], G[k, r] = Q[r, best], H[best, units[r]]
                pivot -= L[k, r] ** 2
            if not pivot > limit:
                break
            weakest = min(weakest, pivot)
            limit = min_pivot / weakest
            smallest = min_correlation * norm / np.sqrt(weakest)
            L[k, k] = np.sqrt(pivot)
            c[k] = a[best] / L[k, k]
            square -= c[k] ** 2
            units[k], G[k, k], products[k] = best, H[best, best], b[i, best] * inverse_lengths[best]
            k += 1
            if k < n_nonzero and square > tol:
                _orthogonalise(H, Q, L, k - 1, best, q)
                step, least = H.dtype.type(c[k - 1]), H.dtype.type(limit)
                _update(q, Q, k - 1, step, a, s, least_squares, least, score)
                best = _first_of_largest(bits)
        _solve(G, products, L, k, c, code)
        for r in range(k):
            U[i, units[r]] = code[r] * inverse_lengths[units[r]]


@inlined
def _first_of_largest(bits: Any) -> int:
    """Return the first index of the largest of non-negative numbers, from their bits.

    The order of the numbers is that of their bits, and the compiler vectorises the maximum of
    integers but not that of floats.
    """
    m, largest = np.int32(len(bits)), bits.dtype.type(0)
    for j in range(m):
        largest = max(largest, bits[j])
    first = m
    for j in range(m):
        first = min(first, np.int32(j) if bits[j] == largest else m)
    return int(first) if first < m else 0


@inlined
def _orthogonalise(H: Any, Q: Any, L: Any, k: int, unit: int, q: Any) -> None:
    """Compute q = (H[unit] − Σ_{r < k} L[k, r] Q[r]) / L[k, k], four rows at a time."""
    m, dtype = len(q), H.dtype.type
    scale = dtype(1 / L[k, k])
    for j in range(m):
        q[j] = scale * H[unit, j]
    r = 0
    while r + 4 <= k:
        w0, w1 = scale * dtype(L[k, r]), scale * dtype(L[k, r + 1])
        w2, w3 = scale * dtype(L[k, r + 2]), scale * dtype(L[k, r + 3])
        for j in range(m):
            q[j] -= (w0 * Q[r, j] + w1 * Q[r + 1, j]) + (w2 * Q[r + 2, j] + w3 * Q[r + 3, j])
        r += 4
    while r < k:
        w0 = scale * dtype(L[k, r])
        for j in range(m):
            q[j] -= w0 * Q[r, j]
        r += 1


@inlined
def _update(
    q: Any, Q: Any, k: int, c: Any, a: Any, s: Any, least_squares: bool, least: Any, score: Any
) -> None:
    """Store q as Q[k], and update a, s and the scores by which atoms are chosen."""
    if least_squares:
        for j in range(len(q)):
            Q[k, j] = q[j]
            a[j] -= c * q[j]
            s[j] -= q[j] * q[j]
            # abs(c) * 0 is +0.0. The bits of −0.0 are those of a negative number.
            score[j] = a[j] * a[j] / s[j] if s[j] > least else abs(c) * 0
    else:
        for j in range(len(q)):
            Q[k, j] = q[j]
            a[j] -= c * q[j]
            score[j] = abs(a[j])


@inlined
def _solve(G: Any, products: Any, L: Any, k: int, c: Any, code: Any) -> None:
    """Compute the codes from u L = c, with one step of iterative refinement."""
    for r in range(k):
        code[r] = c[r]
    _solve_upper(L, k, code)
    for r in range(k):
        c[r] = products[r]
    for r in range(k):
        total = c[r]
        for q in range(r):
            total -= G[r, q] * code[q]
            c[q] -= G[r, q] * code[r]
        c[r] = total - G[r, r] * code[r]
    for r in range(k):
        total = c[r]
        for q in range(r):
            total -= L[r, q] * c[q]
        c[r] = total / L[r, r]
    _solve_upper(L, k, c)
    for r in range(k):
        code[r] += c[r]


@inlined
def _solve_upper(L: Any, k: int, c: Any) -> None:
    """Replace c by the solution u of u L = c."""
    for r in range(k - 1, -1, -1):
        c[r] /= L[r, r]
        for q in range(r):
            c[q] -= L[r, q] * c[r]


@dataclass(frozen=True)
class GreedyCoder:
    """Orthogonal matching pursuit, or orthogonal least squares."""

    problem: MatchingProblem
    D: Array
    n_nonzero: int
    tol: float
    """Rows are finished when their squared residual is at most this"""
    least_squares: bool

    @property
    def n_units(self) -> int:
        return len(self.D)

    def write(self, U: Array, X: Rows, b: Array | None = None, start: Array | None = None) -> int:
        """Choose the atoms of the rows. The start is not used."""
        self.problem.write_codes(
            U,
            np.asarray(X @ self.D.T) if b is None else b,
            squared_lengths(X),
            n_nonzero=self.n_nonzero,
            tol=self.tol,
            least_squares=self.least_squares,
        )
        return 0
