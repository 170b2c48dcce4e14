"""All that passes from the rows to the weights: one additive sum of small matrices."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lincode.core.types import Array, Rows


@dataclass(frozen=True)
class CodeStats:
    """Sums over rows of what the D step, the C step and the energy need of U and X.

    Additive: the statistics of two sets of rows are the sum of theirs. Everything is
    float64 whatever the rows are, because the energy is a difference of large terms.
    """

    UtU: Array
    """UᵀU (m, m)"""
    UtX: Array
    """UᵀX (m, p)"""
    l1: float
    """Σ|U|"""
    used: Array
    """For each unit, how many rows use it (m,)"""
    n: float
    """Number of rows; not whole where older rows count less"""
    residual: float = 0.0
    """The largest optimality residual of any row's code; merged by max"""

    @classmethod
    def of(cls, U: Array, X: Rows, residual: float = 0.0) -> CodeStats:
        """The statistics of one block of rows."""
        return cls(
            UtU=(U.T @ U).astype(np.float64, copy=False),
            UtX=np.asarray(U.T @ X, dtype=np.float64),
            l1=float(np.abs(U).sum(dtype=np.float64)),
            used=np.count_nonzero(U, axis=0).astype(np.float64),
            n=U.shape[0],
            residual=residual,
        )

    def __add__(self, other: CodeStats) -> CodeStats:
        return CodeStats(
            UtU=self.UtU + other.UtU,
            UtX=self.UtX + other.UtX,
            l1=self.l1 + other.l1,
            used=self.used + other.used,
            n=self.n + other.n,
            residual=max(self.residual, other.residual),
        )

    def without(self, units: NDArray[np.intp]) -> CodeStats:
        """The same rows with their codes of some units taken to be 0; Σ|U| is left as it was."""
        kept = np.ones(len(self.used))
        kept[units] = 0
        return replace(
            self,
            UtU=self.UtU * kept * kept[:, None],
            UtX=self.UtX * kept[:, None],
            used=self.used * kept,
        )

    def weighted(self, weight: float) -> CodeStats:
        """The same rows, each counting ``weight`` times."""
        return CodeStats(
            UtU=weight * self.UtU,
            UtX=weight * self.UtX,
            l1=weight * self.l1,
            used=weight * self.used,
            n=weight * self.n,
            residual=self.residual,
        )
