"""The U step (B-SCNN input update, equations 12 to 14): the codes for a given D and C.

Half of the energy, as a function of one row's code u, is

    ½ u H uᵀ − b uᵀ + τ‖u‖₁ + constant,   H = D Dᵀ/p + η I/m,  b = x (D/p + η C/m)ᵀ,  τ = λ/m.

This lasso problem is solved for a block of rows at a time by accelerated proximal gradient
steps, with one product with H per step. Rows that turn out to be sparse are finished by the
compiled solver of ``coordinate_descent.py``.

If the data are not centred, the atoms share a direction v, and the largest eigenvalue of H is
much larger than the others: 0.175, then 0.020, for MNIST digits. Plain gradient steps would have to
be short enough for the largest eigenvalue. Therefore the steps use the metric

    M = L I + σ v vᵀ ≽ H,    L the second largest eigenvalue of H, L + σ the largest,

whose proximal operator costs one scalar root per row (``soft_threshold_along``). The number of
steps then depends on L/μ only: 20 instead of 72 on MNIST for the same accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from lincode.core.prox import soft_threshold, soft_threshold_along
from lincode.core.types import Array, Rows
from lincode.exceptions import InvalidInputError

STEPS_BETWEEN_CHECKS = 5
"""The number of accelerated steps between two checks of optimality."""
MIN_EIGENVALUE_RATIO = 2.0
"""The metric treats v separately if the largest eigenvalue exceeds this multiple of the second."""
MAX_EIGENVALUE_RATIO = {np.dtype(np.float64): 1000.0, np.dtype(np.float32): 30.0}
"""The ratio of the two eigenvalues in the metric is limited to this.

