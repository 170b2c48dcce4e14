"""Train ASCNN and SAANN with several starts, optimisers and numbers of passes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from lincode.exceptions import InvalidInputError
from paper.experiments.digit_grid import PAPER_START, REPETITIONS, grid_runs, short
from paper.experiments.experiment import Run, Scale
from paper.experiments.features import svm_errors
from paper.experiments.networks import RAW, VARIED, build, parameters_of
from paper.experiments.samples import Samples
from paper.svm import unfitted_svm

COMPETITORS = ("ASCNN", "SAANN")
STARTS = ("paper", "scaled")
"""``init`` of the estimators: uniform weights in [−1, 1], or scaled to the layer sizes."""
SOLVERS = {"sgd": "plain gradient", "adam": "Adam"}
PASSES = (2, 10, 50)
RATES = {
    "sgd": [1e-6, 1e-5, 0.0001, 0.001, 0.01, 0.1],
    "adam": [2e-6, 2e-5, 0.0002, 0.002, 0.01, 0.05],
}
"""Learning rates. With the smallest, the weights hardly change."""
LAMS = [0.1]
"""Within the paper's range λ makes little difference (``paper/benchmarks/competitor_lams.py``)."""
CS = [0.1, 1.0, 10.0]
"""With C = 100, the SVM does not converge in minutes on codes of poorly initialised networks."""
SHAPES = ((25, 14), (25, 28), (100, 14), (100, 28), (150, 14))
"""Numbers of units and sides of the digits. Figure 5 has 14×14 pixels, Figure 9 100 units."""
GROUP = "competitors"
COMPARED = ("SCNN", PAPER_START, RAW)
"""What is trained on the same digits for comparison."""


def runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
    """Each start, number of passes and optimiser; and SCNN and raw pixels on the same digits.

    SCNN has both starts too.
    """
    n, shapes, passes, repetitions, n_lams = {
        "smoke": ([100, 100, 100], ((5, 14), (5, 28)), (2,), 1, 1),
        "paper": ([500, 500, 500], SHAPES, PASSES, REPETITIONS, 13),
    }[scale]
    studied = [
        Run(
            GROUP,
            scale,
            seed + k,
            embedded,
            {
                "network": network,
                "m": m,
                "side": side,
                "init": init,
                "solver": solver,
                "passes": n_passes,
                "n": n,
                "lams": LAMS,
                "rates": RATES[solver],
                "Cs": CS,
            },
        )
        for k in range(repetitions)
        for m, side in shapes
        for network in COMPETITORS
        for init in STARTS
        for n_passes in passes
        for solver in SOLVERS
    ]
    compared = [
        run
        for k in range(repetitions)
        for m, side in shapes
        for network in COMPARED
        for run in grid_runs(
            scale,
            seed + k,
            embedded,
            network=network,
            m=m,
            side=side,
            n=n,
            n_lams=n_lams if scale == "paper" else 2,
        )
    ]
    return studied + compared


def measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    """Return lists with one entry per λ and learning rate, and the predictions of the chosen one.

    A training that diverges has an accuracy of 0.
    """
    settings = run.settings
    rows: list[dict[str, Any]] = []
    with threadpool_limits(1), warnings.catch_warnings(), np.errstate(all="ignore"):
        # Diverging weights cause warnings.
        warnings.simplefilter("ignore")
        data = samples.digits(tuple(settings["n"]), run.seed, settings["side"])
        for lam in settings["lams"]:
            for rate in settings["rates"]:
                network = build_for(run, lam, rate)
                row: dict[str, Any] = {"lam": lam, "learning_rate": rate}
                try:
                    network.fit(data.train)
                    sets = [network.transform(X) for X in (data.train, data.val, data.test)]
                    found = svm_errors(sets, data, settings["Cs"])
                except InvalidInputError:
                    found = {"val_error": 1.0, "test_error": 1.0, "C": 0.0}
                row |= {
                    "val_accuracy": 1 - found["val_error"],
                    "test_accuracy": 1 - found["test_error"],
                    "C": found["C"],
                    "test_predictions": found.get("test_predictions", ""),
                    "test_wrong": found.get("test_wrong", ""),
                }
                rows.append(row)
    best = int(np.argmax([row["val_accuracy"] for row in rows]))
    predictions = {name: rows[best].pop(name) for name in ("test_predictions", "test_wrong")}
    columns = ("lam", "learning_rate", "val_accuracy", "test_accuracy", "C")
    estimator = build_for(run, settings["lams"][0], settings["rates"][0])
    varied = (*VARIED, "learning_rate")
    return {
        **{name: [short(row[name]) for row in rows] for name in columns},
        **predictions,
        "parameters": parameters_of(estimator, unfitted_svm(settings["n"][0]), without=varied),
    }


def build_for(run: Run, lam: float, rate: float) -> Any:
    """Return the unfitted network of a run."""
    settings = run.settings
    return build(
        settings["network"],
        settings["m"],
        lam,
        run.seed,
        init=settings["init"],
        solver=settings["solver"],
        max_iter=settings["passes"],
        learning_rate=rate,
    )
