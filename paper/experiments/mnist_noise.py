"""Table 3: error on noisy digits with raw pixels, SCNN, and SCNN with re-learned codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from paper.cache import Record, Run, Scale
from paper.experiments.claims import Claim, Estimate, Margins, Rate, verdict_of_number
from paper.experiments.features import classify, error_rate_of, error_text, svm_errors
from paper.experiments.mnist_units import (
    NOISE,
    TRAINER,
    Repetitions,
    train,
)
from paper.experiments.networks import VARIED, parameters_of
from paper.experiments.tables import (
    Experiment,
    Table,
    best_repetitions,
    percent,
    points,
)
from paper.samples import Samples, Split
from paper.svm import unfitted_svm

SIGMAS = (0.02, 0.04, 0.06, 0.08)
RAW, ENCODER, RELEARNED = "raw pixels", "SCNN", "SCNN, codes learned anew"
TRAINED = "SCNN, codes learned anew for test digits only"
"""The names of the methods in the records."""
LABELS = {
    RAW: RAW,
    ENCODER: ENCODER,
    RELEARNED: "SCNN, codes re-learned",
    TRAINED: "… for test digits only",
}
"""The names of the methods in tables."""
SVM_CODES = {RELEARNED: "re-learned", TRAINED: "for test digits only"}
"""The codes with which SCNN is compared."""
PAPER = {
    RAW: (0.063, 0.068, 0.077, 0.087),
    ENCODER: (0.038, 0.042, 0.047, 0.055),
    RELEARNED: (0.049, 0.048, 0.057, 0.069),
}
"""The paper's Table 3."""
RAW_CS = [0.1, 0.3, 1.0, 3.0, 10.0]
DEVIATION, VARIANCE = "deviation", "variance"
"""Two interpretations of σ: as printed, the standard deviation of noise on pixels in [−1, 1]; or
the variance of noise on pixels in [0, 1] that are then clipped, as in MATLAB's imnoise. With the
first, the error of raw pixels hardly increases with the noise. With the second, it is similar to
the paper's."""
COUNTED = VARIANCE
"""The interpretation whose claims are counted."""
GRIDS: dict[str, tuple[tuple[float, float], ...]] = {
    DEVIATION: ((0.5, 0.0), (0.5, NOISE)),
    VARIANCE: ((0.5, 0.0), (0.35, 0.0), (0.7, 0.0), (0.25, 0.0), (1.0, 0.0)),
}
"""λ, and the standard deviation of additional noise in training."""
ZEROS, CS = [0.65, 0.75, 0.82, 0.88], [0.3, 1.0, 3.0, 10.0]
REPEATED_LAMS = {0.02: (0.5,), 0.04: (0.5, 0.35, 0.7), 0.06: (0.5, 0.35, 0.7), 0.08: (0.5, 0.7)}
"""The λ that are repeated with other noise and other initial weights, by σ: those with the smallest
validation errors of SCNN or of re-learned codes, and 0.5."""
REPEATED_SEEDS = (1, 2)
TRAINED_LAMS = {0.02: 0.5, 0.04: 0.7, 0.06: 0.7, 0.08: 0.7}
"""The λ of re-learned codes, for the runs whose SVM learns from the codes of training."""


