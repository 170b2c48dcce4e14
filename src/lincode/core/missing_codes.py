"""Codes of rows with missing entries, for given D and C.

The code u and the missing entries x_M of a row minimise the energy together. With
B = I − D_M C_Mᵀ and the Cholesky factor L of m/η I + p C_M C_Mᵀ, the minimum over x_M is

    ‖[x_O/√p, x_O C_Oᵀ L⁻ᵀ] − u [D_O/√p, B L⁻ᵀ]‖²  +  2 f λ/m ‖u‖₁,

where O are the observed entries and f is the fraction of them. (λ is multiplied by f because the
first term is a sum over the observed entries.) This is a lasso problem with another dictionary,
which depends on the entries that are missing. Without the encoder (η = 0), they are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from lincode.core.code_step import CodeProblem, solve_codes
from lincode.core.types import Array


@dataclass(frozen=True)
class PatternProblem:
    """The problem of the codes of all rows in which the same entries are missing."""

    T: Array
    """The observed entries times T are the data of the lasso problem"""
    atoms: Array
    """The dictionary of the lasso problem"""
    fraction: float
    """f"""

    @classmethod
    def of(cls, D: Array, C: Array, eta: float, observed: NDArray[np.intp]) -> PatternProblem:
        """Eliminate the entries that are not observed. D and C are float64."""
        m, p = D.shape
        T, atoms = np.eye(len(observed)) / p**0.5, D[:, observed] / p**0.5
        if eta > 0:
            missing = np.setdiff1d(np.arange(p), observed)
            D_M, C_M = D[:, missing], C[:, missing]
            G = p * C_M @ C_M.T
            G.flat[:: m + 1] += m / eta
            B = np.eye(m) - D_M @ C_M.T
            solved = _divide_by_root(np.hstack([B.T, C[:, observed]]), G, m / eta)
            atoms, T = np.hstack([atoms, solved[:, :m].T]), np.hstack([T, solved[:, m:].T])
        return cls(T, atoms, len(observed) / p)

    def solve(
        self, X: Array, U: Array, lam: float, *, positive: bool, tol: float, max_iter: int
    ) -> int:
        """Write the codes of rows to U, and return how many are not solved.

        X are the observed entries of the rows.
        """
        A = self.atoms.astype(U.dtype)
        problem = CodeProblem.lasso(A, self.fraction * lam / len(A), gram=None, positive=positive)
        b = (X @ (self.T @ self.atoms.T)).astype(U.dtype, copy=False)
        solved = solve_codes(np.zeros_like(U), b, problem, tol=tol, max_iter=max_iter)
        U[...] = solved.U
        return solved.n_unfinished

    def energies(self, X: Array, U: Array, lam: float) -> Array:
        """Return the energy of each row at its best missing entries, without the ridge."""
        R = X @ self.T - U @ self.atoms
        l1 = np.abs(U).sum(axis=1, dtype=np.float64)
        return np.asarray(np.einsum("ij,ij->i", R, R) + 2 * self.fraction * lam / U.shape[1] * l1)


def _divide_by_root(A: Array, G: Array, smallest: float) -> Array:
    """Return L⁻¹ A with L Lᵀ = G. The eigenvalues of G are at least ``smallest``."""
    try:
        L = scipy.linalg.cholesky(G, lower=True)
        return np.asarray(scipy.linalg.solve_triangular(L, A, lower=True))
    except scipy.linalg.LinAlgError:  # the encoder is so large that G is singular after rounding
        values, vectors = scipy.linalg.eigh(G)
        roots = np.sqrt(np.maximum(values, smallest))
        return np.asarray((vectors.T @ A) / roots[:, None])


def patterns(X: Array, rows: NDArray[np.intp]) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Group rows of X by the entries that are observed, that is, not NaN.

    Returns pairs of the indices of the observed entries and the indices of the rows.
    """
    bits = np.packbits(~np.isnan(X[rows]), axis=1)
    _, first, group = np.unique(bits, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    members = np.split(rows[order], np.cumsum(np.bincount(group.ravel()))[:-1])
    return [
        (np.flatnonzero(~np.isnan(X[rows[k]])), indices)
        for k, indices in zip(first, members, strict=True)
    ]
