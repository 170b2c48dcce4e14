"""The U step (B-SCNN input update, equations 12 to 14): the codes for a given D and C.

Half of the energy, as a function of one row's code u, is

    ½ u H uᵀ − b uᵀ + τ‖u‖₁ + constant,   H = D Dᵀ/p + η I/m,  b = x (D/p + η C/m)ᵀ,  τ = λ/m.

This lasso problem is solved for a block of rows at a time. Sparse rows are solved by the compiled
active-set method of ``active_set.py``: without the encoder term (η = 0) all of them, otherwise if
the start or a few steps have shown that they are sparse. Other rows are solved by accelerated
proximal gradient steps, with one product with H per step.

If the data are not centred, the atoms share a direction v, and the largest eigenvalue of H is
much larger than the others: 0.175, then 0.020, for MNIST digits. Plain gradient steps would have to
be short enough for the largest eigenvalue. Therefore the steps use the metric

    M = L I + σ v vᵀ ≽ H,    L the second largest eigenvalue of H, L + σ the largest,

whose proximal operator costs one scalar root per row (``_step_rows`` in ``accelerated.py``). The
number of steps then depends on L/μ only: 20 instead of 72 on MNIST for the same accuracy.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from lincode.core.accelerated import Iterate, measure_rows
from lincode.core.active_set import solve_rows
from lincode.core.arrays import Array, Rows
from lincode.core.projection import project_codes
from lincode.core.threshold import Thresholding, encode
from lincode.exceptions import InvalidInputError

MAX_TOL = 1e6
"""The largest relative tolerance; the products with a larger one could overflow in float32."""
STEPS_BETWEEN_CHECKS = 2
"""The number of accelerated steps between two checks of optimality."""
MIN_UNITS_PER_FEATURE = 3
"""U H is computed as (U D) Dᵀ + μ U if there are at least so many times as many units as features.
"""
MAX_HEAVY_STEPS = 3
"""Rows that need more than this multiple of the expected number of steps continue without
heavy-ball steps, which amplify rounding errors if the condition number is large."""
MIN_STEPS_BEFORE_ACTIVE_SET = 6
"""Rows are passed to the active-set method after this number of accelerated steps."""
MAX_KEPT_FRACTION = 0.8
"""Finished rows are removed from a block if the others are at most this fraction of it."""
MIN_EIGENVALUE_RATIO = 2.0
"""The metric treats v separately if the largest eigenvalue exceeds this multiple of the second."""
MAX_EIGENVALUE_RATIO = {np.dtype(np.float64): 1000.0, np.dtype(np.float32): 30.0}
"""The ratio of the two eigenvalues in the metric is limited to this.