def runs(scale: Scale, embedded: bool) -> list[Run]:
    """Raw pixels, and SCNN with a few settings, for each σ and each interpretation of it."""
    small = scale == "smoke"
    n = [600, 300, 300] if small else [50_000, 10_000, 10_000]
    m, zeros, Cs = (20, [0.75], [1.0]) if small else (400, ZEROS, CS)

    def run(method: str, reading: str, sigma: float, k: int = 0, **settings: Any) -> Run:
        own = {} if reading == DEVIATION else {"reading": reading}
        settings = {"method": method, "sigma": sigma, **settings, "n": n, **own}
        return Run("mnist-noise", scale, k, embedded, settings)

    def scnn(reading: str, sigma: float, lam: float, noise: float = 0, k: int = 0) -> Run:
        own = {"m": m, "lam": lam, "zeros": zeros, "Cs": Cs, "trainer": TRAINER}
        return run(ENCODER, reading, sigma, k, **own, **({"noise": noise} if noise else {}))

    def raw(reading: str, sigma: float, k: int = 0) -> Run:
        return run(RAW, reading, sigma, k, Cs=RAW_CS)

    first = [raw(reading, sigma) for reading in GRIDS for sigma in SIGMAS] + [
        scnn(reading, sigma, lam, noise)
        for reading, grid in GRIDS.items()
        for lam, noise in ([(0.1, 0.0)] if small else grid)
        for sigma in SIGMAS
    ]
    first += [
        run(TRAINED, COUNTED, sigma, m=m, lam=lam, Cs=Cs, trainer=TRAINER)
        for sigma, lam in ([(0.02, 0.1)] if small else TRAINED_LAMS.items())
    ]
    if small:
        return first
    return first + [
        repeated
        for k in REPEATED_SEEDS
        for sigma in SIGMAS
        for repeated in (
            *(scnn(COUNTED, sigma, lam, k=k) for lam in REPEATED_LAMS[sigma]),
            raw(COUNTED, sigma, k),
        )
    ]


def measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    """Return the errors on digits with noise. The training digits are noisy too."""
    settings = run.settings
    data = samples.all_digits(tuple(settings["n"]))
    data = add_noise(data, settings["sigma"], run.seed, reading_of(settings))
    sets = (data.train, data.val, data.test)
    parameters = parameters_of(unfitted_svm(settings["n"][0]), without=VARIED)
    if settings["method"] == RAW:
        return {RAW: svm_errors(sets, data, settings["Cs"]), "parameters": parameters}
    scnn = train(data.train, settings, run.seed)
    parameters |= parameters_of(scnn)
    if settings["method"] == TRAINED:
        trained = csr_matrix(scnn.set_params(transform_algorithm="exact").transform(data.train))
        scnn.set_params(transform_algorithm="lasso")
        codes = [trained, *(csr_matrix(scnn.transform(X)) for X in sets[1:])]
        return {TRAINED: svm_errors(codes, data, settings["Cs"]), "parameters": parameters}
    Z = [X @ scnn.encoder_.T for X in sets]
    # Re-learned codes minimise reconstruction error and ℓ1 norm, without the encoder.
    scnn.set_params(transform_algorithm="lasso")
    codes = [csr_matrix(scnn.transform(X)) for X in sets]
    return {
        ENCODER: classify(Z, data, "plain", settings["zeros"], settings["Cs"]),
        RELEARNED: svm_errors(codes, data, settings["Cs"]),
        "parameters": parameters,
    }


def reading_of(settings: Mapping[str, Any]) -> str:
    """Return the interpretation of σ in the settings of a run."""
    return str(settings.get("reading", DEVIATION))


def add_noise(data: Split, sigma: float, seed: int, reading: str = DEVIATION) -> Split:
    """Return all digits, with pixels in [−1, 1], with Gaussian noise added."""
    rng = np.random.default_rng([seed, round(1000 * sigma)])

    def add(X: Any) -> Any:
        noise = rng.standard_normal(X.shape, dtype=np.float32)
        if reading == DEVIATION:
            return X + sigma * noise
        # X is 2 x − 1 for pixels x in [0, 1], so that the deviation of the noise is doubled.
        return np.clip(X + np.float32(2 * np.sqrt(sigma)) * noise, -1, 1)

    return replace(data, train=add(data.train), val=add(data.val), test=add(data.test))


def best(records: Sequence[Record]) -> dict[str, dict[float, Repetitions]]:
    """Return for each method and σ the runs with the smallest validation error."""
    found = best_repetitions(
        ((method, record["sigma"]), record, result)
        for record in records
        for method, result in record.result.items()
    )
    best = {x: {sigma: found[x, sigma] for sigma in SIGMAS if (x, sigma) in found} for x in LABELS}
    return {x: at for x, at in best.items() if at}


