"""The C step (T-SCNN weight update, equations 8 and 10): linear least squares.

    min_C ‖U − X Cᵀ‖²      ⟺      C XtX = UtX

XtX does not change during training, so it is factored once. If it is singular, for example
because some pixels never change, the minimum-norm solution is used. ``encode`` applies C.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse

from lincode.core.prox import soft_threshold
from lincode.core.types import Array, Rows


@dataclass(frozen=True)
class EncoderFactor:
    """The factorisation XtX = V diag(s2) Vᵀ, restricted to the numerical rank of X."""

    V: Array
    """Orthonormal directions, shape (p, r), where r is the numerical rank of X"""
    s2: Array
    """Squared singular values of X along these directions, shape (r,)"""
    trace: float
    """tr XtX = ‖X‖²"""
    column_norms: Array
    """‖X[:, k]‖ for each column, shape (p,)"""

    def quadratic(self, C: Array) -> float:
        """Compute ⟨C XtX, C⟩ = ‖X Cᵀ‖²."""
        return float(np.sum((C @ self.V) ** 2 * self.s2))

    def project(self, C: Array) -> Array:
        """Project the rows of C onto the row space of X."""
        return np.asarray((C @ self.V) @ self.V.T)


def encoder_step(UtX: Array, factor: EncoderFactor) -> Array:
    """Return the minimum-norm minimiser of ‖U − X Cᵀ‖² over C."""
    return np.asarray((UtX @ factor.V / factor.s2) @ factor.V.T)


def encoder_residual(C: Array, UtU: Array, UtX: Array, factor: EncoderFactor) -> float:
    """Return the largest |C XtX − UtX| relative to the norms of the columns of U and X.

    This measures the correlation between the part of a code that the encoder does not explain and
    a feature, whatever the scale of the feature. It is zero at the optimum.
    """
    CXtX = (C @ factor.V * factor.s2) @ factor.V.T
    norms = np.outer(np.sqrt(np.diag(UtU)), factor.column_norms)
    cosine = np.zeros_like(norms)
    np.divide(np.abs(CXtX - UtX), norms, out=cosine, where=norms > 0)
    return float(cosine.max(initial=0))


def factor_gram(XtX: Array, dtype: np.dtype[np.floating]) -> EncoderFactor:
    """Factor XᵀX (p, p), where X has the given dtype."""
    s2, V = scipy.linalg.eigh(XtX)
    kept = s2 > _cutoff(len(s2), dtype) * max(s2[-1], 0.0)
    return EncoderFactor(
        V=V[:, kept],
        s2=s2[kept],
        trace=float(np.trace(XtX)),
        column_norms=np.sqrt(np.diag(XtX)),
    )


def factor_transposed(Xt: Array, dtype: np.dtype[np.floating]) -> EncoderFactor:
    """Factor XᵀX from Xᵀ (p, N) with N < p, where X has the given dtype. Xt is overwritten.

    Xᵀ = Q R, and the singular value decomposition of the small matrix R gives V and s2. The
    eigenvectors of X Xᵀ would be cheaper, but Xᵀ times them is not orthonormal for singular
    values near the cutoff, and then the C step does not minimise the energy.
    """
    column_norms = np.linalg.norm(Xt, axis=1)
    Q, R = scipy.linalg.qr(Xt, mode="economic", overwrite_a=True, check_finite=False)
    W, s, _ = scipy.linalg.svd(R, check_finite=False)
    s2 = s**2
    kept = s2 > _cutoff(len(s2), dtype) * s2[0]
    return EncoderFactor(
        V=Q @ W[:, kept], s2=s2[kept], trace=float(s2.sum()), column_norms=column_norms
    )


def _cutoff(n: int, dtype: np.dtype[np.floating]) -> float:
    """Return the smallest eigenvalue of XᵀX, relative to the largest, that is not rounding.

    Forming XᵀX loses singular values below √eps of the largest. For float32 rows, directions
    below 100 eps would only amplify rounding errors.
    """
    return max(4 * n * float(np.finfo(np.float64).eps), (100 * float(np.finfo(dtype).eps)) ** 2)


def encode(
    X: Rows, C: Array, threshold: float, *, positive: bool = False, out: Array | None = None
) -> Array:
    """Return soft_threshold(X Cᵀ, threshold), the encoder's codes of the rows of X."""
    if out is None or scipy.sparse.issparse(X):
        U = np.asarray(X @ C.T)
    else:
        U = np.matmul(X, C.T, out=out)
    return soft_threshold(U, threshold, positive=positive, out=U if out is None else out)


def matching_threshold(X: Rows, C: Array, density: float, *, positive: bool) -> float:
    """Return the threshold at which the encoder's codes of X have the given density.

    The density is the fraction of entries that are not zero.
    """
    Z = np.asarray(X @ C.T)
    magnitude = Z if positive else np.abs(Z, out=Z)
    return max(0.0, float(np.quantile(magnitude, 1 - min(1.0, density))))