Rounding errors of a step grow in proportion to the ratio. With 1000 in float32 they would exceed
the tolerance, and the steps would never end.
"""
RANK_ONE_RATIO = 1e-6
"""D Dᵀ has rank one if its second eigenvalue is below this fraction of the first."""
MIN_UNITS_FOR_ACTIVE_SET = 200
"""If η > 0 and with fewer units, the active-set method saves less time than its compilation takes.
"""
START_TOL_FACTOR = 0.3
"""Rows with a sparse start are solved to this fraction of the tolerance, because the active-set
method stops just below its tolerance, while accelerated steps end further below it."""
ACTIVE_SET_COST = 30
"""If η > 0, a row with k of m units is solved by the active-set method if k³ times this is at most
the number of multiplications of the accelerated steps, m² per step."""
SPARE_UNITS = 1.2
"""If η > 0, the active-set method gives up rows that need more than this multiple of such a k."""
MAX_ACTIVE_UNITS = 1024
"""The active-set method gives up rows that need more units. This limits its memory."""


@dataclass(frozen=True)
class CodeProblem:
    """The problem min_u ½ u H uᵀ − b uᵀ + τ‖u‖₁ with b = x Wᵀ (over u ≥ 0 if ``positive``)."""

    H: Array
    """The Hessian, shape (m, m)"""
    W: Array
    """b = x Wᵀ, shape (m, p)"""
    tau: float
    positive: bool
    mu: float
    """A lower bound of the eigenvalues of H"""
    D: Array
    """Atoms of any length with H = D Dᵀ + μ I, in float64, shape (m, p)"""

    @cached_property
    def Wt(self) -> Array:
        """Wᵀ as a C-contiguous array, which products with sparse rows would copy otherwise."""
        return np.ascontiguousarray(self.W.T)

    @property
    def L(self) -> float:
        """An upper bound of the eigenvalues of H orthogonal to v."""
        return self._metric[0]

    @property
    def sigma(self) -> float:
        """The additional curvature along v; 0 if no direction is treated separately."""
        return self._metric[1]

    @property
    def v(self) -> Array:
        """The eigenvector of the largest eigenvalue L + σ, shape (m,)."""
        return self._metric[2]

    @cached_property
    def _metric(self) -> tuple[float, float, Array]:
        """L, σ and v, which only accelerated steps need."""
        dtype = self.H.dtype
        first, second, v = _leading_eigenvalues(self.D, MAX_EIGENVALUE_RATIO[dtype])
        return (second + self.mu) * (1 + 1e-6), first - second, v.astype(dtype)

    def times_H(self, U: Array, out: Array | None = None) -> Array:
        """Compute U H, through D if it has few features."""
        m, p = self.W.shape
        if self.mu == 0 or MIN_UNITS_PER_FEATURE * p > m:
            return np.matmul(U, self.H, out=out)
        UH = np.matmul(U @ self._atoms, self._atoms.T, out=out)
        UH += U.dtype.type(self.mu) * U
        return np.asarray(UH)

    @cached_property
    def _atoms(self) -> Array:
        """D in the dtype of H."""
        return self.D.astype(self.H.dtype)

    @property
    def norm(self) -> float:
        """The largest eigenvalue of H."""
        return self.L + self.sigma

    @property
    def max_momentum(self) -> float:
        """The optimal constant momentum (1 − √q)/(1 + √q) for q = μ/L."""
        return (1 - self._root) / (1 + self._root)

    @property
    def heavy_ball(self) -> tuple[float, float]:
        """The optimal constant step length 4/(1 + √q)² and momentum for heavy-ball steps."""
        return 4 / (1 + self._root) ** 2, self.max_momentum**2

    @property
    def _root(self) -> float:
        """√q = √(μ/L)."""
        return float(np.sqrt(self.mu / self.L)) if self.L > 0 else 1.0

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
        largest = float(np.finfo(dtype).max)
        with np.errstate(over="ignore"):
            scaled = D / p**0.5
            atoms = scaled.astype(dtype)
            H = atoms @ atoms.T
            H.flat[:: m + 1] += np.array(eta / m, dtype)
            W = (D / p + eta / m * C).astype(dtype)
        if not max(float(np.abs(H).max()), float(np.abs(W).max())) < largest:
            raise InvalidInputError(
                f"encoder_weight={eta:g} leads to numbers that {dtype} cannot represent; use a"
                " smaller encoder_weight."
            )
        problem = cls(
            H=H,
            W=W,
            tau=min(lam / m, largest),
            positive=positive,
            mu=eta / m,
            D=scaled,
        )
        if eta > 0:
            problem.L  # noqa: B018  computed here once, rather than in several threads
        return problem

    @classmethod
    def lasso(cls, D: Array, alpha: float, *, gram: Array | None, positive: bool) -> CodeProblem:
        """Build the problem min_u ½‖x − u D‖² + α‖u‖₁ for atoms of any length.

        ``gram`` is D Dᵀ if it is known already.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            H = np.ascontiguousarray(D @ D.T if gram is None else gram)
        largest = float(np.finfo(D.dtype).max)
        if not float(np.abs(H).max(initial=0)) < largest:
            raise InvalidInputError(
                f"the products of atoms are too large for {D.dtype}; divide the dictionary by a"
                " number and alpha by the same number, and the codes are multiplied by it."
            )
        return cls(H, D, min(alpha, largest), positive, mu=0.0, D=D.astype(np.float64))


