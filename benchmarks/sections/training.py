"""Training of SCNN with the default solver, with mini-batches, and with the paper's Algorithm 1."""

from __future__ import annotations

from functools import partial
from typing import Any

from measure import ALPHA, N_COMPONENTS, Curve, Row, Section, seconds_of, time_to_reach

from lincode import SCNN, Iteration, MiniBatchSCNN

PAPER_ITERATIONS = 25


def run(X: Any, quick: bool) -> Section:
    n, m = (4000, 100) if quick else (50_000, N_COMPONENTS)
    X = X[:n]
    curve: Curve = []
    scnn = SCNN(m, ALPHA, random_state=0, callback=partial(record, curve, 0.0, n))
    batches = MiniBatchSCNN(m, ALPHA, random_state=0)
    scnn_seconds = seconds_of(partial(scnn.fit, X))
    batch_seconds = seconds_of(partial(batches.fit, X))
    whole: Curve = []
    on_all = SCNN(m, ALPHA, init_size=None, random_state=0, callback=partial(record, whole, 0.0, n))
    whole_seconds = seconds_of(partial(on_all.fit, X))
    scnn_energy, batch_energy = scnn.energy_, -batches.score(X)
    best = min(scnn_energy, batch_energy, on_all.energy_)
    near_best = time_to_reach(curve, 1.01 * best)
    ratio = near_best / time_to_reach(whole, 1.01 * best)
    curves = {
        "SCNN": curve,
        "SCNN, init_size=None": whole,
        "MiniBatchSCNN": [(batch_seconds, batch_energy)],
    }
    task = f"training on {n:,} digits, m={m}, λ={ALPHA}"
    rows = [
        Row(
            f"{task}: time to an energy 1 % above the best ({best:.5f})",
            f"{near_best:.0f} s",
            details={"SCNN": scnn_seconds, "MiniBatchSCNN": batch_seconds},
        ),
        Row(
            f"{task}: start on subsets, compared with `init_size=None`",
            f"{ratio:.2f} of the time to within 1 %, {scnn_seconds / whole_seconds:.2f} of the time"
            f" of `fit`, energy {100 * (scnn_energy / on_all.energy_ - 1):+.2f} %",
            "≤ 0.4 of the time to within 1 %",
            ratio <= 0.4,
            {"subsets": scnn_seconds, "all samples": whole_seconds},
        ),
        Row(
            f"{task}: `MiniBatchSCNN`",
            f"energy {100 * (batch_energy / scnn_energy - 1):.2f} % above that of SCNN in"
            f" {batch_seconds / scnn_seconds:.2f} of its time"
            f" ({batch_seconds:.0f} s and {scnn_seconds:.0f} s)",
            "≤ 1 % in ≤ 1/3",
            batch_energy <= 1.01 * scnn_energy and batch_seconds <= scnn_seconds / 3,
        ),
        compare_with_algorithm_1(X, m, near_best, task, curves, quick),
    ]
    return Section(rows, {"energy of training digits": curves})


def compare_with_algorithm_1(
    X: Any, m: int, default_seconds: float, task: str, curves: dict[str, Curve], quick: bool
) -> Row:
    """Estimate the time of Algorithm 1 for all digits from runs on few digits.

    The number of iterations is the one after which the energy of a few digits is at most 1 % above
    that of the default solver. It is at most 25, half of what the paper allows. The time per
    iteration is measured on twice as many digits and is scaled to all digits.
    """
    n = 100 if quick else 2000
    goal = 1.01 * SCNN(m, ALPHA, random_state=0).fit(X[:n]).energy_
    path = run_algorithm_1(X[:n], m, PAPER_ITERATIONS, goal)
    longer = run_algorithm_1(X[: 2 * n], m, 3, 0.0)
    curves[f"Algorithm 1, {n} digits"], curves[f"Algorithm 1, {2 * n} digits"] = path, longer
    per_iteration = longer[-1][0] / len(longer)
    seconds = len(path) * per_iteration * len(X) / (2 * n)
    converged = path[-1][1] <= goal
    return Row(
        f"{task}: Algorithm 1, {len(path)} iterations (the energy of {n} digits is"
        f" {'' if converged else 'not yet '}within 1 %) of {per_iteration:.1f} s"
        f" (on {2 * n} digits), scaled to all digits",
        f"{seconds:,.0f} s, {seconds / default_seconds:.0f} × the default solver",
        "≥ 30 ×",
        seconds >= 30 * default_seconds,
        {
            "seconds per iteration": {n: path[-1][0] / len(path), 2 * n: per_iteration},
            "iterations": len(path),
            "goal": goal,
        },
    )


def run_algorithm_1(X: Any, m: int, max_iter: int, target: float) -> Curve:
    """Return the curve of Algorithm 1 until an energy is reached."""
    curve: Curve = []
    SCNN(
        m,
        ALPHA,
        solver="paper",
        random_state=0,
        max_iter=max_iter,
        tol=0.0,
        callback=partial(record, curve, target, len(X)),
    ).fit(X)
    per_iteration = curve[-1][0] / len(curve)
    print(
        f"  Algorithm 1, {len(X)} digits: {len(curve)} iterations of {per_iteration:.1f} s",
        flush=True,
    )
    return curve


def record(curve: Curve, target: float, n: int, iteration: Iteration) -> bool:
    """Append a point to the curve, and return whether the target is reached.

    Iterations on fewer than n samples are ignored, because their energy is that of a subset.
    """
    if iteration.n_samples < n:
        return False
    curve.append((iteration.seconds, iteration.energy_per_sample))
    return iteration.energy_per_sample <= target
