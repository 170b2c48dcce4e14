"""Codes for a given dictionary or network: by optimisation, greedily, or by a soft threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from lincode.core.code_step import CodeProblem, solve_codes
from lincode.core.encoder_step import Thresholding, encode
from lincode.core.prox import soft_threshold
from lincode.core.types import Array, Rows

if TYPE_CHECKING:
    from lincode.core.omp import MatchingProblem


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
            from lincode.core.debias import debias  # imports Numba

            U[...] = debias(U, b, self.problem.H, positive=self.problem.positive)
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

    def write(self, U: Array, X: Rows, b: Array | None = None, start: Array | None = None) -> int:
        """Choose the atoms of the rows. The start is not used."""
        from lincode.core.omp import squared_lengths  # imports Numba

        self.problem.write_codes(
            U,
            np.asarray(X @ self.D.T) if b is None else b,
            squared_lengths(X),
            n_nonzero=self.n_nonzero,
            tol=self.tol,
            least_squares=self.least_squares,
        )
        return 0


@dataclass(frozen=True)
class ThresholdCoder:
    """The soft threshold of X Dᵀ."""

    D: Array
    alpha: float
    positive: bool

    @property
    def n_units(self) -> int:
        return len(self.D)

    def write(self, U: Array, X: Rows, b: Array | None = None, start: Array | None = None) -> int:
        """Compute the codes of the rows. The start is not used."""
        Z = np.asarray(X @ self.D.T) if b is None else b
        soft_threshold(Z, self.alpha, positive=self.positive, out=U)
        return 0
