"""Claims of the abstract and of Section 3: codes of the encoder, and the sizes of the steps."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paper.cache import Record, Run, Scale
from paper.codes import soft_threshold
from paper.experiments import competitors, digits_components, digits_input_size, missing_pixels
from paper.experiments.claims import Claim, Estimate, mean_of, signs, verdict_of_number
from paper.experiments.digits import OTHERS, difference
from paper.experiments.networks import build, parameters_of
from paper.experiments.tables import Experiment, percent
from paper.networks import PaperSCNN
from paper.networks.scnn import remaining_excess
from paper.samples import Samples

GROUP = "encoder-codes"
LAMS = (0.1, 0.4)
REPETITIONS, STEP_REPETITIONS = 10, 3


def runs(scale: Scale, embedded: bool) -> list[Run]:
    """Networks with and without the encoder term, and the steps with both kinds of norms."""
    n, m, repetitions = {
        "smoke": ([100, 50, 50], 10, 1),
        "paper": ([2000, 0, 1000], 100, REPETITIONS),
    }[scale]
    settings = [{"encoder_weight": w, "lam": lam, "n": n} for lam in LAMS for w in (1.0, 0.0)]
    settings += [{"norms": x, "lam": 0.1, "n": [min(500, n[0]), 0, 0]} for x in NORMS]
    found = [
        Run(GROUP, scale, k, embedded, {"m": m, "side": 14, **own})
        for k in range(repetitions)
        for own in settings
        if "norms" not in own or k < STEP_REPETITIONS
    ]
    others = (missing_pixels, digits_components, digits_input_size)
    return found + [run for x in others for run in x.runs(scale, embedded)]


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
    """Return the claims of the abstract, of Section 3 and of the conclusions."""
    codes = [r for r in records if r.run.group == GROUP and "norms" not in r.run.settings]
    steps = [r for r in records if r.run.group == GROUP and "norms" in r.run.settings]

    def values(name: str, lam: float, weight: float) -> Any:
        own = [r for r in codes if (r["lam"], r["encoder_weight"]) == (lam, weight)]
        return np.array([r[name] for r in own])

    def remaining(norms: str, step: str) -> Estimate:
        return mean_of([r["remaining"][step] for r in steps if r["norms"] == norms])

    medians = {
        x: " and ".join(
            f"{np.median(values(x, lam, 1)):.2f} (without {np.median(values(x, lam, 0)):.2f})"
            for lam in LAMS
        )
        for x in ("r2", "overlap")
    }
    left = {
        norms: ", ".join(percent(remaining(norms, step).value, 0) for step in "UDC")
        for norms in NORMS
    }
    return [
        Claim(
            "The encoder term makes the code of the encoder similar to the re-learned code.",
            "as similar as possible",
            f"R² {medians['r2']}, overlap {medians['overlap']}",
            {
                "": [
                    mean_of(values(x, lam, 1) - values(x, lam, 0))
                    for x in ("r2", "overlap")
                    for lam in LAMS
                ]
            },
        ),
        Claim(
            "With the explicit step sizes, each step reaches its minimum (at most 1 % of the excess"
            " energy remains).",
            "linear convergence",
            {norms: f"U, D, C keep {own}" for norms, own in left.items()},
            {
                norms: [remaining(norms, step).distance_to(0, 0.01) for step in "UDC"]
                for norms in NORMS
            },
            verdict_of_number,
            "norms",
        ),
        all_cases(records),
    ]


def all_cases(records: Sequence[Record]) -> Claim:
    """Return the claim of the conclusions about ASCNN and SAANN, in Figures 3, 5 and 9."""
    patches = [r for r in records if r.run.group == "missing-pixels"]
    digits = [r for r in records if r.run.group not in ("missing-pixels", GROUP)]
    found = {}
    for reading, own in missing_pixels.by_reading(patches).items():
        errors = missing_pixels.errors(own)
        found[reading] = [
            missing_pixels.ratio_of(errors, x, "SCNN", level) - 1
            for x in OTHERS
            for level in errors
        ]
    for by in ("m", "side"):
        for reading, by_value in competitors.by_start(digits, by).items():
            found[reading] = found.get(reading, []) + [
                difference(by_value["SCNN"][v], by_value[x][v], competitors.rate_of)
                for x in OTHERS
                for v in by_value["SCNN"]
            ]
    clear = {x: signs(own) for x, own in found.items()}
    return Claim(
        "SCNN outperforms ASCNN and SAANN in all cases (Figures 3, 5 and 9).",
        "all cases",
        {
            x: f"better in {own.count(1)} of {len(own)}, worse in {own.count(-1)}"
            for x, own in clear.items()
        },
        found,
        choice="start or pixels",
    )


EXPERIMENT = Experiment(
    GROUP,
    "Abstract, Section 3 and conclusions",
    "mnist",
    runs,
    claims,
)
