"""What must hold after every successful call, recomputed in float64 from the learned arrays.

Nothing here relies on the library's own energy, threshold or optimality functions.

    E(U, D, C) = 1/p ‖X − U D‖² + η/m (‖U − X Cᵀ‖² + ρ‖C‖²) + 2λ/m ‖U‖₁
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from lincode.metrics import energy

ROUNDING = 200
"""Rounding errors are allowed this many eps times the sizes of the terms that are added."""
CODE_TOL = 1e-6
"""The documented relative optimality residual of "lasso" and "exact" codes."""


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
    names = ["components_", "encoder_", "energy_path_", "energy_", "usage_", "encoder_r2_"]
    for name in names:
        assert np.isfinite(getattr(model, name)).all(), f"{name} must be finite"
    threshold = model.threshold_
    assert threshold is None or 0 <= threshold < np.inf, f"threshold_ is {threshold}"
    assert model.encoder_r2_ <= 1 + 1e-6, f"encoder_r2_ is {model.encoder_r2_}"
    for name, value in model.optimality_.items():
        assert np.isfinite(value), f"optimality_[{name!r}] must be finite, got {value}"
    assert (model.usage_ >= 0).all(), "usage_ must be at least 0"
    assert (model.usage_ <= 1 + 1e-9).all(), "usage_ must be at most 1"
    length = np.linalg.norm(model.components_.astype(np.float64), axis=1).max()
    # Refinement uses float32. Without a density, the network was not refined.
    dtype = model.components_.dtype if model.density_ is None else np.float32
    assert length <= 1 + 16 * eps_of(dtype), f"an atom has length {length!r}"


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


def check_start(model: Any, X: Any, fraction: float | None, dtype: Any) -> None:
    """Training from U = 0 and C = 0 starts at ‖X‖²/(N p), and stays there above alpha_max."""
    expected = float((X**2).sum()) / X.size
    error = abs(model.energy_path_[0] - expected)
    assert error <= ROUNDING * eps_of(dtype) * expected, f"energy_path_[0] must be {expected!r}"
    if fraction is not None and fraction > 1:  # at 1, rounding may decide
        assert not model.usage_.any(), "no atom may be used where alpha is above alpha_max"
        assert not model.encoder_.any(), "the encoder must be 0 where no atom is used"


def check_energy(model: Any, X: Any, exact: Any, dtype: Any) -> None:
    """Training does not go below the energy of exact codes, which ``metrics.energy`` computes.

    The training codes violate their optimality conditions by at most ``optimality_["joint"]`` times
    max|b|; the energy of a row is 2η/m-strongly convex, which bounds how much higher it can be.
    """
    problem, eps, m = Problem.of(model), eps_of(dtype), len(model.components_)
    C2 = float((model.encoder_.astype(np.float64) ** 2).sum())
    ridge = len(X) * float(model.encoder_weight) / m * model.noise_variance_ * C2
    lowest = float(problem.energies(X, exact).sum())
    rounding = ROUNDING * eps * (float(problem.sizes(X, exact).sum()) + ridge)
    arguments = (model.components_, model.encoder_, model.alpha_, model.encoder_weight)
    error = abs(len(X) * energy(X, exact, *arguments) - lowest)
    assert error <= rounding, f"energy is wrong by {error:.1e}, allowed are {rounding:.1e}"
    lowest += ridge
    unsolved = problem.allowed(X, exact, CODE_TOL, eps)
    gap = float((2 * unsolved * np.abs(exact).sum(axis=1)).sum())
    if problem.eta > 0:
        gap = min(gap, float((m**2 * unsolved**2 / problem.eta).sum()))
    slack, reached = rounding + 2 * gap, len(X) * model.energy_
    assert lowest <= reached + slack, (
        f"N energy_ = {reached!r} is below the energy of exact codes, {lowest!r} ± {slack:.1e}"
    )
    if problem.eta > 0:
        _, b, terms = problem.gradient_terms(X)
        joint = model.optimality_["joint"] * np.abs(b).max(axis=1) + ROUNDING * eps * terms
        highest = lowest + float((m**2 * joint**2 / problem.eta).sum()) + slack
        assert reached <= highest, f"N energy_ = {reached!r} is above {highest!r}"


# Codes


def check_score(model: Any, X: Any, U: Any, score: float, dtype: Any) -> None:
    """The score is the fraction of X that the codes U reconstruct."""
    D, total = model.components_.astype(np.float64), float((X**2).sum())
    if total > 0:
        expected = 1 - float(((X - U @ D) ** 2).sum()) / total
        size = float(((np.abs(X) + np.abs(U) @ np.abs(D)) ** 2).sum()) / total
        assert abs(score - expected) <= ROUNDING * eps_of(dtype) * size, f"score must be {expected}"


def encoder_outputs(model: Any, X: Any, dtype: Any) -> tuple[Any, Any, Any]:
    """The codes of the encoder in float64, how far rounding can move them, and which it decides."""
    C, is_soft = model.encoder_.astype(np.float64), model.transform_algorithm == "paper"
    t = 0.0 if model.threshold_ is None else float(model.threshold_)
    t = float(model.alpha_ / (model.encoder_weight or 1.0)) if is_soft else t
    Z = np.maximum(X @ C.T, 0) if model.positive_code else X @ C.T
    size = np.abs(Z)
    rounding = ROUNDING * eps_of(dtype) * (np.abs(X) @ np.abs(C).T + t) + np.finfo(dtype).tiny
    near = np.zeros(Z.shape, dtype=bool)
    if is_soft:
        U = np.sign(Z) * np.maximum(size - t, 0)
    elif model.threshold_ is not None:
        U, near = np.where(size > t, Z, 0), np.abs(size - t) <= rounding
    else:
        ordered, k = np.sort(size, axis=1)[:, ::-1], model.density_
        last = ordered[:, k - 1 : k]
        U = np.where(size >= last, Z, 0)
        near = (size <= rounding) & (last <= rounding)  # whose sign may be that of rounding
        if k < Z.shape[1]:
            after, slack = ordered[:, k : k + 1], 2 * rounding.max(axis=1, keepdims=True)
            near |= (size >= after - slack) & (size <= last + slack) & (last - after <= slack)
    return U, rounding, near


def check_projection(model: Any, X: Any, U: Any, dtype: Any) -> None:
    """The non-zeros are among those of the encoder, and satisfy the normal equations."""
    D = model.components_.astype(np.float64)
    expected, rounding, near = encoder_outputs(model, X, dtype)
    outside = (U != 0) & (np.abs(expected) <= rounding) & ~near
    assert not outside.any(), "a non-zero is not one of the encoder"
    gradient = (X - U @ D) @ D.T
    lengths = np.linalg.norm(X, axis=1) + np.abs(U).sum(axis=1)
    slack = ROUNDING * eps_of(dtype) * len(D) * lengths + np.finfo(dtype).tiny
    assert (np.abs(gradient) <= slack[:, None])[U != 0].all(), "a code is not that of least squares"


def check_omp(model: Any, X: Any, U: Any, dtype: Any) -> None:
    """There are as many non-zeros as the density says, and no larger errors than without them."""
    D, k = model.components_.astype(np.float64), model.density
    k = k if isinstance(k, int) else min(len(D), max(1, round(k * len(D))))
    assert (np.count_nonzero(U, axis=1) <= k).all(), f"more than {k} non-zeros"
    slack = ROUNDING * eps_of(dtype) * np.linalg.norm(np.abs(X) + np.abs(U) @ np.abs(D), axis=1)
    error = np.linalg.norm(X - U @ D, axis=1)
    assert (error <= np.linalg.norm(X, axis=1) + slack).all(), "zero codes would be better"


def check_codes(model: Any, X: Any, U: Any, dtype: Any) -> None:
    """Codes are those of the encoder, on its support, few, or satisfy optimality conditions."""
    assert not model.positive_code or (U >= 0).all(), "codes must be at least 0"
    if model.transform_algorithm in ("encoder", "paper"):
        expected, rounding, near = encoder_outputs(model, X, dtype)
        assert ((np.abs(U - expected) <= rounding) | near).all(), "an encoder code is wrong"
    elif model.transform_algorithm == "projection":
        check_projection(model, X, U, dtype)
    elif model.transform_algorithm == "omp":
        check_omp(model, X, U, dtype)
    else:
        problem = Problem.of(model)
        violation = problem.violations(X, U)
        allowed = problem.allowed(X, U, CODE_TOL, eps_of(dtype))
        assert (violation <= allowed).all(), f"violations {violation}, allowed are {allowed}"


def check_same_codes(model: Any, X: Any, U: Any, V: Any, dtype: Any, what: str) -> None:
    """Two codes of the same rows agree as far as rounding and the tolerance can tell."""
    check_codes(model, X, V, dtype)
    if model.transform_algorithm in ("encoder", "paper"):
        _, rounding, near = encoder_outputs(model, X, dtype)
        assert ((np.abs(U - V) <= rounding) | near).all(), f"{what}: encoder codes differ"
        return
    if model.transform_algorithm in ("projection", "omp"):  # rounding may change a support
        return
    # Codes that are optimal to rounding may differ where the problem is flat; energies may not.
    problem, eps = Problem.of(model), eps_of(dtype)
    allowed = np.maximum(*(problem.allowed(X, A, CODE_TOL, eps) for A in (U, V)))
    length = np.abs(U).sum(axis=1) + np.abs(V).sum(axis=1)
    slack = 4 * allowed * length + ROUNDING * eps * problem.sizes(X, U)
    difference = np.abs(problem.energies(X, U) - problem.energies(X, V))
    assert (difference <= slack).all(), f"{what}: the energies of the codes differ by {difference}"
