"""The error of sparse codes against the time per sample, at equal mean numbers of non-zeros.

Every method has its own dictionary, trained on the same samples. The error is ‖X − R‖²/‖X‖² of test
samples, computed here in float64 from the codes and the dictionary of each method. Penalties are
chosen on validation samples, such that codes have the wanted mean number of non-zeros; of several
dictionaries of a peer, the one with the smallest error of validation samples is used. Times of
codes are those of one thread. The autoencoder is left out if torch is not installed.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import spams
from data import FRONT, Split
from measure import Section, seconds_of, table
from sklearn.base import clone
from sklearn.decomposition import PCA, MiniBatchDictionaryLearning
from sklearn.decomposition import sparse_encode as sklearn_encode
from threadpoolctl import threadpool_limits

from lincode import SCNN, MiniBatchSCNN, sparse_encode

NONZEROS = {"mnist": 20, "text": 13, "activations": 32}
"""The mean number of non-zeros of each kind of data, by default 8"""
MAX_SECONDS = 1.5
"""Slow coders are measured on as many test samples as they code in about this time."""
PEER_SECONDS = 4.0
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
    scnn = SCNN(m, density=k / m, random_state=0)
    energy: dict[str, Any] = {"encoder_weight": 0, "refine": False, "transform_algorithm": "exact"}
    solved = MiniBatchSCNN(m, density=k / m, **energy, max_iter=5, random_state=0)
    for network in (scnn, solved):
        clone(network).set_params(max_iter=1).fit(X[:1000])  # loads the compiled code
    seconds = seconds_of(lambda: scnn.fit(X))
    for algorithm in ("encoder", "projection"):
        scnn.set_params(transform_algorithm=algorithm, n_jobs=1)
        yield Method(f"lincode, {algorithm}", scnn.transform, scnn.components_, seconds)
    seconds = seconds_of(lambda: solved.fit(X))
    D = solved.components_
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

    def coder(X: Any, alpha: float, algorithm: str) -> Any:
        return sklearn_encode(X, D, algorithm=algorithm, alpha=alpha, max_iter=300)

    for algorithms in (("lasso_cd", "lasso_lars"), ("threshold",)):
        search = partial(coder, algorithm=algorithms[0])
        alpha = matching_alpha(search, data.validation[:50], k, highest)
        for algorithm in algorithms:
            found = partial(coder, alpha=alpha, algorithm=algorithm)
            best = lambda X, found=found: debiased(found(X), X, D)  # noqa: E731
            yield Method(f"scikit-learn, {algorithm}, debiased", best, D, seconds)


def spams_methods(data: Split, k: int) -> Iterator[Method]:
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
    pca = PCA(k, random_state=0)
    seconds = seconds_of(lambda: pca.fit(data.train))
    yield Method("PCA", pca.transform, pca.components_, seconds, pca.mean_)


def autoencoder_methods(data: Split, k: int, seconds: float) -> Iterator[Method]:
    """Yield a BatchTopK autoencoder that was trained as long as SCNN."""
    from autoencoder import BatchTopK

    model = BatchTopK(data.n_components, k).fit(data.train, seconds)
    yield Method("autoencoder", model.transform, model.components_, seconds, model.centre_)


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
        "nonzeros": nonzeros(U),
        "unexplained": unexplained(X, U, method.components, method.centre),
        "microseconds": 1e6 * float(np.median(seconds)) / len(X),
        "fit_seconds": method.fit_seconds,
    }


def run(X: Any, quick: bool) -> Section:
    del X  # the data have their own digits
    results = {}
    for name in ("spectra",) if quick else FRONT:
        data, k = FRONT[name](), NONZEROS.get(name, 8)
        points = [measure(method, data, k) for method in lincode_methods(data, k)]
        for make in (pca_methods, sklearn_methods, spams_methods):
            points += [measure(method, data, k) for method in make(data, k)]
        if find_spec("torch"):
            seconds = points[0]["fit_seconds"]
            points += [measure(found, data, k) for found in autoencoder_methods(data, k, seconds)]
        title = f"{data.title}, {k} of {data.n_components}"
        results[title] = {"wanted": k, "points": points}
        print(f"  {title}", *points, sep="\n    ", flush=True)
    return Section("The front: error and time of codes", report(results), results)


def report(results: dict[str, Any]) -> str:
    """Return the table of all points, and the peers below the front."""
    columns = [{p["method"]: p for p in found["points"]} for found in results.values()]
    wanted = [found["wanted"] for found in results.values()]
    rows = []
    for method in columns[0]:
        cells = [point_text(column[method], k) for column, k in zip(columns, wanted, strict=True)]
        rows.append([method, *cells])
    for method, title in (("encoder", "SCNN"), ("omp", "MiniBatchSCNN, encoder_weight=0")):
        seconds = [f"{column[f'lincode, {method}']['fit_seconds']:.1f} s" for column in columns]
        rows.append([f"training of `{title}`", *seconds])
    exceptions = [
        f"- {title}: {text}"
        for title, found in results.items()
        for text in below_front(found["points"])
    ]
    text = (
        "The unexplained fraction of test samples, and after it the time per sample in µs of one"
        " thread, at about equal numbers of non-zeros (in brackets where the mean of a method"
        " differs by more than a tenth). Every method has its own dictionary. `SCNN` with the"
        " density and defaults otherwise has the codes of the encoder and of projection;"
        " `MiniBatchSCNN(encoder_weight=0)` has the dictionary of the other codes of lincode. The"
        f" dictionaries of the others are the better of two that are trained for {PEER_SECONDS:.0f}"
        ' s each. "Debiased" codes have the values of least squares.\n\n'
    )
    text += table(["method", *results], rows)
    text += "\n\nOthers with a smaller error than all codes of lincode that are as fast:\n\n"
    return text + ("\n".join(exceptions) or "none.")


def point_text(point: dict[str, Any], k: int) -> str:
    time_text = f"{point['microseconds']:{'.0f' if point['microseconds'] >= 10 else '.2g'}}"
    text = f"{point['unexplained']:.4f}, {time_text}"
    return text if abs(point["nonzeros"] / k - 1) < 0.1 else f"{text} ({point['nonzeros']:.1f})"


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


def plot(results: dict[str, Any], path: Path) -> None:
    """Plot the error against the time per sample, one panel for each kind of data."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

    styles = {"lincode": ("#0072b2", "o"), "SPAMS": ("#009e73", "s")}
    styles |= {"scikit-learn": ("#d55e00", "^"), "PCA": ("#333333", "D")}
    figure, axes = plt.subplots(2, -(-len(results) // 2), figsize=(10.5, 6), layout="constrained")
    for ax, (title, found) in zip(axes.flat, results.items(), strict=False):
        for group, (colour, marker) in styles.items():
            points = [p for p in found["points"] if p["method"].split(",")[0] == group]
            points.sort(key=lambda p: p["microseconds"])
            x, y = ([p[key] for p in points] for key in ("microseconds", "unexplained"))
            ax.scatter(x, y, color=colour, marker=marker, s=36, label=group, zorder=2)
            if group == "lincode":
                best = [k for k in range(len(y)) if y[k] <= min(y[: k + 1])]
                ax.step([x[k] for k in best], [y[k] for k in best], where="post", color=colour)
        ax.set(xscale="log", yscale="log")
        ax.set_title(title, fontsize=10)
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())
        ax.grid(alpha=0.3)
    figure.supxlabel("µs per sample (one thread)", fontsize=10)
    figure.supylabel("unexplained fraction of test samples", fontsize=10)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(path, dpi=110)
