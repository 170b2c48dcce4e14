"""Measure the reconstruction error of held-out samples against the number of non-zeros.

    python benchmarks/reconstruction.py                 all data sets, then the report
    python benchmarks/reconstruction.py --only patches  some data sets; the other records are kept
    python benchmarks/reconstruction.py --only          the report of the stored records

The records are written to ``reconstruction.json`` and the figure to
``docs/images/reconstruction.png``. The tables of ``docs/encoder.md`` are printed. Set
``OMP_NUM_THREADS=1`` for the times per sample. Every choice is made on training or validation
samples. The dictionary is trained as follows:

- encoder, OMP and ``threshold``: one network with the default alpha. The threshold, the gains and
  the decoder are adapted to each density by ``calibrate`` with the training samples.
- encoder as in the paper: one network without a ridge.
- exact codes, lasso codes and the encoders named "alpha path": one network per alpha, by
  ``scnn_path``, with the calibration that ``fit`` makes.
"""

from __future__ import annotations

import argparse
import copy
import json
import platform
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from reconstruction_data import DATA, Split
from reconstruction_report import write_report
from sklearn.decomposition import PCA, SparseCoder
from sklearn.linear_model import orthogonal_mp_gram

from lincode import SCNN, scnn_path
from lincode.metrics import rms_error

DENSITIES = (0.015, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4)
ALPHA_FACTORS = (4.0, 2.0, 1.0, 0.4, 0.15, 0.05, 0.01)
"""The values of alpha of the path, relative to the default alpha."""
PATH_TOL = 1e-3
N_TIMED = 3
FILE = Path(__file__).with_name("reconstruction.json")
KINDS: dict[str, dict[str, Any]] = {
    "encoder, soft": {"threshold_mode": "soft"},
    "encoder, hard": {"threshold_mode": "hard"},
    "encoder, top_k": {"threshold_mode": "top_k"},
    "encoder, hard, decoder": {"threshold_mode": "hard", "fit_decoder": True},
    "encoder, hard, refined": {"threshold_mode": "hard", "refine_max_iter": 50},
    "encoder, top_k, refined": {"threshold_mode": "top_k", "refine_max_iter": 50},
}
"""The kinds of the calibrated encoder and their parameters."""
PAPER: dict[str, Any] = {"threshold_mode": "soft", "fit_gains": False, "encoder_ridge": 0}


@dataclass(frozen=True)
class Point:
    """One point of a curve."""

    nonzeros: float
    """Mean number of non-zeros per test sample"""
    rms: float
    """RMS error of the test samples"""
    microseconds: float
    """Time per test sample for the codes"""
    validation_rms: float | None = None
    """RMS error of the validation samples, for the encoder only"""


