"""Claims of the abstract and of Section 3: codes of the encoder, and the sizes of the steps."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lincode import soft_threshold
from paper.cache import Record, Run, Scale
from paper.experiments.claims import Claim
from paper.experiments.networks import build, parameters_of
from paper.experiments.tables import Experiment, Table
from paper.networks import PaperSCNN
from paper.networks.scnn import remaining_excess
from paper.samples import Samples

GROUP = "encoder-codes"
LAMS = (0.1, 0.4)
REPETITIONS = 10


def runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
    """Networks with and without the encoder term, and the steps with both kinds of norms."""
    n, m, repetitions = {
        "smoke": ([100, 50, 50], 10, 1),
        "paper": ([2000, 0, 1000], 100, REPETITIONS),
    }[scale]
    settings = [{"encoder_weight": w, "lam": lam, "n": n} for lam in LAMS for w in (1.0, 0.0)]
    settings += [{"norms": x, "lam": 0.1, "n": [min(500, n[0]), 0, 0]} for x in NORMS]
    return [
        Run(GROUP, scale, seed + k, embedded, {"m": m, "side": 14, **own})
        for k in range(repetitions)
        for own in settings
    ]


NORMS = ("corrected", "printed")


def measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    """Return how similar two kinds of codes of test digits are, or how far the steps get."""
    settings = run.settings
    m, lam = settings["m"], settings["lam"]
    data = samples.digits(tuple(settings["n"]), run.seed, settings["side"])
    if "norms" in settings:
        X, rng = data.train.astype(np.float64), np.random.RandomState(run.seed)
        found = remaining_excess(X, lam, m, rng, printed=settings["norms"] == "printed")
        parameters = parameters_of(PaperSCNN(m, lam, random_state=run.seed))
        return {"remaining": found, "parameters": parameters}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weight = settings["encoder_weight"]
        scnn = build("SCNN", m, lam, run.seed, encoder_weight=weight).fit(data.train)
        parameters = parameters_of(scnn)
        U = scnn.set_params(transform_algorithm="lasso").transform(data.test)
    Z = data.test @ scnn.encoder_.T
    V = soft_threshold(Z, lam)
    both, either = np.sum((U != 0) & (V != 0)), np.sum((U != 0) | (V != 0))
    return {
        "r2": float(1 - np.sum((U - Z) ** 2) / np.sum(U**2)),
        "overlap": float(both / either),
        "parameters": parameters,
    }


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the claims."""
    return []


def tables(records: Sequence[Record]) -> list[Table]:
    """Return the table."""
    return []


EXPERIMENT = Experiment(
    GROUP, "Abstract and Section 3: codes of the encoder", "mnist", runs, claims, tables
)
