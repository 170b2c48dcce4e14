"""Compare codes that cost one matrix product with solved codes, and denoise a photograph.

The data come with scikit-learn. All codes of the table have about the same number of non-zeros per
digit: SCNN has its default parameters and this density, and the alpha of scikit-learn gives this
number. The parameter C of each classifier is chosen on validation digits. The table shows test
digits.
"""

from __future__ import annotations

import argparse
import copy
import runpy
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import pyplot as plt
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, MiniBatchDictionaryLearning, SparseCoder
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from lincode import SCNN, Iteration
from lincode.metrics import rms_error

Floats = Any  # arrays with one sample per row
N_COMPONENTS = 100
N_NONZERO = 15
"""The number of non-zeros per digit at which the methods are compared."""
SKLEARN_ALPHA = 0.17
"""The alpha of scikit-learn that gives about N_NONZERO non-zeros."""
DENOISING = Path(__file__).parent / "gallery" / "plot_denoising.py"
SVM_CS = (0.01, 0.1, 1.0, 10.0)
"""The values from which C is chosen for each classifier."""
TIMING_SECONDS = 0.5
"""The minimum total time over which the speed of an encoder is measured."""

console = Console()


class Method(NamedTuple):
    """A fitted method of the comparison."""

    name: str
    encode: Callable[[Floats], Floats]
    decode: Callable[[Floats], Floats]


class Result(NamedTuple):
    """A row of the table."""

    name: str
    error: float
    n_nonzero: float
    accuracy: float
    microseconds: float


def digits() -> list[Floats]:
    """Return training, validation and test digits in [0, 1], followed by their labels."""
    X, y = load_digits(return_X_y=True)
    X = X / 16
    X_rest, X_test, y_rest, y_test = train_test_split(
        X, y, test_size=0.25, random_state=0, stratify=y
    )
    X_train, X_val, y_train, y_val = train_test_split(
        X_rest, y_rest, test_size=1 / 3, random_state=0, stratify=y_rest
    )
    return [X_train, X_val, X_test, y_train, y_val, y_test]


def train(description: str, scnn: SCNN, X: Floats) -> SCNN:
    """Fit the network and show a progress bar."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:>4.0f} {task.fields[state]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(description, total=None, state="")

        def show(iteration: Iteration) -> None:
            state = f"iterations, energy {iteration.energy_per_sample:.4f}"
            if iteration.stage == "refinement":
                state = f"refinement steps, {iteration.encoder_r2:.1%} reconstructed"
            progress.update(task, completed=iteration.n_iter, total=iteration.max_iter, state=state)

        scnn.set_params(callback=show).fit(X)
    scnn.set_params(callback=None)
    return scnn


def fit_svm(codes: list[Floats], y_train: Floats, y_val: Floats) -> SVC:
    """Return a linear SVM for training codes, with C chosen on validation codes."""
    svms = [SVC(kernel="linear", C=C).fit(codes[0], y_train) for C in SVM_CS]
    accuracies = [svm.score(codes[1], y_val) for svm in svms]
    return svms[int(np.argmax(accuracies))]


def encoding_microseconds(encode: Callable[[Floats], Floats], X: Floats) -> float:
    """Return the median CPU time of one thread, in microseconds per sample, for 1000 samples."""
    samples = np.resize(X, (1000, X.shape[1]))
    seconds: list[float] = []
    with threadpool_limits(1):
        while sum(seconds) < TIMING_SECONDS:
            start = time.process_time()
            encode(samples)
            seconds.append(time.process_time() - start)
    return 1000 * float(np.median(seconds))


def fit_networks(X_train: Floats) -> list[Method]:
    """Return three kinds of codes of one SCNN, with about N_NONZERO non-zeros per sample."""
    scnn = SCNN(N_COMPONENTS, density=N_NONZERO / N_COMPONENTS, random_state=0)
    train("SCNN", scnn, X_train)
    names = {
        "encoder": "SCNN, encoder: one product",
        "projection": "SCNN, projection",
        "omp": "SCNN, omp",
    }
    methods = []
    for algorithm, name in names.items():
        network = copy.copy(scnn).set_params(transform_algorithm=algorithm)
        methods.append(Method(name, network.transform, network.inverse_transform))
    return methods


def fit_peers(X_train: Floats) -> list[Method]:
    """Return scikit-learn's dictionary learning with lasso codes and with OMP, and PCA."""
    lasso = MiniBatchDictionaryLearning(
        N_COMPONENTS,
        alpha=SKLEARN_ALPHA,
        fit_algorithm="cd",
        transform_algorithm="lasso_cd",
        transform_alpha=SKLEARN_ALPHA,
        transform_max_iter=10_000,
        max_iter=50,
        random_state=0,
    ).fit(X_train)
    omp = SparseCoder(
        lasso.components_, transform_algorithm="omp", transform_n_nonzero_coefs=N_NONZERO
    )
    pca = PCA(N_NONZERO).fit(X_train)

    def decode(U: Floats) -> Floats:
        return U @ lasso.components_

    return [
        Method("scikit-learn, lasso_cd", lasso.transform, decode),
        Method("scikit-learn, omp", omp.transform, decode),
        Method(f"PCA, {N_NONZERO} components", pca.transform, pca.inverse_transform),
    ]


