"""lincode, through its public door."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from lincode import SCNN, Iteration, MiniBatchSCNN

warnings.filterwarnings("ignore", message=".*SCNN")


def network(X: Any, m: int, lam: float, iterations: int = 10) -> SCNN:
    """A network to code with."""
    return SCNN(m, lam, max_iter=iterations, random_state=0).fit(X)


def encode(scnn: SCNN, X: Any) -> Any:
    return scnn.transform(X)


def exact(scnn: SCNN, X: Any, n_jobs: int | None = None) -> Any:
    """Codes to 4e-5 of each row's gradient at zero: about 1e-3 of τ on the digits."""
    scnn.set_params(transform_method="exact", transform_tol=4e-5, n_jobs=n_jobs)
    return scnn.transform(X)


def late(limit: float, now: Iteration) -> bool:
    return now.seconds >= limit


def dictionaries(
    X: Any, m: int, lam: float, eta: float, seconds: list[float]
) -> Iterator[tuple[float, Any]]:
    """(seconds, dictionary) of training stopped at about each time, each from the start."""
    for limit in seconds:
        start = time.perf_counter()
        scnn = SCNN(
            m, lam, encoder_weight=eta, random_state=0, tol=0.0,
            callback=partial(late, limit),
        ).fit(X)  # fmt: skip
        yield time.perf_counter() - start, scnn.components_


def batch_dictionaries(
    X: Any, m: int, lam: float, eta: float, seconds: float, batch: int
) -> Iterator[tuple[float, Any]]:
    """(seconds, dictionary) after each batch of a stream."""
    rng = np.random.default_rng(0)
    scnn = MiniBatchSCNN(m, lam, encoder_weight=eta, batch_size=batch, random_state=0)
    spent = 0.0
    while spent < seconds:
        order = rng.permutation(len(X))
        for first in range(0, len(X), batch):
            start = time.perf_counter()
            scnn.partial_fit(X[order[first : first + batch]])
            spent += time.perf_counter() - start
            yield spent, scnn.components_
            if spent >= seconds:
                return
