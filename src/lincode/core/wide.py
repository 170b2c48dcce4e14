"""The C step for wide data, by products with X instead of a factorisation of XtX.

A factorisation needs a matrix of the size of the smaller dimension of X. If both dimensions are in
the tens of thousands, C (XtX + ρ I) = UtX is solved by conjugate gradients instead. One step costs
one product with X and one with Xᵀ, and the iterations start from the present encoder, so a few
steps per iteration of training are enough. Each unit has its own step lengths, so its objective
never increases. The preconditioner is the diagonal of XtX + ρ I. Without a ridge there is none,
because the iterates then remain in the row space of X and converge to the minimum-norm solution.

Traces of functions of XtX, from which the ridge is chosen, are estimated by Gauss quadrature: the
Lanczos method gives nodes and weights for a few random vectors (Golub and Meurant 2010).

XtX of a stream of wide batches, in memory proportional to p.

The weighted sum of XᵀX over all batches is (p, p), which is too large if p is in the tens of
thousands. It is replaced by

    XtX ≈ BᵀB + diag(rest),

where B (r, p) has the r leading directions, and ``rest`` makes the diagonal, and so the trace,
exact. The directions that B leaves out are therefore treated as uncorrelated features. While a
batch is learned, its own rows are in the sum as they are. Afterwards B is computed again from the
old B and the rows of the batch, by a randomised singular value decomposition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.linalg import eigh, eigh_tridiagonal

from lincode.core.ridge import MAX_RIDGE, EncoderFactor
from lincode.core.types import Array, Rows, column_squares

UNITS_PER_BLOCK = 64
"""The number of units that are solved together. It limits the memory and does not affect the
result."""
ROWS_PER_BLOCK = 65_536
"""The number of rows of a product at a time; at least the number of features, because the sum over
blocks costs as much as that many rows."""
DENSE_ENTRIES = 4_000_000
"""The number of entries of dense rows of a product at a time."""
MAX_STEPS = 200
"""The largest number of conjugate gradient steps in one C step."""
MIN_TOL = 1e-12
"""Residuals are not reduced below this, because of rounding."""
NO_RIDGE_TOL = 0.01
"""The tolerance is multiplied by this if there is no ridge. The error of the objective is the
square of the residual divided by eigenvalues of XtX + ρ I, which may then be very small."""
N_PROBES, LANCZOS_STEPS = 16, 40
"""The number of random vectors, and the number of Lanczos steps for each of them."""


@dataclass(frozen=True)
class GramProducts:
    """XtX as a sum of parts, of which only products with vectors are computed."""

    parts: tuple[Rows, ...]
    """Rows of X, as arrays or CSR matrices"""
    removed: tuple[Rows, ...] = ()
    """Rows that are among the parts but not in the sum"""
    diagonal: Array | None = None
    """A diagonal matrix that is added, shape (p,)"""

    def times(self, V: Array, *, exact: bool = False) -> Array:
        """Compute XtX V for a float64 array V of shape (p, k).

        Rows are multiplied in their own dtype, or in float64 if ``exact``. The sum over blocks is
        in float64.
        """
        out = np.zeros_like(V) if self.diagonal is None else self.diagonal[:, None] * V
        for X in _blocks(self.parts, exact):
            out += X.T @ (X @ V.astype(X.dtype, copy=False))
        for X in _blocks(self.removed, exact):
            out -= X.T @ (X @ V.astype(X.dtype, copy=False))
        return out

    def quadratic(self, V: Array) -> float:
        """Compute ⟨V, XtX V⟩."""

        def of(parts: tuple[Rows, ...]) -> float:
            products = (X @ V.astype(X.dtype, copy=False) for X in _blocks(parts, False))
            return sum(float(np.sum(np.square(Y, dtype=np.float64))) for Y in products)

        total = 0.0 if self.diagonal is None else float(self.diagonal @ (V * V).sum(axis=1))
        return total + of(self.parts) - of(self.removed)


def _blocks(parts: tuple[Rows, ...], exact: bool) -> Iterator[Any]:
    """Yield blocks of rows, in float64 if ``exact``."""
    for X in parts:
        N, p = X.shape
        sparse = scipy.sparse.issparse(X)
        size = max(ROWS_PER_BLOCK, p) if sparse else max(1, DENSE_ENTRIES // p)
        for start in range(0, N, size):
            # A CSR matrix is not copied if it is a single block.
            block = X if size >= N else X[start : start + size]
            yield block.astype(np.float64, copy=False) if exact else block


MapBlocks = Callable[[Callable[[slice], Any], Iterable[slice]], Iterable[Any]]


@dataclass(frozen=True)
class IterativeFactor(EncoderFactor):
    """XtX + ρ I as products with X. The equations of the C step are solved iteratively.

    ``mean_eigenvalue`` assumes that the rank of X is the smaller of the numbers of its rows and
    columns that are not zero.
    """

    gram: GramProducts
    trace: float
    column_norms: Array
    rank: int
    """An upper bound of the rank of X"""
    precision: np.dtype[np.floating]
    """The least precise dtype of any row"""
    ridge: float = 0.0
    map_blocks: MapBlocks = map
    """Applies a function to blocks of units, in order; it may use threads"""

    @classmethod
    def of(cls, X: Rows, map_blocks: MapBlocks = map) -> IterativeFactor:
        """Return the factor of the rows X."""
        squares = column_squares(X)
        n_rows = (
            int(np.count_nonzero(np.diff(X.indptr))) if scipy.sparse.issparse(X) else X.shape[0]
        )
        return cls(
            gram=GramProducts((X,)),
            trace=float(squares.sum()),
            column_norms=np.sqrt(squares),
            rank=min(n_rows, int(np.count_nonzero(squares))),
            precision=X.dtype,
            map_blocks=map_blocks,
        )

    @property
    def mean_eigenvalue(self) -> float:
        return self.trace / self.rank if self.trace > 0 else 1.0

    def with_ridge(self, ratio: float) -> IterativeFactor:
        new = replace(self, ridge=min(ratio * self.mean_eigenvalue, MAX_RIDGE))
        if "_spectrum" in vars(self):  # it does not depend on the ridge
            vars(new)["_spectrum"] = self._spectrum
        return new

    def without(self, X: Rows) -> IterativeFactor:
        """Return the factor of all rows but X, with the same ridge."""
        gram = replace(self.gram, removed=(*self.gram.removed, X))
        squares = np.maximum(self.column_norms**2 - column_squares(X), 0)
        return replace(self, gram=gram, trace=float(squares.sum()), column_norms=np.sqrt(squares))

    def product(self, C: Array) -> Array:
        out = np.empty(C.shape)
        for units, block in self._map(
            lambda units: self._times(_columns(C, units), exact=True), len(C)
        ):
            out[units] = block.T
        return out

    def quadratic(self, C: Array) -> float:
        """Compute ‖X Cᵀ‖² + ρ‖C‖² for any C."""
        if not C.any():
            return 0.0
        squares = self._map(lambda units: self.gram.quadratic(_columns(C, units)), len(C))
        return float(sum(square for _, square in squares) + self.ridge * np.vdot(C, C))

    def project(self, C: Array) -> Array:
        """Return C if there is a ridge; the C step then removes what is not in the row space."""
        if self.ridge > 0 or not C.any():
            return C
        return self.solve(self.product(C), None, MIN_TOL)

    def solve(self, UtX: Array, start: Array | None, tol: float) -> Array:
        C = np.empty(UtX.shape)

        def solve_block(units: slice) -> Array:
            b = _columns(UtX, units)
            return self._solve(
                b, np.zeros_like(b) if start is None else _columns(start, units), tol
            )

        for units, block in self._map(solve_block, len(UtX)):
            C[units] = block.T
        return C

    def spectrum(self) -> tuple[Array, Array]:
        return self._spectrum

    @cached_property
    def _spectrum(self) -> tuple[Array, Array]:
        # With random signs g, V = Xᵀ g has E[Vᵀ f(XtX) V] = tr(XtX f(XtX)).
        rng, p = np.random.RandomState(0), len(self.column_norms)
        n_probes = min(N_PROBES, p)
        if n_probes == p:  # the columns of a root of XtX give the exact sum
            nodes, roots = lanczos_quadrature(self.gram, _root(self.gram.times(np.eye(p))))
            return nodes, roots**2
        V = np.zeros((p, n_probes))
        if self.gram.diagonal is not None:
            V = np.sqrt(self.gram.diagonal)[:, None] * _signs(rng, V.shape)
        for X in _blocks(self.gram.parts, True):
            V += X.T @ _signs(rng, (X.shape[0], n_probes))
        nodes, roots = lanczos_quadrature(self.gram, V)
        return nodes, roots**2 / n_probes

    def explained_spectrum(self, UtU: Array, UtX: Array) -> tuple[float, Array, Array]:
        m = len(UtX)
        G = np.eye(m)
        if m > N_PROBES:
            G = _signs(np.random.RandomState(1), (m, N_PROBES)) / N_PROBES**0.5
        nodes, roots = lanczos_quadrature(self.gram, UtX.T @ G)
        explained = np.divide(roots, np.sqrt(nodes), out=np.zeros_like(roots), where=nodes > 0)
        return float(np.vdot(G, UtU @ G)), nodes, explained**2

    def _map(self, function: Callable[[slice], Any], m: int) -> Iterator[tuple[slice, Any]]:
        units = [slice(j, min(j + UNITS_PER_BLOCK, m)) for j in range(0, m, UNITS_PER_BLOCK)]
        yield from zip(units, self.map_blocks(function, units), strict=True)

    def _times(self, V: Array, *, exact: bool = False) -> Array:
        out = self.gram.times(V, exact=exact)
        if self.ridge > 0:
            out += self.ridge * V
        return out

    def _solve(self, b: Array, c: Array, tol: float) -> Array:
        """Do conjugate gradient steps from c, in place, for the columns of b.

        A column is finished when its residual is at most ``tol`` times b, in the norm of the
        inverse of the preconditioner. UtX is only as precise as the rows, so a residual below
        their precision has no meaning.
        """
        tol = tol if self.ridge > 0 else NO_RIDGE_TOL * tol
        tol = max(tol, MIN_TOL, 10 * float(np.finfo(self.precision).eps))
        scale = 1.0 / (self.column_norms**2 + self.ridge)[:, None] if self.ridge > 0 else 1.0
        target = tol**2 * np.einsum("ij,ij->j", b, b * scale)
        r = b - self._times(c) if c.any() else b
        d = r * scale
        norms = np.einsum("ij,ij->j", r, d)
        columns, x = np.arange(b.shape[1]), c
        for _ in range(MAX_STEPS):
            active = np.flatnonzero(norms > target)
            if len(active) <= len(columns) / 2:  # continue with these columns only
                c[:, columns], columns = x, columns[active]
                x, r, d = c[:, columns], r[:, active], d[:, active]
                norms, target = norms[active], target[active]
            if not active.size:
                break
            product = self._times(d)
            curvature = np.einsum("ij,ij->j", d, product)
            usable = (curvature > 0) & (norms > target)
            length = np.divide(norms, curvature, out=np.zeros_like(norms), where=usable)
            x += length * d
            r = r - length * product
            z = r * scale
            previous, norms = norms, np.einsum("ij,ij->j", r, z)
            d *= np.divide(norms, previous, out=np.zeros_like(norms), where=previous > 0)
            d += z
        c[:, columns] = x
        return c


def lanczos_quadrature(gram: GramProducts, V: Array) -> tuple[Array, Array]:
    """Return nodes s and roots w of weights with Σ_k V[:, k]ᵀ f(XtX) V[:, k] ≈ Σ w² f(s).

    Nodes are at least 0. The vectors are not orthogonalised again: rounding then repeats some
    nodes, which does not change the sum.
    """
    lengths = np.linalg.norm(V, axis=0)
    previous, vectors = np.zeros_like(V), V / np.where(lengths > 0, lengths, 1.0)
    n_steps = min(LANCZOS_STEPS, len(V))
    alphas, betas = np.zeros((n_steps, V.shape[1])), np.zeros((n_steps, V.shape[1]))
    beta = np.zeros(V.shape[1])
    for step in range(n_steps):
        product = gram.times(vectors) - beta * previous
        alphas[step] = np.einsum("ij,ij->j", vectors, product)
        product -= alphas[step] * vectors
        beta = np.linalg.norm(product, axis=0)
        # The Krylov space is exhausted; further nodes get the weight 0.
        beta[beta <= 1e-10 * np.abs(alphas).max(axis=0)] = 0
        betas[step] = beta
        previous, vectors = (
            vectors,
            np.divide(product, beta, out=np.zeros_like(product), where=beta > 0),
        )
    nodes, weights = [], []
    for alpha, beta, length in zip(alphas.T, betas.T, lengths, strict=True):
        s, Q = eigh_tridiagonal(alpha, beta[:-1])
        nodes.append(np.maximum(s, 0))
        weights.append(length * Q[0])
    return np.concatenate(nodes), np.concatenate(weights)


def _columns(C: Array, units: slice) -> Array:
    """Return some rows of C as the columns of a new array, in float64 and C-contiguous."""
    return np.array(C[units].T, dtype=np.float64, order="C")


def _signs(rng: np.random.RandomState, shape: tuple[int, int]) -> Array:
    return rng.choice([-1.0, 1.0], shape)


def _root(A: Array) -> Array:
    """Return a B with A = B Bᵀ."""
    w, Q = eigh(A)
    return np.asarray(Q * np.sqrt(np.maximum(w, 0)))


MIN_RANK, RANK_PER_UNIT = 64, 2
"""B has max(64, 2 m) rows."""
OVERSAMPLING, POWER_STEPS = 16, 2
"""The number of additional random vectors, and of power iterations, of the decomposition."""


@dataclass(frozen=True)
class StreamGram:
    """The weighted sum of XᵀX over the batches of a stream, as BᵀB + diag(rest)."""

    B: Array
    """The leading directions, each multiplied by its singular value, shape (r, p)"""
    squares: Array
    """The exact diagonal of the sum, shape (p,)"""
    n_rows: float
    """The number of rows of all batches, which bounds the rank"""

    @classmethod
    def empty(cls, p: int) -> StreamGram:
        """Return the sum over no rows."""
        return cls(np.zeros((0, p)), np.zeros(p), 0)

    @property
    def rest(self) -> Array:
        """The part of the diagonal that B does not contain."""
        return np.maximum(self.squares - column_squares(self.B), 0)

    def weighted(self, weight: float) -> StreamGram:
        """Return the sum of the same rows, each with the given weight."""
        return StreamGram(weight**0.5 * self.B, weight * self.squares, self.n_rows)

    def factor_with(
        self, X: Rows, precision: np.dtype[np.floating], map_blocks: MapBlocks = map
    ) -> IterativeFactor:
        """Return the factor of this sum and XᵀX of further rows, which are not approximated."""
        squares = self.squares + column_squares(X)
        past = (self.B,) if len(self.B) else ()
        return IterativeFactor(
            gram=GramProducts((*past, X), diagonal=self.rest if past else None),
            trace=float(squares.sum()),
            column_norms=np.sqrt(squares),
            rank=max(1, min(int(self.n_rows) + X.shape[0], int(np.count_nonzero(squares)))),
            precision=precision,
            map_blocks=map_blocks,
        )

    def updated(self, X: Rows, m: int) -> StreamGram:
        """Return this sum plus XᵀX, with the directions of a network of m units.

        B contains max(64, 2 m) directions. They are found by subspace iteration from fixed random
        vectors, so the result depends on the rows only.
        """
        p = X.shape[1]
        gram = GramProducts((self.B, X) if len(self.B) else (X,))
        squares, n_rows = self.squares + column_squares(X), self.n_rows + X.shape[0]
        rank = min(max(MIN_RANK, RANK_PER_UNIT * m), p, len(self.B) + X.shape[0])
        Q = np.random.RandomState(0).standard_normal((p, min(p, rank + OVERSAMPLING)))
        for _ in range(1 + POWER_STEPS):
            Q = scipy.linalg.qr(gram.times(Q), mode="economic", check_finite=False)[0]
        s2, W = scipy.linalg.eigh(Q.T @ gram.times(Q))
        leading = np.sqrt(np.maximum(s2[-rank:], 0))[:, None] * (Q @ W[:, -rank:]).T
        return StreamGram(np.ascontiguousarray(leading), squares, n_rows)
