"""The C step (T-SCNN weight update, equations 8 and 10): linear least squares with a ridge.

    min_C ‖U − X Cᵀ‖² + ρ‖C‖²      ⟺      C (XtX + ρ I) = UtX

The paper uses ρ = 0. For fixed codes the ridge is equivalent to noise of variance ρ/N on the input
of the encoder. XtX does not change during training, so it is factored once. If X is too wide for
that, ``wide.py`` solves the same equations by conjugate gradients. If XtX is singular and ρ = 0,
the minimum-norm solution is used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import scipy.sparse

from lincode.core.arrays import Array
from lincode.exceptions import InvalidInputError

RIDGE_RATIOS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""The candidates of ``choose_ridge``, relative to the mean eigenvalue of XtX."""
MAX_RIDGE = 1e300
"""The largest ρ. A larger one could overflow, and the encoder is zero in either case."""
MIN_RIDGE_RATIO = 1e-10
"""The smallest ridge of ``CholeskyFactor``, relative to the mean of the diagonal of XtX."""
MAX_RIDGE_INCREASES = 12
"""How often the ridge of ``CholeskyFactor`` is multiplied by 10 if XtX + ρ I is singular."""


class EncoderFactor(ABC):
    """What the C step and the energy need of XtX + ρ I. ``DirectFactor`` and ``IterativeFactor``
    are its two kinds.
    """

    trace: float
    """tr XtX = ‖X‖²"""
    column_norms: Array
    """‖X[:, k]‖ for each column, shape (p,)"""
    ridge: float
    """ρ"""

    @property
    @abstractmethod
    def mean_eigenvalue(self) -> float:
        """The mean of the eigenvalues of XtX that are not zero; 1 if X is zero."""

    @abstractmethod
    def with_ridge(self, ratio: float) -> EncoderFactor:
        """Return the factor with ρ equal to ``ratio`` times the mean eigenvalue.

        ρ is at most ``MAX_RIDGE``.
        """

    @abstractmethod
    def product(self, C: Array) -> Array:
        """Compute C (XtX + ρ I) for C in the row space of X."""

    @abstractmethod
    def quadratic(self, C: Array) -> float:
        """Compute ⟨C (XtX + ρ I), C⟩ = ‖X Cᵀ‖² + ρ‖C‖² for C in the row space of X."""

    @abstractmethod
    def project(self, C: Array) -> Array:
        """Return a C in the row space of X for which X Cᵀ is the same."""

    @abstractmethod
    def solve(self, UtX: Array, start: Array | None, tol: float) -> Array:
        """Return the minimiser of ‖U − X Cᵀ‖² + ρ‖C‖² over C.

        If the factor is iterative, the iterations begin at ``start`` (None means 0), and they end
        at the relative residual ``tol``.
        """

    @abstractmethod
    def squared_error(self, UtU: Array, UtX: Array, ridge: float) -> float:
        """Return ‖U − X Cᵀ‖² for the minimiser C with another ridge.

        It may belong to random combinations of the columns of U.
        """

    @abstractmethod
    def n_parameters(self, ridge: float) -> float:
        """Return the effective number of parameters of the encoder, tr(XtX (XtX + ρ I)⁻¹)."""