def by_reading(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the records by interpretation of σ."""
    found = {x: [r for r in records if reading_of(r.run.settings) == x] for x in GRIDS}
    return {x: own for x, own in found.items() if own}


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the paper's claims about Table 3, with σ as a variance."""
    own = by_reading(records).get(COUNTED, [])
    found = best(own)
    if not set(PAPER) <= set(found) or any(set(at) != set(SIGMAS) for at in found.values()):
        return []
    error = {x: [error_rate_of(at[sigma]) for sigma in SIGMAS] for x, at in found.items()}
    printed = {x: ", ".join(f"{100 * e:.1f}" for e in PAPER[x]) + " %" for x in PAPER}

    def text(errors: Sequence[Rate]) -> str:
        return ", ".join(f"{100 * e.mean:.2f}" for e in errors) + " %"

    def less(one: Sequence[Rate], other: Sequence[Rate]) -> Margins:
        return [b - a for a, b in zip(one, other, strict=True)]

    def increase(errors: Sequence[Rate]) -> Estimate:
        return errors[-1] - errors[0]

    return [
        Claim(
            "The errors of SCNN are 3.8, 4.2, 4.7 and 5.5 %.",
            printed[ENCODER],
            text(error[ENCODER]),
            {
                "": [
                    Estimate(paper) - own.estimate
                    for own, paper in zip(error[ENCODER], PAPER[ENCODER], strict=True)
                ]
            },
            verdict_of_number,
        ),
        Claim(
            "SCNN has a smaller error than raw pixels at every noise level.",
            f"against {printed[RAW]}",
            f"against {text(error[RAW])}",
            {"": less(error[ENCODER], error[RAW])},
        ),
        Claim(
            "SCNN has a smaller error than re-learned codes at every noise level.",
            f"against {printed[RELEARNED]}",
            {name: text(error[x]) for x, name in SVM_CODES.items()},
            {name: less(error[ENCODER], error[x]) for x, name in SVM_CODES.items()},
            choice="codes for the SVM",
        ),
        Claim(
            "Noise increases SCNN's error less than that of raw pixels.",
            f"{increase_of(PAPER[ENCODER])}, {increase_of(PAPER[RAW])}",
            f"{points(increase(error[ENCODER]).value)}, {points(increase(error[RAW]).value)}",
            {"": [increase(error[RAW]) - increase(error[ENCODER])]},
        ),
    ]


def increase_of(errors: Sequence[float]) -> str:
    """Return by how many points the paper's error increases with the noise."""
    return points(errors[-1] - errors[0])


def tables(records: Sequence[Record]) -> list[Table]:
    """Return one table for each interpretation of σ."""
    return [error_table(own, reading) for reading, own in by_reading(records).items()]


def error_table(records: Sequence[Record], reading: str) -> Table:
    """Return the errors in the paper and here for one interpretation of σ."""
    rows = [[f"paper: {LABELS[x]}", *(percent(e) for e in PAPER[x])] for x in PAPER]
    ours = {LABELS[x]: at for x, at in best(records).items()}
    for x, at in ours.items():
        own = [at.get(sigma) for sigma in SIGMAS]
        rows.append([x, *(error_text(error_rate_of(f)) if f else "" for f in own)])
    noise = {
        DEVIATION: "standard deviation σ, pixels in [−1, 1]",
        VARIANCE: "variance σ, pixels in [0, 1] and clipped",
    }[reading]
    title = f"Test error (± standard error) on digits with Gaussian noise ({noise})"
    name = "mnist-noise" if reading == COUNTED else f"mnist-noise-{reading}"
    return Table(name, title, ["σ", *map(str, SIGMAS)], rows)


EXPERIMENT = Experiment(
    "mnist-noise", "Table 3: error on noisy digits", "mnist", runs, claims, tables
)
