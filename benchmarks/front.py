"""The error of sparse codes against the time per sample, at equal mean numbers of non-zeros.

    python benchmarks/front.py [DATA ...]        measures what front.json does not contain yet
    python benchmarks/front.py --report          writes front.md and front.png from front.json

Every method has its own dictionary, trained on the same samples. The error is ‖X − R‖²/‖X‖² of test
samples, computed here in float64 from the codes and the dictionary of each method. Penalties are
chosen on validation samples, such that codes have the wanted mean number of non-zeros; of several
dictionaries of a peer, the one with the smallest error of validation samples is used. Times of
codes are those of one thread. Rows of torch need `pip install torch==2.13.0`.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from front_data import FRONT, Split
from sklearn.decomposition import PCA, MiniBatchDictionaryLearning
from sklearn.decomposition import sparse_encode as sklearn_encode
from threadpoolctl import threadpool_limits

from lincode import SCNN, MiniBatchSCNN, sparse_encode

FRACTIONS, MIN_NONZEROS = (0.025, 0.05, 0.1), 8
FOLDER = Path(__file__).parent
RESULTS = FOLDER / "front.json"
MAX_SECONDS = 4.0
"""Slow coders are measured on as many test samples as they code in about this time."""
PEER_SECONDS = 10.0
"""The time for the training of each dictionary of a peer"""
Encode = Callable[[Any], Any]


@dataclass(frozen=True)
class Method:
    """Codes of samples and the dictionary that belongs to them."""

    name: str
    encode: Encode
    components: Any
    fit_seconds: float
    centre: Any = 0.0


def nonzeros(U: Any) -> float:
    return float(np.count_nonzero(U, axis=1).mean())


def unexplained(X: Any, U: Any, D: Any, centre: Any = 0.0) -> float:
    """Return ‖X − U D‖²/‖X‖² in float64."""
    X, U, D = (np.asarray(A, dtype=np.float64) for A in (X, U, D))
    return float(np.sum((X - centre - U @ D) ** 2) / np.sum(X**2))


def matching_alpha(encode: Callable[[Any, float], Any], X: Any, k: int, highest: float) -> float:
    """Return the penalty at which codes of X have about k non-zeros, by bisection."""
    low, high = 1e-5 * highest, highest
    for _ in range(18):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if nonzeros(encode(X, middle)) > k else (low, middle)
    return float((low * high) ** 0.5)


def debiased(U: Any, X: Any, D: Any) -> Any:
    """Return codes of least squares on the support of U."""
    V = np.zeros(U.shape)
    for i in range(len(U)):
        support = np.flatnonzero(U[i])
        V[i, support] = np.linalg.lstsq(D[support].T, X[i], rcond=None)[0]
    return V


def lincode_methods(data: Split, k: int) -> Iterator[Method]:
    m, X = data.n_components, data.train
    start = time.perf_counter()
    scnn = SCNN(m, density=k / m, random_state=0).fit(X)
    seconds = time.perf_counter() - start
    for algorithm in ("encoder", "projection"):
        scnn.set_params(transform_algorithm=algorithm, n_jobs=1)
        yield Method(f"lincode, {algorithm}", scnn.transform, scnn.components_, seconds)
    start = time.perf_counter()
    energy: dict[str, Any] = {"encoder_weight": 0, "refine": False, "transform_algorithm": "exact"}
    solved = MiniBatchSCNN(m, density=k / m, **energy, max_iter=5, random_state=0)
    D = solved.fit(X).components_
    seconds = time.perf_counter() - start
    options: dict[str, Any] = {"n_jobs": 1, "n_nonzero_coefs": k}
    for algorithm in ("omp", "ols"):
        coder = lambda X, a=algorithm: sparse_encode(X, D, algorithm=a, **options)  # noqa: E731
        yield Method(f"lincode, {algorithm}", coder, D, seconds)

    def lasso(X: Any, alpha: float) -> Any:
        return sparse_encode(X, D, alpha=alpha, debias=True, n_jobs=1)

    alpha = matching_alpha(lasso, data.validation[:300], k, float(np.abs(X @ D.T).max()))
    yield Method("lincode, lasso", lambda X: lasso(X, alpha), D, seconds)


def penalties(X: Any) -> list[float]:
    """Return penalties of training, relative to the mean length of the samples."""
    length = float(np.linalg.norm(X, axis=1).mean())
    return [0.03 * length, 0.1 * length]


def best_dictionary(data: Split, k: int, train: Callable[[float], Any]) -> tuple[Any, float]:
    """Return the dictionary with the smallest error of OMP codes of validation samples."""
    found = []
    for alpha in penalties(data.train):
        start = time.perf_counter()
        D = np.ascontiguousarray(train(alpha), dtype=np.float64)
        seconds = time.perf_counter() - start
        X = data.validation.astype(np.float64)
        U = sparse_encode(X, D, algorithm="omp", n_nonzero_coefs=k)
        found.append((unexplained(X, U, D), seconds, D))
    _, seconds, D = min(found, key=lambda item: item[0])
    return D, seconds


def sklearn_methods(data: Split, k: int) -> Iterator[Method]:
    def train(alpha: float) -> Any:
        learner = MiniBatchDictionaryLearning(
            data.n_components, alpha=alpha, batch_size=256, max_iter=1, random_state=0, n_jobs=2
        )
        rng, end = np.random.default_rng(0), time.perf_counter() + PEER_SECONDS
        while time.perf_counter() < end:
            learner.partial_fit(data.train[rng.choice(len(data.train), 256)])
        return learner.components_

    D, seconds = best_dictionary(data, k, train)
    D = D.astype(data.train.dtype)
    highest = float(np.abs(data.train[:1000] @ D.T).max())
    omp = lambda X: sklearn_encode(X, D, algorithm="omp", n_nonzero_coefs=k)  # noqa: E731
    yield Method("scikit-learn, omp", omp, D, seconds)
    for algorithm in ("lasso_lars", "lasso_cd", "threshold"):

        def coder(X: Any, alpha: float, algorithm: str = algorithm) -> Any:
            return sklearn_encode(X, D, algorithm=algorithm, alpha=alpha, max_iter=300)

        alpha = matching_alpha(coder, data.validation[:50], k, highest)
        plain = lambda X, c=coder, a=alpha: c(X, a)  # noqa: E731
        yield Method(f"scikit-learn, {algorithm}", plain, D, seconds)
        best = lambda X, c=coder, a=alpha: debiased(c(X, a), X, D)  # noqa: E731
        yield Method(f"scikit-learn, {algorithm}, debiased", best, D, seconds)


def spams_methods(data: Split, k: int) -> Iterator[Method]:
    import spams

    X = np.asfortranarray(data.train.T, dtype=np.float64)

    def train(alpha: float) -> Any:
        return spams.trainDL(
            X,
            K=data.n_components,
            lambda1=alpha,
            iter=-int(PEER_SECONDS),
            batchsize=512,
            numThreads=2,
            verbose=False,
        ).T

    D, seconds = best_dictionary(data, k, train)
    Dt = np.asfortranarray(D.T / np.linalg.norm(D, axis=1))

    def columns(X: Any) -> Any:
        return np.asfortranarray(X.T, dtype=np.float64)

    def omp(X: Any) -> Any:
        return spams.omp(columns(X), Dt, L=k, numThreads=1).toarray().T

    def lasso(X: Any, alpha: float) -> Any:
        return spams.lasso(columns(X), Dt, lambda1=alpha, numThreads=1).toarray().T

    yield Method("SPAMS, omp", omp, Dt.T, seconds)
    highest = float(np.abs(Dt.T @ X[:, :1000]).max())
    alpha = matching_alpha(lasso, data.validation[:300], k, highest)
    yield Method("SPAMS, lasso", lambda X: lasso(X, alpha), Dt.T, seconds)
    best = lambda X: debiased(lasso(X, alpha), X, Dt.T)  # noqa: E731
    yield Method("SPAMS, lasso, debiased", best, Dt.T, seconds)


def pca_methods(data: Split, k: int) -> Iterator[Method]:
    start = time.perf_counter()
    pca = PCA(k, random_state=0).fit(data.train)
    seconds = time.perf_counter() - start
    yield Method("PCA", pca.transform, pca.components_, seconds, pca.mean_)


def autoencoder_methods(data: Split, k: int, seconds: float) -> Iterator[Method]:
    """Yield BatchTopK autoencoders that were trained as long as SCNN, and ten times as long."""
    from autoencoder import BatchTopK

    for factor in (1, 10):
        model = BatchTopK(data.n_components, k).fit(data.train, factor * seconds)
        name = f"autoencoder, {factor} × the time"
        yield Method(name, model.transform, model.components_, factor * seconds, model.centre_)


def measure(method: Method, data: Split, k: int) -> dict[str, Any]:
    """Return one point of the front."""
    X = data.test
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some coders of scikit-learn do not converge
        method.encode(X[:20])
        start = time.perf_counter()
        method.encode(X[:50])
        per_sample = (time.perf_counter() - start) / 50
        X = X[: int(np.clip(MAX_SECONDS / per_sample, 100, len(X)))]
        seconds: list[float] = []
        while sum(seconds) < 0.3 and len(seconds) < 20:
            start = time.perf_counter()
            U = method.encode(X)
            seconds.append(time.perf_counter() - start)
    return {
        "method": method.name,
        "wanted": k,
        "nonzeros": nonzeros(U),
        "unexplained": unexplained(X, U, method.components, method.centre),
        "microseconds": 1e6 * float(np.median(seconds)) / len(X),
        "fit_seconds": method.fit_seconds,
        "unused": int(np.sum(~np.any(U != 0, axis=0))),
    }


def run(names: list[str]) -> None:
    """Measure all points that are missing, and write each data set and density as it comes."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    warnings.simplefilter("ignore")
    for name in names or FRONT:
        data = FRONT[name]()
        SCNN(8, max_iter=2).fit(data.train[:200])  # compiles the kernels
        for fraction in FRACTIONS:
            k = max(MIN_NONZEROS, round(fraction * data.n_components))
            key = f"{name} {k}"
            if key in results:
                continue
            points = [measure(method, data, k) for method in lincode_methods(data, k)]
            seconds = points[0]["fit_seconds"]
            makers = [pca_methods, sklearn_methods, spams_methods]
            points += [measure(found, data, k) for make in makers for found in make(data, k)]
            try:
                points += [measure(f, data, k) for f in autoencoder_methods(data, k, seconds)]
            except ImportError:
                print("torch is not installed; its rows are left out")
            for point in points:
                print(key, *(f"{v:.4g}" if isinstance(v, float) else v for v in point.values()))
            shape = (*data.train.shape, data.n_components)
            results[key] = {"title": data.title, "shape": shape, "points": points}
            RESULTS.write_text(json.dumps(results, indent=1))