@dataclass(frozen=True)
class DirectFactor(EncoderFactor):
    """The factorisation XtX = V diag(s2) Vᵀ, restricted to the numerical rank of X."""

    V: Array
    """Orthonormal directions, shape (p, r), where r is the numerical rank of X"""
    s2: Array
    """Squared singular values of X along these directions, shape (r,)"""
    trace: float
    column_norms: Array
    ridge: float = 0.0

    @property
    def mean_eigenvalue(self) -> float:
        return float(self.s2.mean()) if self.s2.size else 1.0

    def with_ridge(self, ratio: float) -> DirectFactor:
        return replace(self, ridge=min(ratio * self.mean_eigenvalue, MAX_RIDGE))

    def product(self, C: Array) -> Array:
        return np.asarray((C @ self.V * (self.s2 + self.ridge)) @ self.V.T)

    def quadratic(self, C: Array) -> float:
        return float(np.sum((C @ self.V) ** 2 * (self.s2 + self.ridge)))

    def project(self, C: Array) -> Array:
        return np.asarray((C @ self.V) @ self.V.T)

    def solve(self, UtX: Array, start: Array | None = None, tol: float = 0.0) -> Array:
        return np.asarray((UtX @ self.V / (self.s2 + self.ridge)) @ self.V.T)

    def squared_error(self, UtU: Array, UtX: Array, ridge: float) -> float:
        explained = np.sum((UtX @ self.V / np.sqrt(self.s2)) ** 2, axis=0)
        missed = ridge / (self.s2 + ridge)
        return max(float(np.trace(UtU)) - float(explained @ (1 - missed**2)), 0.0)

    def n_parameters(self, ridge: float) -> float:
        return float(np.sum(self.s2 / (self.s2 + ridge)))


def encoder_step(
    UtX: Array, factor: EncoderFactor, start: Array | None = None, tol: float = 1e-6
) -> Array:
    """Return the minimum-norm minimiser of ‖U − X Cᵀ‖² + ρ‖C‖² over C.

    An iterative factor starts from ``start``, which must be in the row space of X if ρ = 0, and
    stops at the relative residual ``tol``. It never increases the objective.
    """
    return factor.solve(UtX, start, tol)


def mean_diagonal(XtX: Array) -> float:
    """Return the mean of the diagonal entries of XᵀX that are not zero; 1 if all are zero.

    It estimates the mean eigenvalue, and is smaller if some features depend on others.
    """
    diagonal = np.diag(XtX)
    n = np.count_nonzero(diagonal)
    return float(diagonal.sum()) / n if n else 1.0


@dataclass(frozen=True)
class CholeskyFactor:
    """A Cholesky factor of XtX + ρ I, for an XtX that changes with every batch.

    A ``DirectFactor`` would cost ten times as much.
    """

    lower: Array
    """The lower triangular factor, shape (p, p)"""

    @classmethod
    def of(cls, XtX: Array, ratio: float, dtype: np.dtype[np.floating]) -> CholeskyFactor:
        """Factor XtX + ρ I, where ρ is ``ratio`` times the mean of the diagonal.

        If the ratio is smaller than the rounding errors of XtX, which has been computed with the
        dtype of X and may be singular, a larger ridge is used.
        """
        ridge = min(ratio * mean_diagonal(XtX), MAX_RIDGE)
        eps = max(10 * float(np.finfo(dtype).eps), MIN_RIDGE_RATIO / len(XtX))
        ridge = max(ridge, eps * float(np.trace(XtX)), float(np.finfo(np.float64).tiny))
        for _ in range(MAX_RIDGE_INCREASES):
            A = XtX.copy()
            A[np.diag_indices_from(A)] += ridge
            try:
                return cls(
                    scipy.linalg.cholesky(A, lower=True, overwrite_a=True, check_finite=False)
                )
            except np.linalg.LinAlgError:
                ridge *= 10
        raise InvalidInputError(
            "the encoder cannot be computed, because XᵀX is not finite or its features are too"
            " different in scale; scale the features of X."
        )

    def solve(self, UtX: Array) -> Array:
        """Return the minimiser of ‖U − X Cᵀ‖² + ρ‖C‖² over C."""
        C = scipy.linalg.cho_solve((self.lower, True), UtX.T, check_finite=False)
        return np.ascontiguousarray(C.T)


def encoder_residual(C: Array, UtU: Array, UtX: Array, factor: EncoderFactor) -> float:
    """Return the largest |C (XtX + ρ I) − UtX| relative to the norms of the columns of U and X.

    This measures the correlation between the part of a code that the encoder does not explain and
    a feature, whatever the scale of the feature. It is zero at the optimum.
    """
    cosine = factor.product(C)
    cosine -= UtX
    np.abs(cosine, out=cosine)
    for row, length in zip(cosine, np.sqrt(np.diag(UtU)), strict=True):
        norms = length * factor.column_norms
        np.divide(row, norms, out=row, where=norms > 0)
        row[norms <= 0] = 0
    return float(cosine.max(initial=0))


