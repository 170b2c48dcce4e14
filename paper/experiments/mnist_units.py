"""Table 2: error of SCNN and a linear SVM on all of MNIST, by number of units."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lincode import MiniBatchSCNN
from paper.cache import Record, Run, Scale
from paper.experiments.claims import Claim, Estimate, verdict_of_number
from paper.experiments.features import classify, coded, error_rate_of, error_text, svm_errors
from paper.experiments.networks import PAPER_ENCODER, VARIED, build, parameters_of
from paper.experiments.tables import (
    Experiment,
    Table,
    best_repetitions,
    percent,
    plus_minus,
)
from paper.networks.scnn import stopped_encoders
from paper.samples import Samples, Split
from paper.svm import unfitted_svm

PAPER = {400: 0.027, 800: 0.024, 1200: 0.021, 1600: 0.020}
"""The errors in the paper's Table 2."""
LAMS = (0.5, 0.75, 0.35, 1.0, 0.6, 0.25, 0.4, 0.85, 1.3, 0.2)
"""λ for 400 units, the most promising first. For m units they are multiplied by m/400, because the
penalty of a code is proportional to λ p/m."""
ZEROS = [0.82, 0.88, 0.92]
"""Fractions of zeros of plain codes."""
FEWER_ZEROS = [0.65, 0.75]
"""Those beyond the end of ``ZEROS`` that was chosen with 400 and 800 units."""
NOISE_ZEROS = [0.65, 0.75, 0.82, 0.88]
"""Those of networks that are trained with noise, whose best codes have fewer zeros."""
SPLIT_ZEROS, SPLIT_CS = [0.3, 0.45, 0.6], [0.3, 1.0, 3.0]
TRAINER = "MiniBatchSCNN"
NOISE = 0.3
"""Standard deviation of the noise in training, chosen on noise-free validation digits. It acts on
the encoder like a ridge of 0.3² per digit, which is 0.08 times the mean eigenvalue of XᵀX/N."""
CS = [0.3, 1.0, 3.0, 10.0]
PAPER_LAMS = {400: (0.2, 0.02, 0.1, 0.06, 0.14), 800: (0.2, 0.1), 1200: (0.2,), 1600: (0.2,)}
"""λ in the range of the paper, with the threshold λ."""
SPLIT_RIDGES = {400: (0.1, 0.3, 1.0), 1600: (0.3,)}
"""encoder_ridge of the runs with positive and negative parts, for the sizes that have runs with
noise."""
LAMS_BY_UNITS = {400: LAMS, 800: LAMS, 1200: (*LAMS, 0.15), 1600: LAMS}
"""λ of the runs without noise, relative to 400 units."""
RIDGES_BY_UNITS = {
    400: (0.3, 0.1, 1.0, 3.0),
    800: (0.3, 0.1, 1.0),
    1200: (0.3, 0.1),
    1600: (0.3, 0.1),
}
"""encoder_ridge in place of noise, relative to the mean eigenvalue of XᵀX/N."""
REPEATED: dict[int, tuple[tuple[float, dict[str, Any]], ...]] = {
    400: ((0.5, {}), (0.5, {"encoder_ridge": 0.1})),
    800: ((0.35, {}),),
    1200: ((0.2, {}),),
    1600: ((0.4, {}),),
}
"""λ, relative to 400 units, and variants that are repeated with two more seeds: those with the
smallest validation errors."""
STEPS = (500, 2500, 25_000)
"""Gradient steps of the encoder: the paper makes at most 500 in each of at most 50 iterations."""
FROM_ZERO, FROM_PAPER = "from 0", "from [−1, 1]"
STEP_ZEROS = {"plain": [0.82, 0.88]}
STEP_CS = {"plain": [3.0]}
"""The fractions of zeros and the C that were chosen for the encoder without an early stop."""
STEP_REPETITIONS = {400: 3, 800: 1, 1200: 1, 1600: 1}
LIMIT = "least squares"
LONGER = {"tol": 0.0005, "max_no_improvement": 10}
"""A longer training, to show that the length of the training does not explain the errors."""
N_NETWORK = 2000
"""Number of digits from which the networks of Algorithm 1 are learned, because the algorithm would
take two to six hours for 50,000. The SVM has all digits."""
ALGORITHM_LAMS = (0.2, 0.02, 0.1)
ALGORITHM_1 = {"solver": "paper", "init": "paper"}


