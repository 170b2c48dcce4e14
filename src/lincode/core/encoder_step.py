"""The C step (T-SCNN weight update, paper eqs. 8 and 10): linear least squares, solved exactly.

    min_C ‖U − X Cᵀ‖²      ⟺      C XtX = UtX

XtX does not change during training, so it is factored once. It may be singular (border
pixels that never change): the minimum-norm solution is taken. ``encode`` is what it is for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse

from lincode.core.blocks import blocks, dense_blocks
from lincode.core.prox import soft_threshold
from lincode.core.types import Array, Rows


@dataclass(frozen=True)
class EncoderFactor:
    """XtX = V diag(s2) Vᵀ on the directions the data span, and its trace."""

    V: Array
    """Orthonormal directions (p, r), r the numerical rank of X"""
    s2: Array
    """Squared singular values of X along them (r,)"""
    trace: float
    """tr XtX = ‖X‖², of all directions"""
    lengths: Array
    """‖X[:, k]‖ of each column (p,)"""

    def quadratic(self, C: Array) -> float:
        """⟨C XtX, C⟩ = ‖X Cᵀ‖²"""
        return float(np.sum((C @ self.V) ** 2 * self.s2))

    def span(self, C: Array) -> Array:
        """C without what the data cannot tell: its part along the directions they span."""
        return np.asarray((C @ self.V) @ self.V.T)


def factor_data(X: Rows, block_rows: int = 4096) -> EncoderFactor:
    """Factor XtX through the smaller of XᵀX (p, p) and X Xᵀ (N, N), in float64."""
    N, p = X.shape
    if p <= N:
        return factor_gram(gram_of_columns(X, block_rows), X.dtype)
    gram = _gram_of_rows(X, block_rows)
    s2, Q = _eigenvectors_kept(gram, X.dtype)
    V = np.asarray(X.T @ Q, dtype=np.float64) / np.sqrt(s2)
    return EncoderFactor(V=V, s2=s2, trace=float(np.trace(gram)), lengths=_column_lengths(X))


def gram_of_columns(X: Rows, block_rows: int = 4096) -> Array:
    """XᵀX (p, p)"""
    if scipy.sparse.issparse(X):
        X = X.astype(np.float64)
        return np.asarray((X.T @ X).toarray())
    XtX = np.zeros((X.shape[1], X.shape[1]))
    for rows in blocks(X.shape[0], block_rows):
        block = np.asarray(X[rows], dtype=np.float64)
        XtX += block.T @ block
    return XtX


def factor_gram(XtX: Array, dtype: np.dtype[np.floating]) -> EncoderFactor:
    """Factor XtX given as it is, of rows that are of ``dtype``."""
    s2, V = _eigenvectors_kept(XtX, dtype)
    lengths = np.sqrt(np.diag(XtX))
    return EncoderFactor(V=V, s2=s2, trace=float(np.trace(XtX)), lengths=lengths)


def _eigenvectors_kept(gram: Array, dtype: np.dtype[np.floating]) -> tuple[Array, Array]:
    """The eigenvalues that are more than rounding, and their eigenvectors.

    Forming the Gram matrix loses directions below √eps of the largest; for float32 rows,
    directions below 100 eps would only feed rounding noise through the encoder.
    """
    s2, Q = scipy.linalg.eigh(gram)
    eps_rows = float(np.finfo(dtype).eps)
    cutoff = max(4 * len(s2) * np.finfo(np.float64).eps, (100 * eps_rows) ** 2)
    kept = s2 > cutoff * max(s2[-1], 0.0)
    return s2[kept], Q[:, kept]


def encoder_step(UtX: Array, factor: EncoderFactor) -> Array:
    """argmin_C ‖U − X Cᵀ‖², of smallest norm: C = UtX XtX⁺."""
    return (UtX @ factor.V / factor.s2) @ factor.V.T


def matching_threshold(X: Rows, C: Array, density: float, *, positive: bool = False) -> float:
    """The threshold that leaves a share ``density`` of the codes of X, measured on 10,000 rows."""
    Z = np.asarray(X[:: -(-X.shape[0] // 10_000)] @ C.T)
    size = Z if positive else np.abs(Z, out=Z)
    return max(0.0, float(np.quantile(size, 1 - min(1.0, density))))


def encode(
    X: Rows, C: Array, threshold: float, *, positive: bool = False, out: Array | None = None
) -> Array:
    """The code of unseen rows: soft_threshold(X Cᵀ, threshold). One product."""
    if out is None or scipy.sparse.issparse(X):
        U = np.asarray(X @ C.T)
    else:
        U = np.matmul(X, C.T, out=out)
    return soft_threshold(U, threshold, positive=positive, out=U if out is None else out)


def _column_lengths(X: Rows) -> Array:
    if scipy.sparse.issparse(X):
        squares = np.asarray(X.astype(np.float64).power(2).sum(axis=0)).ravel()
    else:
        squares = sum(np.square(X[rows], dtype=np.float64).sum(axis=0) for rows in dense_blocks(X))
    return np.asarray(np.sqrt(squares))


def _gram_of_rows(X: Rows, block_columns: int) -> Array:
    """X Xᵀ (N, N)"""
    if scipy.sparse.issparse(X):
        X = X.astype(np.float64)
        return np.asarray((X @ X.T).toarray())
    XXt = np.zeros((X.shape[0], X.shape[0]))
    for columns in blocks(X.shape[1], block_columns):
        block = np.asarray(X[:, columns], dtype=np.float64)
        XXt += block @ block.T
    return XXt
