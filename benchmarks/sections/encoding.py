"""What transform costs beside its product and beside the peers' coders."""

from __future__ import annotations

from typing import Any

from peers import lincode_, sklearn_, spams_
from ruler import LAM, M, Row, Section, medians, stacked

from lincode import SCNN


def run(X: Any, quick: bool) -> Section:
    X = X[:20_000] if quick else X
    rows = []
    for m in (M,) if quick else (M, 1600):
        scnn = lincode_.network(X[:5000], m, LAM, iterations=2 if quick or m != M else 10)
        rows += beside_the_product(scnn, X, quick)
        if m == M:
            rows += beside_solvers(scnn, X, quick)
    return Section(rows)


def beside_the_product(scnn: SCNN, X: Any, quick: bool) -> list[Row]:
    C, D = scnn.encoder_, scnn.components_
    seconds = medians(
        {
            "product": lambda: X @ C.T,
            "transform": lambda: lincode_.encode(scnn, X),
            "threshold": lambda: sklearn_.threshold(D, X, LAM * 784 / len(D)),
        },
        3 if quick else 7,
    )
    bare, ours, peer = (seconds[k] for k in ("product", "transform", "threshold"))
    work = f"`transform`, {len(X):,}×784, m={len(D)}"
    return [
        Row(work, f"{ours / bare:.2f} × the bare product ({ours:.2f} s)", "≤ 1.25 ×",
            ours <= 1.25 * bare, seconds),
        Row(f"{work}, against scikit-learn `threshold`", f"{peer / ours:.1f} × faster",
            "≥ 1.5 ×", peer >= 1.5 * ours, seconds),
    ]  # fmt: skip


def beside_solvers(scnn: SCNN, X: Any, quick: bool) -> list[Row]:
    """Per digit: codes of the plain lasso of D, and of the energy SCNN's own codes minimise."""
    D, weight = scnn.components_, LAM * 784 / M
    few, some = (X[:100], X[:1000]) if quick else (X[:300], X[:5000])
    design, targets, tau = stacked(scnn, some)
    design32, targets32 = design.astype("f4"), targets.astype("f4")
    contestants = {
        "transform": (len(X), lambda: lincode_.encode(scnn, X)),
        "scikit-learn `lasso_lars`": (len(few), lambda: sklearn_.lars(D, few, weight)),
        "SPAMS `lasso`": (len(some), lambda: spams_.lasso(D, some, weight)),
        "scikit-learn `lasso_lars` of the same energy": (
            len(few), lambda: sklearn_.lars(design, targets[: len(few)], tau)
        ),
        "SPAMS `lasso` of the same energy": (
            len(some), lambda: spams_.lasso(design32, targets32, tau)
        ),
    }  # fmt: skip
    seconds = medians({name: f for name, (_, f) in contestants.items()}, 1 if quick else 3)
    each = {name: seconds[name] / n for name, (n, _) in contestants.items()}
    rows = []
    for name in list(contestants)[1:]:
        times, least = each[name] / each["transform"], 1000 if "lars" in name else 50
        rows.append(
            Row(f"`transform` against {name}, m={M}, per digit", f"{times:,.0f} × faster",
                f"≥ {least} ×", times >= least, each)
        )  # fmt: skip
    return rows