def runs(scale: Scale, embedded: bool) -> list[Run]:
    """Each number of units with several λ and variants."""
    small = scale == "smoke"
    n = [600, 300, 300] if small else [50_000, 10_000, 10_000]
    plain = {"plain": [0.75] if small else ZEROS}, {"plain": CS}
    split = {"split": [0.75] if small else SPLIT_ZEROS}, {"split": SPLIT_CS}
    both = {"plain": [0.75] if small else NOISE_ZEROS} | split[0], {"plain": CS} | split[1]

    def run(m: int, lam: float, k: int = 0, **settings: Any) -> Run:
        settings = {"m": m, "lam": round(lam, 3), "n": n, **settings}
        return Run("mnist-units", scale, k, embedded, settings)

    def at_paper_threshold(m: int, lam: float, **settings: Any) -> Run:
        trainer = "SCNN" if settings else TRAINER
        return run(m, lam, threshold="alpha", Cs={"plain": CS}, trainer=trainer, **settings)

    def relative(m: int, lam: float, kinds: Any, k: int = 0, **variant: Any) -> Run:
        zeros, Cs = kinds
        return run(m, lam * m / 400, k, zeros=zeros, Cs=Cs, trainer=TRAINER, **variant)

    if small:
        return [
            relative(20, 2.0, plain),
            relative(20, 10.0, both, noise=NOISE),
            relative(20, 2.0, plain, encoder_ridge=0.3),
            relative(20, 2.0, split, encoder_ridge=0.3),
            relative(20, 2.0, plain, encoder_steps=list(STEPS)),
            at_paper_threshold(20, 0.1),
            at_paper_threshold(20, 0.1, n_network=100, **ALGORITHM_1),
        ]
    found = []
    for m in PAPER:
        found += [at_paper_threshold(m, lam) for lam in PAPER_LAMS[m]]
        if m == 400:
            found += [
                at_paper_threshold(m, lam, n_network=N_NETWORK, **solver)
                for lam in ALGORITHM_LAMS
                for solver in (ALGORITHM_1, {"solver": "auto", "init": "data"})
            ]
        found += [relative(m, LAMS[0], plain, encoder_ridge=x) for x in RIDGES_BY_UNITS[m]]
        found += [relative(m, lam, plain) for lam in LAMS_BY_UNITS[m]]
        found += [relative(m, lam, plain, k, **x) for k in (1, 2) for lam, x in REPEATED[m]]
        if m == 400:
            found += [relative(m, LAMS[0], plain, training="longer")]
        if m <= 800:
            found += [relative(m, REPEATED[m][0][0], ({"plain": FEWER_ZEROS}, {"plain": CS}))]
    for m, repetitions in STEP_REPETITIONS.items():
        for k in range(repetitions):
            own: dict[str, Any] = {"encoder_steps": list(STEPS)}
            if (m, k) != (400, 0):  # From [−1, 1] the errors are 16 to 61 %.
                own["starts"] = [FROM_ZERO]
            found += [relative(m, REPEATED[m][0][0], (STEP_ZEROS, STEP_CS), k, **own)]
    # The variants that are not in the paper come last.
    for m, ridges in SPLIT_RIDGES.items():
        found += [relative(m, LAMS[0], both, noise=NOISE)]
        found += [relative(m, LAMS[0], split, encoder_ridge=x) for x in ridges]
    return found


def measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    """Return the errors; the threshold and C are chosen on validation digits."""
    settings = run.settings
    data = samples.all_digits(tuple(settings["n"]))
    start = time.perf_counter()
    scnn = train(data.train, settings, run.seed)
    seconds = time.perf_counter() - start
    svm_parameters = parameters_of(unfitted_svm(settings["n"][0]), without=VARIED)
    return {
        "fit_seconds": round(seconds, 1),
        "n_iter": int(scnn.n_iter_),
        **results_of(scnn, data, settings, run.seed),
        "parameters": parameters_of(scnn) | svm_parameters,
    }


