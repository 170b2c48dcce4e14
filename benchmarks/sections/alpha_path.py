"""A path of ten values of alpha, compared with separate fits."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from measure import Section, cell, seconds_of

from lincode import SCNN, scnn_path

GOAL = 4


def run(X: Any, quick: bool) -> Section:
    X, m = (X[:300], 10) if quick else (X[:3000], 100)
    scnn_path(X[:300], m, n_alphas=2, random_state=0)  # loads the compiled code
    path: list[SCNN] = []
    path_seconds = seconds_of(lambda: path.extend(scnn_path(X, m, random_state=0)))
    fit_seconds, energy_ratios = [], []
    for scnn in path:
        single = SCNN(m, alpha=scnn.alpha, refine=False, random_state=0)
        fit_seconds.append(seconds_of(partial(single.fit, X)))
        energy_ratios.append(scnn.energy_ / single.energy_)
    ratio = path_seconds / float(np.mean(fit_seconds))
    text = (
        f"`scnn_path` with {len(path)} values of alpha ({len(X)} digits, m={m}) takes as long as"
        f" {cell(ratio, GOAL, digits=1)} single fits (goal: {GOAL}), with energies at most"
        f" {100 * (max(energy_ratios) - 1):.1f} % higher."
    )
    return Section("A path of alpha", text, {"path": path_seconds, "single": fit_seconds})
