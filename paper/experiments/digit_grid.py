"""Shared by Figures 5, 8 and 9: networks trained and classified on few digits for many λ."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from threadpoolctl import threadpool_limits

from lincode.metrics import sparsity, sparsity_area
from paper.cache import Run, Scale
from paper.experiments.features import common_scale, svm_errors
from paper.experiments.networks import (
    BASELINES,
    NETWORKS,
    VARIED,
    build,
    network_of,
    parameters_of,
    wide_lams,
)
from paper.samples import Samples, Split
from paper.svm import unfitted_svm

STOP: dict[str, dict[str, float]] = {
    "SCNN": {"tol": 1e-2},
    "ASCNN": {"max_iter": 50},
    "SAANN": {"max_iter": 50},
    "Sparsenet": {"max_iter": 3},
}
"""When training stops, for all numbers of units."""
LINEAR = "SCNN, linear"
VARIANTS: dict[str, dict[str, float]] = {
    **{network: {} for network in NETWORKS},
    LINEAR: {"threshold": 0.0},
    **{baseline: {} for baseline in BASELINES},
}
"""The paper's networks, with SCNN's codes soft-thresholded at λ; SCNN with codes X Cᵀ; and the
baselines."""
PAPER_START = "SCNN, weights in [−1, 1]"
"""SCNN started as in the paper, which the chapter on competitors needs."""
DIGITS = "500 digits for training, 500 to choose λ and the SVM’s C, and 500 test digits."
GRID_PROTOCOL = (
    "A result is the mean over the samples that all networks have, ± the standard deviation, or the"
    " standard error in the table of Figure 8. “SCNN, linear” has three samples only.",
    f"SCNN is trained until the relative change of the energy is below {STOP['SCNN']['tol']:g},"
    f" ASCNN for {STOP['ASCNN']['max_iter']} passes, SAANN for {STOP['SAANN']['max_iter']} and"
    f" Sparsenet for {STOP['Sparsenet']['max_iter']}, with every number of units. This is the"
    " shortest training whose accuracy on 14×14 validation digits was within the standard error of"
    " the best. The learning rates are lincode's defaults.",
    "For the SVM, all units are scaled to the same root mean square.",
    "Raw pixels, and PCA with as many components as units, have the same classifier. The paper does"
    " not have these baselines. No network is more accurate: with 100 units and 14×14 pixels (ten"
    " samples), both are better than every network by 0.9 to 1.9 points, which is more than two"
    " standard errors.",
    "The features of the baselines are all multiplied by the same factor, because to scale each of"
    " them would enlarge the noise of the last components.",
)
GRID_DEPARTURES = (
    "The paper shows one sample of digits.",
    "The paper takes the learning rates and the numbers of iterations of ASCNN and SAANN from the"
    " publications about them, and reports the best of several thresholds that stop the training."
    " It does not give these values, so the training here is our choice.",
    "SCNN starts from training digits as atoms, and the others from random weights scaled to the"
    " layer sizes. The initial weights of the paper are uniform in [−1, 1]; the chapter on"
    " competitors shows what difference this makes.",
    "λ is one of 12 values from 0.001 to 1, or for Sparsenet one of 13 from 0.001 to 20. The paper"
    " has 40 equispaced values (100 for Figure 8) from 0.01 to 1, or to 20 for Sparsenet. The grid"
    " here is denser near zero, where many of the chosen λ are. SCNN has three more values"
    " from 0.2 to 0.35, where its accuracy and its sparsity change quickly.",
    "SCNN, SAANN and Sparsenet also have λ = 0, SAANN also 2, 5 and 10, and ASCNN also 2, 5, 10 and"
    " 20, because for some samples their best λ was at the end of the grid.",
    "SCNN’s codes are soft-thresholded at λ. The paper says so for Tables 2 and 3 only, but the"
    " sparsity areas of its Figure 8 cannot be reached without a threshold. “SCNN, linear” has no"
    " threshold; no claim depends on it.",
)
COMPARABLE = 0.03
"""A difference of accuracies that counts as none. Our criterion."""
GOOD, OTHERS = ("SCNN", "Sparsenet"), ("ASCNN", "SAANN")
"""The networks that classify digits well according to the paper, and the others."""
WHY_COMPETITORS = (
    "Whether ASCNN and SAANN are less accurate than SCNN depends on how they are started and"
    " trained. From uniform weights in [−1, 1], as in the paper, they are less accurate with 25,"
    " 100 and 150 units. From weights scaled to the layer sizes and with two passes, they are less"
    " accurate with 25 units, but not clearly with 100. With 50 passes, as here, they are not less"
    " accurate with 100 and 150 units.",
    ("competitors",),
)
"""Why claims about ASCNN and SAANN are not reproduced, and the experiment that shows it."""
CS = (0.1, 1.0, 10.0, 100.0)
REPETITIONS, MORE_REPETITIONS = 3, 10
"""Random samples of digits for all points, and for the points of the claims of Figures 8 and 9."""
WIDER_LAMS = {
    "ASCNN": [2.0, 5.0, 10.0, 20.0],
    "SAANN": [0.0, 2.0, 5.0, 10.0],
    "Sparsenet": [0.0],
}
"""λ beyond the ends of the grids of ``wide_lams`` at which the best λ was found. They are measured
in runs of their own."""
FINER_LAMS = {"SCNN": [0.2, 0.3, 0.35]}
"""λ between those of ``wide_lams`` at which the sparsity area is near 0.8, on which claims of
Figure 8 depend. They are measured in runs of their own too."""
WIDER, FINER = "wider grid", "finer grid"


def grid_runs(
    scale: Scale,
    seed: int,
    embedded: bool,
    *,
    network: str,
    m: int,
    side: int,
    n: list[int],
    n_lams: int,
) -> list[Run]:
    """Return the runs of a network: one with its λ, and one with further λ, if there are any.

    Those with 14×14 pixels are the runs of Figure 5, and the others those of Figure 9. ``n_lams``
    is the largest number of λ of a run.
    """
    group = "digits-components" if side == 14 else "digits-input-size"
    own: Mapping[str, Any] = {"init": "paper"} if network == PAPER_START else VARIANTS[network]
    settings = {
        "network": network,
        "m": m,
        "side": side,
        "n": n,
        "lams": wide_lams(network, n_lams),
        "stop": STOP.get(network_of(network), {}),
        "Cs": list(CS),
        **({"own": own} if own else {}),
        **({"scale": "common"} if network in BASELINES else {}),
    }
    grids: list[dict[str, Any]] = [{}]
    if network in WIDER_LAMS:
        grids.append({"lams": WIDER_LAMS[network][:n_lams], "grid": WIDER})
    if network in FINER_LAMS:
        grids.append({"lams": FINER_LAMS[network][:n_lams], "grid": FINER})
    return [Run(group, scale, seed, embedded, settings | grid) for grid in grids]


def repetitions(scale: Scale, *, more: bool = False) -> list[tuple[int, list[str]]]:
    """Return the repetitions as (number, variants that take part in it).

    SCNN without a threshold, on which no claim depends, has only the first ``REPETITIONS``.
    """
    if scale == "smoke":
        return [(0, list(VARIANTS))]
    first = [(k, list(VARIANTS)) for k in range(REPETITIONS)]
    others = [x for x in VARIANTS if x != LINEAR]
    return first + [(k, others) for k in range(REPETITIONS, MORE_REPETITIONS) if more]


def measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    """Return lists with one entry per λ: accuracies, sparsity of the codes, predictions, seconds.

    One thread is used.
    """
    with threadpool_limits(1), warnings.catch_warnings():
        # With λ at the ends of the paper's ranges all codes are zero, which causes warnings.
        warnings.simplefilter("ignore")
        data = samples.digits(tuple(run.settings["n"]), run.seed, run.settings["side"])
        rows = [measure_lam(run, data, lam) for lam in run.settings["lams"]]
    columns: dict[str, Any] = {name: [short(row[name]) for row in rows] for name in rows[0]}
    estimator = build_for(run, run.settings["lams"][0])
    return columns | {
        "parameters": parameters_of(estimator, unfitted_svm(run.settings["n"][0]), without=VARIED)
    }


def short(value: float | str) -> float | str:
    """Return a number rounded to six digits. A text is unchanged."""
    return value if isinstance(value, str) else float(f"{value:.6g}")


def build_for(run: Run, lam: float) -> Any:
    """Return the unfitted network of a run."""
    settings = run.settings
    own = settings["stop"] | settings.get("own", {})
    return build(settings["network"], settings["m"], lam, run.seed, **own)


def measure_lam(run: Run, data: Split, lam: float) -> dict[str, float | str]:
    """Return the results of one λ."""
    network = build_for(run, lam)
    fit_seconds = cpu_seconds(lambda: network.fit(data.train))
    train, val, test = (network.transform(X) for X in (data.train, data.val, data.test))
    scaling = common_scale if run.settings.get("scale") == "common" else None
    found = svm_errors((train, val, test), data, run.settings["Cs"], scaling)
    return {
        "val_accuracy": 1 - found["val_error"],
        "test_accuracy": 1 - found["test_error"],
        "C": found["C"],
        "zeros": sparsity(test),
        "val_sparsity_area": sparsity_area(val),
        "sparsity_area": sparsity_area(test),
        "fit_seconds": fit_seconds,
        "test_predictions": found["test_predictions"],
        "test_wrong": found["test_wrong"],
    }


def cpu_seconds(work: Callable[[], object]) -> float:
    """Call a function and return the CPU seconds it took."""
    start = time.process_time()
    work()
    return time.process_time() - start