def results_of(scnn: Any, data: Split, settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return the errors for each kind of codes of a trained network."""
    sets, Cs = (data.train, data.val, data.test), settings["Cs"]
    if "encoder_steps" in settings:
        zeros, stopped = settings["zeros"]["plain"], encoders(scnn, data.train, settings, seed)
        return {
            kind: classify(
                [X @ C.T.astype(X.dtype) for X in sets], data, "plain", zeros, Cs["plain"]
            )
            for kind, C in stopped.items()
        }
    Z = [X @ scnn.encoder_.T for X in sets]
    if settings.get("threshold") == "alpha":
        lam = float(settings["lam"])
        codes = [coded(z, lam, "plain") for z in Z]
        fraction = 1 - codes[0].nnz / np.prod(codes[0].shape)
        own = {"threshold": lam, "zeros": round(float(fraction), 4)}
        return {"plain": svm_errors(codes, data, Cs["plain"]) | own}
    zeros = settings["zeros"]
    return {kind: classify(Z, data, kind, zeros[kind], Cs[kind]) for kind in Cs}


def encoders(scnn: Any, X: Any, settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return the encoders after some gradient steps on the codes of X, and their limit."""
    U = scnn.set_params(transform_algorithm="exact").transform(X)
    shape = scnn.encoder_.shape
    starts = {
        FROM_ZERO: np.zeros(shape),
        FROM_PAPER: np.random.default_rng(seed).uniform(-1, 1, shape),
    }
    starts = {name: starts[name] for name in settings.get("starts", starts)}
    steps = [*settings["encoder_steps"], np.inf]
    found = dict(zip(starts, stopped_encoders(X, U, list(starts.values()), steps), strict=True))
    return {LIMIT: found[FROM_ZERO][-1]} | {
        f"{name}, {t} steps": C
        for name, own in found.items()
        for t, C in zip(steps[:-1], own[:-1], strict=True)
    }


def train(X: Any, settings: Mapping[str, Any], seed: int) -> Any:
    """Return an SCNN trained on mini-batches of digits, with noise or a ridge if asked for.

    With a "solver" it is trained by SCNN on the first "n_network" digits.
    """
    if settings.get("noise"):
        noise = np.random.default_rng(seed).standard_normal(X.shape, dtype=np.float32)
        X = X + np.float32(settings["noise"]) * noise
    m, lam = settings["m"], settings["lam"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "solver" in settings:
            own = {name: settings[name] for name in ("solver", "init")}
            return build("SCNN", m, lam, seed, **own).fit(X[: settings["n_network"]])
        assert settings["trainer"] == TRAINER
        own = LONGER if settings.get("training") else {}
        ridge = settings.get("encoder_ridge", 0)
        own = PAPER_ENCODER | {"encoder_ridge": ridge} | own
        return MiniBatchSCNN(m, alpha=float(lam), random_state=seed, **own).fit(X)


AS_IN_PAPER, CHOSEN, STOPPED = "paper's λ", "chosen λ", "early stop"
READINGS: dict[str, tuple[Sequence[str], str | None]] = {
    AS_IN_PAPER: (("plain",), "threshold"),
    CHOSEN: (("plain",), None),
    STOPPED: ([f"from 0, {t} steps" for t in STEPS], "encoder_steps"),
}
"""The kinds of codes and the variant (``variant_of``) of each reading of the paper."""
OTHERS: dict[str, tuple[Sequence[str], str | None]] = {
    **{f"… C after {t} steps from 0": ((f"from 0, {t} steps",), "encoder_steps") for t in STEPS},
    **{
        f"… C after {t} steps from [−1, 1]": ((f"from [−1, 1], {t} steps",), "encoder_steps")
        for t in STEPS
    },
    "… C by least squares on the final codes": ((LIMIT,), "encoder_steps"),
    f"paper's λ, learned from {N_NETWORK} digits": (("plain",), "auto"),
    "… by Algorithm 1 from weights in [−1, 1]": (("plain",), "paper"),
    "trained longer": (("plain",), "training"),
}
IMPROVED: dict[str, tuple[Sequence[str], str | None]] = {
    "noise in training": (("plain",), "noise"),
    "ridge on the encoder": (("plain",), "encoder_ridge"),
    "noise, positive and negative parts": (("split",), "noise"),
    "ridge, positive and negative parts": (("split",), "encoder_ridge"),
}
"""Rows that are not in the paper."""
VARIANTS = ("noise", "encoder_ridge", "threshold", "training", "encoder_steps")
CHOICE = "λ or stop of C"


Repetitions = list[tuple[Record, Mapping[str, Any]]]
"""The records of one setting with different seeds, and the results for one kind of codes"""


def best_of_rows(
    records: Sequence[Record], rows: Mapping[str, tuple[Sequence[str], str | None]]
) -> dict[str, dict[int, Repetitions]]:
    """Return for each row and number of units the runs with the smallest validation error."""
    found = {}
    for row, (kinds, variant) in rows.items():
        own = [r for r in records if variant_of(r.run.settings) == variant]
        triples = [((r["m"], k), r, r[k]) for r in own for k in kinds if k in r.result]
        best: dict[int, Repetitions] = {}
        for (m, _), repetitions in best_repetitions(triples).items():
            if m not in best or val_error(repetitions[:1]) < val_error(best[m][:1]):
                best[m] = repetitions
        found[row] = dict(sorted(best.items()))
    return {row: best for row, best in found.items() if best}


def val_error(found: Repetitions) -> float:
    """Return the mean validation error."""
    return float(np.mean([result["val_error"] for _, result in found]))


def best_sizes(records: Sequence[Record]) -> dict[str, Repetitions]:
    """Return for each reading the number of units with the smallest validation error."""
    return {
        reading: min(by_size.values(), key=lambda found: val_error(found[:1]))
        for reading, by_size in best_of_rows(records, READINGS).items()
    }


def variant_of(settings: Mapping[str, Any]) -> str | None:
    """Return the variant of a run: None for SCNN with λ and threshold chosen on validation digits.

    Otherwise it is the setting that differs, or the solver if the network was learned from fewer
    digits.
    """
    if "solver" in settings:
        return str(settings["solver"])
    return next((name for name in VARIANTS if settings.get(name)), None)


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the paper's errors as claims, for each reading."""
    found = best_of_rows(records, READINGS)
    errors = {m: {x: error_rate_of(own[m]) for x, own in found.items() if m in own} for m in PAPER}
    return [
        Claim(
            f"With {m} units the error is {percent(PAPER[m])}.",
            percent(PAPER[m]),
            {x: error_text(error) for x, error in own.items()},
            {x: [Estimate(PAPER[m]) - error.estimate] for x, error in own.items()},
            verdict_of_number,
            CHOICE,
        )
        for m, own in errors.items()
        if own
    ]


def tables(records: Sequence[Record]) -> list[Table]:
    """Return the table of the errors in the paper and here, and that of other networks."""
    sizes = sorted({record["m"] for record in records})
    paper = ["the paper", *(f"{100 * PAPER[m]:.1f}" if m in PAPER else "" for m in sizes)]
    title = "Test error (%, ± standard error) by number of units"
    columns = ["error (%) by units", *map(str, sizes)]
    judged, improved = (table_rows(records, rows, sizes) for rows in (READINGS | OTHERS, IMPROVED))
    found = [Table("mnist-units", title, columns, [paper, *judged])]
    if improved:
        title = f"{title}: not in the paper"
        found.append(Table("mnist-units-improved", title, columns, [paper, *improved]))
    return found


def table_rows(
    records: Sequence[Record],
    rows: Mapping[str, tuple[Sequence[str], str | None]],
    sizes: Sequence[int],
) -> list[list[str]]:
    """Return the errors of some rows."""
    return [
        [row, *(plus_minus(error_rate_of(best[m]).estimate, 2) if m in best else "" for m in sizes)]
        for row, best in best_of_rows(records, rows).items()
    ]


EXPERIMENT = Experiment(
    "mnist-units",
    "Table 2: error on all of MNIST",
    "mnist",
    runs,
    claims,
    tables,
)
