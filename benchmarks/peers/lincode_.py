"""lincode, by its public API."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from lincode import SCNN, Iteration, MiniBatchSCNN

warnings.filterwarnings("ignore", message=".*SCNN")


def network(X: Any, m: int, alpha: float, iterations: int = 10) -> SCNN:
    """Return a network that was trained for a few iterations."""
    return SCNN(m, alpha, max_iter=iterations, random_state=0).fit(X)


def encode(scnn: SCNN, X: Any) -> Any:
    """Return the codes of the encoder, of shape (n_samples, m)."""
    return scnn.transform(X)


def exact_codes(scnn: SCNN, X: Any, n_jobs: int | None = None) -> Any:
    """Return the exact codes, of shape (n_samples, m), to a tolerance of 4e-5.

    The tolerance is relative to the gradient of each row at zero. On the digits it corresponds to
    about 1e-3 of the ℓ1 penalty.
    """
    scnn.set_params(transform_algorithm="exact", transform_tol=4e-5, n_jobs=n_jobs)
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
            alpha,
            encoder_weight=encoder_weight,
            random_state=0,
            tol=0.0,
            callback=partial(time_is_over, limit),
        ).fit(X)
        yield time.perf_counter() - start, scnn.components_


def batch_dictionaries(
    X: Any, m: int, alpha: float, encoder_weight: float, limit: float, batch_size: int
) -> Iterator[tuple[float, Any]]:
    """Yield (seconds, dictionary) after each batch, until the time limit is reached."""
    rng = np.random.default_rng(0)
    scnn = MiniBatchSCNN(
        m, alpha, encoder_weight=encoder_weight, batch_size=batch_size, random_state=0
    )
    seconds = 0.0
    while seconds < limit:
        order = rng.permutation(len(X))
        for first in range(0, len(X), batch_size):
            start = time.perf_counter()
            scnn.partial_fit(X[order[first : first + batch_size]])
            seconds += time.perf_counter() - start
            yield seconds, scnn.components_
            if seconds >= limit:
                return
