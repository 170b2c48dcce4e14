"""XtX of a stream of wide batches, in memory proportional to p.

The weighted sum of XᵀX over all batches is (p, p), which is too large if p is in the tens of
thousands. It is replaced by

    XtX ≈ BᵀB + diag(rest),

where B (r, p) has the r leading directions, and ``rest`` makes the diagonal, and so the trace,
exact. The directions that B leaves out are therefore treated as uncorrelated features. While a
batch is learned, its own rows are in the sum as they are. Afterwards B is computed again from the
old B and the rows of the batch, by a randomised singular value decomposition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse

from lincode.core.iterative_factor import GramProducts, IterativeFactor, MapBlocks
from lincode.core.types import Array, Rows, column_squares

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