def _leading_eigenvalues(D: Array, max_ratio: float) -> tuple[float, float, Array]:
    """Return bounds of the two largest eigenvalues of D Dᵀ and the first eigenvector.

    The first bound is at most ``max_ratio`` times the second. Both bounds are equal, and the
    vector is zero, if the first eigenvalue is less than twice the second.
    """
    m, p = D.shape
    # D Dᵀ and DᵀD have the same non-zero eigenvalues; use the smaller matrix.
    gram = D @ D.T if m <= p else D.T @ D
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
    b = np.asarray(X @ (problem.Wt if scipy.sparse.issparse(X) else problem.W.T))
    return solve_codes(U.copy(), b, problem, tol=tol, max_iter=max_iter)


def solve_codes(U: Array, b: Array, problem: CodeProblem, *, tol: float, max_iter: int) -> Codes:
    """Do what ``code_step`` does, from b = X Wᵀ. U is overwritten."""
    block = _Block.of(problem, min(tol, MAX_TOL), U, b)
    scale, rows = block.scale, np.arange(len(U))
    if max_iter > 0:
        block.U[scale == 0] = 0  # the code is zero where b = 0
        rows = rows[scale > 0]
        if problem.mu == 0:
            rows = block.solve_from_zero(block.solve_sparse(rows))
        else:
            rows = block.solve_sparse_starts(rows)
    rows = block.accelerate(rows, max_iter)
    # If the gradient at zero vanishes the code is zero, and any violation counts fully.
    relative = np.divide(block.violation, scale, out=np.sign(block.violation), where=scale > 0)
    return Codes(block.U, float(relative.max(initial=0)), len(rows))


