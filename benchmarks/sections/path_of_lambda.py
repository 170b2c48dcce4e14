"""A path of ten λ against single fits."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from ruler import Row, Section

from lincode import SCNN, scnn_path


def run(X: Any, quick: bool) -> Section:
    X, m = (X[:300], 10) if quick else (X[:3000], 100)
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
    row = Row(
        f"`scnn_path` of 10, {len(X)} digits, m={m}",
        f"{times:.1f} single fits (energies at most {100 * worst:.1f} % above theirs)",
        "< 4",
        times < 4,
        {"path": whole, "singles": singles},
    )
    return Section([row])
