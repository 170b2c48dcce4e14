"""The U step alone, cold; and what threads bring."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from peers import lincode_, sklearn_, spams_
from ruler import LAM, M, Row, Section, medians, stacked

from lincode import SCNN


def run(X: Any, quick: bool) -> Section:
    X = X[: 1000 if quick else 5000]
    scnn = lincode_.network(X, M, LAM)
    return Section([*against_peers(scnn, X, quick), threads(scnn, X, quick)])


def against_peers(scnn: SCNN, X: Any, quick: bool) -> list[Row]:
    N, few = len(X), 200 if quick else 1000
    design, targets, tau = stacked(scnn, X)
    design32, targets32 = design.astype(np.float32), targets.astype(np.float32)
    codes: dict[str, Any] = {}
    contestants = {
        "lincode": lambda: lincode_.exact(scnn, X),
        "SPAMS": lambda: spams_.lasso(design32, targets32, tau),
        "cholesky": lambda: spams_.lasso(design32, targets32, tau, cholesky=True),
    }
    seconds = medians(
        {n: partial(lambda n, f: codes.update({n: f()}), n, f) for n, f in contestants.items()},
        3 if quick else 5,
    )
    start = time.perf_counter()
    codes["lasso_cd"] = sklearn_.coordinate_descent(design, targets[:few], tau)
    seconds["lasso_cd"] = (time.perf_counter() - start) * N / few
    off = {name: violation(scnn, X[: U.shape[0]], U) for name, U in codes.items()}
    ours, detail = seconds["lincode"], {"seconds": seconds, "violation": off}
    work = f"exact codes, {N} digits, m={M}, λ={LAM}, cold"
    rows = [
        Row(f"{work}: relative KKT residual", f"{off['lincode'][0]:.0e}", "≤ 1e-3",
            off["lincode"][0] <= 1e-3, detail)
    ]  # fmt: skip
    for name, label, least in (
        ("SPAMS", "SPAMS `lasso`", 2),
        ("cholesky", "SPAMS `lasso`, cholesky=True", 0),
        ("lasso_cd", f"scikit-learn `lasso_cd` ({few} digits, scaled)", 10),
    ):
        figure = (
            f"{seconds[name] / ours:.1f} × faster ({ours:.2f} s at {off['lincode'][1]:.0e} τ;"
            f" {seconds[name]:.2f} s at {off[name][1]:.0e} τ)"
        )
        met = seconds[name] >= least * ours if least else None
        must = f"≥ {least} ×" if least else ""
        rows.append(Row(f"{work}, against {label}", figure, must, met, detail))
    return rows


def violation(scnn: SCNN, X: Any, U: Any) -> tuple[float, float]:
    """Worst KKT violation in float64: as a share of the row's gradient at zero, and of τ."""
    U = U.toarray() if scipy.sparse.issparse(U) else U
    D, C, X, U = (np.asarray(A, dtype=np.float64) for A in (scnn.components_, scnn.encoder_, X, U))
    m, p = D.shape
    b = X @ (D / p + C / m).T
    G = U @ (D @ D.T / p) + U / m - b
    tau = LAM / m
    off = np.where(U != 0, np.abs(G + tau * np.sign(U)), np.maximum(np.abs(G) - tau, 0)).max(axis=1)
    return float((off / np.abs(b).max(axis=1)).max()), float(off.max() / tau)


def threads(scnn: SCNN, X: Any, quick: bool) -> Row:
    many = np.vstack([X] * (1 if quick else 4))
    seconds = medians({str(n): partial(lincode_.exact, scnn, many, n_jobs=n) for n in (1, 2)}, 3)
    times = seconds["1"] / seconds["2"]
    return Row(f"U step of {len(many)} digits, 2 threads against 1", f"{times:.2f} × faster",
               "≥ 1.7 ×", times >= 1.7, seconds)  # fmt: skip
