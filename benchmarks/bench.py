"""One ruler for all: lincode and its peers, interleaved, judged in float64 by what they returned.

    python benchmarks/bench.py            everything (make bench)
    python benchmarks/bench.py --quick    a reduced version (make bench-quick)

Prints a table, and writes it with bench.json and bench.png into ``--out``.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import growth
import numpy as np
import scipy.sparse
from data import digits
from joblib import cpu_count
from peers import dictlearn_, lincode_, sklearn_, spams_

from lincode import SCNN, Iteration, MiniBatchSCNN, scnn_path

LAM = 0.5
M = 400


@dataclass
class Row:
    """One line of the table."""

    work: str
    figure: str
    must: str
    met: bool | None
    detail: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        mark = {True: "yes", False: "**no**", None: ""}[self.met]
        return f"| {self.work} | {self.figure} | {self.must} | {mark} |"


def medians(contestants: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median seconds of each, one after the other in every round; the first round warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(repeats + 1):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return {name: float(np.median(times)) for name, times in seconds.items()}


def encoding(X: Any, m: int, quick: bool) -> list[Row]:
    """What transform costs beside its product and beside the peers' coders."""
    scnn = lincode_.network(X[:5000], m, LAM, iterations=2 if quick or m != M else 10)
    C, D, weight = scnn.encoder_, scnn.components_, LAM * 784 / m
    seconds = medians(
        {
            "product": lambda: X @ C.T,
            "transform": lambda: lincode_.encode(scnn, X),
            "threshold": lambda: sklearn_.threshold(D, X, weight),
        },
        3 if quick else 5,
    )
    bare, ours, peer = (seconds[k] for k in ("product", "transform", "threshold"))
    work = f"`transform`, {len(X):,}×784, m={m}"
    rows = [
        Row(work, f"{ours / bare:.2f} × the bare product ({ours:.2f} s)", "≤ 1.25 ×",
            ours <= 1.25 * bare, seconds),
        Row(f"{work}, against scikit-learn `threshold`", f"{peer / ours:.1f} × faster",
            "≥ 1.5 ×", peer >= 1.5 * ours, seconds),
    ]  # fmt: skip
    if m != M:
        return rows
    few, some = (X[:100], X[:1000]) if quick else (X[:300], X[:5000])
    per_row = medians(
        {
            "transform": lambda: lincode_.encode(scnn, X),
            "lars": lambda: sklearn_.lars(D, few, weight),
            "spams": lambda: spams_.lasso(D, some, weight),
        },
        1 if quick else 3,
    )
    ours = per_row["transform"] / len(X)
    for name, label, n, least in (
        ("lars", "scikit-learn `lasso_lars`", len(few), 1000),
        ("spams", "SPAMS `lasso`", len(some), 50),
    ):
        times = per_row[name] / n / ours
        rows.append(
            Row(f"`transform` against {label}, m={m}, per digit", f"{times:,.0f} × faster",
                f"≥ {least} ×", times >= least, per_row)
        )  # fmt: skip
    return rows


def stacked(scnn: SCNN, X: Any) -> tuple[Any, Any, float]:
    """The U step as a plain lasso ½‖t − u A‖² + τ‖u‖₁, for the peers."""
    D, C = (np.asarray(A, dtype=np.float64) for A in (scnn.components_, scnn.encoder_))
    m, p = D.shape
    design = np.hstack([D / np.sqrt(p), np.eye(m) / np.sqrt(m)])
    targets = np.hstack([X / np.sqrt(p), (X @ C.T) / np.sqrt(m)])
    return design, targets, LAM / m


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


