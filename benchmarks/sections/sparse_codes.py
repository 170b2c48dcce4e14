"""Codes for a given dictionary, compared with SPAMS and scikit-learn, by number of non-zeros.

All libraries use one thread. CPU times are compared, because they vary less on a shared machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
import sklearn.datasets
from measure import Call, Section, cell, seconds_of, table
from peers import sklearn_, spams_
from threadpoolctl import threadpool_limits

from lincode import sparse_encode

NONZEROS = (5, 10, 20, 40)
UNITS = (128, 400, 1024)
N_SAMPLES, N_TRAINING = 1000, 10_000
MAX_SECONDS, MAX_REPEATS = 0.4, 5
"""A function is called until this time or number is reached; the median time counts."""
ALGORITHMS, GOAL = ("lasso", "ols", "omp"), 2
PEERS = {"lasso": ("SPAMS lasso", "SPAMS cholesky"), "ols": ("SPAMS omp",), "omp": ("SPAMS omp",)}


@dataclass(frozen=True)
class Problem:
    """Samples in float64, and a dictionary that was learned from other samples."""

    name: str
    X: Any
    D: Any


def run(X: Any, quick: bool) -> Section:
    cases: list[dict[str, Any]] = []
    with threadpool_limits(1):
        for problem in problems(X, 300 if quick else N_SAMPLES, quick):
            m, p = problem.D.shape
            print(f"  {problem.name}, p={p}, m={m}", flush=True)
            for k in NONZEROS:
                alpha = penalty_for(problem, k)
                for dtype in (np.float32, np.float64):
                    about = {"data": f"{problem.name}, p={p}", "m": m, "k": k}
                    cases.append(about | compare(problem, k, alpha, dtype))
            if (problem.name, m) == ("digits", 128 if quick else 400):
                other = compare_scikit_learn(problem)
    return Section("Sparse codes for a given dictionary", report(cases, other), cases)


def report(cases: list[dict[str, Any]], other: str) -> str:
    """Return a table with one row for each kind of data."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for case in cases:
        groups.setdefault(case["data"], []).append(case)
    rows = []
    for name, group in (groups | {f"all {len(cases)} cases": cases}).items():
        cells = [name]
        for algorithm in ALGORITHMS:
            ratios = np.array([case["ratios"][algorithm] for case in group])
            median = cell(float(np.median(ratios)), at_least=GOAL, digits=1)
            reached = f"{np.mean(ratios >= GOAL):.0%}"
            cells.append(f"{median} ({ratios.min():.1f} to {ratios.max():.1f}), {reached}")
        for dtype in ("float32", "float64"):
            found = np.array([case["violations"] for case in group if case["dtype"] == dtype])
            cells.append(", ".join(f"{value:.0e}" for value in found.max(axis=0)))
        rows.append(cells)
    units, counts = (", ".join(map(str, values)) for values in (UNITS, NONZEROS))
    headings = ["data", *(f'"{algorithm}"' for algorithm in ALGORITHMS)]
    return (
        "How many times as fast `sparse_encode` is as SPAMS: the median, the range, and the"
        f" fraction of the cases with at least {GOAL} (the goal of the median). The cases are"
        f" {N_SAMPLES} samples, {units} units, {counts} non-zeros, float32 and float64. One thread,"
        ' CPU time. "lasso" is compared with the faster of `lasso` with and without'
        ' `cholesky=True`; "ols" and "omp" with `omp`, which is orthogonal least squares. The last'
        " columns are the largest violation of the optimality conditions of the lasso in units of"
        " alpha, of lincode and of the more accurate method of SPAMS.\n\n"
        + table([*headings, "violation, float32", "float64"], rows)
        + f"\n\n{other}"
    )


# Data and dictionaries


def problems(X: Any, n: int, quick: bool) -> Iterator[Problem]:
    data = {
        "digits": X,
        "centred digits": X - X.mean(axis=0),
        "8×8 patches": patches(8, centred=False),
        "centred 8×8 patches": patches(8, centred=True),
        "16×16 patches": patches(16, centred=False),
        "centred 16×16 patches": patches(16, centred=True),
    }
    for m in UNITS[:1] if quick else UNITS:
        for name, samples in data.items():
            D = spams_.dictionary(samples[:N_TRAINING], m, seconds=1)
            yield Problem(name, samples[-n:].astype(np.float64), D)
        for p in (64, 256, 784):
            yield planted(n, m, p)