Rounding errors of a step grow in proportion to the ratio. With 1000 in float32 they would exceed
the tolerance, and the steps would never end.
"""
RANK_ONE_RATIO = 1e-6
"""D Dᵀ has rank one if its second eigenvalue is below this fraction of the first."""
MIN_UNITS_FOR_COORDINATE_DESCENT = 64
"""With fewer units an accelerated step is so cheap that coordinate descent is not faster."""
MAX_SPARSE_DENSITY = 1 / 6
"""Rows in which at most this fraction of the units is used are finished by coordinate descent."""


@dataclass(frozen=True)
class CodeProblem:
    """The problem min_u ½ u H uᵀ − b uᵀ + τ‖u‖₁ with b = x Wᵀ (over u ≥ 0 if ``positive``)."""

    H: Array
    """The Hessian, shape (m, m)"""
    W: Array
    """b = x Wᵀ, shape (m, p)"""
    tau: float
    positive: bool
    L: float
    """An upper bound of the eigenvalues of H orthogonal to v"""
    sigma: float
    """The additional curvature along v; 0 if no direction is treated separately"""
    v: Array
    """The eigenvector of the largest eigenvalue L + σ, shape (m,)"""
    mu: float
    """A lower bound of the eigenvalues of H"""

    @property
    def norm(self) -> float:
        """The largest eigenvalue of H."""
        return self.L + self.sigma

    @property
    def max_momentum(self) -> float:
        """The optimal constant momentum (1 − √q)/(1 + √q) for q = μ/L."""
        root = float(np.sqrt(self.mu / self.L)) if self.L > 0 else 1.0
        return (1 - root) / (1 + root)

    @classmethod
    def of(
        cls,
        D: Array,
        C: Array,
        lam: float,
        eta: float,
        *,
        positive: bool,
        dtype: np.dtype[np.floating],
    ) -> CodeProblem:
        """Build the problem for D and C, with matrices of the dtype of the rows."""
        m, p = D.shape
        DDt = D @ D.T
        first, second, v = _leading_eigenvalues(D, DDt, MAX_EIGENVALUE_RATIO[np.dtype(dtype)])
        H = DDt / p
        H.flat[:: m + 1] += eta / m
        W = D / p + eta / m * C
        largest = float(np.finfo(dtype).max)
        if not max(float(np.abs(H).max()), float(np.abs(W).max())) < largest:
            raise InvalidInputError(
                f"encoder_weight={eta:g} leads to numbers that {dtype} cannot represent; use a"
                " smaller encoder_weight."
            )
        return cls(
            H=H.astype(dtype),
            W=W.astype(dtype),
            tau=min(lam / m, largest),
            positive=positive,
            L=(second / p + eta / m) * (1 + 1e-6),
            sigma=(first - second) / p,
            v=v.astype(dtype),
            mu=eta / m,
        )


def _leading_eigenvalues(D: Array, DDt: Array, max_ratio: float) -> tuple[float, float, Array]:
    """Return bounds of the two largest eigenvalues of D Dᵀ and the first eigenvector.

    The first bound is at most ``max_ratio`` times the second. Both bounds are equal, and the
    vector is zero, if the first eigenvalue is less than twice the second.
    """
    m, p = D.shape
    # D Dᵀ and DᵀD have the same non-zero eigenvalues; use the smaller matrix.
    gram = DDt if m <= p else D.T @ D
    n = len(gram)
    w, Q = scipy.linalg.eigh(gram, subset_by_index=[max(n - 2, 0), n - 1])
    if len(w) < min(n, 2):
        # LAPACK's solver for a subset may return too few eigenvalues if they are repeated.
        w, Q = scipy.linalg.eigh(gram)
        w, Q = w[-2:], Q[:, -2:]
    first = max(float(w[-1]), 0.0)
    second = float(w[0]) if n > 1 else 0.0
    if second < RANK_ONE_RATIO * first:  # plain steps solve a problem of rank one in one step
        return first, first, np.zeros(m)
    second = max(second, first / max_ratio)
    v = Q[:, -1] if m <= p else D @ Q[:, -1]
    if not 0 < MIN_EIGENVALUE_RATIO * second < first:
        return first, first, np.zeros(m)
    return first, second, np.asarray(v / np.linalg.norm(v))


def code_violation(U: Array, G: Array, tau: float, *, positive: bool = False) -> Array:
    """Return the largest violation of the optimality conditions in each row.

    With the gradient G = U H − b the conditions are |G + τ sign U| = 0 where U ≠ 0, and |G| ≤ τ
    where U = 0 (with the constraint U ≥ 0, G ≥ −τ there).
    """
    at_zero = np.maximum(-G - tau, 0) if positive else np.maximum(np.abs(G) - tau, 0)
    violation = np.where(U == 0, at_zero, np.abs(G + tau * np.sign(U)))
    return np.asarray(violation.max(axis=1, initial=0))


class Codes(NamedTuple):
    """The result of a U step."""

    U: Array
    residual: float
    """The largest optimality residual of any row"""
    n_unfinished: int
    """The number of rows that did not reach the tolerance within max_iter steps"""


def code_step(U: Array, X: Rows, problem: CodeProblem, *, tol: float, max_iter: int) -> Codes:
    """Compute the codes of the rows X, starting from U, to the relative tolerance ``tol``.

    The residual of a row is its largest violation of the optimality conditions relative to
    max|b|, its gradient at zero. A row is finished if its residual is at most ``tol`` or below
    the rounding error of its precision. The objective of a row never exceeds that of its start.
    """
    b = np.asarray(X @ problem.W.T)
    scale = np.abs(b).max(axis=1, initial=0)
    UH = U @ problem.H
    measures = _measure(U, UH, b, problem)
    U, violation, value = U.copy(), measures.violation, measures.value
    unfinished = violation > _tolerance(measures, scale, problem, tol)
    if max_iter > 0:  # the code is zero where b = 0
        zero = scale == 0
        U[zero], violation[zero], value[zero], unfinished[zero] = 0, 0, 0, False

    rounding = 4 * float(np.finfo(U.dtype).eps)
    rows = np.flatnonzero(unfinished)
    iterate = _Iterate(b[rows], U[rows], UH[rows], problem)

    def store_and_drop_finished() -> None:
        """Store the rows that improved and drop those that are finished."""
        nonlocal rows, iterate
        measures = _measure(iterate.U, iterate.UH, iterate.b, problem, iterate.Z, iterate.work)
        # Momentum may raise the objective of a row for a while, so the best code is stored.
        noise = 8 * np.finfo(U.dtype).eps * measures.l1 * scale[rows]
        lower = measures.value <= value[rows] + noise
        better = rows[lower]
        U[better] = iterate.U[lower]
        violation[better], value[better] = measures.violation[lower], measures.value[lower]
        kept = ~lower | (measures.violation > _tolerance(measures, scale[rows], problem, tol))
        if not kept.all():
            rows, iterate = rows[kept], iterate.select(kept)

    for done in range(0, max_iter, STEPS_BETWEEN_CHECKS):
        # If H is strongly convex, a few accelerated steps come first: they show how sparse a
        # row is going to be.
        if (done > 0 or problem.mu == 0) and iterate.solve_sparse_rows(
            max(tol, rounding) * scale[rows]
        ):
            store_and_drop_finished()
        if not rows.size:
            break
        iterate.advance(STEPS_BETWEEN_CHECKS)
        store_and_drop_finished()

    # If the gradient at zero vanishes the code is zero, and any violation counts fully.
    relative = np.divide(violation, scale, out=np.sign(violation), where=scale > 0)
    return Codes(U, float(relative.max(initial=0)), len(rows))


class _Measures(NamedTuple):
    """Quantities that describe the quality of each row's code, each of shape (n,)."""

    violation: Array
    """The largest violation of the optimality conditions"""
    value: Array
    """½ u H uᵀ − b uᵀ + τ‖u‖₁"""
    l1: Array
    """‖u‖₁"""
    norm: Array
    """‖u‖₂"""


