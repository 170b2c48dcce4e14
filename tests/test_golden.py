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


def summary(network: Any, X: Any) -> dict[str, float]:
    """Return numbers that depend on all entries of the fitted arrays and of the codes."""
    codes = np.asarray(network.transform(X), dtype=float)
    rng = np.random.RandomState(0)
    m, p = network.components_.shape
    left, right = rng.rand(m), rng.rand(p)
    return {
        "energy": float(network.energy_),
        "dictionary": float(left @ network.components_ @ right),
        "encoder": float(left @ network.encoder_ @ right),
        "ridge": float(network.encoder_ridge_),
        "codes": float(np.abs(codes) @ left @ rng.rand(len(codes))),
        "nonzeros": float(np.count_nonzero(codes)),
        "error": float(np.linalg.norm(np.nan_to_num(X) - network.inverse_transform(codes))),
        "lasso": float(np.abs(network.set_params(transform_algorithm="lasso").transform(X)).sum()),
        "exact": float(np.abs(network.set_params(transform_algorithm="exact").transform(X)).sum()),
    }


def fit(X: Any, *args: Any, cls: Any = SCNN, **parameters: Any) -> dict[str, float]:
    dense = X.toarray() if hasattr(X, "toarray") else X
    return summary(cls(*args, random_state=0, **parameters).fit(X), dense)


def encode(**parameters: Any) -> dict[str, float]:
    rng = np.random.RandomState(5)
    D = rng.standard_normal((60, 20))
    X = rng.standard_normal((100, 8)) @ rng.standard_normal((8, 20))
    codes = sparse_encode(X, D, **parameters)
    return {"codes": float(np.abs(codes) @ rng.rand(60) @ rng.rand(100))}


CASES: dict[str, Callable[[], dict[str, float]]] = {
    "default": lambda: fit(digits(), 32),
    "float32": lambda: fit(digits().astype(np.float32), 32),
    "csr": lambda: fit(csr_matrix(sparse_counts()), 20),
    "N < p": lambda: fit(sparse_counts()[:100], 20),
    "more units than features": lambda: fit(digits(), 100, alpha="0.5*mean"),
    "missing": lambda: fit(with_missing(digits(300)), 16),
    "positive": lambda: fit(digits(), 32, positive_code=True, positive_dict=True),
    "without encoder": lambda: fit(digits(), 32, encoder_weight=0),
    "stages": lambda: fit(np.tile(digits(1500), (8, 1)), 16),
    "wide": lambda: fit(csr_matrix(np.tile(sparse_counts(), (1, 40))[:, :12_000]), 8),
    "top k, calibrated": lambda: fit(digits(), 32, threshold_mode="top_k"),
    "refined": lambda: fit(digits(), 32, refine_max_iter=5),
    "batches": lambda: fit(digits(1500), 32, cls=MiniBatchSCNN, batch_size=300),
    "batches without encoder": lambda: fit(digits(), 32, cls=MiniBatchSCNN, encoder_weight=0),
    "lasso": lambda: encode(alpha=0.5),
    "lasso, positive": lambda: encode(alpha=0.5, positive=True),
    "omp": lambda: encode(algorithm="omp", n_nonzero_coefs=5),
    "ols": lambda: encode(algorithm="ols", n_nonzero_coefs=5),
    "threshold": lambda: encode(algorithm="threshold", alpha=0.5),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_numbers_are_unchanged(name: str) -> None:
    expected = json.loads(FILE.read_text())[name]
    # Conjugate gradients stop at a tolerance, and float32 rounds.
    rtol = 1e-3 if name in ("float32", "wide", "refined") else 1e-7
    assert CASES[name]() == pytest.approx(expected, rel=rtol)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    numbers = {name: case() for name, case in CASES.items()}
    FILE.write_text(json.dumps(numbers, indent=1, ensure_ascii=False) + "\n")
