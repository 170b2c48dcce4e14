"""Table 2: error of SCNN and a linear SVM on all of MNIST, against the number of units."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lincode import MiniBatchSCNN
from lincode.experiments.experiment import (
    Claim,
    Experiment,
    Record,
    Run,
    Scale,
    Table,
    chosen,
    percent,
)
from lincode.experiments.linear_codes import KINDS, classify
from lincode.experiments.samples import Samples

PAPER = {400: 0.027, 800: 0.024, 1200: 0.021, 1600: 0.020}
"""The paper's Table 2."""


SHARES = (0.5, 0.75, 0.35, 1.0, 0.6, 0.25, 0.4, 0.85, 1.3, 0.2)
"""λ at 400 units, the likeliest first; for m units times m/400: what weighs on a code is λ p/m."""
ZEROS = {"plain": [0.82, 0.88, 0.92], "split": [0.45, 0.6, 0.75]}
TRAINER = "MiniBatchSCNN"
NOISE = 0.3
"""Deviation of the noise the network learns with: on clean validation digits, codes of 400 units
err 2.02 % so, with 0.2 2.12 %, without 2.41 %, with 0.5 2.53 %. To the encoder it is what a ridge
is to a fit: a ridge of 0.3² a digit on an encoder learned without noise does as well for plain
codes (1.98 %), less well for split ones (1.71 against 1.42 %)."""
CS = {"plain": [1.0, 3.0], "split": [1.0]}


def runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
    """Each number of units with each λ."""
    if scale == "smoke":
        n, lams = [600, 300, 300], {20: [0.1, 0.5]}
        zeros: dict[str, list[float]] = {kind: [0.75] for kind in KINDS}
    else:
        n, zeros = [50_000, 10_000, 10_000], ZEROS
        lams = {m: [round(share * m / 400, 3) for share in SHARES] for m in PAPER}
    # Without noise the likeliest λ only: to see what noise is worth.
    grid = [(k, NOISE) for k in range(max(map(len, lams.values())))] + [(k, 0.0) for k in (0, 1)]
    return [
        Run("mnist-units", scale, seed, embedded, {
            "m": m, "lam": lam, "n": n, "zeros": zeros, "Cs": CS, "trainer": TRAINER,
            **({"noise": noise} if noise else {}),
        })
        for k, noise in grid
        for m in lams
        for lam in lams[m][k : k + 1]
    ]  # fmt: skip


def measure(run: Run, samples: Samples) -> Mapping[str, Any]:
    """Train, code by one product, choose threshold and C on validation digits, report on test."""
    settings = run.settings
    data = samples.all_digits(tuple(settings["n"]))
    start = time.perf_counter()
    scnn = learned(data.train, settings, run.seed)
    seconds = time.perf_counter() - start
    Z = [X @ scnn.encoder_.T for X in (data.train, data.val, data.test)]
    zeros, Cs = settings["zeros"], settings["Cs"]
    found = {kind: classify(Z, data, kind, zeros[kind], Cs[kind]) for kind in KINDS}
    return {"fit_seconds": round(seconds, 1)} | found


def learned(X: Any, settings: Mapping[str, Any], seed: int) -> MiniBatchSCNN:
    """SCNN from batches of digits, until a batch no longer lowers the energy of the next."""
    if settings.get("noise"):
        noise = np.random.default_rng(seed).standard_normal(X.shape, dtype=np.float32)
        X = X + np.float32(settings["noise"]) * noise
    assert settings["trainer"] == TRAINER
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MiniBatchSCNN(settings["m"], settings["lam"], random_state=seed).fit(X)


def best_by_units(records: Sequence[Record], kind: str) -> dict[int, Record]:
    """By number of units the run whose validation error is least."""
    found = chosen((record["m"], record[kind]["val_error"], record) for record in records)
    return dict(sorted(found.items()))


ROWS = {
    "SCNN + linear SVM": ("plain", False),
    "SCNN, noise in training + linear SVM": ("plain", True),
    "SCNN, signs split, noise or not + linear SVM": ("split", None),
}
"""By name the codes, and whether the network learned from digits with noise; None: either."""
AS_PRINTED, WITH_NOISE, _ = ROWS


def rows_of(records: Sequence[Record]) -> dict[str, dict[int, Record]]:
    """Of each row and number of units the run that is best on validation digits."""
    found = {}
    for row, (kind, noise) in ROWS.items():
        own = [r for r in records if noise in (None, bool(r.run.settings.get("noise")))]
        found[row] = best_by_units(own, kind)
    return {row: best for row, best in found.items() if best}