def factor_gram(XtX: Array, dtype: np.dtype[np.floating]) -> DirectFactor:
    """Factor XᵀX (p, p), where X has the given dtype."""
    s2, V = scipy.linalg.eigh(XtX)
    kept = s2 > _cutoff(len(s2), dtype) * max(s2[-1], 0.0)
    return DirectFactor(
        V=V[:, kept],
        s2=s2[kept],
        trace=float(np.trace(XtX)),
        column_norms=np.sqrt(np.diag(XtX)),
    )


def factor_transposed(Xt: Array, dtype: np.dtype[np.floating]) -> DirectFactor:
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
    return DirectFactor(
        V=Q @ W[:, kept], s2=s2[kept], trace=float(s2.sum()), column_norms=column_norms
    )


def _cutoff(n: int, dtype: np.dtype[np.floating]) -> float:
    """Return the smallest eigenvalue of XᵀX, relative to the largest, that is not rounding.

    Forming XᵀX loses singular values below √eps of the largest. For float32 rows, directions
    below 100 eps would only amplify rounding errors.
    """
    return max(4 * n * float(np.finfo(np.float64).eps), (100 * float(np.finfo(dtype).eps)) ** 2)


def choose_ridge(
    UtU: Array, UtX: Array, n: float, factor: EncoderFactor, N: float | None = None
) -> float:
    """Return the ratio of ``RIDGE_RATIOS`` with the smallest generalised cross-validation error.

    GCV(ρ) = ‖U − X Cᵀ‖² / (1 − h/n)² with the effective number of parameters
    h = Σ s2/(s2 + ρ). It is computed from sums over n rows only. If these are a sample of N rows,
    the error is multiplied by (1 + h/N) / (1 + h/n), because an encoder that is fitted to more rows
    has a smaller variance.
    """
    errors = []
    for ratio in RIDGE_RATIOS:
        ridge = ratio * factor.mean_eigenvalue
        h = factor.n_parameters(ridge)
        # With as many parameters as rows the error is zero; the bound avoids 0/0.
        freedom = max(1 - h / n, 1e-6)
        error = factor.squared_error(UtU, UtX, ridge)
        errors.append(error / freedom**2 * (1 + h / (N or n)) / (1 + h / n))
    return RIDGE_RATIOS[int(np.argmin(errors))]


def conjugate_gradient(
    multiply: Callable[[Array], Array],
    X: Array,
    R: Array,
    *,
    n_steps: int,
    precondition: Callable[[Array], Array] = np.array,
    target: Array | float = 0.0,
) -> None:
    """Improve solutions X of X A = B in place, one per row, by conjugate gradient steps.

    ``multiply(P)`` returns P A, and ``precondition(R)`` returns R times an approximate inverse of
    A. Every row has its own step lengths, so that its quadratic function never increases. A row
    is finished when R Z is at most its target, where Z is the preconditioned residual.

    Parameters
    ----------
    X : array of shape (n, p)
        The start, which is overwritten.
    R : array of shape (n, p)
        The residual B − X A, which is overwritten.
    """
    Z = precondition(R)
    P, square = np.array(Z), row_products(R, Z)
    for _ in range(n_steps):
        unfinished = square > target
        if not unfinished.any():
            break
        Q = multiply(P)
        length = np.where(unfinished, ratio_or_zero(square, row_products(P, Q)), 0)[:, None]
        X += length * P
        R -= length * Q
        Z = precondition(R)
        previous, square = square, row_products(R, Z)
        P *= ratio_or_zero(square, previous)[:, None]
        P += Z


def row_products(A: Array, B: Array) -> Array:
    """Return the inner product of each row of A with the same row of B."""
    return np.asarray(np.einsum("ij,ij->i", A, B))


def ratio_or_zero(a: Array, b: Array) -> Array:
    """Return a/b, and 0 where b is not positive."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)
