"""scikit-learn: SparseCoder, sparse_encode and MiniBatchDictionaryLearning."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.decomposition import MiniBatchDictionaryLearning, SparseCoder, sparse_encode
from sklearn.linear_model import orthogonal_mp_gram

BATCH_SIZE = 512


def threshold(D: Any, X: Any, penalty: float) -> Any:
    """Return the soft-thresholded products with the atoms."""
    coder = SparseCoder(D, transform_algorithm="threshold", transform_alpha=penalty)
    return coder.transform(X)


def coordinate_descent(D: Any, X: Any, penalty: float) -> Any:
    """Return the codes of the lasso, computed by coordinate descent."""
    return sparse_encode(X, D, algorithm="lasso_cd", alpha=penalty, max_iter=10_000, n_jobs=2)


def dictionaries(X: Any, m: int, penalty: float, limit: float) -> Iterator[tuple[float, Any]]:
    """Yield (seconds, dictionary) after each batch, until the time limit is reached.

    The codes are computed by coordinate descent, the faster of the two algorithms here.
    """
    rng = np.random.default_rng(0)
    atoms = X[rng.permutation(np.flatnonzero(X.any(axis=1)))[:m]]
    learner = MiniBatchDictionaryLearning(
        m,
        alpha=penalty,
        batch_size=BATCH_SIZE,
        fit_algorithm="cd",
        dict_init=atoms / np.linalg.norm(atoms, axis=1, keepdims=True),
        n_jobs=2,
        random_state=0,
    )
    seconds = 0.0
    while seconds < limit:
        order = rng.permutation(len(X))
        for first in range(0, len(X), BATCH_SIZE):
            start = time.perf_counter()
            learner.partial_fit(X[order[first : first + BATCH_SIZE]])
            seconds += time.perf_counter() - start
            yield seconds, learner.components_.copy()  # the next batch overwrites it
            if seconds >= limit:
                return


def omp(D: Any, X: Any, n_nonzero: int) -> Any:
    """Return codes with a given number of non-zeros by orthogonal matching pursuit."""
    return orthogonal_mp_gram(D @ D.T, D @ X.T, n_nonzero_coefs=n_nonzero).T