def _measure(
    U: Array,
    UH: Array,
    b: Array,
    problem: CodeProblem,
    Z: Array | None = None,
    work: Array | None = None,
) -> _Measures:
    """Measure each row's code. Z and work are buffers."""
    tau, positive = problem.tau, problem.positive
    G = np.subtract(UH, b, out=Z)
    violation = code_violation(U, G, tau, positive=positive)
    G -= b
    l1 = np.abs(U, out=work).sum(axis=1)
    value = 0.5 * np.einsum("ij,ij->i", U, G) + tau * l1
    norm = np.sqrt(np.einsum("ij,ij->i", U, U))
    return _Measures(violation, value, l1, norm)


def _tolerance(measures: _Measures, scale: Array, problem: CodeProblem, tol: float) -> Array:
    """Return the violation at which each row is finished: ``tol`` or the rounding error.

    Rounding changes U H − b by the machine epsilon times its terms, and a gradient smaller than
    ‖H‖ times the last digits of u can no longer change u.
    """
    eps = float(np.finfo(scale.dtype).eps)
    terms = measures.l1 * float(problem.H.diagonal().max(initial=0)) + scale
    rounding = 4 * eps * (terms + problem.norm * measures.norm)
    return np.asarray(np.maximum(tol * scale, rounding))


