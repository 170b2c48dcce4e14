"""Compare transform with the ONNX model of the same encoder, run by onnxruntime, in one thread.

    python benchmarks/onnx_codes.py            needs lincode[onnx] and onnxruntime

Both compute the codes of the same samples in turn. The CPU time of each is measured, because it
hardly depends on the load of the machine, and the shortest of several calls is used.
"""

from __future__ import annotations

import argparse
import time
import warnings
from copy import deepcopy
from typing import Any

import numpy as np
import onnxruntime
from sections.transform_output import best_of_pairs
from threadpoolctl import threadpool_limits

import lincode

SHAPES: tuple[tuple[int, int, int, Any], ...] = (
    (20_000, 784, 400, np.float32),
    (20_000, 784, 400, np.float64),
    (50_000, 64, 128, np.float32),
    (100, 784, 400, np.float32),
    (1, 784, 400, np.float32),
)
"""The numbers of samples, features and units, and the dtype"""
OUTPUTS: dict[str, dict[str, Any]] = {
    "hard": {},
    "top 32": {"density": 32},
    "split": {"split_sign": True},
}


def session_of(network: Any, X: Any) -> Any:
    """Return a session of onnxruntime that uses one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    model = lincode.to_onnx(network, X).SerializeToString()
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def measure(n_samples: int, p: int, m: int, dtype: Any, repeats: int) -> list[str]:
    """Return one row of the table for each kind of codes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, p), dtype=dtype)
    sample = rng.standard_normal((2 * m, p), dtype=dtype)
    fitted = lincode.SCNN(m, refine=False, max_iter=1, random_state=0, n_jobs=1).fit(sample)
    cells = []
    for parameters in OUTPUTS.values():
        network = deepcopy(fitted).set_params(**parameters)
        network.calibrate(sample)
        session = session_of(network, X)

        def transform(network: Any = network) -> Any:
            return network.transform(X)

        def run(session: Any = session) -> Any:
            return session.run(None, {"X": X})

        ours, theirs = best_of_pairs(transform, run, repeats, time.process_time)
        cells.append(f"{theirs / ours:.2f} ({1e6 * ours / n_samples:.1f} µs)")
    return [f"{n_samples:,}×{p}, m={m}, {np.dtype(dtype).name}", *cells]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=15)
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # the networks are not trained to convergence
    print("| samples | " + " | ".join(OUTPUTS) + " |")
    print("| --- |" + " ---: |" * len(OUTPUTS))
    with threadpool_limits(1, user_api="blas"):
        for n_samples, p, m, dtype in SHAPES:
            repeats = args.repeats if n_samples > 1000 else 100 * args.repeats
            print("| " + " | ".join(measure(n_samples, p, m, dtype, repeats)) + " |", flush=True)


if __name__ == "__main__":
    main()
