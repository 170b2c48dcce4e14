"""lincode, by its public API."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

from lincode import SCNN, Iteration, MiniBatchSCNN

warnings.filterwarnings("ignore", message=".*SCNN")


def network(X: Any, m: int, alpha: float, iterations: int = 10) -> SCNN:
    """Return a network that was trained for a few iterations."""
    energy: dict[str, Any] = {"refine": False, "transform_algorithm": "exact"}
    return SCNN(m, alpha=alpha, **energy, max_iter=iterations, random_state=0).fit(X)


def exact_codes(scnn: SCNN, X: Any, n_jobs: int | None = None) -> Any:
    """Return the exact codes, of shape (n_samples, m)."""
    scnn.set_params(transform_algorithm="exact", n_jobs=n_jobs)
    return scnn.transform(X)


def time_is_over(limit: float, iteration: Iteration) -> bool:
    """Return whether training has taken ``limit`` seconds."""
    return iteration.seconds >= limit


def dictionaries(
    X: Any, m: int, alpha: float, encoder_weight: float, limits: list[float]
) -> Iterator[tuple[float, Any]]:
    """Yield (seconds, dictionary) for each time limit, each trained from the start."""
    for limit in limits:
        start = time.perf_counter()
        scnn = SCNN(
            m,
            alpha=alpha,
            encoder_weight=encoder_weight,
            refine=False,
            transform_algorithm="exact",
            random_state=0,
            tol=0.0,
            callback=partial(time_is_over, limit),
        ).fit(X)
        yield time.perf_counter() - start, scnn.components_


def batch_dictionaries(
    X: Any, m: int, alpha: float, encoder_weight: float, limits: list[float], seed: int
) -> Iterator[tuple[float, Any]]:
    """Yield (seconds, dictionary) for each time limit, each trained from the start.

    The time includes the fit of the encoder after the last batch.
    """
    for limit in limits:
        start = time.perf_counter()
        scnn = MiniBatchSCNN(
            m,
            alpha=alpha,
            encoder_weight=encoder_weight,
            refine=False,
            transform_algorithm="exact",
            random_state=seed,
            max_no_improvement=None,
            callback=partial(time_is_over, limit),
        ).fit(X)
        yield time.perf_counter() - start, scnn.components_
