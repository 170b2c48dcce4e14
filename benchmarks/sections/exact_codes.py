"""Exact codes for a given network (the U step), and the speed-up by threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from measure import ALPHA, N_COMPONENTS, Row, Section, as_lasso, median_seconds, seconds_of
from peers import lincode_, sklearn_, spams_

from lincode import SCNN

OTHER_ALPHAS = (0.15, 1.0, 2.0, 4.0)
"""Other penalties for the same network, from dense to sparse codes."""


def run(X: Any, quick: bool) -> Section:
    X = X[: 1000 if quick else 5000]
    scnn = lincode_.network(X, N_COMPONENTS, ALPHA)
    rows = compare_with_solvers(scnn, X, quick)
    rows += [compare_density(scnn, X[:1000], alpha) for alpha in OTHER_ALPHAS]
    return Section([*rows, compare_threads(scnn, X, quick)])


def compare_with_solvers(scnn: SCNN, X: Any, quick: bool) -> list[Row]:
    """Compare times and optimality residuals. scikit-learn codes few digits; its time is scaled."""
    n, n_few = len(X), 200 if quick else 1000
    atoms, targets, tau = as_lasso(scnn, X)
    atoms32, targets32 = atoms.astype(np.float32), targets.astype(np.float32)
    functions: dict[str, Callable[[], Any]] = {
        "lincode": lambda: lincode_.exact_codes(scnn, X),
        "SPAMS": lambda: spams_.lasso(atoms32, targets32, tau),
        "cholesky": lambda: spams_.lasso(atoms32, targets32, tau, cholesky=True),
    }
    codes: dict[str, Any] = {}
    seconds = median_seconds(
        {name: partial(store, codes, name, function) for name, function in functions.items()},
        repeats=3 if quick else 5,
    )
    lasso_cd = partial(sklearn_.coordinate_descent, atoms, targets[:n_few], tau)
    seconds["lasso_cd"] = seconds_of(partial(store, codes, "lasso_cd", lasso_cd)) * n / n_few
    found = {name: residuals(scnn, X[: U.shape[0]], U) for name, U in codes.items()}
    details = {"seconds": seconds, "residuals": found}
    lincode, (relative, in_taus) = seconds["lincode"], found["lincode"]
    task = f"exact codes of {n} digits, m={len(scnn.components_)}, λ={ALPHA}"
    rows = [
        Row(
            f"{task}: relative optimality residual",
            f"{relative:.0e}",
            "≤ 1e-3",
            relative <= 1e-3,
            details,
        )
    ]
    for name, label, goal in (
        ("SPAMS", "SPAMS `lasso`", 2),
        ("cholesky", "SPAMS `lasso`, cholesky=True", None),
        ("lasso_cd", f"scikit-learn `lasso_cd` ({n_few} digits, scaled)", 10),
    ):
        measured = (
            f"{seconds[name] / lincode:.1f} × faster (lincode {lincode:.2f} s, residual"
            f" {in_taus:.0e} τ; other {seconds[name]:.2f} s, residual {found[name][1]:.0e} τ)"
        )
        rows.append(
            Row(
                f"{task}, compared with {label}",
                measured,
                "" if goal is None else f"≥ {goal} ×",
                None if goal is None else seconds[name] >= goal * lincode,
                details,
            )
        )
    return rows


def compare_density(scnn: SCNN, X: Any, alpha: float) -> Row:
    """Compare times with SPAMS for another penalty, and thereby another number of non-zeros."""
    atoms, targets, _ = as_lasso(scnn, X)
    atoms32, targets32 = atoms.astype(np.float32), targets.astype(np.float32)
    scnn.set_params(transform_alpha=alpha)
    codes: dict[str, Any] = {}
    tau = alpha / len(atoms)
    functions: dict[str, Callable[[], Any]] = {
        "lincode": partial(store, codes, "lincode", partial(lincode_.exact_codes, scnn, X)),
        "SPAMS": lambda: spams_.lasso(atoms32, targets32, tau),
        "cholesky": lambda: spams_.lasso(atoms32, targets32, tau, cholesky=True),
    }
    seconds = median_seconds(functions, repeats=3)
    scnn.set_params(transform_alpha=None)
    density = float(np.mean(codes["lincode"] != 0))
    ratio = min(seconds["SPAMS"], seconds["cholesky"]) / seconds["lincode"]
    return Row(
        f"exact codes of {len(X)} digits, {density:.0%} non-zero, compared with SPAMS `lasso`"
        " (the faster of its two methods)",
        f"{ratio:.1f} × faster",
        details={"seconds": seconds, "alpha": alpha, "density": density},
    )


def store(codes: dict[str, Any], name: str, function: Callable[[], Any]) -> None:
    """Call a function and keep its result."""
    codes[name] = function()


def residuals(scnn: SCNN, X: Any, U: Any) -> tuple[float, float]:
    """Return the largest violation of the optimality conditions, computed in float64.

    The first number is relative to the largest gradient of the same row at U = 0, the second to the
    penalty τ = λ/m.
    """
    U = U.toarray() if scipy.sparse.issparse(U) else U
    D, C, X, U = (np.asarray(A, dtype=np.float64) for A in (scnn.components_, scnn.encoder_, X, U))
    m, p = D.shape
    b = X @ (D / p + C / m).T
    gradient = U @ (D @ D.T / p) + U / m - b
    tau = scnn.alpha_ / m
    at_nonzeros = np.abs(gradient + tau * np.sign(U))
    at_zeros = np.maximum(np.abs(gradient) - tau, 0)
    violation = np.where(U != 0, at_nonzeros, at_zeros).max(axis=1)
    return float((violation / np.abs(b).max(axis=1)).max()), float(violation.max() / tau)


def compare_threads(scnn: SCNN, X: Any, quick: bool) -> Row:
    many = np.vstack([X] * (1 if quick else 4))
    seconds = median_seconds(
        {str(n): partial(lincode_.exact_codes, scnn, many, n_jobs=n) for n in (1, 2)}, repeats=3
    )
    ratio = seconds["1"] / seconds["2"]
    return Row(
        f"exact codes of {len(many)} digits, 2 threads compared with 1",
        f"{ratio:.2f} × faster",
        "≥ 1.7 ×",
        ratio >= 1.7,
        seconds,
    )
