"""scikit-learn: SparseCoder, sparse_encode, MiniBatchDictionaryLearning."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.decomposition import MiniBatchDictionaryLearning, SparseCoder, sparse_encode


def threshold(D: Any, X: Any, weight: float) -> Any:
    coder = SparseCoder(D, transform_algorithm="threshold", transform_alpha=weight)
    return coder.transform(X)


def lars(D: Any, X: Any, weight: float) -> Any:
    return sparse_encode(X, D, algorithm="lasso_lars", alpha=weight, n_jobs=2)


def coordinate_descent(design: Any, targets: Any, weight: float) -> Any:
    return sparse_encode(
        targets, design, algorithm="lasso_cd", alpha=weight, max_iter=10_000, n_jobs=2
    )


def dictionaries(X: Any, m: int, weight: float, seconds: float) -> Iterator[tuple[float, Any]]:
    """(seconds, dictionary) of MiniBatchDictionaryLearning, its fastest coder, batch by batch."""
    rng = np.random.default_rng(0)
    start_atoms = X[rng.choice(len(X), m, replace=False)]
    start_atoms = start_atoms / np.linalg.norm(start_atoms, axis=1, keepdims=True)
    learner = MiniBatchDictionaryLearning(
        m, alpha=weight, batch_size=512, fit_algorithm="cd", dict_init=start_atoms,
        n_jobs=2, random_state=0,
    )  # fmt: skip
    spent = 0.0
    while spent < seconds:
        order = rng.permutation(len(X))
        for first in range(0, len(X), 512):
            start = time.perf_counter()
            learner.partial_fit(X[order[first : first + 512]])
            spent += time.perf_counter() - start
            yield spent, learner.components_.copy()  # the next batch writes over it
            if spent >= seconds:
                return