def patches(size: int, *, centred: bool, n: int = 20_000) -> Any:
    """Return patches of two photographs in random order, scaled to a mean square of 1."""
    rng = np.random.default_rng(0)
    found = []
    for image in sklearn.datasets.load_sample_images().images:
        grey = image.mean(axis=2) / 255
        windows = np.lib.stride_tricks.sliding_window_view(grey, (size, size))
        rows, columns = (rng.integers(0, limit, n // 2) for limit in windows.shape[:2])
        found.append(windows[rows, columns].reshape(-1, size * size))
    X = rng.permutation(np.vstack(found))
    if centred:
        X = X - X.mean(axis=1, keepdims=True)
    return X / np.sqrt(np.mean(X**2))


def planted(n: int, m: int, p: int) -> Problem:
    """Return sums of about ten random atoms with noise of a tenth of their size."""
    rng = np.random.default_rng(0)
    D = rng.standard_normal((m, p))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    X = (rng.standard_normal((n, m)) * (rng.random((n, m)) < 10 / m)) @ D
    return Problem("planted", X + 0.1 * X.std() * rng.standard_normal(X.shape), D)


def penalty_for(problem: Problem, k: int) -> float:
    """Return the penalty for which codes have k non-zeros on average, by bisection."""
    X, low, high = problem.X[:300], 1e-4, 1e2
    for _ in range(14):
        middle = float(np.sqrt(low * high))
        count = np.count_nonzero(sparse_encode(X, problem.D, alpha=middle, n_jobs=1)) / len(X)
        low, high = (middle, high) if count > k else (low, middle)
    return middle


# Comparisons


def compare(problem: Problem, k: int, alpha: float, dtype: Any) -> dict[str, Any]:
    """Compare codes with k non-zeros with those of SPAMS."""
    X, D = problem.X.astype(dtype), problem.D.astype(dtype)
    lasso = partial(spams_.lasso, penalty=alpha, n_threads=1)
    calls: dict[str, Any] = {
        "lasso": lambda X: sparse_encode(X, D, alpha=alpha, n_jobs=1),
        "ols": lambda X: sparse_encode(X, D, algorithm="ols", n_nonzero_coefs=k, n_jobs=1),
        "omp": lambda X: sparse_encode(X, D, algorithm="omp", n_nonzero_coefs=k, n_jobs=1),
        "SPAMS lasso": lambda X: lasso(D, X),
        "SPAMS cholesky": lambda X: lasso(D, X, cholesky=True),
        "SPAMS omp": lambda X: spams_.omp(D, X, k, n_threads=1),
    }
    for call in calls.values():
        call(X[:5])  # loads the compiled code
    seconds, codes = timed({name: partial(call, X) for name, call in calls.items()})
    ratios = {name: min(seconds[peer] for peer in PEERS[name]) / seconds[name] for name in PEERS}
    found = {name: violation(problem, codes[name], alpha) for name in ("lasso", *PEERS["lasso"])}
    return {
        "dtype": np.dtype(dtype).name,
        "ratios": ratios,
        "violations": (found["lasso"], min(found[peer] for peer in PEERS["lasso"])),
        "seconds": seconds,
        "errors": {name: float(np.mean((X - codes[name] @ D) ** 2)) for name in calls},
    }


def timed(functions: dict[str, Call]) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the median CPU time of each function, and their results as dense arrays.

    The functions are called in turn, long ones less often.
    """
    results: dict[str, Any] = {}
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(MAX_REPEATS):
        for name, function in functions.items():
            if sum(times[name]) < MAX_SECONDS:
                start = time.process_time()
                results[name] = function()
                times[name].append(time.process_time() - start)
    dense = {k: U.toarray() if scipy.sparse.issparse(U) else U for k, U in results.items()}
    return {name: float(np.median(values)) for name, values in times.items()}, dense


def violation(problem: Problem, U: Any, alpha: float) -> float:
    """Return the largest violation of the optimality conditions in units of alpha, in float64."""
    X, D, U = problem.X, problem.D, np.asarray(U, dtype=np.float64)
    G = (U @ D - X) @ D.T
    at_nonzeros, at_zeros = np.abs(G + alpha * np.sign(U)), np.maximum(np.abs(G) - alpha, 0)
    return float(np.where(U != 0, at_nonzeros, at_zeros).max() / alpha)


def compare_scikit_learn(problem: Problem) -> str:
    """Compare OMP with scikit-learn, in float64, on few samples."""
    n, k = 200, 10
    X, D = problem.X, problem.D
    ours = partial(sparse_encode, X, D, algorithm="omp", n_nonzero_coefs=k, n_jobs=1)
    seconds = timed({"lincode": ours})[0]["lincode"] * n / len(X)
    other = seconds_of(partial(sklearn_.omp, D, X[:n], k), time.process_time)
    return (
        f"OMP with {k} non-zeros of {len(D)} units ({problem.name}, float64) is"
        f" {cell(other / seconds, at_least=10, digits=0)} times as fast as scikit-learn's"
        " `orthogonal_mp_gram` (goal: 10)."
    )
