"""The C step for wide data, by products with X instead of a factorisation of XtX.

A factorisation needs a matrix of the size of the smaller dimension of X. If both dimensions are in
the tens of thousands, C (XtX + ρ I) = UtX is solved by conjugate gradients instead. One step costs
one product with X and one with Xᵀ, and the iterations start from the present encoder, so a few
steps per iteration of training are enough. The preconditioner is the diagonal of XtX + ρ I. Without
a ridge there is none, because the iterates then remain in the row space of X and converge to the
minimum-norm solution. What the choice of the ridge needs is estimated from random vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from lincode.core.arrays import Array, Rows, column_squares
from lincode.core.ridge import MAX_RIDGE, EncoderFactor, conjugate_gradient, row_products

UNITS_PER_BLOCK = 64
"""The number of units that are solved together. It limits the memory and does not affect the
result."""
ROWS_PER_BLOCK, DENSE_ENTRIES = 65_536, 4_000_000
"""The number of sparse rows of a product at a time, but at least the number of features, because
the sum over blocks costs as much as that many rows; and the number of entries of dense rows."""
MAX_STEPS = 200
"""The largest number of conjugate gradient steps in one C step."""
MIN_TOL = 1e-12
"""Residuals are not reduced below this, because of rounding."""
NO_RIDGE_TOL = 0.01
"""The tolerance is multiplied by this if there is no ridge. The error of the objective is the
square of the residual divided by eigenvalues of XtX + ρ I, which may then be very small."""
N_PROBES, PROBE_TOL = 16, 1e-3
"""The number of random vectors from which sums are estimated, and the relative residual to which
the equations are solved for them."""

MapBlocks = Callable[[Callable[[slice], Any], Iterable[slice]], Iterable[Any]]


@dataclass(frozen=True)
class IterativeFactor(EncoderFactor):
    """XtX + ρ I as products with X. The equations of the C step are solved iteratively."""

    gram_product: Callable[[Array, bool], Array]
    """Computes XtX V, as the function below; the rows may be anywhere"""
    product_square: Callable[[Array], float]
    """Computes ‖X V‖²"""
    dtype: np.dtype[np.floating]
    """The dtype of X"""
    trace: float
    column_norms: Array
    rank: int
    """The number of rows or of columns that are not zero, whichever is smaller"""
    ridge: float = 0.0
    map_blocks: MapBlocks = map
    """Applies a function to blocks of units, in order; it may use threads"""
    left_out: Rows | None = None
    """Rows of X that are not in XtX"""

    @classmethod
    def of(cls, X: Rows, map_blocks: MapBlocks = map) -> IterativeFactor:
        """Return the factor of the rows X."""
        products = partial(gram_product, X), partial(product_square, X)
        return cls.of_products(*products, X.dtype, column_sums(X), map_blocks)

    @classmethod
    def of_products(
        cls,
        gram_product: Callable[[Array, bool], Array],
        product_square: Callable[[Array], float],
        dtype: np.dtype[np.floating],
        sums: Array,
        map_blocks: MapBlocks = map,
    ) -> IterativeFactor:
        """Return the factor of rows of which only products and ``column_sums`` are known."""
        squares, n_rows = sums[:-1], int(sums[-1])
        return cls(
            gram_product=gram_product,
            product_square=product_square,
            dtype=dtype,
            trace=float(squares.sum()),
            column_norms=np.sqrt(squares),
            rank=min(n_rows, int(np.count_nonzero(squares))),
            map_blocks=map_blocks,
        )

    @property
    def mean_eigenvalue(self) -> float:
        return self.trace / self.rank if self.trace > 0 else 1.0

    def with_ridge(self, ratio: float) -> IterativeFactor:
        return replace(self, ridge=min(ratio * self.mean_eigenvalue, MAX_RIDGE))

    def without(self, X: Rows) -> IterativeFactor:
        """Return the factor of all rows but X, with the same ridge."""
        squares = np.maximum(self.column_norms**2 - column_squares(X), 0)
        return replace(self, left_out=X, trace=float(squares.sum()), column_norms=np.sqrt(squares))

    def product(self, C: Array) -> Array:
        return self._map(lambda units: self._times(_columns(C, units), exact=True), C.shape)

    def quadratic(self, C: Array) -> float:
        """Compute ‖X Cᵀ‖² + ρ‖C‖² for any C."""
        if not C.any():
            return 0.0
        units = _unit_blocks(len(C))
        assert self.left_out is None
        squares = self.map_blocks(lambda units: self.product_square(_columns(C, units)), units)
        return float(sum(squares) + self.ridge * np.vdot(C, C))

    def project(self, C: Array) -> Array:
        """Return C if there is a ridge; the C step then removes what is not in the row space."""
        if self.ridge > 0 or not C.any():
            return C
        return self.solve(self.product(C), None, MIN_TOL)

    def solve(self, UtX: Array, start: Array | None, tol: float) -> Array:
        return self._map(
            lambda units: self._solve(
                _columns(UtX, units), None if start is None else _columns(start, units), tol
            ),
            UtX.shape,
        )

    def squared_error(self, UtU: Array, UtX: Array, ridge: float) -> float:
        m = len(UtX)
        G = np.eye(m)
        if m > N_PROBES:
            G = _signs(np.random.RandomState(1), (m, N_PROBES)) / N_PROBES**0.5
        B = G.T @ UtX
        C = replace(self, ridge=ridge).solve(B, None, PROBE_TOL)
        explained = 2 * float(np.vdot(B, C)) - replace(self, ridge=0.0).quadratic(C)
        return max(float(np.vdot(G, UtU @ G)) - explained, 0.0)

    def n_parameters(self, ridge: float) -> float:
        # With random signs G, E⟨G, M G⟩ = tr M for M = (XtX + ρ I)⁻¹ XtX.
        G = _signs(np.random.RandomState(0), (len(self.column_norms), N_PROBES))
        B = replace(self, ridge=0.0).product(G.T)
        C = replace(self, ridge=ridge).solve(B, None, PROBE_TOL)
        return float(np.vdot(G.T, C) / N_PROBES)

    def _map(self, function: Callable[[slice], Array], shape: tuple[int, ...]) -> Array:
        """Apply a function to blocks of units. It returns the units as columns."""
        out, units = np.empty(shape), _unit_blocks(shape[0])
        for rows, block in zip(units, self.map_blocks(function, units), strict=True):
            out[rows] = block.T
        return out

    def _times(self, V: Array, *, exact: bool = False) -> Array:
        """Compute (XtX + ρ I) V for V of shape (p, k)."""
        out = self.gram_product(V, exact) + self.ridge * V
        return out if self.left_out is None else out - gram_product(self.left_out, V, exact)

    def _solve(self, B: Array, start: Array | None, tol: float) -> Array:
        """Solve for the columns of B, from a start that is overwritten.

        A column is finished when its residual is at most ``tol`` times B, in the norm of the
        inverse of the preconditioner. UtX is only as precise as the rows, so a residual below
        their precision has no meaning.
        """
        tol = tol if self.ridge > 0 else NO_RIDGE_TOL * tol
        tol = max(tol, MIN_TOL, 10 * float(np.finfo(self.dtype).eps))
        scale = 1 / (self.column_norms**2 + self.ridge) if self.ridge > 0 else np.ones(len(B))
        V = np.zeros_like(B) if start is None else start
        R = B - self._times(V) if V.any() else B.copy()
        conjugate_gradient(
            lambda P: self._times(P.T).T,
            V.T,
            R.T,
            n_steps=MAX_STEPS,
            precondition=lambda R: R * scale,
            target=tol**2 * row_products(B.T, B.T * scale),
        )
        return V


def gram_product(X: Rows, V: Array, exact: bool = False) -> Array:
    """Compute XtX V for V of shape (p, k).

    Rows are multiplied in their own dtype, or in float64 if ``exact``. The sum over blocks is in
    float64.
    """
    out = np.zeros_like(V)
    for block in _row_blocks(X, exact=exact):
        out += block.T @ (block @ V.astype(block.dtype, copy=False))
    return out


def product_square(X: Rows, V: Array) -> float:
    """Compute ‖X V‖²."""
    products = (block @ V.astype(block.dtype, copy=False) for block in _row_blocks(X))
    return sum(float(np.sum(np.square(Y, dtype=np.float64))) for Y in products)


def column_sums(X: Rows) -> Array:
    """Return ‖X[:, k]‖² of each column, followed by the number of rows that are not empty."""
    n = np.count_nonzero(np.diff(X.indptr)) if scipy.sparse.issparse(X) else X.shape[0]
    return np.append(column_squares(X), n)


def _row_blocks(X: Rows, *, exact: bool = False) -> Iterator[Any]:
    """Yield blocks of rows, in float64 if ``exact``."""
    N, p = X.shape
    size = max(ROWS_PER_BLOCK, p) if scipy.sparse.issparse(X) else max(1, DENSE_ENTRIES // p)
    for start in range(0, N, size):
        # A CSR matrix is not copied if it is a single block.
        block = X if size >= N else X[start : start + size]
        yield block.astype(np.float64, copy=False) if exact else block


def _unit_blocks(m: int) -> list[slice]:
    return [slice(j, min(j + UNITS_PER_BLOCK, m)) for j in range(0, m, UNITS_PER_BLOCK)]


def _columns(C: Array, units: slice) -> Array:
    """Return some rows of C as the columns of a new array, in float64 and C-contiguous."""
    return np.array(C[units].T, dtype=np.float64, order="C")


def _signs(rng: np.random.RandomState, shape: tuple[int, int]) -> Array:
    return rng.choice([-1.0, 1.0], shape)