def measure(method: Method, data: list[Floats]) -> Result:
    """Return what the table shows for a method."""
    X_train, X_val, X_test, y_train, y_val, y_test = data
    codes = [method.encode(X) for X in (X_train, X_val, X_test)]
    svm = fit_svm(codes, y_train, y_val)
    return Result(
        method.name,
        rms_error(X_test, method.decode(codes[2])),
        np.count_nonzero(codes[2], axis=1).mean(),
        svm.score(codes[2], y_test),
        encoding_microseconds(method.encode, X_test),
    )


def compare_on_digits() -> None:
    """Train on digits and print the comparison."""
    data = digits()
    methods = fit_networks(data[0])
    with console.status("comparing methods"), warnings.catch_warnings():
        # scikit-learn's lasso_cd warns about some samples for every max_iter.
        warnings.simplefilter("ignore", ConvergenceWarning)
        results = [measure(method, data) for method in methods + fit_peers(data[0])]
    table = Table(title=f"{len(data[2])} test digits of 8×8 pixels, {N_COMPONENTS} units")
    for heading in ("code", "RMS error", "non-zeros", "accuracy", "µs per digit"):
        table.add_column(heading, justify="left" if heading == "code" else "right")
    for name, error, n_nonzero, accuracy, microseconds in results:
        cells = (f"{error:.3f}", f"{n_nonzero:.1f}", f"{accuracy:.1%}", f"{microseconds:.1f}")
        table.add_row(name, *cells)
    console.print(table)
    closest = min(results, key=lambda result: result.error)
    accurate = max(results, key=lambda result: result.accuracy)
    fastest = min(results, key=lambda result: result.microseconds)
    console.print(
        f"The smallest error is that of {closest.name}, the highest accuracy that of"
        f" {accurate.name}, and the least time that of {fastest.name}."
    )


def denoise_photograph(file: Path) -> None:
    """Run the example of the gallery that denoises a photograph, and save its figure."""
    file.parent.mkdir(parents=True, exist_ok=True)
    plt.switch_backend("Agg")  # show opens no window
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "FigureCanvasAgg is non-interactive")
        runpy.run_path(str(DENOISING))
    plt.savefig(file, dpi=110)
    plt.close("all")


def main() -> None:
    """Run the comparison and write the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("demo-output"), help="folder for the figure"
    )
    file = parser.parse_args().out / "demo.png"
    start = time.perf_counter()
    compare_on_digits()
    console.print("\nThe example examples/gallery/plot_denoising.py:")
    denoise_photograph(file)
    console.print(f"Finished in {time.perf_counter() - start:.0f} s. Figure: {file}")


if __name__ == "__main__":
    main()
