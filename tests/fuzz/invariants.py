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
    def of(cls, model: Any, *, lasso: bool = False) -> Problem:
        """Return the problem of "exact" codes, or that of the lasso with D alone."""
        return cls(
            D=np.asarray(model.components_, dtype=np.float64),
            C=np.asarray(model.encoder_, dtype=np.float64),
            lam=float(model.alpha_),
            eta=0.0 if lasso else float(model.encoder_weight),
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
        m, p = self.D.shape
        X, U = np.abs(X), np.abs(U)
        reconstruction = ((X + U @ np.abs(self.D)) ** 2).sum(axis=1) / p
        encoder = ((U + X @ np.abs(self.C.T)) ** 2).sum(axis=1) / m
        return reconstruction + self.eta * encoder + 2 * self.lam / m * U.sum(axis=1)

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


def ridge_per_sample(model: Any) -> float:
    """η/m ρ‖C‖²/N, the part of the energy that does not depend on the codes."""
    C = np.asarray(model.encoder_, dtype=np.float64)
    return float(model.encoder_weight) / len(C) * model.noise_variance_ * float((C**2).sum())


def joined(model: Any, codes: Any) -> Any:
    """Codes as ``transform`` gives them, as a dense float64 array with one column per atom."""
    U = codes.toarray() if scipy.sparse.issparse(codes) else np.asarray(codes)
    U = U.astype(np.float64)
    m = len(model.components_)
    return U[:, :m] - U[:, m:] if model.split_sign else U


# Learned arrays


def check_finite(model: Any) -> None:
    names = ["components_", "encoder_", "energy_path_", "energy_", "usage_", "matching_threshold_"]
    for name in names:
        assert np.isfinite(getattr(model, name)).all(), f"{name} must be finite"
    for name, value in getattr(model, "optimality_", {}).items():
        assert np.isfinite(value), f"optimality_[{name!r}] must be finite, got {value}"
    assert (model.usage_ >= 0).all(), "usage_ must be at least 0"
    assert (model.usage_ <= 1 + 1e-9).all(), "usage_ must be at most 1"


def check_shapes(model: Any, p: int, dtype: Any) -> None:
    m = p if model.n_components is None else model.n_components
    for name in ("components_", "encoder_"):
        A = getattr(model, name)
        assert A.shape == (m, p), f"{name} must have shape {(m, p)}, got {A.shape}"
        assert A.dtype == dtype, f"{name} must be {dtype}, got {A.dtype}"
    assert model.n_features_in_ == p, "n_features_in_ must be the number of columns"


def check_atoms(model: Any) -> None:
    D = np.asarray(model.components_, dtype=np.float64)
    length = np.linalg.norm(D, axis=1).max()
    assert length <= 1 + 16 * eps_of(model.components_.dtype), f"an atom has length {length!r}"


def check_energy_path(model: Any) -> None:
    path = model.energy_path_
    assert (np.diff(path) <= 0).all(), f"energy_path_ must not rise, got {path}"
    assert path[-1] == model.energy_, "energy_ must be the last of energy_path_"
    assert len(path) == model.n_iter_ + 1, "energy_path_ must have n_iter_ + 1 entries"


def check_first_energy(model: Any, X: Any, dtype: Any) -> None:
    """Training from U = 0 and C = 0 starts at ‖X‖²/(N p)."""
    expected = float((X**2).sum()) / X.size
    error = abs(model.energy_path_[0] - expected)
    assert error <= ROUNDING * eps_of(dtype) * expected, (
        f"energy_path_[0] must be ‖X‖²/(N p) = {expected!r}, got {model.energy_path_[0]!r}"
    )


def check_energy(model: Any, X: Any, exact: Any, dtype: Any) -> None:
    """The energy of training lies between that of exact codes and what ``optimality_`` allows.

    No codes have a lower energy than exact ones. The training codes violate their optimality
    conditions by at most ``optimality_["joint"]`` times max|b|; the energy of a row is
    2η/m-strongly convex, which bounds how much higher it can be.
    """
    problem, eps = Problem.of(model), eps_of(dtype)
    ridge, m = len(X) * ridge_per_sample(model), len(model.components_)
    lowest = float(problem.energies(X, exact).sum()) + ridge
    rounding = ROUNDING * eps * (float(problem.sizes(X, exact).sum()) + ridge)
    unsolved = problem.allowed(X, exact, model.transform_tol, eps)
    gap = float((2 * unsolved * np.abs(exact).sum(axis=1)).sum())
    if problem.eta > 0:
        gap = min(gap, float((m**2 * unsolved**2 / problem.eta).sum()))
    slack = rounding + 2 * gap
    energy = len(X) * model.energy_
    assert lowest <= energy + slack, (
        f"N energy_ = {energy!r} is below the energy of exact codes, {lowest!r} ± {slack:.1e}"
    )
    _, b, terms = problem.gradient_terms(X)
    if problem.eta > 0:
        joint = model.optimality_["joint"] * np.abs(b).max(axis=1) + ROUNDING * eps * terms
        highest = lowest + float((m**2 * joint**2 / problem.eta).sum()) + slack
        assert energy <= highest, (
            f"N energy_ = {energy!r} is above {highest!r}, the most that optimality_ allows"
        )


def check_score(model: Any, data: Any, X: Any, exact: Any, dtype: Any) -> None:
    """``score`` is minus the mean energy of exact codes."""
    problem = Problem.of(model)
    ridge = ridge_per_sample(model)
    expected = -float(problem.energies(X, exact).mean()) - ridge
    slack = ROUNDING * eps_of(dtype) * (float(problem.sizes(X, exact).mean()) + ridge)
    score = model.score(data)
    assert abs(score - expected) <= slack, (
        f"score must be {expected!r} ± {slack:.1e}, got {score!r}"
    )


def check_no_codes_from_alpha_max(model: Any, fraction: float) -> None:
    """From ``alpha_max`` on, training from C = 0 uses no atom; at 1, rounding may decide."""
    if fraction > 1:
        assert not model.usage_.any(), "no atom may be used where alpha is above alpha_max"
        assert not model.encoder_.any(), "the encoder must be 0 where no atom is used"


# Codes


def encoder_outputs(model: Any, X: Any, dtype: Any) -> tuple[Any, Any, Any, float, Any]:
    """Return the outputs Z of the encoder in float64, and what turns them into codes.

    The others are their magnitudes, which decide whether a code is zero, how far rounding can move
    them, the threshold, and the entries whose code rounding decides.
    """
    mode, t = model.threshold_mode, float(model.threshold_)
    encoder = model.refined_encoder_ if model.refine_max_iter > 0 else model.encoder_
    C = np.asarray(encoder, dtype=np.float64)
    Z = X @ C.T
    magnitudes = np.maximum(Z, 0) if model.positive_code else np.abs(Z)
    rounding = ROUNDING * eps_of(dtype) * (np.abs(X) @ np.abs(C).T + t) + np.finfo(dtype).tiny
    near = np.zeros(Z.shape, dtype=bool)
    if mode == "hard":
        near = np.abs(magnitudes - t) <= rounding
    elif mode == "top_k" and model.n_nonzero_coefs_ < Z.shape[1]:
        last = np.sort(magnitudes, axis=1)[:, ::-1][:, model.n_nonzero_coefs_ - 1 :][:, :2]
        slack = 2 * rounding.max(axis=1, keepdims=True)
        near = (magnitudes >= last[:, 1:] - slack) & (magnitudes <= last[:, :1] + slack)
        near &= last[:, :1] - last[:, 1:] <= slack
    return Z, magnitudes, rounding, t, near


def check_encoder_codes(model: Any, X: Any, U: Any, dtype: Any) -> None:
    """Encoder codes are X Cᵀ after a soft or hard threshold or the largest, times the gains."""
    Z, magnitudes, rounding, t, near = encoder_outputs(model, X, dtype)
    Z = np.maximum(Z, 0) if model.positive_code else Z
    if model.threshold_mode == "soft":
        expected = np.sign(Z) * np.maximum(magnitudes - t, 0)
    elif model.threshold_mode == "hard":
        expected = np.where(magnitudes > t, Z, 0)
    else:
        k = min(model.n_nonzero_coefs_, Z.shape[1])
        cutoff = np.sort(magnitudes, axis=1)[:, ::-1][:, k - 1 : k]
        expected = np.where(magnitudes >= cutoff, Z, 0)
    calibrated = model.fit_gains and model.refine_max_iter == 0
    gains = model.gains_ if calibrated else np.ones(len(model.encoder_))
    error = np.abs(U - gains * expected) - (1 + gains) * rounding
    error[near] = 0  # rounding decides there
    assert (error <= 0).all(), f"an encoder code is wrong by {error.max():.1e} more than rounding"


def check_solved_codes(model: Any, X: Any, U: Any, dtype: Any, *, lasso: bool) -> None:
    """Solved codes satisfy the optimality conditions to ``transform_tol`` and rounding."""
    problem = Problem.of(model, lasso=lasso)
    if problem.positive:
        assert (U >= 0).all(), "positive_code=True must give codes of at least 0"
    violation = problem.violations(X, U)
    allowed = problem.allowed(X, U, model.transform_tol, eps_of(dtype))
    worst = int(np.argmax(violation - allowed))
    assert (violation <= allowed).all(), (
        f"the code of row {worst} violates its optimality conditions by {violation[worst]:.3e},"
        f" allowed are {allowed[worst]:.3e}"
    )


def check_same_codes(model: Any, X: Any, U: Any, V: Any, dtype: Any, what: str) -> None:
    """Two codes of the same rows agree as far as rounding and ``transform_tol`` can tell."""
    algorithm = model.transform_algorithm
    if algorithm == "encoder":
        _, _, rounding, _, near = encoder_outputs(model, X, dtype)
        calibrated = model.fit_gains and model.refine_max_iter == 0
        gains = np.maximum(1.0, model.gains_) if calibrated else np.ones(len(model.encoder_))
        error = np.abs(U - V) - gains * rounding
        error[near] = 0  # rounding decides there
        assert (error <= 0).all(), f"{what}: encoder codes differ by {error.max():.1e}"
        return
    # Codes that are optimal to rounding may differ where the problem is flat; energies may not.
    problem, eps = Problem.of(model, lasso=algorithm == "lasso"), eps_of(dtype)
    allowed = np.maximum(*(problem.allowed(X, A, model.transform_tol, eps) for A in (U, V)))
    length = np.abs(U).sum(axis=1) + np.abs(V).sum(axis=1)
    slack = 4 * allowed * length + ROUNDING * eps * problem.sizes(X, U)
    difference = np.abs(problem.energies(X, U) - problem.energies(X, V))
    assert (difference <= slack).all(), f"{what}: the energies of the codes differ by {difference}"
    if problem.eta > 0:
        m = len(problem.D)
        far = np.linalg.norm(U - V, axis=1) - 2 * m**1.5 / problem.eta * allowed
        assert (far <= 0).all(), f"{what}: the codes differ by {far.max():.1e} more than allowed"