@dataclass(frozen=True)
class _Block:
    """Rows that are solved together, each with its best code so far.

    The methods take the indices of rows, improve their codes and return the unfinished ones.
    """

    problem: CodeProblem
    tol: float
    U: Array
    b: Array
    scale: Array
    """max|b| of each row"""
    violation: Array
    value: Array
    """The objective of each row; unknown for rows that are finished by the active-set method"""

    @classmethod
    def of(cls, problem: CodeProblem, tol: float, U: Array, b: Array) -> _Block:
        """Return the block of rows with b = X Wᵀ and the codes U, which are overwritten."""
        scale = np.maximum(b.max(axis=1, initial=0), -b.min(axis=1, initial=0))
        return cls(problem, tol, U, b, scale, np.zeros_like(scale), np.zeros_like(scale))

    def solve_sparse(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Solve rows by the active-set method."""
        m, p = self.problem.W.shape
        if not rows.size:
            return rows
        # Without strong convexity accelerated steps are slow, so that the method is also used for
        # dense rows. No optimum needs more units than there are features.
        if self.problem.mu == 0:
            max_units = min(m, p, MAX_ACTIVE_UNITS)
        else:
            max_units = min(m, int(SPARE_UNITS * self._max_sparse_units), MAX_ACTIVE_UNITS)
        finished = solve_rows(
            self.U,
            self.b,
            rows,
            self.problem,
            tol=self.tol,
            scale=self.scale,
            max_units=max_units,
            violation=self.violation,
            value=self.value,
        )
        return rows[~finished]

    def solve_sparse_starts(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Solve rows with a sparse start by the active-set method if η > 0."""
        if self.U.shape[1] < MIN_UNITS_FOR_ACTIVE_SET:
            return rows
        return dataclasses.replace(self, tol=START_TOL_FACTOR * self.tol).solve_sparse(rows)

    def solve_from_zero(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Solve rows by the active-set method again, now from zero.

        It fails if the start has dependent atoms or too many units.
        """
        retried = rows[self.U[rows].any(axis=1)]
        if not retried.size:
            return rows
        U, b = self.U[retried], self.b[retried]
        before = _measure(U, U @ self.problem.H, b, self.problem)
        cold = _Block.of(self.problem, self.tol, np.zeros_like(b), b)
        accepted = np.ones(len(b), dtype=bool)
        accepted[cold.solve_sparse(np.arange(len(b)))] = False
        # A tolerance that is not small allows codes that are worse than the start.
        accepted &= cold.value <= before.value + _noise(before, cold.scale)
        done = retried[accepted]
        self.U[done], self.violation[done] = cold.U[accepted], cold.violation[accepted]
        return np.setdiff1d(rows, done)

    def accelerate(self, rows: NDArray[np.intp], max_iter: int) -> NDArray[np.intp]:
        """Do accelerated steps for rows, and pass those that become sparse to ``solve_sparse``."""
        if not rows.size:
            return rows
        UH = self.problem.times_H(self.U[rows])
        measures = _measure(self.U[rows], UH, self.b[rows], self.problem)
        self.violation[rows], self.value[rows] = measures.violation, measures.value
        kept = measures.violation > _tolerance(measures, self.scale[rows], self.problem, self.tol)
        rows = rows[kept]
        iterate = Iterate(self.b[rows], self.U[rows], UH[kept], self.problem)
        unfinished = np.ones(len(rows), dtype=bool)
        is_new = np.full(len(rows), self.problem.mu > 0)  # not yet passed to solve_sparse
        best = self.value[rows]
        n_steps = 0
        while n_steps < max_iter:
            n_steps += STEPS_BETWEEN_CHECKS
            if not unfinished.any():
                break
            iterate.advance(STEPS_BETWEEN_CHECKS)
            measures = _measure(iterate.U, iterate.UH, iterate.b, self.problem)
            is_late = n_steps > MAX_HEAVY_STEPS * self._expected_steps
            worse = measures.value > best + _noise(measures, self.scale[rows])
            iterate.slow_down(worse | is_late)
            best = np.minimum(best, measures.value)
            finished = unfinished & self._is_finished(rows, measures)
            sparse = unfinished & ~finished & is_new & self._is_sparse(iterate.U, n_steps)
            is_last = n_steps >= max_iter
            self._store(rows, iterate, measures, unfinished if is_last else finished | sparse)
            unfinished &= ~finished
            if sparse.any():
                unfinished[sparse] = np.isin(rows[sparse], self.solve_sparse(rows[sparse]))
                is_new[sparse] = False
            if np.count_nonzero(unfinished) <= MAX_KEPT_FRACTION * len(rows):
                rows, is_new, best = rows[unfinished], is_new[unfinished], best[unfinished]
                iterate, unfinished = iterate.select(unfinished), unfinished[unfinished]
        return rows[unfinished]

    def _is_finished(self, rows: NDArray[np.intp], measures: _Measures) -> NDArray[np.bool_]:
        """Select the rows that reached the tolerance and are not worse than their start."""
        scale = self.scale[rows]
        tolerance = _tolerance(measures, scale, self.problem, self.tol)
        lower = measures.value <= self.value[rows] + _noise(measures, scale)
        return np.asarray(lower & (measures.violation <= tolerance))

    def _store(
        self,
        rows: NDArray[np.intp],
        iterate: Iterate,
        measures: _Measures,
        selected: NDArray[np.bool_],
    ) -> None:
        """Store the selected codes, except those with a higher objective than the stored ones."""
        lower = measures.value <= self.value[rows] + _noise(measures, self.scale[rows])
        stored = lower & selected
        better = rows[stored]
        self.U[better] = iterate.U[stored]
        self.violation[better] = measures.violation[stored]
        self.value[better] = measures.value[stored]

    def _is_sparse(self, U: Array, n_steps: int) -> NDArray[np.bool_]:
        """Select the rows that use few units, if there were enough steps to see that."""
        n, n_units = U.shape
        if n_units < MIN_UNITS_FOR_ACTIVE_SET or n_steps < MIN_STEPS_BEFORE_ACTIVE_SET:
            return np.zeros(n, dtype=bool)
        used = np.count_nonzero(U, axis=1)
        return np.asarray((used > 0) & (used <= self._max_sparse_units))

    @property
    def _expected_steps(self) -> float:
        """The number of heavy-ball steps that shrink an error to the tolerance, if η > 0."""
        tol = max(self.tol, float(np.finfo(self.U.dtype).eps))
        return float(max(-np.log(tol), 1.0) / max(-np.log(self.problem.max_momentum), 1e-3))

    @property
    def _max_sparse_units(self) -> float:
        """The number of units up to which the active-set method is faster, if η > 0."""
        m = len(self.problem.W)
        return float((self._expected_steps * m**2 / ACTIVE_SET_COST) ** (1 / 3))


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


def _measure(U: Array, UH: Array, b: Array, problem: CodeProblem) -> _Measures:
    """Measure each row's code."""
    return _Measures(*measure_rows(U, UH, b, problem.tau, positive=problem.positive))


def _noise(measures: _Measures, scale: Array) -> Array:
    """Return the rounding error of the objective."""
    return np.asarray(8 * np.finfo(scale.dtype).eps * measures.l1 * scale)


def _tolerance(measures: _Measures, scale: Array, problem: CodeProblem, tol: float) -> Array:
    """Return the violation at which each row is finished: ``tol`` or the rounding error.

    Rounding changes U H − b by the machine epsilon times its terms, and a gradient smaller than
    ‖H‖ times the last digits of u can no longer change u.
    """
    eps = 4 * float(np.finfo(scale.dtype).eps)
    # The small factors come first, so that the products do not overflow.
    rounding = eps * measures.l1 * float(problem.H.diagonal().max(initial=0)) + eps * scale
    # The squares of ‖u‖₂ may overflow; ‖u‖₁ is not smaller.
    rounding += eps * np.minimum(measures.norm, measures.l1) * problem.norm
    return np.asarray(np.maximum(tol * scale, rounding))


class Coder(Protocol):
    """Computes the codes of some rows."""

    @property
    def n_units(self) -> int:
        """The number of units, m."""
        ...

    def write(self, U: Array, X: Rows, b: Array | None = None, start: Array | None = None) -> int:
        """Write the codes of X to U and return how many are not solved.

        The products b = X Dᵀ and a start may be given.
        """
        ...


@dataclass(frozen=True)
class LassoCoder:
    """The minimisers of ½‖x − u D‖² + α‖u‖₁."""

    problem: CodeProblem
    tol: float
    max_iter: int
    debias: bool = False
    """Whether the codes are replaced by those of least squares on their support"""

    @property
    def n_units(self) -> int:
        return len(self.problem.W)

    def write(self, U: Array, X: Rows, b: Array | None = None, start: Array | None = None) -> int:
        """Solve the rows to the optimality residual ``tol``."""
        b = np.asarray(X @ self.problem.W.T) if b is None else b
        U[...] = 0 if start is None else start
        solved = solve_codes(U, b, self.problem, tol=self.tol, max_iter=self.max_iter)
        if self.debias:
            project_codes(U, X, self.problem.W, self.problem.H, positive=self.problem.positive)
        return solved.n_unfinished


@dataclass(frozen=True)
class EnergyCoder:
    """The minimisers of the energy, started from the codes of the encoder if it is part of it."""

    problem: CodeProblem
    C: Array
    thresholding: Thresholding
    tol: float
    max_iter: int

    @property
    def n_units(self) -> int:
        return len(self.C)

    def write(self, U: Array, X: Rows, b: Array | None = None, start: Array | None = None) -> int:
        """Solve the rows to the optimality residual ``tol``."""
        b = np.asarray(X @ self.problem.W.T) if b is None else b
        if start is None and self.problem.mu > 0:
            encode(X, self.C, self.thresholding, out=U)
        else:
            U[...] = 0 if start is None else start
        return solve_codes(U, b, self.problem, tol=self.tol, max_iter=self.max_iter).n_unfinished
