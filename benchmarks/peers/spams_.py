"""SPAMS (spams-bin): lasso by homotopy, and trainDL. SPAMS stores samples in columns."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import spams


def lasso(D: Any, X: Any, penalty: float, *, cholesky: bool = False) -> Any:
    """Return the codes of the lasso as a CSR matrix; atoms and samples are rows."""
    codes = spams.lasso(
        np.asfortranarray(X.T),
        D=np.asfortranarray(D.T),
        lambda1=penalty,
        mode=2,
        numThreads=2,
        cholesky=cholesky,
    )
    return codes.T


def dictionaries(X: Any, m: int, penalty: float, limits: list[int]) -> Iterator[tuple[float, Any]]:
    """Yield (seconds, dictionary) for each time limit, each trained from the start."""
    rng = np.random.default_rng(0)
    atoms = X[rng.choice(len(X), m, replace=False)]
    atoms = np.asfortranarray((atoms / np.linalg.norm(atoms, axis=1, keepdims=True)).T)
    columns = np.asfortranarray(X.T)
    for limit in limits:
        start = time.perf_counter()
        D = spams.trainDL(
            columns,
            D=atoms,
            lambda1=penalty,
            mode=2,
            iter=-limit,
            numThreads=2,
            batchsize=512,
            verbose=False,
        )
        yield time.perf_counter() - start, D.T