class _Iterate:
    """Accelerated proximal gradient steps for some rows, each with its own momentum.

    The product UH is stored with U. Because it is linear in U, the gradient at the extrapolated
    point and the gradient at U need no further product.
    """

    def __init__(
        self,
        b: Array,
        U: Array,
        UH: Array,
        problem: CodeProblem,
        previous: tuple[Array, Array] | None = None,
    ) -> None:
        self.b, self.U, self.UH, self.problem = b, U, UH, problem
        self.U_old, self.UH_old = (U.copy(), UH.copy()) if previous is None else previous
        self.age = np.zeros(len(U), dtype=U.dtype)  # steps since the last restart of a row
        self.slope = np.ones(len(U), dtype=U.dtype)  # the last slope of soft_threshold_along
        self.was_sparse = np.zeros(len(U), dtype=bool)  # rows already passed to coordinate descent
        self.Y, self.Z, self.work = (np.empty_like(U) for _ in range(3))

    def select(self, kept: NDArray[np.bool_]) -> _Iterate:
        """Return the iterate with some of its rows."""
        previous = self.U_old[kept], self.UH_old[kept]
        selected = _Iterate(self.b[kept], self.U[kept], self.UH[kept], self.problem, previous)
        selected.age, selected.slope = self.age[kept], self.slope[kept]
        selected.was_sparse = self.was_sparse[kept]
        return selected

    def solve_sparse_rows(self, tolerance: Array) -> bool:
        """Solve the rows that have become sparse by coordinate descent; report if there are any.

        Each row is passed to coordinate descent at most once. It is solved a little more
        accurately than required, because rounding shows when the violation is measured again.
        """
        new = np.flatnonzero(self._sparse_rows() & ~self.was_sparse)
        if not new.size:
            return False
        from lincode.core.coordinate_descent import solve_rows  # imports Numba

        U = solve_rows(self.U[new], self.b[new], self.problem, 0.9 * tolerance[new])
        UH = U @ self.problem.H
        self.U[new], self.UH[new], self.U_old[new], self.UH_old[new] = U, UH, U, UH
        self.age[new], self.was_sparse[new] = 0, True
        return True

    def _sparse_rows(self) -> NDArray[np.bool_]:
        """Select the rows that use few units.

        For rows whose code is still zero the final number of non-zeros is unknown. They are
        selected only if μ = 0, because accelerated steps are slow without strong convexity.
        """
        n, m = self.U.shape
        if m < MIN_UNITS_FOR_COORDINATE_DESCENT or not n:
            return np.zeros(n, dtype=bool)
        used = np.count_nonzero(self.U, axis=1)
        return np.asarray((used <= MAX_SPARSE_DENSITY * m) & ((used > 0) | (self.problem.mu == 0)))

    def advance(self, n_steps: int) -> None:
        """Do ``n_steps`` accelerated steps."""
        if self.problem.L == 0:  # D = 0 and η = 0: the minimiser is zero
            self.U, self.UH = np.zeros_like(self.U), np.zeros_like(self.UH)
            return
        for _ in range(n_steps):
            V = self._proximal_step()
            VH = np.matmul(V, self.problem.H, out=self.UH_old)
            self.U, self.U_old, self.UH, self.UH_old = V, self.U, VH, self.UH

    def _proximal_step(self) -> Array:
        """Compute V = argmin_V  G·V + ½‖V − Y‖²_M + τ‖V‖₁, where G is the gradient at Y.

        Y is U extrapolated by the momentum. V overwrites U_old. The momentum of a row is reset
        if (Y − V) M (V − U) > 0 (O'Donoghue and Candès 2015).
        """
        L, sigma, v = self.problem.L, self.problem.sigma, self.problem.v
        Y, Z, V = self.Y, self.Z, self.U_old
        momentum = np.minimum(self.age / (self.age + 3), self.problem.max_momentum)[:, None]
        _extrapolate(self.U, self.U_old, momentum, out=Y)
        _extrapolate(self.UH, self.UH_old, momentum, out=Z)
        Z -= self.b
        Z *= -1 / L
        Z += Y  # Y − G/L
        t, positive = self.problem.tau / L, self.problem.positive
        if sigma == 0:
            soft_threshold(Z, t, positive=positive, out=V)
        else:
            soft_threshold_along(
                Z,
                t,
                v,
                sigma / L,
                Y @ v,
                slope=self.slope,
                positive=positive,
                out=V,
                work=self.work,
            )
        Y -= V
        moved = np.subtract(V, self.U, out=Z)
        uphill = L * np.einsum("ij,ij->i", Y, moved) + sigma * (Y @ v) * (moved @ v)
        self.age += 1
        self.age[uphill > 0] = 0
        return V


def _extrapolate(A: Array, A_old: Array, momentum: Array, *, out: Array) -> None:
    """Write A + momentum · (A − A_old) to ``out``."""
    np.subtract(A, A_old, out=out)
    out *= momentum
    out += A
