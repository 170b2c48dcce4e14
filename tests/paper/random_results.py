"""Results of the right form for every group of runs, made without any training."""

from __future__ import annotations

from typing import Any

import numpy as np
from paper.experiments import competitor_runs, mnist_noise, pictures, times
from paper.experiments.experiment import Run
from paper.experiments.predictions import encode_predictions

from lincode.metrics import THRESHOLDS


def random_result(run: Run, rng: np.random.Generator) -> dict[str, Any]:
    """Return a result of the right form."""
    return dict(RESULTS.get(run.group, digit_grid_result)(run, rng))


def some(rng: np.random.Generator, n: int) -> list[float]:
    """Return n numbers between 0.1 and 0.9."""
    return [float(x) for x in rng.uniform(0.1, 0.9, n)]


def svm_result() -> dict[str, Any]:
    """Return the result of a classifier that is wrong once in 32 times."""
    labels = np.arange(32) % 10
    predicted = np.where(np.arange(32) == 5, 0, labels)
    errors = {"val_error": 0.03, "test_error": 0.031, "C": 1.0, "zeros": 0.82}
    return errors | encode_predictions(predicted, labels)


def missing_pixels_result(run: Run, rng: np.random.Generator) -> dict[str, Any]:
    """Return errors of validation patches, and the results of five chosen λ."""
    n = len(THRESHOLDS)
    chosen = [
        {
            "lam": run.settings["lams"][0],
            "test_rms": x,
            "sparsity_curve": sorted(some(rng, n)),
            "signed_sparsity_curve": sorted(some(rng, n)),
        }
        for x in some(rng, 5)
    ]
    return {"val_rms": [some(rng, 5) for _ in run.settings["lams"]], "chosen": chosen}


def mnist_noise_result(run: Run, rng: np.random.Generator) -> dict[str, Any]:
    """Return the results of raw pixels, or of both kinds of codes."""
    if run.settings["method"] == mnist_noise.RAW:
        return {mnist_noise.RAW: svm_result()}
    return {mnist_noise.ENCODER: svm_result(), mnist_noise.RELEARNED: svm_result()}


def mnist_units_result(run: Run, rng: np.random.Generator) -> dict[str, Any]:
    """Return the results of the kinds of codes that the run has."""
    kinds = run.settings["Cs"]
    return {"fit_seconds": 1.0} | {kind: svm_result() for kind in kinds}


def competitors_result(run: Run, rng: np.random.Generator) -> dict[str, Any]:
    """Return lists with one entry per λ and learning rate."""
    n = len(run.settings["lams"]) * len(run.settings["rates"])
    columns = ("lam", "learning_rate", "val_accuracy", "test_accuracy", "C")
    found: dict[str, Any] = {name: some(rng, n) for name in columns}
    predictions = {name: svm_result()[name] for name in ("test_predictions", "test_wrong")}
    return found | predictions


def times_result(run: Run, rng: np.random.Generator) -> dict[str, Any]:
    """Return the seconds of all networks."""
    n = run.settings["rounds"] * len(run.settings["lams"]["SCNN"])
    names = ("fit_seconds", "encode_seconds")
    return {x: {name: some(rng, n) for name in names} for x in times.TIMED}


def pictures_result(run: Run, rng: np.random.Generator) -> dict[str, Any]:
    """Return random pictures."""
    side = run.settings["side"]
    W = rng.standard_normal((run.settings["m"], side * side))
    return {"atoms": pictures.encode_pictures(W), "filters": pictures.encode_pictures(W)}


def digit_grid_result(run: Run, rng: np.random.Generator) -> dict[str, Any]:
    """Return lists with one entry per λ."""
    n = len(run.settings["lams"])
    columns = (
        "val_accuracy",
        "test_accuracy",
        "C",
        "zeros",
        "val_sparsity_area",
        "sparsity_area",
        "fit_seconds",
    )
    found: dict[str, Any] = {name: some(rng, n) for name in columns}
    return found | {name: [svm_result()[name]] * n for name in ("test_predictions", "test_wrong")}


RESULTS: dict[str, Any] = {
    "pca": lambda run, rng: {"rms": float(rng.uniform(0.01, 0.1))},
    "missing-pixels": missing_pixels_result,
    "mnist-units": mnist_units_result,
    "mnist-noise": mnist_noise_result,
    "mnist-methods": lambda run, rng: svm_result(),
    "times": times_result,
    competitor_runs.GROUP: competitors_result,
    "pictures": pictures_result,
}
