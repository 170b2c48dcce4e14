"""Training of SCNN with refinement, of its energy alone, and with mini-batches."""

from __future__ import annotations

from functools import partial
from typing import Any

from measure import ALPHA, N_COMPONENTS, Curve, Row, Section, seconds_of

from lincode import SCNN, Iteration, MiniBatchSCNN, metrics


def run(X: Any, quick: bool) -> Section:
    n, m = (4000, 100) if quick else (50_000, N_COMPONENTS)
    X = X[:n]
    curve: Curve = []
    energy: dict[str, Any] = {"alpha": ALPHA, "refine": False, "transform_algorithm": "exact"}
    energy["random_state"] = 0
    scnn = SCNN(m, **energy, callback=partial(record, curve, 0.0, n))
    batches = MiniBatchSCNN(m, **energy)
    scnn_seconds = seconds_of(partial(scnn.fit, X))
    batch_seconds = seconds_of(partial(batches.fit, X))
    D, C = batches.components_, batches.encoder_
    batch_energy = metrics.energy(X, batches.transform(X), D, C, ALPHA)
    curves = {"SCNN": curve, "MiniBatchSCNN": [(batch_seconds, batch_energy)]}
    refined = SCNN(m, random_state=0)
    refined_seconds = seconds_of(partial(refined.fit, X))
    task = f"training on {n:,} digits, m={m}"
    rows = [
        Row(f"{task}: the default, with refinement", f"{refined_seconds:.0f} s"),
        Row(
            f"{task}, λ={ALPHA}, `refine=False`: `MiniBatchSCNN`",
            f"energy {100 * (batch_energy / scnn.energy_ - 1):.2f} % above that of SCNN in"
            f" {batch_seconds / scnn_seconds:.2f} of its time"
            f" ({batch_seconds:.0f} s and {scnn_seconds:.0f} s)",
            "≤ 1 % in ≤ 1/3",
            batch_energy <= 1.01 * scnn.energy_ and batch_seconds <= scnn_seconds / 3,
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