def exact_codes(X: Any, quick: bool) -> list[Row]:
    """The U step alone, cold; and what threads bring."""
    N = 1000 if quick else 5000
    scnn = lincode_.network(X[:N], M, LAM)
    X = X[:N]
    design, targets, tau = stacked(scnn, X)
    design32, targets32 = design.astype(np.float32), targets.astype(np.float32)
    codes: dict[str, Any] = {}

    def keep(name: str, run: Callable[[], Any]) -> Callable[[], None]:
        def kept() -> None:
            codes[name] = run()

        return kept

    contestants = {
        "lincode": lambda: lincode_.exact(scnn, X),
        "SPAMS": lambda: spams_.lasso(design32, targets32, tau),
        "SPAMS, cholesky": lambda: spams_.lasso(design32, targets32, tau, cholesky=True),
    }
    seconds = medians({n: keep(n, run) for n, run in contestants.items()}, 3 if quick else 5)
    few = slice(0, 200 if quick else 1000)
    start = time.perf_counter()
    codes["lasso_cd"] = sklearn_.coordinate_descent(design, targets[few], tau)
    seconds["lasso_cd"] = (time.perf_counter() - start) * N / few.stop
    off = {n: violation(scnn, X[few] if n == "lasso_cd" else X, U) for n, U in codes.items()}
    ours = seconds["lincode"]
    work = f"exact codes, {N} digits, m={M}, λ={LAM}, cold"
    detail = {"seconds": seconds, "violation": off}

    def figure(name: str) -> str:
        return (
            f"{seconds[name] / ours:.1f} × faster ({ours:.2f} s at {off['lincode'][1]:.0e} τ;"
            f" {seconds[name]:.2f} s at {off[name][1]:.0e} τ)"
        )

    rows = [
        Row(f"{work}: relative KKT residual", f"{off['lincode'][0]:.0e}", "≤ 1e-3",
            off["lincode"][0] <= 1e-3, detail),
        Row(f"{work}, against SPAMS `lasso`", figure("SPAMS"), "≥ 2 ×",
            seconds["SPAMS"] >= 2 * ours, detail),
        Row(f"{work}, against SPAMS `lasso`, cholesky=True", figure("SPAMS, cholesky"), "",
            None, detail),
        Row(f"{work}, against scikit-learn `lasso_cd` ({few.stop} digits, scaled)",
            figure("lasso_cd"), "≥ 10 ×", seconds["lasso_cd"] >= 10 * ours, detail),
    ]  # fmt: skip
    many = np.vstack([X] * (1 if quick else 4))
    threads = medians({str(n): partial(lincode_.exact, scnn, many, n_jobs=n) for n in (1, 2)}, 3)
    times = threads["1"] / threads["2"]
    rows.append(
        Row(f"U step of {len(many)} digits, 2 threads against 1", f"{times:.2f} × faster",
            "≥ 1.7 ×", times >= 1.7, threads)
    )  # fmt: skip
    return rows


def lasso_energy(D: Any, X: Any, weight: float) -> float:
    """½‖x − u D‖² + w‖u‖₁ per row, in float64, with codes solved for D to 1e-5."""
    m, p = D.shape
    coder = SCNN(m, weight * m / p, transform_method="relearn", transform_tol=1e-5)
    coder.components_ = np.asarray(D, dtype=np.float64)
    coder.encoder_, coder.n_features_in_ = np.zeros_like(coder.components_), p
    X = np.asarray(X, dtype=np.float64)
    U = coder.transform(X)
    return float((0.5 * ((X - U @ D) ** 2).sum() + weight * np.abs(U).sum()) / len(X))


