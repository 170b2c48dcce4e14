"""dictlearn: L1DictionaryLearning, its only learner with an ℓ1 penalty."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from dictlearn import L1DictionaryLearning


def dictionaries(
    X: Any, m: int, penalty: float, iterations: list[int]
) -> Iterator[tuple[float, Any]]:
    """Yield (seconds, dictionary) for each number of iterations, each from the same start.

    The squared error of dictlearn has no factor ½, so its penalty is twice as large.
    """
    rng = np.random.default_rng(0)
    atoms = X[rng.permutation(np.flatnonzero(X.any(axis=1)))[:m]].astype(np.float64)
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    for n in iterations:
        start = time.perf_counter()
        learner = L1DictionaryLearning(m, alpha=2 * penalty, max_iter=n, dict_init=atoms)
        learner.fit(X.astype(np.float64))
        yield time.perf_counter() - start, learner.components_
