"""Training of SCNN on all samples, from subsets of them, and with mini-batches."""

from __future__ import annotations

from functools import partial
from typing import Any

from measure import ALPHA, N_COMPONENTS, Curve, Row, Section, seconds_of, time_to_reach

from lincode import SCNN, Iteration, MiniBatchSCNN


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
    ]
    return Section(rows, {"energy of training digits": curves})


def record(curve: Curve, target: float, n: int, iteration: Iteration) -> bool:
    """Append a point to the curve, and return whether the target is reached.

    Iterations on fewer than n samples are ignored, because their energy is that of a subset.
    """
    if iteration.n_samples < n:
        return False
    curve.append((iteration.seconds, iteration.energy_per_sample))
    return iteration.energy_per_sample <= target
