"""Table 2: error of SCNN and a linear SVM on all of MNIST, by number of units."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lincode import MiniBatchSCNN
from paper.cache import Record, Run, Scale
from paper.experiments.claims import Claim
from paper.experiments.features import classify, coded, error_rate_of, error_text, svm_errors
from paper.experiments.networks import PAPER_ENCODER, VARIED, build, parameters_of
from paper.experiments.tables import (
    END_TEXT,
    TEXTS,
    Experiment,
    Table,
    best_repetitions,
    end_mark,
    percent,
)
from paper.networks.scnn import stopped_encoders
from paper.samples import Samples
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
the encoder like a ridge of 0.3² per digit, which is 0.8 times the mean eigenvalue of XᵀX/N."""
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
STEP_UNITS = (400, 800, 1600, 1200)
"""Only the first run has the start in [−1, 1], from which the errors are 15 to 60 %."""
STEP_ZEROS = {"plain": [0.82, 0.88]}
STEP_CS = {"plain": [3.0]}
"""The fractions of zeros and the C that were chosen for the encoder without an early stop."""
STEP_REPETITIONS = 3
LIMIT = "least squares"
LONGER = {"tol": 0.0005, "max_no_improvement": 10}
"""A longer training, to show that the length of the training does not explain the errors."""
N_NETWORK = 2000
"""Number of digits from which the networks of Algorithm 1 are learned, because the algorithm would
take many hours for 50,000. The SVM has all digits."""
ALGORITHM_LAMS = (0.2, 0.02, 0.1)
ALGORITHM_1 = {"solver": "paper", "init": "paper"}


def runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
    """Each number of units with several λ and variants."""
    small = scale == "smoke"
    n = [600, 300, 300] if small else [50_000, 10_000, 10_000]
    plain = {"plain": [0.75] if small else ZEROS}, {"plain": CS}
    split = {"split": [0.75] if small else SPLIT_ZEROS}, {"split": SPLIT_CS}
    both = {"plain": [0.75] if small else NOISE_ZEROS} | split[0], {"plain": CS} | split[1]

    def run(m: int, lam: float, k: int = 0, **settings: Any) -> Run:
        settings = {"m": m, "lam": round(lam, 3), "n": n, **settings}
        return Run("mnist-units", scale, seed + k, embedded, settings)

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
    for k in range(STEP_REPETITIONS):
        for m in STEP_UNITS:
            own: dict[str, Any] = {"encoder_steps": list(STEPS)}
            if (m, k) != (400, 0):
                own["starts"] = ["from 0"]
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
    Z = [X @ scnn.encoder_.T for X in (data.train, data.val, data.test)]
    Cs = settings["Cs"]
    found: dict[str, Any]
    if settings.get("threshold") == "alpha":
        lam = float(settings["lam"])
        sets = [coded(z, lam, "plain") for z in Z]
        zeros = 1 - sets[0].nnz / np.prod(sets[0].shape)
        found = {"plain": svm_errors(sets, data, Cs["plain"])}
        found["plain"] |= {"threshold": lam, "zeros": round(float(zeros), 4)}
    elif "encoder_steps" in settings:
        zeros, Cs = settings["zeros"]["plain"], Cs["plain"]
        found = {}
        for kind, C in encoders(scnn, data.train, settings, run.seed).items():
            Z = [X @ C.T.astype(X.dtype) for X in (data.train, data.val, data.test)]
            found[kind] = classify(Z, data, "plain", zeros, Cs)
    else:
        zeros = settings["zeros"]
        found = {kind: classify(Z, data, kind, zeros[kind], Cs[kind]) for kind in Cs}
    svm_parameters = parameters_of(unfitted_svm(settings["n"][0]), without=VARIED)
    return {
        "fit_seconds": round(seconds, 1),
        "n_iter": int(scnn.n_iter_),
        **found,
        "parameters": parameters_of(scnn) | svm_parameters,
    }