def dictionary_learning(X: Any, quick: bool) -> tuple[list[Row], dict[str, Any]]:
    """Plain dictionary learning, the problem the peers solve, by the energy of held-out digits."""
    N, m = (2000, 100) if quick else (10_000, M)
    train, test = X[:N], X[50_000:51_000]
    weight = LAM * 784 / m
    limit = 2 if quick else 10
    grid = [limit * s for s in (0.25, 0.5, 1, 2)] + ([] if quick else [3.5 * limit])
    whole = [max(1, round(s)) for s in grid]
    spams, plain, sklearn = "SPAMS trainDL", "SCNN, encoder_weight=0", "scikit-learn MiniBatch"
    runs: dict[str, Callable[[], Any]] = {
        spams: lambda: spams_.dictionaries(train, m, weight, sorted({*whole[1:-1], limit})),
        plain: lambda: lincode_.dictionaries(train, m, LAM, 0.0, grid),
        "SCNN, encoder_weight=1": lambda: lincode_.dictionaries(train, m, LAM, 1.0, grid),
        "MiniBatchSCNN, encoder_weight=0": lambda: lincode_.batch_dictionaries(
            train, m, LAM, 0.0, 2.5 * limit, N // 4
        ),
        # Long enough to show a factor of ten, or that there is none.
        sklearn: lambda: sklearn_.dictionaries(
            train, m, weight, 2 * limit if quick else 10.5 * first_time(curves[plain], target)
        ),
    }
    if not quick:
        runs["dictlearn L1"] = lambda: dictlearn_.dictionaries(train, m, weight, [1])
    curves: dict[str, list[tuple[float, float]]] = {}
    target = np.inf
    for name, run in runs.items():
        taken = list(run())
        taken = taken[:: max(1, len(taken) // 12)] + taken[-1:]
        curves[name] = [(s, lasso_energy(D, test, weight)) for s, D in taken]
        print(f"  {name}: " + ", ".join(f"{s:.1f} s {e:.2f}" for s, e in curves[name]), flush=True)
        if name == spams:
            target = next(e for s, e in curves[name] if s >= 0.95 * limit)
    return dictionary_rows(curves, target, limit, f"{N:,} digits, m={m}"), {
        "energy of held-out digits": curves
    }


def dictionary_rows(
    curves: dict[str, list[tuple[float, float]]], target: float, limit: int, size: str
) -> list[Row]:
    at = {name: first_time(curve, target) for name, curve in curves.items()}
    ours = min(at["SCNN, encoder_weight=0"], at["MiniBatchSCNN, encoder_weight=0"])
    work = f"dictionary of {size}: seconds to SPAMS' energy after {limit} s"
    rows = [Row(f"{work} ({target:.2f})", f"{ours:.1f} s", f"< {limit} s", ours < limit, at)]
    for name, must in (
        ("scikit-learn MiniBatch", "≥ 10 × ours"),
        ("SCNN, encoder_weight=1", ""),
        ("dictlearn L1", ""),
    ):
        if name not in curves:
            continue
        end, energy = curves[name][-1]
        least = min(at[name], end)  # what was not reached took at least as long as was given
        figure = f"{least:.1f} s" if least == at[name] else f"not within {end:.0f} s"
        met = least >= 10 * ours if must else None
        rows.append(Row(f"{work}: {name}", f"{figure} (ends at {energy:.2f})", must, met, at))
    return rows


def note(path: list[tuple[float, float]], now: Iteration) -> None:
    path.append((now.seconds, now.energy_per_sample))


def first_time(curve: list[tuple[float, float]], target: float) -> float:
    """Seconds at which a curve first is at or below the target, between two points linearly."""
    before = None
    for point in curve:
        if point[1] <= target:
            if before is None:
                return point[0]
            share = (before[1] - target) / (before[1] - point[1])
            return before[0] + share * (point[0] - before[0])
        before = point
    return float("inf")


def training(X: Any, quick: bool) -> tuple[list[Row], dict[str, Any]]:
    """SCNN itself: the default solver, batches, and Algorithm 1 as printed."""
    N, m = (4000, 100) if quick else (50_000, M)
    X = X[:N]
    paths: dict[str, list[tuple[float, float]]] = {"SCNN": []}
    start = time.perf_counter()
    scnn = SCNN(m, LAM, random_state=0,
        callback=partial(note, paths["SCNN"]),
    ).fit(X)  # fmt: skip
    full = time.perf_counter() - start
    best = scnn.energy_ / N
    start = time.perf_counter()
    batches = MiniBatchSCNN(m, LAM, random_state=0, batch_size=min(8192, N // 4)).fit(X)
    mini = time.perf_counter() - start
    reached = -batches.score(X)
    best = min(best, reached)
    ours = first_time(paths["SCNN"], 1.01 * best)

    each = {}
    for n, iterations in ((200, 3), (400, 3)) if quick else ((2000, 5), (4000, 3)):
        path: list[tuple[float, float]] = []
        SCNN(m, LAM, solver="paper", random_state=0, max_iter=iterations,
            callback=partial(note, path),
        ).fit(X[:n])  # fmt: skip
        each[n] = path[-1][0] / iterations
        paths[f"Algorithm 1, {n} digits"] = path
        print(f"  Algorithm 1, {n} digits: {each[n]:.1f} s an iteration", flush=True)
    largest = max(each)
    paper = 50 * each[largest] * N / largest
    detail = {"seconds per iteration": each, "SCNN": full, "MiniBatchSCNN": mini}
    work = f"training, {N:,} digits, m={m}, λ={LAM}"
    return [
        Row(f"{work}: to within 1 % of the best energy ({best:.5f})", f"{ours:.0f} s", "", None,
            detail),
        Row(f"{work}: 50 iterations of Algorithm 1, {each[largest]:.1f} s each on {largest} digits,"
            " scaled by N", f"{paper:,.0f} s, {paper / ours:.0f} × ours", "≥ 30 ×",
            paper >= 30 * ours, detail),
        Row(f"{work}: `MiniBatchSCNN`", f"{100 * (reached / (scnn.energy_ / N) - 1):.2f} % above"
            f" SCNN's end in {mini / full:.2f} of its time ({mini:.0f} of {full:.0f} s)",
            "≤ 1 % in ≤ 1/3", reached <= 1.01 * scnn.energy_ / N and mini <= full / 3, detail),
    ], {"energy of training digits": paths}  # fmt: skip


def path_of_lambda(X: Any, quick: bool) -> list[Row]:
    X, m = (X[:1000], 20) if quick else (X[:3000], 100)
    start = time.perf_counter()
    path = scnn_path(X, m, random_state=0)
    whole = time.perf_counter() - start
    singles, worst = [], 0.0
    for scnn in path:
        start = time.perf_counter()
        alone = SCNN(m, scnn.alpha, random_state=0).fit(X)
        singles.append(time.perf_counter() - start)
        worst = max(worst, scnn.energy_ / alone.energy_ - 1)
    times = whole / float(np.mean(singles))
    return [
        Row(f"`scnn_path` of 10, {len(X)} digits, m={m}",
            f"{times:.1f} single fits (energies at most {100 * worst:.1f} % above theirs)",
            "< 4", times < 4, {"path": whole, "singles": singles})
    ]  # fmt: skip


def machine() -> dict[str, Any]:
    names = ("lincode", "numpy", "scipy", "scikit-learn", "spams-bin", "dictlearn")
    model = ""
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((li.split(":")[1].strip() for li in lines if "model name" in li), "")
    return {
        "machine": f"{model or platform.processor()}, {cpu_count()} cores, {platform.system()}",
        "python": platform.python_version(),
        **{name: version(name) for name in names},
    }


def draw(curves: dict[str, dict[str, Any]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(curves), figsize=(6 * len(curves), 4.2), squeeze=False)
    for ax, (title, lines) in zip(axes[0], curves.items(), strict=True):
        for name, line in lines.items():
            seconds, energy = zip(*line, strict=True)
            ax.plot(seconds, energy, marker=".", label=name)
        ax.set(xscale="log", xlabel="seconds", ylabel="energy per digit", title=title)
        ax.grid(alpha=0.3)
        ax.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true")
    arguments.add_argument("--out", type=Path, default=Path("bench-output"))
    given = arguments.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    quick, began = given.quick, time.perf_counter()
    X, source = digits()
    print(f"{source}; {machine()}", flush=True)
    rows: list[Row] = []
    curves: dict[str, Any] = {}

    def add(name: str, new: list[Row], lines: dict[str, Any] | None = None) -> None:
        if quick:  # what must be shown is said of the full sizes
            new = [replace(row, met=None) for row in new]
        rows.extend(new)
        curves.update(lines or {})
        for row in new:
            print(row, flush=True)
        print(f"  [{name}: {time.perf_counter() - began:.0f} s since the start]", flush=True)

    for m in (M,) if quick else (M, 1600):
        add("encoding", encoding(X[:20_000] if quick else X, m, quick))
    add("exact codes", exact_codes(X, quick))
    add("dictionary learning", *dictionary_learning(X, quick))
    add("training", *training(X, quick))
    add("path", path_of_lambda(X, quick))
    add("growth", [Row(*line) for line in growth.rows(quick)])

    table = "\n".join(
        [f"{source}, {'reduced' if quick else 'full'} run of {time.perf_counter() - began:.0f} s.",
         ", ".join(f"{k} {v}" if k != "machine" else v for k, v in machine().items()) + ".", "",
         "| work | measured | must show | met |", "| --- | --- | --- | --- |", *map(str, rows)]
    )  # fmt: skip
    print("\n" + table)
    record = {"data": source, "quick": quick, **machine(), "rows": [asdict(r) for r in rows]}
    record["curves"] = curves
    (given.out / "bench.json").write_text(json.dumps(record, indent=1, default=float))
    (given.out / "bench.md").write_text(table + "\n")
    draw(curves, given.out / "bench.png")


if __name__ == "__main__":
    main()
