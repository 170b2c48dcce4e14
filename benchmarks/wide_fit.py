"""Measure one fit on synthetic TF-IDF rows in a process of its own. Linux only.

    python benchmarks/wide_fit.py SCNN 20000 50000 200

generates 20,000 texts with 50,000 words, trains with 200 units and default parameters, and prints
the CPU seconds, the peak memory in addition to X in bytes, and the result as JSON.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.feature_extraction.text import TfidfTransformer

from lincode import SCNN, MiniBatchSCNN

N_TOPICS, MEAN_WORDS = 100, 130


def synthetic_texts(N: int, p: int, seed: int = 0) -> Any:
    """Return TF-IDF rows (float32, CSR) of texts that mix up to three topics.

    The frequencies of words follow Zipf's law. A topic makes 2 % of the words more frequent.
    """
    rng = np.random.default_rng(seed)
    zipf = 1 / np.arange(1, p + 1)
    topics = []
    for _ in range(N_TOPICS):
        rates = zipf * np.where(rng.random(p) < 0.02, 60.0, 1.0) * rng.gamma(0.7, 1, p)
        topics.append(np.cumsum(rates / rates.sum()))
    rows, columns = [], []
    for i in range(N):
        mixed = rng.choice(N_TOPICS, rng.integers(1, 4), replace=False)
        length = max(10, rng.poisson(MEAN_WORDS * rng.gamma(4, 0.25)))
        lengths = rng.multinomial(length, rng.dirichlet(np.ones(len(mixed))))
        for topic, n in zip(mixed, lengths, strict=True):
            columns.append(np.searchsorted(topics[topic], rng.random(n)).clip(0, p - 1))
            rows.append(np.full(n, i))
    place = np.concatenate(rows), np.concatenate(columns)
    counts = scipy.sparse.coo_array((np.ones(len(place[0])), place), shape=(N, p)).tocsr()
    return scipy.sparse.csr_array(
        TfidfTransformer(sublinear_tf=True).fit_transform(counts), dtype=np.float32
    )


def memory(name: str) -> int:
    """Return an entry of the status of this process in bytes: VmHWM is the peak, VmRSS present."""
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith(name)).split()[1]) * 1024


def measure_fit(estimator: str, N: int, p: int, m: int) -> dict[str, float]:
    """Train and return what was measured."""
    X = synthetic_texts(N, p)
    # Load the libraries and the compiled code before the measurement.
    SCNN(20, max_iter=2, random_state=0).fit(X[:300, :200].copy())
    scnn: Any = (SCNN if estimator == "SCNN" else MiniBatchSCNN)(m, random_state=0)
    before, start = memory("VmRSS"), time.process_time()
    scnn.fit(X)
    return {
        "cpu_seconds": time.process_time() - start,
        "bytes": memory("VmHWM") - before,
        "energy": scnn.energy_,
        "iterations": scnn.n_iter_,
        "encoder_r2": scnn.encoder_r2_,
        "encoder_residual": getattr(scnn, "optimality_", {}).get("encoder", float("nan")),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(measure_fit(sys.argv[1], *map(int, sys.argv[2:5]))))
