"""Prediction of missing entries, compared with the imputers of scikit-learn.

Training and test samples have holes at random entries. Each method is fitted to the training
samples and predicts the missing entries of the test samples, whose root mean square error is given.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from data import patches
from measure import Section, cell, table
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from lincode import SCNN

FRACTIONS = (0.1, 0.5)
"""The fractions of missing entries"""
MAX_TRAIN, MAX_TEST = 4000, 1000


def run(X: Any, quick: bool) -> Section:
    del X  # the data are smaller, because the imputers of scikit-learn are slow
    data = {"8×8 digits": digits(), "data frame": frame(), "8×8 patches": photographs()}
    rows, details = [], {}
    for name, (train, test) in data.items():
        if quick:
            train, test = train[:500], test[:200]
        for fraction in FRACTIONS[1:2] if quick else FRACTIONS:
            with threadpool_limits(1), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # some methods do not converge
                errors, seconds = compare(train, test, fraction)
            title = f"{name} ({len(train)}×{train.shape[1]}), {fraction:.0%}"
            best = errors["KNN"]
            is_missed = min(errors[m] for m in errors if "SCNN" in m) > best
            cells = []
            for method, error in errors.items():
                goal = 0 if is_missed and "SCNN" in method else np.inf
                cells.append(f"{cell(error / best, goal)}, {seconds[method]:.1f} s")
            rows.append([title, *cells])
            details[title] = {"errors": errors, "seconds": seconds}
    text = (
        "The root mean square error of predicted entries of test samples relative to that of"
        " scikit-learn's `KNNImputer` (goal: at most 1 for one of the codes of `SCNN`), and the CPU"
        " time of training and prediction (one thread):\n\n"
        + table(["data, fraction of missing entries", *errors], rows)
    )
    return Section("Missing entries", text, details)


def digits() -> tuple[Any, Any]:
    """Return scikit-learn's digits, of which 1400 are for training."""
    X = load_digits().data / 16
    np.random.default_rng(0).shuffle(X)
    return X[:1400], X[1400:]


def frame() -> tuple[Any, Any]:
    """Return scikit-learn's table of 30 measurements of breast tissue, with scaled columns."""
    X = StandardScaler().fit_transform(load_breast_cancer().data)
    np.random.default_rng(0).shuffle(X)
    return X[:450], X[450:]


def photographs() -> tuple[Any, Any]:
    """Return patches of photographs."""
    split = patches()
    return split.train[:MAX_TRAIN].astype(float), split.test[:MAX_TEST].astype(float)


def compare(train: Any, test: Any, fraction: float) -> tuple[dict[str, float], dict[str, float]]:
    """Return the error of the missing entries of the test samples and the time of each method."""
    rng = np.random.default_rng(1)
    holes = np.where(rng.random(train.shape) < fraction, np.nan, train)
    missing = rng.random(test.shape) < fraction
    given = np.where(missing, np.nan, test)
    given, test, missing = (A[~missing.all(axis=1)] for A in (given, test, missing))
    methods: dict[str, Callable[[], Any]] = {
        "mean": lambda: SimpleImputer().fit(holes).transform(given),
        "KNN": lambda: KNNImputer().fit(holes).transform(given),
        "iterative": lambda: IterativeImputer(random_state=0).fit(holes).transform(given),
    }
    for algorithm in ("encoder", "projection"):
        network = SCNN(2 * train.shape[1], random_state=0, transform_algorithm=algorithm, n_jobs=1)
        methods[f"SCNN {algorithm}"] = lambda scnn=network: scnn.fit(holes).reconstruct(given)  # type: ignore[misc]
    errors, seconds = {}, {}
    for method, predict in methods.items():
        start = time.process_time()
        predicted = predict()
        seconds[method] = time.process_time() - start
        errors[method] = float(np.sqrt(np.mean((predicted - test)[missing] ** 2)))
    return errors, seconds
