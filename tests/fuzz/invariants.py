"""What must hold after every successful call, recomputed in float64 from the learned arrays.

Nothing here uses the library's own energy, threshold or optimality functions.

    E(U, D, C) = 1/p ‖X − U D‖² + η/m (‖U − X Cᵀ‖² + ρ‖C‖²) + 2λ/m ‖U‖₁
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

ROUNDING = 200
"""Rounding errors are allowed this many eps times the sizes of the terms that are added."""


def eps_of(dtype: Any) -> float:
    return float(np.finfo(dtype).eps)


@dataclass(frozen=True)
class Problem:
    """What the codes of a fitted model minimise, in float64."""

    D: Any
    C: Any
    lam: float
    eta: float
    positive: bool

    @classmethod
    def of(cls, model: Any) -> Problem:
        """Return the problem of "exact" codes, or that of the lasso with D alone."""
        return cls(
            D=np.asarray(model.components_, dtype=np.float64),
            C=np.asarray(model.encoder_, dtype=np.float64),
            lam=float(model.alpha_),
            eta=0.0 if model.transform_algorithm == "lasso" else float(model.encoder_weight),
            positive=bool(model.positive_code),
        )

    def energies(self, X: Any, U: Any) -> Any:
        """E of each row (n,)."""
        m, p = self.D.shape
        reconstruction = ((X - U @ self.D) ** 2).sum(axis=1) / p
        encoder = ((U - X @ self.C.T) ** 2).sum(axis=1) / m
        return reconstruction + self.eta * encoder + 2 * self.lam / m * np.abs(U).sum(axis=1)

    def sizes(self, X: Any, U: Any) -> Any:
        """The size of the terms that E of each row adds and subtracts (n,)."""
        other = Problem(-np.abs(self.D), -np.abs(self.C), self.lam, self.eta, self.positive)
        return np.asarray(other.energies(np.abs(X), np.abs(U)))

    def gradient_terms(self, X: Any) -> tuple[Any, Any, Any]:
        """H (m, m), b (n, m) and the size of the terms of b (n,)."""
        m, p = self.D.shape
        H = self.D @ self.D.T / p + self.eta / m * np.eye(m)
        W = self.D / p + self.eta / m * self.C
        terms = np.abs(X) @ (np.abs(self.D) / p + self.eta / m * np.abs(self.C)).T
        return H, X @ W.T, terms.max(axis=1)

    def violations(self, X: Any, U: Any) -> Any:
        """The largest violation of the optimality conditions in each row (n,)."""
        H, b, _ = self.gradient_terms(X)
        tau = self.lam / len(self.D)
        G = U @ H - b
        at_zero = np.maximum(-G - tau, 0) if self.positive else np.maximum(np.abs(G) - tau, 0)
        return np.where(U == 0, at_zero, np.abs(G + tau * np.sign(U))).max(axis=1)

    def allowed(self, X: Any, U: Any, tol: float, eps: float) -> Any:
        """The violation that ``tol`` and rounding explain in each row (n,)."""
        H, b, terms = self.gradient_terms(X)
        size = np.abs(U).sum(axis=1) * np.abs(H).max() + terms + self.lam / len(self.D)
        size += np.linalg.norm(H, 2) * np.linalg.norm(U, axis=1)
        return 1.01 * tol * np.abs(b).max(axis=1) + ROUNDING * eps * size


def joined(model: Any, codes: Any) -> Any:
    """Codes as ``transform`` gives them, as a dense float64 array with one column per atom."""
    U = codes.toarray() if scipy.sparse.issparse(codes) else np.asarray(codes)
    U, m = U.astype(np.float64), len(model.components_)
    return U[:, :m] - U[:, m:] if model.split_sign else U


# Learned arrays


def check_arrays(model: Any) -> None:
    """All arrays are finite, and no atom is too long."""
    names = ["components_", "encoder_", "energy_path_", "energy_", "usage_", "matching_threshold_"]
    for name in names:
        assert np.isfinite(getattr(model, name)).all(), f"{name} must be finite"
    for name, value in model.optimality_.items():
        assert np.isfinite(value), f"optimality_[{name!r}] must be finite, got {value}"
    assert (model.usage_ >= 0).all(), "usage_ must be at least 0"
    assert (model.usage_ <= 1 + 1e-9).all(), "usage_ must be at most 1"
    length = np.linalg.norm(model.components_.astype(np.float64), axis=1).max()
    assert length <= 1 + 16 * eps_of(model.components_.dtype), f"an atom has length {length!r}"


def check_shapes(model: Any, p: int, dtype: Any) -> None:
    m = p if model.n_components is None else model.n_components
    for A in (model.components_, model.encoder_):
        assert (A.shape, A.dtype) == ((m, p), dtype), f"got {A.shape} of {A.dtype}"
    assert model.n_features_in_ == p, "n_features_in_ must be the number of columns"


def check_energy_path(model: Any) -> None:
    path = model.energy_path_
    assert (np.diff(path) <= 0).all(), f"energy_path_ must not rise, got {path}"
    assert path[-1] == model.energy_, "energy_ must be the last of energy_path_"
    assert len(path) == model.n_iter_ + 1, "energy_path_ must have n_iter_ + 1 entries"


def check_start(model: Any, X: Any, fraction: float, dtype: Any) -> None:
    """Training from U = 0 and C = 0 starts at ‖X‖²/(N p), and stays there above alpha_max."""
    expected = float((X**2).sum()) / X.size
    error = abs(model.energy_path_[0] - expected)
    assert error <= ROUNDING * eps_of(dtype) * expected, f"energy_path_[0] must be {expected!r}"
    if fraction > 1:  # at 1, rounding may decide
        assert not model.usage_.any(), "no atom may be used where alpha is above alpha_max"
        assert not model.encoder_.any(), "the encoder must be 0 where no atom is used"


def check_energy(model: Any, data: Any, X: Any, exact: Any, dtype: Any) -> None:
    """``score`` is minus the mean energy of exact codes, and training does not go below it.

    The training codes violate their optimality conditions by at most ``optimality_["joint"]`` times
    max|b|; the energy of a row is 2η/m-strongly convex, which bounds how much higher it can be.
    """
    problem, eps, m = Problem.of(model), eps_of(dtype), len(model.components_)
    C2 = float((model.encoder_.astype(np.float64) ** 2).sum())
    ridge = len(X) * float(model.encoder_weight) / m * model.noise_variance_ * C2
    lowest = float(problem.energies(X, exact).sum()) + ridge
    rounding = ROUNDING * eps * (float(problem.sizes(X, exact).sum()) + ridge)
    error = abs(len(X) * model.score(data) + lowest)
    assert error <= rounding, f"N score is wrong by {error:.1e}, allowed are {rounding:.1e}"
    unsolved = problem.allowed(X, exact, model.transform_tol, eps)
    gap = float((2 * unsolved * np.abs(exact).sum(axis=1)).sum())
    if problem.eta > 0:
        gap = min(gap, float((m**2 * unsolved**2 / problem.eta).sum()))
    slack, energy = rounding + 2 * gap, len(X) * model.energy_
    assert lowest <= energy + slack, (
        f"N energy_ = {energy!r} is below the energy of exact codes, {lowest!r} ± {slack:.1e}"
    )
    if problem.eta > 0:
        _, b, terms = problem.gradient_terms(X)
        joint = model.optimality_["joint"] * np.abs(b).max(axis=1) + ROUNDING * eps * terms
        highest = lowest + float((m**2 * joint**2 / problem.eta).sum()) + slack
        assert energy <= highest, f"N energy_ = {energy!r} is above {highest!r}"


# Codes


def encoder_outputs(model: Any, X: Any, dtype: Any) -> tuple[Any, Any, Any]:
    """The codes of the encoder in float64, how far rounding can move them, and which it decides."""
    mode, t = model.threshold_mode, float(model.threshold_)
    refined = model.refine_max_iter > 0
    C = (model.refined_encoder_ if refined else model.encoder_).astype(np.float64)
    Z = np.maximum(X @ C.T, 0) if model.positive_code else X @ C.T
    size = np.abs(Z)
    rounding = ROUNDING * eps_of(dtype) * (np.abs(X) @ np.abs(C).T + t) + np.finfo(dtype).tiny
    near = np.zeros(Z.shape, dtype=bool)
    if mode == "soft":
        U = np.sign(Z) * np.maximum(size - t, 0)
    elif mode == "hard":
        U, near = np.where(size > t, Z, 0), np.abs(size - t) <= rounding
    else:
        ordered, k = np.sort(size, axis=1)[:, ::-1], min(model.n_nonzero_coefs_, Z.shape[1])
        U = np.where(size >= ordered[:, k - 1 : k], Z, 0)
        if k < Z.shape[1]:
            last, after = ordered[:, k - 1 : k], ordered[:, k : k + 1]
            slack = 2 * rounding.max(axis=1, keepdims=True)
            near = (size >= after - slack) & (size <= last + slack) & (last - after <= slack)
    gains = model.gains_ if model.fit_gains and not refined else np.ones(len(C))
    return gains * U, (1 + gains) * rounding, near


def check_codes(model: Any, X: Any, U: Any, dtype: Any) -> None:
    """Encoder codes are thresholded outputs; others satisfy their optimality conditions."""
    if model.transform_algorithm == "encoder":
        expected, rounding, near = encoder_outputs(model, X, dtype)
        assert ((np.abs(U - expected) <= rounding) | near).all(), "an encoder code is wrong"
        return
    problem = Problem.of(model)
    assert not problem.positive or (U >= 0).all(), "codes must be at least 0"
    violation = problem.violations(X, U)
    allowed = problem.allowed(X, U, model.transform_tol, eps_of(dtype))
    assert (violation <= allowed).all(), f"violations {violation}, allowed are {allowed}"


def check_same_codes(model: Any, X: Any, U: Any, V: Any, dtype: Any, what: str) -> None:
    """Two codes of the same rows agree as far as rounding and ``transform_tol`` can tell."""
    if model.transform_algorithm == "encoder":
        _, rounding, near = encoder_outputs(model, X, dtype)
        assert ((np.abs(U - V) <= rounding) | near).all(), f"{what}: encoder codes differ"
        return
    # Codes that are optimal to rounding may differ where the problem is flat; energies may not.
    problem, eps = Problem.of(model), eps_of(dtype)
    allowed = np.maximum(*(problem.allowed(X, A, model.transform_tol, eps) for A in (U, V)))
    length = np.abs(U).sum(axis=1) + np.abs(V).sum(axis=1)
    slack = 4 * allowed * length + ROUNDING * eps * problem.sizes(X, U)
    difference = np.abs(problem.energies(X, U) - problem.energies(X, V))
    assert (difference <= slack).all(), f"{what}: the energies of the codes differ by {difference}"
