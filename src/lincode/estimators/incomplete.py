"""Codes of samples with missing entries, by the algorithms other than "encoder"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lincode.core.coders import Coder
from lincode.core.missing_codes import PatternProblem, patterns
from lincode.core.types import Array, Rows

Solver = Callable[[Array, Array, NDArray[np.intp]], int]
"""Writes the codes of samples with the same observed entries; returns how many are not solved."""


@dataclass(frozen=True)
class IncompleteCoder:
    """Another coder for complete samples; samples with NaN are solved for their observed entries.

    The problem of a sample depends on which entries are observed. Samples with the same pattern
    are solved together.
    """

    coder: Coder
    solve: Solver

    @property
    def n_units(self) -> int:
        return self.coder.n_units

    def write(self, U: Array, X: Rows, b: Array | None = None, start: Array | None = None) -> int:
        """Write the codes of X to U. Products and a start are not used."""
        complete = ~np.isnan(X).any(axis=1)
        if complete.all():
            return self.coder.write(U, X)
        codes = np.empty((int(complete.sum()), self.n_units), U.dtype)
        n_unfinished = self.coder.write(codes, X[complete]) if len(codes) else 0
        U[complete] = codes
        for observed, rows in patterns(X, np.flatnonzero(~complete)):
            codes = np.zeros((len(rows), self.n_units), U.dtype)
            if observed.size:
                n_unfinished += self.solve(codes, X[np.ix_(rows, observed)], observed)
            U[rows] = codes
        return n_unfinished


def exact_solver(
    D: Array, C: Array, lam: float, eta: float, *, positive: bool, tol: float, max_iter: int
) -> Solver:
    """Return the solver of "exact": the code and the missing entries minimise the energy."""

    def solve(U: Array, X: Array, observed: NDArray[np.intp]) -> int:
        problem = PatternProblem.of(D, C, eta, observed)
        return problem.solve(X, U, lam, positive=positive, tol=tol, max_iter=max_iter)

    return solve


def restricted_solver(D: Array, make: Callable[[Array, float], Coder], *, unit: bool) -> Solver:
    """Return the solver of algorithms without the encoder: missing entries are left out.

    ``make(atoms, f)`` returns the coder of a dictionary, with a penalty that is multiplied by the
    fraction f of observed entries. If ``unit`` is true, the observed parts of the atoms are
    normalised, because greedy algorithms compare their products with the samples.
    """

    def solve(U: Array, X: Array, observed: NDArray[np.intp]) -> int:
        atoms = np.ascontiguousarray(D[:, observed])
        norms = np.linalg.norm(atoms, axis=1)[:, None]
        scale = np.where(norms > 0, norms, 1).astype(D.dtype) if unit else D.dtype.type(1)
        n_unfinished = make(atoms / scale, len(observed) / D.shape[1]).write(U, X)
        U /= np.ravel(scale)
        return n_unfinished

    return solve
