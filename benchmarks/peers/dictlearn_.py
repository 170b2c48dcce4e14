"""dictlearn: L1DictionaryLearning (FISTA and APrU), the one of its learners with this penalty."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from dictlearn import L1DictionaryLearning


def dictionaries(
    X: Any, m: int, weight: float, iterations: list[int]
) -> Iterator[tuple[float, Any]]:
    """(seconds, dictionary) after each number of iterations; its penalty has no ½ before ‖·‖²."""
    rng = np.random.default_rng(0)
    atoms = X[rng.choice(len(X), m, replace=False)].astype(np.float64)
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    for n in iterations:
        start = time.perf_counter()
        learner = L1DictionaryLearning(m, alpha=2 * weight, max_iter=n, dict_init=atoms)
        learner.fit(X.astype(np.float64))
        yield time.perf_counter() - start, learner.components_
