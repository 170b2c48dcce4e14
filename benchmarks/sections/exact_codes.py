"""Exact codes for a given network (the U step), and the speed-up by threads."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from measure import (
    ALPHA,
    N_COMPONENTS,
    Call,
    Section,
    as_lasso,
    cell,
    median_seconds,
    seconds_of,
    table,
)
from peers import lincode_, sklearn_, spams_

from lincode import SCNN

OTHER_ALPHAS = (0.15, 1.0, 2.0, 4.0)
"""Other penalties for the same network, from dense to sparse codes."""


def run(X: Any, quick: bool) -> Section:
    X = X[: 1000 if quick else 5000]
    scnn = lincode_.network(X, N_COMPONENTS, ALPHA)
    cases = [compare(scnn, X, ALPHA, quick)]
    cases += [compare(scnn, X[:1000], alpha, quick) for alpha in OTHER_ALPHAS]
    headings = ["non-zeros", "SPAMS `lasso`", "`cholesky=True`", "violation", "of SPAMS"]
    rows = []
    for case in sorted(cases, key=lambda case: -case["density"]):
        seconds, found = case["seconds"], case["violations"]
        ratios = [f"{seconds[name] / seconds['lincode']:.1f}" for name in ("SPAMS", "cholesky")]
        violations = f"{found['SPAMS']:.0e}, {found['cholesky']:.0e}"
        rows.append([f"{case['density']:.0%}", *ratios, f"{found['lincode']:.0e}", violations])
    many = np.vstack([X] * (1 if quick else 4))
    threads = median_seconds(
        {str(n): partial(lincode_.exact_codes, scnn, many, n_jobs=n) for n in (1, 2)}, repeats=3
    )
    text = (
        f"How many times as fast the codes that minimise the energy of a network ({len(X)} digits,"
        f" m={N_COMPONENTS}) are as the same codes by SPAMS with two threads, and the largest"
        " violation of the optimality conditions in units of the penalty:\n\n"
        + table(headings, rows)
        + f"\n\nWith {cases[0]['density']:.0%} non-zeros, lincode is"
        f" {compare_scikit_learn(scnn, X, cases[0], quick)} times as fast as scikit-learn's"
        " `lasso_cd` (goal: 10), and"
        f" {cell(threads['1'] / threads['2'], at_least=1.7)} times as fast with two threads as with"
        " one (goal: 1.7)."
    )
    return Section("Exact codes of a network", text, {"cases": cases, "threads": threads})


def compare(scnn: SCNN, X: Any, alpha: float, quick: bool) -> dict[str, Any]:
    """Compare times and violations with both methods of SPAMS."""
    atoms, targets, _ = as_lasso(scnn, X)
    atoms32, targets32 = atoms.astype(np.float32), targets.astype(np.float32)
    tau = alpha / len(atoms)
    scnn.set_params(transform_alpha=alpha)
    codes: dict[str, Any] = {}

    def store(name: str, function: Call) -> None:
        codes[name] = function()

    functions: dict[str, Call] = {
        "lincode": partial(lincode_.exact_codes, scnn, X),
        "SPAMS": partial(spams_.lasso, atoms32, targets32, tau),
        "cholesky": partial(spams_.lasso, atoms32, targets32, tau, cholesky=True),
    }
    stored = {name: partial(store, name, function) for name, function in functions.items()}
    seconds = median_seconds(stored, repeats=1 if quick else 3)
    scnn.set_params(transform_alpha=None)
    found = {name: violation(atoms, targets, U, tau) for name, U in codes.items()}
    density = float(np.mean(codes["lincode"] != 0))
    return {"alpha": alpha, "density": density, "seconds": seconds, "violations": found}


def compare_scikit_learn(scnn: SCNN, X: Any, case: dict[str, Any], quick: bool) -> str:
    """Compare the time per digit with coordinate descent on few digits."""
    n = 100 if quick else 500
    atoms, targets, tau = as_lasso(scnn, X[:n])
    seconds = seconds_of(partial(sklearn_.coordinate_descent, atoms, targets, tau))
    return cell(seconds / n * len(X) / case["seconds"]["lincode"], at_least=10, digits=0)


def violation(atoms: Any, targets: Any, U: Any, tau: float) -> float:
    """Return the largest violation of the optimality conditions in units of tau, in float64."""
    U = (U.toarray() if scipy.sparse.issparse(U) else np.asarray(U)).astype(np.float64)
    G = (U @ atoms - targets) @ atoms.T
    at_nonzeros, at_zeros = np.abs(G + tau * np.sign(U)), np.maximum(np.abs(G) - tau, 0)
    return float(np.where(U != 0, at_nonzeros, at_zeros).max() / tau)
