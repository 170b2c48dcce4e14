"""Codes for a given dictionary or network: by optimisation, greedily, or by a soft threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from lincode.core.code_step import CodeProblem, Codes, solve_codes
from lincode.core.encoder_step import Thresholding, encode
from lincode.core.prox import soft_threshold
from lincode.core.types import Array, Rows, row_squares

if TYPE_CHECKING:
    from lincode.core.omp import MatchingProblem


class Coder(Protocol):
    """Computes the codes of some rows."""

    @property
    def n_units(self) -> int:
        """The number of units, m."""
        ...

    def codes(self, X: Rows, b: Array | None = None, start: Array | None = None) -> Codes:
        """Return the codes of X. The products b = X Dᵀ and a start may be given."""
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

    def codes(self, X: Rows, b: Array | None = None, start: Array | None = None) -> Codes:
        """Solve the rows to the optimality residual ``tol``."""
        b = np.asarray(X @ self.problem.W.T) if b is None else b
        U = np.zeros_like(b) if start is None else start
        solved = solve_codes(U, b, self.problem, tol=self.tol, max_iter=self.max_iter)
        if not self.debias:
            return solved
        from lincode.core.debias import debias  # imports Numba

        problem = self.problem
        return solved._replace(U=debias(solved.U, b, problem.H, positive=problem.positive))


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

    def codes(self, X: Rows, b: Array | None = None, start: Array | None = None) -> Codes:
        """Solve the rows to the optimality residual ``tol``."""
        b = np.asarray(X @ self.problem.W.T) if b is None else b
        if start is None:
            in_energy = self.problem.mu > 0
            start = encode(X, self.C, self.thresholding) if in_energy else np.zeros_like(b)
        return solve_codes(start, b, self.problem, tol=self.tol, max_iter=self.max_iter)


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

    def codes(self, X: Rows, b: Array | None = None, start: Array | None = None) -> Codes:
        """Choose the atoms of the rows. The start is not used."""
        b = np.asarray(X @ self.D.T) if b is None else b
        U = self.problem.codes(
            b,
            row_squares(X),
            n_nonzero=self.n_nonzero,
            tol=self.tol,
            least_squares=self.least_squares,
        )
        return Codes(U, 0.0, 0)


@dataclass(frozen=True)
class ThresholdCoder:
    """The soft threshold of X Dᵀ."""

    D: Array
    alpha: float
    positive: bool

    @property
    def n_units(self) -> int:
        return len(self.D)

    def codes(self, X: Rows, b: Array | None = None, start: Array | None = None) -> Codes:
        """Compute the codes of the rows. The start is not used."""
        Z = np.asarray(X @ self.D.T) if b is None else b
        return Codes(soft_threshold(Z, self.alpha, positive=self.positive), 0.0, 0)
