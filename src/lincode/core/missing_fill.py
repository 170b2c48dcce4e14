"""A linear prediction of missing entries from the observed ones.

If G is proportional to the second moments of the rows, the ridge regression of the missing entries
M of a row on its observed entries O is

    x_M = x_O (G_OO + ρ I)⁻¹ G_OM.

The matrix G_OO differs from row to row. Instead of factoring it, a few conjugate gradient steps are
made for a block of rows at a time. They cost one product of the block with G each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lincode.core.types import Array

FILL_RIDGE = 0.1
"""ρ relative to the mean of the diagonal of G."""
FILL_STEPS = 8
"""The number of conjugate gradient steps."""


@dataclass(frozen=True)
class SecondMoments:
    """G as a matrix of shape (p, p), or as FᵀF if F, of shape (k, p), is much smaller."""

    matrix: Array
    is_factor: bool

    @classmethod
    def of_factor(cls, F: Array) -> SecondMoments:
        """Return FᵀF, in the form with the cheaper product."""
        k, p = F.shape
        return cls(F, True) if p > 2 * k else cls(F.T @ F, False)

    def astype(self, dtype: np.dtype[np.floating]) -> SecondMoments:
        """Return the same moments with another dtype."""
        return SecondMoments(self.matrix.astype(dtype), self.is_factor)

    def mean(self) -> float:
        """Return the mean of the diagonal of G."""
        p = self.matrix.shape[1]
        if self.is_factor:
            return float(np.sum(np.square(self.matrix, dtype=np.float64)) / p)
        return float(np.trace(self.matrix) / p)

    def multiply(self, P: Array) -> Array:
        """Return P G."""
        product = P @ self.matrix.T @ self.matrix if self.is_factor else P @ self.matrix
        return np.asarray(product)


def predict_missing(X: Array, missing: NDArray[np.bool_], moments: SecondMoments) -> None:
    """Overwrite the missing entries of X by their prediction.

    The prediction of a row in which nothing is observed is 0.
    """
    mean = moments.mean()
    scale = 1 / mean if mean > 0 else 1.0  # only the ratio of the moments matters
    moments = SecondMoments(
        moments.matrix * (scale**0.5 if moments.is_factor else scale), moments.is_factor
    ).astype(X.dtype)
    R = np.where(missing, X.dtype.type(0), X)
    W, P, square = np.zeros_like(R), R.copy(), np.einsum("ij,ij->i", R, R)
    for _ in range(FILL_STEPS):
        Q = moments.multiply(P) + X.dtype.type(FILL_RIDGE) * P
        Q[missing] = 0
        length = divide(square, np.einsum("ij,ij->i", P, Q))[:, None]
        W += length * P
        R -= length * Q
        previous, square = square, np.einsum("ij,ij->i", R, R)
        P *= divide(square, previous)[:, None]
        P += R
    np.copyto(X, moments.multiply(W), where=missing)


def divide(a: Array, b: Array) -> Array:
    """Return a/b, and 0 where b is not positive."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)
