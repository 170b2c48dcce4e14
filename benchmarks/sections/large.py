"""Networks of many units and samples: time and memory of fits, each in a process of its own.

    python -m sections.large fit '{"m": 1536, "density": 32, "file": "train.npy"}'

(in benchmarks/) runs one of the functions below and prints what it returns as JSON. Linux only.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measure import Section, cell, seconds_of, table

MANY, N_TEST, N_WORDS = 1_000_000, 5000, 2000
NOISE = 0.05
"""The noise on repeated samples, relative to the standard deviation of the features"""
PASS_ROWS = PRODUCT_ROWS = 15_360
MAX_PRODUCTS, MAX_SECONDS, MAX_GIGABYTES = 10, 20, 1.2
"""Goals for a pass, and for the fit of 60,000 rows with 1536 units"""
MAX_FIRST, MAX_CACHED, MAX_IMPORT = 3, 1, 0.2
"""Goals for the first fit of SCNN(100) on digits, with compiled code in the cache, and imports"""
Measured = dict[str, float]
"""What one process measured"""


def run(X: Any, quick: bool) -> Section:
    del X
    many, texts = (200_000, 600) if quick else (MANY, 5000)
    cases = [(128, 8), (256, 8)] if quick else [(1536, 32), (1536, 16), (4096, 32)]
    details: dict[str, Any] = {"fits": [], "passes": [], "mapped": {}, "first": []}
    with tempfile.TemporaryDirectory() as folder:
        source = write_samples(Path(folder), quick)
        for m, k in cases:
            details["fits"].append(measured("fit", m=m, density=k, folder=folder))
            details["passes"].append(measured("one_pass", m=m, density=k, folder=folder))
        m, k = cases[0]
        if shutil.disk_usage(folder).free > 3 * 4 * many * details["fits"][0]["p"]:
            repeat_samples(Path(folder), many)
            details["mapped"] = measured("fit", m=m, density=k, folder=folder, mapped=True)
        cache = {"NUMBA_CACHE_DIR": str(Path(folder) / "numba")}
        details["first"] = [measured("first_fit", environment=cache) for _ in "12"]
    details["sparse"] = measured("sparse_fit", n=texts)
    return Section(
        "Many units and samples, and the first call", report(cases, source, **details), details
    )


def report(
    cases: list[tuple[int, int]],
    source: str,
    *,
    fits: list[Measured],
    passes: list[Measured],
    mapped: Measured,
    first: list[Measured],
    sparse: Measured,
) -> str:
    """Return the table of the fits, and a sentence about each of the others."""
    rows = []
    for (m, k), found, each in zip(cases, fits, passes, strict=True):
        limits = (MAX_SECONDS, MAX_GIGABYTES) if m == 1536 else (np.inf, np.inf)
        cells = [cell(found["seconds"], limits[0], digits=1), f"{found['products']:.0f}"]
        cells += [cell(found["gigabytes"], limits[1]), f"{found['unexplained']:.4f}"]
        cells += [f"{100 * found['used']:.1f} %", cell(each["products"], MAX_PRODUCTS, digits=1)]
        rows.append([f"{m}, {k}", *cells])
    headings = ["units, non-zeros", "seconds", "products", "GB", "unexplained", "units used"]
    small, new, cached = fits[0], *first
    text = (
        f"`MiniBatchSCNN(m, density=k).fit` of {small['n']:,.0f}×{small['p']:.0f} {source},"
        " each in a process of its own: the time, also in products `X @ C.T` of the same rows, the"
        " peak memory of the process without mapped files, the unexplained fraction of other rows,"
        f" and the fraction of the units that they use (goals for 1536 units: {MAX_SECONDS} s,"
        f" {MAX_GIGABYTES} GB). The last column is one pass with `refine=False` over"
        f" {PASS_ROWS:,} rows with one thread, in products with one thread (goal:"
        f" {MAX_PRODUCTS}).\n\n" + table([*headings, "pass, products"], rows)
    )
    if mapped:
        text += (
            f"\n\nWith {mapped['n']:,.0f} rows of float32 in a memory map ({cases[0][0]} units),"
            f" `fit` takes {mapped['seconds']:.0f} s,"
            f" {mapped['seconds'] / small['seconds']:.1f} times as long as with"
            f" {small['n']:,.0f}, and {mapped['gigabytes']:.2f} GB of memory instead of"
            f" {small['gigabytes']:.2f}."
        )
    return text + (
        f"\n\n`SCNN(100).fit` of {sparse['n']:,.0f} texts with {sparse['p']:,.0f} words (CSR) takes"
        f" {sparse['seconds']:.1f} s and {sparse['gigabytes']:.2f} GB.\n\n`import lincode` takes"
        f" {cell(cached['import'], MAX_IMPORT)} s beyond scikit-learn (goal: {MAX_IMPORT}). The"
        " first `SCNN(100).fit` of the 8×8 digits takes"
        f" {cell(new['fit'], MAX_FIRST, digits=1)} s after installation, and"
        f" {cell(cached['fit'], MAX_CACHED, digits=1)} s in a new process when compiled code is in"
        f" the cache (goals: {MAX_FIRST} and {MAX_CACHED}); the second fit takes"
        f" {cached['again']:.1f} s."
    )


def measured(function: str, environment: dict[str, str] | None = None, **arguments: Any) -> Any:
    """Call a function of this module in a new process and return its result."""
    command = [sys.executable, "-W", "ignore", "-m", __name__, function, json.dumps(arguments)]
    where = Path(__file__).parents[1]
    out = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, cwd=where, env=os.environ | (environment or {})
    ).stdout
    result = json.loads(out.splitlines()[-1])
    print(f"  {function} {arguments}: {result}", flush=True)
    return result


def write_samples(folder: Path, quick: bool) -> str:
    """Write train.npy and test.npy (float32), and return what they are."""
    given = Path(os.environ.get("LINCODE_DATA", ".")) / "activations"
    files = [given / f"minilm_layer3_{part}.npy" for part in ("train", "test")]
    if files[0].exists():
        train, test = (np.load(file).astype(np.float32) for file in files)
        train, source = train[: 4000 if quick else None], "activations of MiniLM minus their mean"
    else:
        rng, n, p = np.random.default_rng(0), 4000 if quick else 60_000, 384
        X = np.maximum(rng.standard_normal((n + N_TEST, 200), np.float32) - 1, 0)
        X = X @ rng.standard_normal((200, p), np.float32)
        X += NOISE * X.std() * rng.standard_normal(X.shape, np.float32)
        train, test, source = X[:n], X[n:], "random samples of low rank"
    mean = train.mean(axis=0)
    np.save(folder / "train.npy", train - mean)
    np.save(folder / "test.npy", test - mean)
    return source


def repeat_samples(folder: Path, n: int) -> None:
    """Replace train.npy by n of its rows with noise."""
    X = np.load(folder / "train.npy")
    rng, scale = np.random.default_rng(0), NOISE * X.std(axis=0)
    stored = np.lib.format.open_memmap(
        folder / "train.npy", "w+", np.float32, shape=(n, X.shape[1])
    )
    for start in range(0, n, len(X)):
        block = X[: n - start]
        stored[start : start + len(block)] = block + scale * rng.standard_normal(
            block.shape, np.float32
        )
    stored.flush()


# What runs in a process of its own


def fit(m: int, density: int, folder: str, mapped: bool = False) -> dict[str, float]:
    """Measure one fit with the default parameters."""
    from lincode import MiniBatchSCNN

    X = np.load(f"{folder}/train.npy", mmap_mode="r" if mapped else None)
    test = np.load(f"{folder}/test.npy")
    MiniBatchSCNN(m, density=density, max_iter=1, random_state=0).fit(test)  # loads compiled code
    scnn = MiniBatchSCNN(m, density=density, random_state=0)
    seconds, gigabytes = time_and_memory(scnn, X)
    U = scnn.transform(test)
    error = np.sum((test - scnn.inverse_transform(U)) ** 2) / np.sum(test**2)
    product = median_product(np.array(X[:PRODUCT_ROWS]), m) * len(X) / min(PRODUCT_ROWS, len(X))
    return {
        "n": len(X),
        "p": X.shape[1],
        "seconds": seconds,
        "products": seconds / product,
        "gigabytes": gigabytes,
        "unexplained": float(error),
        "used": float(np.mean(np.any(U != 0, axis=0))),
        "nonzeros": float(np.mean(np.sum(U != 0, axis=1))),
    }


def one_pass(m: int, density: int, folder: str) -> dict[str, float]:
    """Measure one pass of training without refinement, from the difference of three and one."""
    from threadpoolctl import threadpool_limits

    from lincode import MiniBatchSCNN

    X = np.load(f"{folder}/train.npy")[:PASS_ROWS]
    options: dict[str, Any] = {"density": density, "refine": False, "n_jobs": 1, "random_state": 0}
    MiniBatchSCNN(m, **options, max_iter=1).fit(X[:2048])  # loads compiled code
    with threadpool_limits(1):
        product = median_product(X, m)
    once, thrice = (
        seconds_of(partial(MiniBatchSCNN(m, **options, max_iter=n).fit, X)) for n in (1, 3)
    )
    return {"products": (thrice - once) / 2 / product, "first": once / product}


def sparse_fit(n: int) -> dict[str, float]:
    """Measure one fit of sparse rows: texts as tf-idf vectors of the most frequent words."""
    from data import sparse_texts

    from lincode import SCNN

    X = sparse_texts()[0].tocsr()
    counts = np.bincount(X.indices, minlength=X.shape[1])
    X = X[:n, np.sort(np.argsort(-counts)[:N_WORDS])]
    SCNN(100, max_iter=2, random_state=0).fit(X[:300])  # loads compiled code
    seconds, gigabytes = time_and_memory(SCNN(100, random_state=0), X)
    return {"n": X.shape[0], "p": X.shape[1], "seconds": seconds, "gigabytes": gigabytes}


def first_fit() -> dict[str, float]:
    """Measure the import of lincode after scikit-learn, and the first two fits."""
    import sklearn.base
    from sklearn.datasets import load_digits

    X = load_digits().data
    assert sklearn.base
    start = time.perf_counter()
    from lincode import SCNN

    imported = time.perf_counter() - start
    first, again = (seconds_of(lambda: SCNN(100).fit(X)) for _ in "12")
    return {"import": imported, "fit": first, "again": again}


def median_product(X: Any, m: int) -> float:
    """Return the time of the product with an encoder of m units."""
    C = np.random.default_rng(0).standard_normal((m, X.shape[1]), np.float32)
    X = np.asarray(X, np.float32)
    return float(np.median([seconds_of(lambda: X @ C.T) for _ in range(7)][2:]))


def time_and_memory(scnn: Any, X: Any) -> tuple[float, float]:
    """Return the seconds of a fit and the peak memory of this process in GB."""
    finished, peak = threading.Event(), [0]

    def watch() -> None:
        while not finished.wait(0.005):
            status = Path("/proc/self/status").read_text().splitlines()
            kilobytes = next(line for line in status if line.startswith("RssAnon")).split()[1]
            peak[0] = max(peak[0], int(kilobytes))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        seconds = seconds_of(lambda: scnn.fit(X))
    finally:
        finished.set()
        watcher.join()
    return seconds, 1024 * peak[0] / 1e9


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(globals()[sys.argv[1]](**json.loads(sys.argv[2]))))
