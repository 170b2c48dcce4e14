"""Codes for a given dictionary, compared with SPAMS and scikit-learn, by number of non-zeros.

All libraries use one thread. CPU times are compared, because they vary less on a shared machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
import sklearn.datasets
from measure import Row, Section
from peers import sklearn_, spams_
from threadpoolctl import threadpool_limits

from lincode import sparse_encode

NONZEROS = (5, 10, 20, 40)
UNITS = (128, 400, 1024)
N_SAMPLES, N_TRAINING = 1000, 10_000
TRAINING_SECONDS = 4
NOISE = 0.05
"""The change of the atoms between the two problems of a warm start."""


@dataclass(frozen=True)
class Problem:
    """Samples in float64, and a dictionary that was learned from other samples."""

    name: str
    X: Any
    D: Any

    @property
    def title(self) -> str:
        m, p = self.D.shape
        return f"{self.name}, p={p}, m={m}"


def run(X: Any, quick: bool) -> Section:
    with threadpool_limits(1):
        return Section(list(compare(X, quick)))


def compare(X: Any, quick: bool) -> Iterator[Row]:
    n, repeats = (300, 1) if quick else (N_SAMPLES, 3)
    for problem in problems(X, n, quick):
        print(f"  [{problem.title}]", flush=True)
        penalties = {k: penalty_for(problem, k) for k in NONZEROS}
        for dtype in (np.float32, np.float64):
            yield compare_lasso(problem, penalties, dtype, repeats)
            yield from compare_greedy(problem, dtype, repeats)
        if problem.D.shape[0] == 400:
            yield compare_warm_start(problem, penalties[20], repeats)
            yield compare_scikit_learn(problem, repeats)


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
            D = spams_.dictionary(samples[:N_TRAINING], m, seconds=1 if quick else TRAINING_SECONDS)
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


Call = Callable[[], Any]


def timed(functions: dict[str, Call], repeats: int) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the median CPU time of each function, and their results as dense arrays.

    The functions are called in turn. The first round is not counted.
    """
    results = {name: function() for name, function in functions.items()}
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            times[name].append(cpu_seconds(function))
    dense = {k: U.toarray() if scipy.sparse.issparse(U) else U for k, U in results.items()}
    return {name: float(np.median(values)) for name, values in times.items()}, dense


def cpu_seconds(function: Call) -> float:
    """Call the function and return the CPU time it took."""
    start = time.process_time()
    function()
    return time.process_time() - start


def violation(problem: Problem, U: Any, alpha: float) -> float:
    """Return the largest violation of the optimality conditions in units of alpha, in float64."""
    X, D, U = problem.X, problem.D, np.asarray(U, dtype=np.float64)
    G = (U @ D - X) @ D.T
    at_nonzeros, at_zeros = np.abs(G + alpha * np.sign(U)), np.maximum(np.abs(G) - alpha, 0)
    return float(np.where(U != 0, at_nonzeros, at_zeros).max() / alpha)


def compare_lasso(problem: Problem, penalties: dict[int, float], dtype: Any, repeats: int) -> Row:
    """Compare lasso codes with the faster of the two homotopy methods of SPAMS."""
    X, D = problem.X.astype(dtype), problem.D.astype(dtype)
    details, ratios, residuals = {}, [], []
    for k, alpha in penalties.items():
        spams = partial(spams_.lasso, D, X, alpha, n_threads=1)
        functions: dict[str, Call] = {
            "lincode": partial(sparse_encode, X, D, alpha=alpha, n_jobs=1),
            "SPAMS": spams,
            "cholesky": partial(spams, cholesky=True),
        }
        seconds, codes = timed(functions, repeats)
        found = {name: violation(problem, U, alpha) for name, U in codes.items()}
        details[str(k)] = {
            "nonzeros": np.count_nonzero(codes["lincode"]) / len(X),
            "seconds": seconds,
            "violations": found,
        }
        ratios.append(min(seconds["SPAMS"], seconds["cholesky"]) / seconds["lincode"])
        residuals.append((found["lincode"], min(found["SPAMS"], found["cholesky"])))
    return Row(
        f"lasso codes, {problem.title}, {np.dtype(dtype).name}, compared with SPAMS",
        f"{', '.join(f'{ratio:.1f}' for ratio in ratios)} × faster for"
        f" {', '.join(map(str, penalties))} non-zeros (residuals"
        f" {max(ours for ours, _ in residuals):.0e} and"
        f" {max(other for _, other in residuals):.0e} α)",
        "≥ 2 ×",
        min(ratios) >= 2,
        details,
    )


