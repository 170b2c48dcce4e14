"""The cost of transform, compared with its matrix product and with other coders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from measure import ALPHA, N_COMPONENTS, Row, Section, as_lasso, median_seconds
from peers import lincode_, sklearn_, spams_

from lincode import SCNN


def run(X: Any, quick: bool) -> Section:
    X = X[:20_000] if quick else X
    rows = []
    for m in (N_COMPONENTS,) if quick else (N_COMPONENTS, 1600):
        iterations = 10 if m == N_COMPONENTS and not quick else 2
        scnn = lincode_.network(X[:5000], m, ALPHA, iterations)
        rows += compare_with_products(scnn, X, quick)
        if m == N_COMPONENTS:
            rows += compare_with_solvers(scnn, X, quick)
    return Section(rows)


def compare_with_products(scnn: SCNN, X: Any, quick: bool) -> list[Row]:
    """Compare transform with the product X Cᵀ and with scikit-learn's thresholding."""
    D, C = scnn.components_, scnn.encoder_
    m, p = D.shape
    seconds = median_seconds(
        {
            "product": lambda: X @ C.T,
            "transform": lambda: lincode_.encode(scnn, X),
            "threshold": lambda: sklearn_.threshold(D, X, ALPHA * p / m),
        },
        repeats=3 if quick else 7,
    )
    product, transform, other = (seconds[k] for k in ("product", "transform", "threshold"))
    task = f"`transform`, {len(X):,}×{p}, m={m}"
    return [
        Row(
            task,
            f"{transform / product:.2f} × the time of the matrix product ({transform:.2f} s)",
            "≤ 1.25 ×",
            transform <= 1.25 * product,
            seconds,
        ),
        Row(
            f"{task}, compared with scikit-learn `threshold`",
            f"{other / transform:.1f} × faster",
            "≥ 1.5 ×",
            other >= 1.5 * transform,
            seconds,
        ),
    ]


def compare_with_solvers(scnn: SCNN, X: Any, quick: bool) -> list[Row]:
    """Compare the time per digit of transform with that of lasso solvers.

    The solvers compute the codes of two problems: the lasso of the dictionary alone, and the energy
    that SCNN's own codes minimise.
    """
    D, p = scnn.components_, X.shape[1]
    penalty = ALPHA * p / len(D)
    few, more = (X[:100], X[:1000]) if quick else (X[:300], X[:5000])
    atoms, targets, tau = as_lasso(scnn, more)
    atoms32, targets32 = atoms.astype(np.float32), targets.astype(np.float32)
    few_targets = targets[: len(few)]
    functions: dict[str, Callable[[], Any]] = {
        "transform": lambda: lincode_.encode(scnn, X),
        "scikit-learn `lasso_lars`": lambda: sklearn_.lars(D, few, penalty),
        "SPAMS `lasso`": lambda: spams_.lasso(D, more, penalty),
        "scikit-learn `lasso_lars`, SCNN's energy": lambda: sklearn_.lars(atoms, few_targets, tau),
        "SPAMS `lasso`, SCNN's energy": lambda: spams_.lasso(atoms32, targets32, tau),
    }
    n_digits = dict(zip(functions, (len(X), len(few), len(more), len(few), len(more)), strict=True))
    seconds = median_seconds(functions, repeats=1 if quick else 3)
    per_digit = {name: seconds[name] / n_digits[name] for name in functions}
    rows = []
    for name in list(functions)[1:]:
        ratio = per_digit[name] / per_digit["transform"]
        goal = 1000 if "lars" in name else 50
        rows.append(
            Row(
                f"`transform` compared with {name}, m={len(D)}, per digit",
                f"{ratio:,.0f} × faster",
                f"≥ {goal} ×",
                ratio >= goal,
                per_digit,
            )
        )
    return rows