def measure(
    split: Split, encode: Callable[[Any], Any], decode: Callable[[Any], Any], repeats: int = 1
) -> Point:
    """Return the point of one method. The time is the shortest of several repetitions."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        codes = encode(split.test)
        seconds.append(time.perf_counter() - start)
    return Point(
        nonzeros=float(np.count_nonzero(codes) / len(codes)),
        rms=rms_error(split.test, decode(codes)),
        microseconds=1e6 * min(seconds) / len(codes),
    )


def decoder(D: Any) -> Callable[[Any], Any]:
    """Return the function that reconstructs samples from their codes."""
    return lambda codes: codes @ D


def measure_network(split: Split, network: SCNN, algorithm: str = "encoder") -> Point:
    network = copy.copy(network).set_params(transform_algorithm=algorithm)
    if algorithm != "encoder":
        return measure(split, network.transform, network.inverse_transform)
    point = measure(split, network.transform, network.inverse_transform, N_TIMED)
    error = rms_error(split.validation, network.reconstruct(split.validation))
    return replace(point, validation_rms=error)


def encoder_curve(split: Split, network: SCNN, parameters: dict[str, Any]) -> list[Point]:
    """Return the curve of the encoder, which is calibrated for each density."""
    points = []
    for density in DENSITIES:
        k = max(1, round(density * split.n_components))
        adapted = copy.copy(network).set_params(transform_n_nonzero_coefs=k, **parameters)
        points.append(measure_network(split, adapted.calibrate(split.train, density=density)))
    return points


def least_squares_on_support(X: Any, codes: Any, D: Any) -> Any:
    """Return the codes with the same non-zeros that reconstruct X best."""
    G, DX = D @ D.T, X @ D.T
    G = G + 1e-10 * np.trace(G) / len(G) * np.eye(len(G))  # for dependent atoms
    debiased = np.zeros_like(codes)
    for row, target, out in zip(codes, DX, debiased, strict=True):
        support = np.flatnonzero(row)
        if support.size:
            A = G[np.ix_(support, support)]
            out[support] = scipy.linalg.solve(A, target[support], assume_a="pos")
    return debiased


def debiased_lasso(split: Split, network: SCNN) -> Point:
    network = copy.copy(network).set_params(transform_algorithm="lasso")
    D = network.components_.astype(np.float64)

    def encode(X: Any) -> Any:
        X = X.astype(np.float64)
        return least_squares_on_support(X, network.transform(X), D)

    return measure(split, encode, decoder(D))


def path_curves(split: Split, alpha: float) -> dict[str, list[Point]]:
    """Return the curves of the methods that need one network per alpha."""
    alphas = alpha * np.array(ALPHA_FACTORS)
    networks = scnn_path(
        split.train,
        split.n_components,
        alphas=alphas,
        tol=PATH_TOL,
        fit_decoder=True,
        random_state=0,
    )
    plain = [copy.copy(net).set_params(fit_decoder=False) for net in networks]
    return {
        "encoder, hard, alpha path": [measure_network(split, net) for net in plain],
        "encoder, hard, decoder, alpha path": [measure_network(split, net) for net in networks],
        "exact codes": [measure_network(split, net, "exact") for net in networks],
        "lasso codes": [measure_network(split, net, "lasso") for net in networks],
        "lasso codes, debiased": [debiased_lasso(split, net) for net in networks],
    }


def omp_curve(split: Split, D: Any) -> list[Point]:
    """Return the curve of orthogonal matching pursuit."""
    D = D / np.linalg.norm(D, axis=1, keepdims=True)
    G = D @ D.T

    def coder(k: int) -> Callable[[Any], Any]:
        return lambda X: orthogonal_mp_gram(G, D @ X.T, n_nonzero_coefs=k).T

    counts = [max(1, round(density * len(D))) for density in DENSITIES]
    return [measure(split, coder(k), decoder(D)) for k in counts if k <= min(D.shape)]


def threshold_curve(split: Split, D: Any) -> list[Point]:
    """Return the curve of scikit-learn's ``threshold``.

    Its codes do not have the scale of the data. They are multiplied by one factor, which is
    fitted to the training samples; without it the error exceeds that of zero codes.
    """
    outputs = np.abs(split.train @ D.T)
    points = []
    for density in DENSITIES:
        alpha = float(np.quantile(outputs, 1 - density))
        coder = SparseCoder(D, transform_algorithm="threshold", transform_alpha=alpha)
        R = coder.transform(split.train) @ D
        scaled = float(np.sum(R * split.train) / np.sum(R * R)) * D
        points.append(measure(split, coder.transform, decoder(scaled), N_TIMED))
    return points


def pca_curve(split: Split) -> list[Point]:
    """Return the curve of principal components."""
    points = []
    for density in DENSITIES:
        k = max(1, round(density * split.n_components))
        if k <= split.train.shape[1]:
            pca = PCA(k, random_state=0).fit(split.train)
            points.append(measure(split, pca.transform, pca.inverse_transform, N_TIMED))
    return points


def measure_data(split: Split) -> dict[str, Any]:
    """Return the record of one kind of data."""
    m = split.n_components
    network = SCNN(m, random_state=0).fit(split.train)
    paper = SCNN(m, random_state=0, **PAPER).fit(split.train)
    D = network.components_.astype(np.float64)
    curves = {"encoder, paper": encoder_curve(split, paper, PAPER)}
    curves |= {name: encoder_curve(split, network, kind) for name, kind in KINDS.items()}
    curves |= path_curves(split, network.alpha_)
    curves["OMP"] = omp_curve(split, D)
    curves["threshold"] = threshold_curve(split, D.astype(split.train.dtype))
    curves["PCA"] = pca_curve(split)
    at_alpha = copy.copy(paper).set_params(threshold="alpha")
    return {
        "title": split.title,
        "n_components": m,
        "n_features": split.train.shape[1],
        "n_train": len(split.train),
        "n_test": len(split.test),
        "rms_of_zero_codes": rms_error(split.test, np.zeros_like(split.test)),
        "trained_density": float(network.usage_.mean()),
        "encoder_ridge": network.encoder_ridge_,
        "paper_threshold": asdict(measure_network(split, at_alpha)),
        "curves": {name: [asdict(p) for p in points] for name, points in curves.items()},
    }


def store(name: str, record: dict[str, Any]) -> None:
    """Write the record of one kind of data and keep those of the others."""
    stored = json.loads(FILE.read_text()) if FILE.exists() else {"data": {}}
    packages = ("lincode", "numpy", "scipy", "scikit-learn")
    stored["versions"] = {"python": platform.python_version(), **{p: version(p) for p in packages}}
    stored["data"][name] = record
    FILE.write_text(json.dumps(stored, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=list(DATA), default=list(DATA))
    warnings.simplefilter("ignore")  # networks of the path with nearly empty codes; OMP
    for name in parser.parse_args().only:
        start = time.perf_counter()
        record = measure_data(DATA[name]())
        record["seconds"] = time.perf_counter() - start
        store(name, record)
        print(f"[{name}: {record['seconds']:.0f} s]", flush=True)
    write_report(json.loads(FILE.read_text()))


if __name__ == "__main__":
    main()
