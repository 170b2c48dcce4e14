"""Dictionary learning without an encoder, the problem that the other libraries solve.

Dictionaries are compared by the lasso energy of held-out digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from measure import ALPHA, N_COMPONENTS, Curve, Row, Section, time_to_reach
from peers import dictlearn_, lincode_, sklearn_, spams_

from lincode import SCNN

SPAMS = "SPAMS trainDL"
SCNN_PLAIN = "SCNN, encoder_weight=0"
SCNN_ENCODER = "SCNN, encoder_weight=1"
MINIBATCH = "MiniBatchSCNN, encoder_weight=0"
SKLEARN = "scikit-learn MiniBatchDictionaryLearning"
DICTLEARN = "dictlearn L1, one iteration on 2,000 digits"
MAX_POINTS = 12


def run(X: Any, quick: bool) -> Section:
    n, m, limit = (2000, 100, 2) if quick else (10_000, N_COMPONENTS, 10)
    train, test, penalty = X[:n], X[50_000:51_000], ALPHA * X.shape[1] / m
    fractions = (0.5, 1, 2) if quick else (0.5, 0.7, 0.85, 1, 2)
    curves: dict[str, Curve] = {}

    def measure(name: str, dictionaries: Any) -> None:
        points = list(dictionaries)
        points = points[:: max(1, len(points) // MAX_POINTS)] + points[-1:]
        curves[name] = [(seconds, lasso_energy(D, test, penalty)) for seconds, D in points]
        text = ", ".join(f"{seconds:.1f} s {energy:.2f}" for seconds, energy in curves[name])
        print(f"  {name}: {text}", flush=True)

    limits = [max(1, limit // 2), limit, 2 * limit]
    measure(SPAMS, spams_.dictionaries(train, m, penalty, limits))
    target = next(energy for seconds, energy in curves[SPAMS] if seconds >= 0.95 * limit)
    list(lincode_.dictionaries(train[:300], m, ALPHA, 0.0, [0.0]))  # loads the compiled code
    limits_plain = [limit * fraction for fraction in fractions]
    measure(SCNN_PLAIN, lincode_.dictionaries(train, m, ALPHA, 0.0, limits_plain))
    measure(SCNN_ENCODER, lincode_.dictionaries(train, m, ALPHA, 1.0, [limit, 2 * limit]))
    measure(MINIBATCH, lincode_.batch_dictionaries(train, m, ALPHA, 0.0, 2 * limit, n // 4))
    # This is long enough to show whether scikit-learn takes ten times as long as lincode.
    reached = time_to_reach(curves[SCNN_PLAIN], target)
    sklearn_limit = 2 * limit if quick or np.isinf(reached) else 10.5 * reached
    measure(SKLEARN, sklearn_.dictionaries(train, m, penalty, sklearn_limit))
    if not quick:
        measure(DICTLEARN, dictlearn_.dictionaries(train[:2000], m, penalty, [1]))
    rows = table_rows(curves, target, limit, f"{n:,} digits, m={m}")
    return Section(rows, {"energy of held-out digits": curves})


def lasso_energy(D: Any, X: Any, penalty: float) -> float:
    """Return ½‖x − u D‖² + penalty ‖u‖₁ per row, in float64, with optimal codes u."""
    m, p = D.shape
    coder = SCNN(m, transform_algorithm="lasso", transform_tol=1e-5)
    coder.components_ = np.asarray(D, dtype=np.float64)
    coder.encoder_ = np.zeros_like(coder.components_)
    coder.alpha_, coder.n_features_in_ = penalty * m / p, p
    X = np.asarray(X, dtype=np.float64)
    U = coder.transform(X)
    return float((0.5 * ((X - U @ D) ** 2).sum() + penalty * np.abs(U).sum()) / len(X))


def table_rows(curves: dict[str, Curve], target: float, limit: int, size: str) -> list[Row]:
    """Compare the times after which the energy of SPAMS is reached."""
    times = {name: time_to_reach(curve, target) for name, curve in curves.items()}
    lincode = times[SCNN_PLAIN]
    task = f"dictionary of {size}: time to reach the energy of SPAMS after {limit} s"
    goal = f"< {limit} s"
    rows = [Row(f"{task} ({target:.2f})", f"{lincode:.1f} s", goal, lincode < limit, times)]
    for name in (SKLEARN, SCNN_ENCODER, MINIBATCH, DICTLEARN):
        if name not in curves:
            continue
        last, energy = curves[name][-1]
        reached = np.isfinite(times[name])
        measured = f"{times[name]:.1f} s" if reached else f"not reached in {last:.0f} s"
        row = Row(f"{task}: {name}", f"{measured} (final energy {energy:.2f})", details=times)
        if name == SKLEARN:
            # If the energy was not reached, it takes at least as long as was measured.
            row.goal, row.reached = "≥ 10 × lincode", min(times[name], last) >= 10 * lincode
        rows.append(row)
    return rows