def claims(records: Sequence[Record]) -> list[Claim]:
    """The paper's numbers, for a network like the paper's and for one that learns with noise."""
    return [
        Claim(
            f"With {m} units the error is (at most) {percent(PAPER[m])}{how}.",
            percent(PAPER[m]), with_deviation(record["plain"]["test_error"], record),
            record["plain"]["test_error"] <= PAPER[m],
        )
        for row, how in ((AS_PRINTED, ""), (WITH_NOISE, ", learned from digits with noise"))
        for m, record in rows_of(records).get(row, {}).items()
        if m in PAPER
    ]  # fmt: skip


def with_deviation(error: float, record: Record) -> str:
    """An error rate, and its standard error on so many test digits."""
    n = record["n"][2]
    return f"{percent(error, 2)} (± {100 * np.sqrt(error * (1 - error) / n):.2f})"


def tables(records: Sequence[Record]) -> list[Table]:
    """The paper's row, ours, and how each was chosen."""
    sizes = sorted({record["m"] for record in records})
    rows = [
        ["paper: SCNN + linear SVM", *(percent(PAPER[m]) if m in PAPER else "–" for m in sizes)]
    ]
    for row, best in rows_of(records).items():
        kind, _ = ROWS[row]
        own = [best.get(m) for m in sizes]
        for name, key in ((row, "test_error"), ("… on validation digits", "val_error")):
            rows.append([name, *(percent(r[kind][key], 2) if r else "" for r in own)])
        rows.append(["… λ, zeros, C", *(chosen_words(r, kind) if r else "" for r in own)])
    seconds = {m: [r["fit_seconds"] for r in records if r["m"] == m] for m in sizes}
    rows.append(["runs (λ, noise or not)", *(str(len(seconds[m])) for m in sizes)])
    rows.append(["seconds to train, mean", *(f"{sum(s) / len(s):.0f}" for s in seconds.values())])
    title = "Test error by number of units; λ, threshold and C chosen on validation digits"
    return [Table("mnist-units", title, ["units", *map(str, sizes)], rows)]


def chosen_words(record: Record, kind: str) -> str:
    """λ, share of zeros and C that were chosen; a * where the grid of the last two ends."""
    zeros, C = record[kind]["zeros"], record[kind]["C"]

    def mark(value: float, grid: Sequence[float]) -> str:
        return "*" if len(grid) > 1 and value in (grid[0], grid[-1]) else ""

    return (
        f"{record['lam']:g}, {percent(zeros, 0)}{mark(zeros, record['zeros'][kind])},"
        f" {C:g}{mark(C, record['Cs'][kind])}"
    )


EXPERIMENT = Experiment(
    "mnist-units",
    "Table 2: error on all of MNIST",
    "mnist",
    "50,000 digits to learn from, 10,000 to choose λ, the encoder's threshold and the SVM's C"
    " by, 10,000 to report. λ (10 values) is not of the paper's range, [0.02, 0.2], but larger,"
    " which is better on validation digits, and grows with the number of units, because what"
    " weighs on a code is λ p/m; the threshold is a choice of its own (the share of training"
    " outputs it makes zero), because the encoder is fitted to codes already shrunk. Each unit"
    " is brought to one root mean square for the SVM. Trained by MiniBatchSCNN, which ends"
    " within 1 % of SCNN’s energy in a third of its time. With signs split, C is 1. “Noise in"
    " training” is not in the paper: the network learns from digits with Gaussian noise of"
    " deviation 0.3, the SVM sees clean codes only. That it might help was first seen in test"
    " errors of Table 3; whether and how much was decided on validation digits. A * marks the end"
    " of a grid; beyond it validation digits showed nothing better at 400 units (plain: 72 % zeros,"
    " C = 10; split: 20 % zeros, C = 3; 35 % zeros 0.04 points better).",
    runs, claims, tables, {},
    "Tried at 400 units, error on validation digits: one-vs-rest in place of one-vs-one 3.1 for 2.6"
    " %; hinge loss 2.5; C from 1 to 100; λ from 0.25 to 1; 50 to 90 % zeros; encoder_weight from"
    " 0.2 to 5; the dictionary in the encoder’s place 3.4; SCNN to convergence in place of"
    " MiniBatchSCNN 2.35 for 2.43. What helped: one scale for all units, 2.6 to 2.4 %, and noise in"
    " training, 2.4 to 2.0 %; a ridge on the encoder does the same as noise.",
)  # fmt: skip
