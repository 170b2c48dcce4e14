"""SPAMS (spams-bin): lasso by homotopy, and trainDL. SPAMS stores samples in columns."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import spams


def lasso(D: Any, X: Any, penalty: float, *, cholesky: bool = False, n_threads: int = 2) -> Any:
    """Return the codes of the lasso as a CSR matrix; atoms and samples are rows."""
    codes = spams.lasso(
        np.asfortranarray(X.T),
        D=np.asfortranarray(D.T),
        lambda1=penalty,
        mode=2,
        numThreads=n_threads,
        cholesky=cholesky,
    )
    return codes.T


def omp(D: Any, X: Any, n_nonzero: int, *, n_threads: int = 2) -> Any:
    """Return codes with a given number of non-zeros as a CSR matrix; the atoms have length 1."""
    codes = spams.omp(
        np.asfortranarray(X.T),
        np.asfortranarray(D.T),
        L=n_nonzero,
        eps=0.0,
        lambda1=0.0,
        numThreads=n_threads,
    )
    return codes.T


def dictionary(X: Any, m: int, *, seconds: int) -> Any:
    """Return unit atoms that are trained for some seconds, with a penalty of 0.15 times the length
    of a typical sample.
    """
    scale = float(np.linalg.norm(X, axis=1).mean())
    X32 = (X / scale).astype(np.float32)
    _, D = next(iter(dictionaries(X32, m, 0.15, [seconds])))
    lengths = np.linalg.norm(D.astype(np.float64), axis=1, keepdims=True)
    return D / np.where(lengths > 0, lengths, 1)


def dictionaries(
    X: Any, m: int, penalty: float, limits: list[int], seed: int = 0
) -> Iterator[tuple[float, Any]]:
    """Yield (seconds, dictionary) for each time limit, each trained from the start."""
    rng = np.random.default_rng(seed)
    atoms = X[rng.permutation(np.flatnonzero(X.any(axis=1)))[:m]]
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