def encoders(scnn: Any, X: Any, settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return the encoders after some gradient steps on the codes of X, and their limit."""
    U = scnn.set_params(transform_algorithm="exact").transform(X)
    shape = scnn.encoder_.shape
    starts = {
        "from 0": np.zeros(shape),
        "from [−1, 1]": np.random.default_rng(seed).uniform(-1, 1, shape),
    }
    starts = {name: starts[name] for name in settings.get("starts", starts)}
    steps = [*settings["encoder_steps"], np.inf]
    found = dict(zip(starts, stopped_encoders(X, U, list(starts.values()), steps), strict=True))
    return {LIMIT: found["from 0"][-1]} | {
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


ROWS = {
    "SCNN + linear SVM": ("plain", None),
    "SCNN, noise in training + linear SVM": ("plain", "noise"),
    "SCNN, ridge on the encoder + linear SVM": ("plain", "encoder_ridge"),
    "SCNN, positive and negative parts, noise + linear SVM": ("split", "noise"),
    "SCNN, positive and negative parts, ridge + linear SVM": ("split", "encoder_ridge"),
    "SCNN, trained longer + linear SVM": ("plain", "training"),
    "SCNN, λ ≤ 0.2 and threshold λ as in the paper + linear SVM": ("plain", "threshold"),
    f"… and the network learned from {N_NETWORK} digits": ("plain", "auto"),
    f"… by Algorithm 1, from weights in [−1, 1] and {N_NETWORK} digits": ("plain", "paper"),
}
"""The kind of codes and the variant (``regulariser_of``) of each row."""
AS_IN_PAPER, WITH_NOISE = list(ROWS)[:2]
REGULARISERS = ("noise", "encoder_ridge", "threshold", "training", "encoder_steps")


Repetitions = list[tuple[Record, Mapping[str, Any]]]
"""The records of one setting with different seeds, and the results for one kind of codes"""


def best_of_rows(records: Sequence[Record]) -> dict[str, dict[int, Repetitions]]:
    """Return for each row and number of units the runs with the smallest validation error."""
    found = {}
    for row, (kind, regulariser) in ROWS.items():
        own = [r for r in records if regulariser_of(r) == regulariser]
        best = best_repetitions((r["m"], r, r[kind]) for r in own if kind in r.result)
        found[row] = dict(sorted(best.items()))
    return {row: best for row, best in found.items() if best}


def regulariser_of(record: Record) -> str | None:
    """Return the variant of a record."""
    return variant_of(record.run.settings)


def variant_of(settings: Mapping[str, Any]) -> str | None:
    """Return the variant of a run: None for SCNN with λ and threshold chosen on validation digits.

    Otherwise it is the name of the setting that regularises the encoder, "training" for a longer
    training, "threshold" for the paper's λ and threshold, or the solver if the network was learned
    from fewer digits.
    """
    if "solver" in settings:
        return str(settings["solver"])
    return next((name for name in REGULARISERS if settings.get(name)), None)


def claims(records: Sequence[Record]) -> list[Claim]:
    """Return the paper's errors as claims. Noise in training is not a claim of the paper."""
    return [
        Claim(
            f"With {m} units{how} the error is {percent(PAPER[m])} (our criterion: at most).",
            percent(PAPER[m]),
            error_text(error_rate_of(found)),
            [PAPER[m] - error_rate_of(found).estimate],
            *WHY,
            counted=row == AS_IN_PAPER,
        )
        for row, how in ((AS_IN_PAPER, ""), (WITH_NOISE, " and noise in training"))
        for m, found in best_of_rows(records).get(row, {}).items()
        if m in PAPER
    ]


def tables(records: Sequence[Record]) -> list[Table]:
    """Return the table of the errors in the paper and here, and of the chosen settings."""
    sizes = sorted({record["m"] for record in records})
    rows = [
        ["paper: SCNN + linear SVM", *(percent(PAPER[m]) if m in PAPER else "–" for m in sizes)]
    ]
    for row, best in best_of_rows(records).items():
        kind, regulariser = ROWS[row]
        own = [best.get(m) for m in sizes]
        rows.append([row, *(error_text(error_rate_of(found)) if found else "" for found in own)])
        rows.append(["… on validation digits", *(validation_text(found) for found in own)])
        tried = [r for r in records if regulariser_of(r) == regulariser]
        rows.append(
            [SETTINGS, *(settings_text(found[0][0], kind, tried) if found else "" for found in own)]
        )
    seconds = {m: [r["fit_seconds"] for r in records if r["m"] == m] for m in sizes}
    rows.append(["runs", *(str(len(seconds[m])) for m in sizes)])
    rows.append(["median seconds to train", *(f"{np.median(s):.0f}" for s in seconds.values())])
    title = (
        "Test error (± standard error) by number of units; λ, threshold and C chosen on validation"
        f" digits. {END_TEXT.removesuffix('.')}"
    )
    return [Table("mnist-units", title, ["units", *map(str, sizes)], rows)]


SETTINGS = "… λ, zeros, C, ridge"


def validation_text(found: Repetitions | None) -> str:
    """Return the mean validation error as text."""
    if not found:
        return ""
    return percent(float(np.mean([result["val_error"] for _, result in found])), 2)


def settings_text(record: Record, kind: str, tried: Sequence[Record]) -> str:
    """Return the chosen λ, fraction of zeros, C and ridge; a * marks the end of a range.

    ``tried`` are the runs of the same row.
    """
    own = [r for r in tried if r["m"] == record["m"] and kind in r.result]
    fractions = {f for r in own for f in r.run.settings.get("zeros", {}).get(kind, ())}
    lam, zeros, C = record["lam"], record[kind]["zeros"], record[kind]["C"]
    parts = [
        f"{lam:g}{end_mark(lam, [r['lam'] for r in own])}",
        f"{percent(zeros, 0)}{end_mark(zeros, fractions)}",
        f"{C:g}{end_mark(C, record['Cs'][kind])}",
    ]
    ridge = record.run.settings.get("encoder_ridge")
    if ridge:
        parts.append(f"{ridge:g}{end_mark(ridge, [r['encoder_ridge'] for r in own])}")
    return ", ".join(parts)


WHY = (TEXTS["why"]["mnist-units"], ("mnist-units",))
"""Why claims are not reproduced, and the experiments that show it."""

EXPERIMENT = Experiment(
    "mnist-units",
    "Table 2: error on all of MNIST",
    "mnist",
    runs,
    claims,
    tables,
    used_by_claims=lambda run: variant_of(run.settings) is None,
)
