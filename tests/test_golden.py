"""Numbers of the public API on small data, which a change of the structure must not change.

``python -m tests.test_golden`` writes the present numbers to ``golden.json``.
"""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits

from lincode import SCNN, MiniBatchSCNN, sparse_encode

FILE = Path(__file__).with_name("golden.json")


def digits(n: int = 600) -> Any:
    return load_digits().data[:n] / 16


def sparse_counts() -> Any:
    rng = np.random.RandomState(3)
    return rng.poisson(0.05 * rng.gamma(1, 1, (1, 300)), (400, 300)).astype(float)


def with_missing(X: Any) -> Any:
    return np.where(np.random.RandomState(1).rand(*X.shape) < 0.2, np.nan, X)


def trained(X: Any, n_components: int, cls: Any = SCNN, **parameters: Any) -> dict[str, float]:
    """Return numbers of the network that minimises the energy, and of codes that are solved."""
    parameters |= {"refine": False, "transform_algorithm": "exact", "random_state": 0}
    network = cls(n_components, **parameters).fit(X)
    return {
        "energy": float(network.energy_),
        **weights(network),
        "ridge": float(network.encoder_ridge_),
        **{name: codes(network, X, name) for name in ("exact", "lasso", "paper")},
    }


def calibrated(X: Any, n_components: int, cls: Any = SCNN, **parameters: Any) -> dict[str, float]:
    """Return numbers of a network whose codes are those of the encoder, refined or not."""
    network = cls(n_components, random_state=0, **parameters).fit(X)
    return {
        **weights(network),
        "nonzeros": float(np.count_nonzero(network.transform(X))),
        "score": float(network.score(X)),
        "held-out score": float(network.encoder_r2_),
        **{name: codes(network, X, name) for name in ("encoder", "projection", "omp")},
    }


def weights(network: Any) -> dict[str, float]:
    """Return numbers that depend on all entries of the dictionary and of the encoder."""
    rng = np.random.RandomState(0)
    m, p = network.components_.shape
    left, right = rng.rand(m), rng.rand(p)
    C = float(left @ network.encoder_ @ right)
    return {"dictionary": float(left @ network.components_ @ right), "filters": C}


def codes(network: Any, X: Any, algorithm: str) -> float:
    """Return the sum of the absolute codes."""
    network.set_params(transform_algorithm=algorithm)
    return float(np.abs(network.transform(X)).sum())


def encode(**parameters: Any) -> dict[str, float]:
    rng = np.random.RandomState(5)
    D = rng.standard_normal((60, 20))
    X = rng.standard_normal((100, 8)) @ rng.standard_normal((8, 20))
    codes = sparse_encode(X, D, **parameters)
    return {"codes": float(np.abs(codes) @ rng.rand(60) @ rng.rand(100))}


CASES: dict[str, Callable[[], dict[str, float]]] = {
    "trained": lambda: trained(digits(), 32),
    "float32": lambda: trained(digits().astype(np.float32), 32),
    "csr": lambda: trained(csr_matrix(sparse_counts()), 20),
    "N < p": lambda: trained(sparse_counts()[:100], 20),
    "more units than features": lambda: trained(digits(), 100, alpha=0.302947609044797),
    "missing": lambda: trained(with_missing(digits(300)), 16),
    "positive": lambda: trained(digits(), 32, positive_code=True, positive_dict=True),
    "without encoder": lambda: trained(digits(), 32, encoder_weight=0),
    "stages": lambda: trained(np.tile(digits(1500), (8, 1)), 16),
    "wide": lambda: trained(csr_matrix(np.tile(sparse_counts(), (1, 40))), 8, max_iter=2),
    "batches": lambda: trained(digits(1500), 32, MiniBatchSCNN, batch_size=300),
    "batches without encoder": lambda: trained(digits(), 32, MiniBatchSCNN, encoder_weight=0),
    "calibrated": lambda: calibrated(digits(), 32, refine=False),
    "calibrated, top k": lambda: calibrated(digits(), 32, refine=False, density=4),
    "SCNN": lambda: calibrated(digits(), 32),
    "MiniBatchSCNN": lambda: calibrated(digits(1500), 32, MiniBatchSCNN),
    "lasso": lambda: encode(alpha=0.5),
    "lasso, positive": lambda: encode(alpha=0.5, positive=True),
    "omp": lambda: encode(algorithm="omp", n_nonzero_coefs=5),
    "ols": lambda: encode(algorithm="ols", n_nonzero_coefs=5),
    "threshold": lambda: encode(algorithm="threshold", alpha=0.5),
}


TOLERANCES = {"missing": 1e-5} | dict.fromkeys(("float32", "wide", "SCNN", "MiniBatchSCNN"), 1e-3)
"""Conjugate gradients stop at a tolerance, and float32 rounds, also in refinement."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_numbers_are_unchanged(name: str) -> None:
    expected = json.loads(FILE.read_text())[name]
    assert CASES[name]() == pytest.approx(expected, rel=TOLERANCES.get(name, 1e-7))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    numbers = {name: case() for name, case in CASES.items()}
    FILE.write_text(json.dumps(numbers, indent=1, ensure_ascii=False) + "\n")
