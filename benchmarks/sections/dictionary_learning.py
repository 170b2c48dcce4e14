"""Plain dictionary learning, the problem the peers solve, by the energy of held-out digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from peers import dictlearn_, lincode_, sklearn_, spams_
from ruler import LAM, Curve, M, Row, Section, first_time

from lincode import SCNN

SPAMS, PLAIN, BATCHES = "SPAMS trainDL", "SCNN, encoder_weight=0", "MiniBatchSCNN, encoder_weight=0"
ENCODER, SKLEARN, DICTLEARN = (
    "SCNN, encoder_weight=1",
    "scikit-learn MiniBatch",
    "dictlearn L1, 1 iteration on 2,000",
)


def run(X: Any, quick: bool) -> Section:
    N, m = (2000, 100) if quick else (10_000, M)
    train, test, weight = X[:N], X[50_000:51_000], LAM * 784 / m
    limit = 2 if quick else 10
    grid = [limit * s for s in ((0.5, 1, 2) if quick else (0.5, 0.7, 0.85, 1, 2))]
    curves: dict[str, Curve] = {}

    def measure(name: str, dictionaries: Any) -> None:
        taken = list(dictionaries)
        taken = taken[:: max(1, len(taken) // 12)] + taken[-1:]
        curves[name] = [(s, lasso_energy(D, test, weight)) for s, D in taken]
        print(f"  {name}: " + ", ".join(f"{s:.1f} s {e:.2f}" for s, e in curves[name]), flush=True)

    measure(SPAMS, spams_.dictionaries(train, m, weight, [max(1, limit // 2), limit, 2 * limit]))
    target = next(e for s, e in curves[SPAMS] if s >= 0.95 * limit)
    list(lincode_.dictionaries(train[:300], m, LAM, 0.0, [0.0]))  # machine code is loaded
    measure(PLAIN, lincode_.dictionaries(train, m, LAM, 0.0, grid))
    measure(ENCODER, lincode_.dictionaries(train, m, LAM, 1.0, [limit, 2 * limit]))
    measure(BATCHES, lincode_.batch_dictionaries(train, m, LAM, 0.0, 2 * limit, N // 4))
    # Long enough to show a factor of ten, or that there is none.
    long = 2 * limit if quick else 10.5 * first_time(curves[PLAIN], target)
    measure(SKLEARN, sklearn_.dictionaries(train, m, weight, long))
    if not quick:
        measure(DICTLEARN, dictlearn_.dictionaries(train[:2000], m, weight, [1]))
    rows = judged(curves, target, limit, f"{N:,} digits, m={m}")
    return Section(rows, {"energy of held-out digits": curves})


def lasso_energy(D: Any, X: Any, weight: float) -> float:
    """½‖x − u D‖² + w‖u‖₁ per row, in float64, with codes solved for D to 1e-5."""
    m, p = D.shape
    coder = SCNN(m, weight * m / p, transform_method="relearn", transform_tol=1e-5)
    coder.components_ = np.asarray(D, dtype=np.float64)
    coder.encoder_, coder.n_features_in_ = np.zeros_like(coder.components_), p
    X = np.asarray(X, dtype=np.float64)
    U = coder.transform(X)
    return float((0.5 * ((X - U @ D) ** 2).sum() + weight * np.abs(U).sum()) / len(X))


def judged(curves: dict[str, Curve], target: float, limit: int, size: str) -> list[Row]:
    at = {name: first_time(curve, target) for name, curve in curves.items()}
    ours = at[PLAIN]
    work = f"dictionary of {size}: seconds to SPAMS' energy after {limit} s"
    rows = [Row(f"{work} ({target:.2f})", f"{ours:.1f} s", f"< {limit} s", ours < limit, at)]
    musts: dict[str, tuple[str, Callable[[float], bool | None]]] = {
        SKLEARN: ("≥ 10 × ours", lambda least: least >= 10 * ours)
    }
    for name in (SKLEARN, ENCODER, BATCHES, DICTLEARN):
        if name not in curves:
            continue
        end, energy = curves[name][-1]
        least = min(at[name], end)  # what was not reached took at least as long as was given
        figure = f"{least:.1f} s" if least == at[name] else f"not within {end:.0f} s"
        must, met = musts.get(name, ("", lambda _: None))
        rows.append(
            Row(f"{work}: {name}", f"{figure} (ends at {energy:.2f})", must, met(least), at)
        )
    return rows