def compare_greedy(problem: Problem, dtype: Any, repeats: int) -> Iterator[Row]:
    """Compare "ols" with the same method of SPAMS, which it calls omp, and "omp" with it.

    "omp" chooses atoms by another criterion, so its reconstruction errors differ.
    """
    X, D = problem.X.astype(dtype), problem.D.astype(dtype)
    details = {}
    for k in NONZEROS:
        ours = partial(sparse_encode, X, D, n_nonzero_coefs=k, n_jobs=1)
        functions: dict[str, Call] = {
            "ols": partial(ours, algorithm="ols"),
            "omp": partial(ours, algorithm="omp"),
            "SPAMS": partial(spams_.omp, D, X, k, n_threads=1),
        }
        seconds, codes = timed(functions, repeats)
        errors = {name: float(np.mean((X - U @ D) ** 2)) for name, U in codes.items()}
        details[str(k)] = {"seconds": seconds, "errors": errors}
    for name, title in (("ols", "orthogonal least squares"), ("omp", "OMP")):
        ratios = [d["seconds"]["SPAMS"] / d["seconds"][name] for d in details.values()]
        errors_ = [d["errors"][name] / d["errors"]["SPAMS"] for d in details.values()]
        yield Row(
            f"{title}, {problem.title}, {np.dtype(dtype).name}, compared with SPAMS `omp`",
            f"{', '.join(f'{ratio:.1f}' for ratio in ratios)} × faster for"
            f" {', '.join(map(str, NONZEROS))} non-zeros"
            f" ({', '.join(f'{error:.2f}' for error in errors_)} × its reconstruction error)",
            "≥ 2 ×",
            min(ratios) >= 2,
            details,
        )


def compare_warm_start(problem: Problem, alpha: float, repeats: int) -> Row:
    """Start from the codes of a dictionary whose atoms differ by 5 %."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(problem.D.shape)
    noise *= NOISE * np.linalg.norm(problem.D) / np.linalg.norm(noise)
    X, D = problem.X.astype(np.float32), problem.D.astype(np.float32)
    start = sparse_encode(X, (problem.D + noise).astype(np.float32), alpha=alpha)
    ours = partial(sparse_encode, X, D, alpha=alpha, n_jobs=1)
    functions: dict[str, Call] = {"lincode": partial(ours, init=start), "lincode, from zero": ours}
    cd = partial(spams_.coordinate_descent, D, X, alpha, start, n_threads=1)
    for tol in (1e-3, 1e-6):
        functions[f"SPAMS cd, tol={tol:g}"] = partial(cd, tol=tol)
    seconds, codes = timed(functions, repeats)
    found = {name: violation(problem, U, alpha) for name, U in codes.items()}
    ratio = seconds["SPAMS cd, tol=0.001"] / seconds["lincode"]
    return Row(
        f"lasso codes with 20 non-zeros, {problem.title}, float32, warm start, compared with SPAMS"
        " `cd`",
        f"{ratio:.1f} × faster (residuals {found['lincode']:.0e} and"
        f" {found['SPAMS cd, tol=0.001']:.0e} α)",
        "≥ 2 ×",
        ratio >= 2,
        {"seconds": seconds, "violations": found},
    )


def compare_scikit_learn(problem: Problem, repeats: int) -> Row:
    """Compare OMP with scikit-learn, in float64, on few samples."""
    n, k = 200, 10
    X, D = problem.X[:n], problem.D
    ours = partial(sparse_encode, problem.X, D, algorithm="omp", n_nonzero_coefs=k, n_jobs=1)
    seconds = timed({"lincode": ours}, repeats)[0]["lincode"] * n / len(problem.X)
    other = cpu_seconds(partial(sklearn_.omp, D, X, k))
    return Row(
        f"OMP with {k} non-zeros, {problem.title}, compared with scikit-learn `orthogonal_mp_gram`",
        f"{other / seconds:.0f} × faster",
        "≥ 10 ×",
        other >= 10 * seconds,
        {"seconds": {"lincode": seconds, "scikit-learn": other}},
    )
