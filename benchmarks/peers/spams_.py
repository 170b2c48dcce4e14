"""SPAMS (spams-bin): lasso by homotopy, and trainDL; columns are samples."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import spams


def lasso(design: Any, targets: Any, weight: float, *, cholesky: bool = False) -> Any:
    """Rows of ``design`` are atoms, rows of ``targets`` samples."""
    codes = spams.lasso(
        np.asfortranarray(targets.T), D=np.asfortranarray(design.T),
        lambda1=weight, mode=2, numThreads=2, cholesky=cholesky,
    )  # fmt: skip
    return codes.T


def dictionaries(X: Any, m: int, weight: float, seconds: list[int]) -> Iterator[tuple[float, Any]]:
    """(seconds, dictionary) of trainDL given each number of seconds."""
    rng = np.random.default_rng(0)
    atoms = X[rng.choice(len(X), m, replace=False)]
    atoms = np.asfortranarray((atoms / np.linalg.norm(atoms, axis=1, keepdims=True)).T)
    columns = np.asfortranarray(X.T)
    for limit in seconds:
        start = time.perf_counter()
        D = spams.trainDL(
            columns, D=atoms, lambda1=weight, mode=2, iter=-limit, numThreads=2,
            batchsize=512, verbose=False,
        )  # fmt: skip
        yield time.perf_counter() - start, D.T