def below_front(points: list[dict[str, Any]]) -> list[str]:
    """Return the peers with a smaller error than all codes of lincode that are as fast.

    Peers that are faster than all codes of lincode count if their error is smaller than that of the
    fastest one.
    """
    own = [p for p in points if p["method"].startswith("lincode")]
    fastest = min(own, key=lambda p: p["microseconds"])
    found = []
    for p in points:
        if p["method"].startswith("lincode"):
            continue
        as_fast = [q for q in own if q["microseconds"] <= 1.1 * p["microseconds"]] or [fastest]
        best = min(as_fast, key=lambda q: q["unexplained"])
        if p["unexplained"] < best["unexplained"]:
            times = f"{p['microseconds']:.1f} µs, {best['microseconds']:.1f} µs"
            errors = f"{p['unexplained']:.4f} instead of {best['unexplained']:.4f}"
            found.append(f"{p['method']}: {errors} by {best['method']} ({times})")
    return found


def report() -> None:
    """Write the table and the figure."""
    results = json.loads(RESULTS.read_text())
    lines = ["| data | non-zeros | method | unexplained | µs per sample | training, s |"]
    lines.append("| --- | ---: | --- | ---: | ---: | ---: |")
    exceptions = []
    for key, found in results.items():
        for p in sorted(found["points"], key=lambda p: p["unexplained"]):
            cells = f"{p['nonzeros']:.1f} | {p['method']} | {p['unexplained']:.4f}"
            times = f"{p['microseconds']:.1f} | {p['fit_seconds']:.1f}"
            lines.append(f"| {found['title']} | {cells} | {times} |")
        exceptions += [f"- {key}: {text}" for text in below_front(found["points"])]
    lines += [
        "",
        "Peers with a smaller error than the codes of lincode that are as fast:",
        "",
        *exceptions,
    ]
    (FOLDER / "front.md").write_text("\n".join(lines) + "\n")
    plot(results)


def plot(results: dict[str, Any]) -> None:
    """Plot the error against the time per sample, and against the time of training."""
    from matplotlib import pyplot as plt

    colours = {"lincode": "#0072b2", "scikit-learn": "#d55e00", "SPAMS": "#009e73"}
    colours |= {"PCA": "#333333", "autoencoder": "#cc79a7"}
    chosen: dict[str, list[Any]] = {}  # the middle density of each data set
    for key, found in results.items():
        chosen.setdefault(key.split()[0], []).append(found)
    figure, axes = plt.subplots(
        2, len(chosen), figsize=(3.1 * len(chosen), 5.6), squeeze=False, layout="constrained"
    )
    for column, founds in zip(axes.T, chosen.values(), strict=True):
        found = founds[len(founds) // 2]
        for ax, time_of in zip(column, ("microseconds", "fit_seconds"), strict=True):
            for p in (p for p in found["points"] if p["unexplained"] < 1):
                group = p["method"].split(",")[0]
                ax.scatter(p[time_of], p["unexplained"], color=colours[group], s=28)
                if group == "lincode" and time_of == "microseconds":
                    text = p["method"].split(", ")[1]
                    ax.annotate(text, (p[time_of], p["unexplained"]), fontsize=7)
            ax.set(xscale="log", yscale="log")
            ax.grid(alpha=0.3)
        k = found["points"][0]["wanted"]
        column[0].set_title(f"{found['title']}\n{k} of {found['shape'][2]} units", fontsize=9)
        column[0].set_xlabel("µs per sample", fontsize=8)
        column[1].set_xlabel("seconds of training", fontsize=8)
    for ax in axes[:, 0]:
        ax.set_ylabel("unexplained fraction", fontsize=8)
    for group, colour in colours.items():
        axes[0, 0].scatter([], [], color=colour, label=group)
    figure.legend(loc="outside lower center", ncols=len(colours), fontsize=9)
    figure.savefig(FOLDER / "front.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="*", choices=[[], *FRONT])
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    if not args.report:
        run(args.data)
    report()


if __name__ == "__main__":
    main()
