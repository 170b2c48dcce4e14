"""What holds for networks with a density and for their codes, whatever the data are."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import lincode
from lincode import SCNN, MiniBatchSCNN


def planted(n: int, p: int = 24, seed: int = 1) -> Any:
    """Sums of few of 16 atoms, with noise."""
    D = np.random.default_rng(0).standard_normal((16, p))
    rng = np.random.default_rng(seed)
    U = rng.standard_normal((n, 16)) * (rng.random((n, 16)) < 0.2)
    return U @ D + 0.2 * rng.standard_normal((n, p))


def empty_rows(n: int, seed: int) -> Any:
    return planted(n, seed=seed) * (np.random.default_rng(seed).random((n, 1)) < 0.7)


KINDS: dict[str, Callable[[int, int], Any]] = {
    "duplicated rows": lambda n, seed: np.repeat(planted(-(-n // 4), seed=seed), 4, axis=0)[:n],
    "constant columns": lambda n, seed: planted(n, seed=seed) * (np.arange(24) > 4) + np.eye(24)[3],
    "one-hot": lambda n, seed: np.eye(24)[np.random.default_rng(seed).integers(0, 24, n)],
    "empty rows": empty_rows,
    "N < p": lambda n, seed: planted(min(n, 100), 150, seed),
    "m > N": lambda n, seed: planted(min(n, 70), seed=seed),
}
CASES = [
    pytest.param(cls, kind, density, id=f"{cls.__name__}-{kind}-{density}")
    for cls, density in ((SCNN, 0.2), (SCNN, 3), (MiniBatchSCNN, 0.2))
    for kind in KINDS
]


@cache
def fitted(cls: Any, kind: str, density: float) -> Any:
    """Return a network; its ``transform_algorithm`` may be changed."""
    m = 80 if kind == "m > N" else 24
    return cls(m, density=density, random_state=0, n_jobs=1).fit(KINDS[kind](600, 1))


@pytest.mark.filterwarnings("ignore:.*poor features")
@pytest.mark.parametrize(("cls", "kind", "density"), CASES)
def test_network_and_density(cls: Any, kind: str, density: float) -> None:
    network, new = fitted(cls, kind, density), KINDS[kind](600, 2)
    codes = network.set_params(transform_algorithm="encoder").transform(new)
    for array in (network.components_, network.encoder_, codes, network.encoder_r2_):
        assert np.isfinite(array).all()
    assert (np.linalg.norm(network.components_, axis=1) <= 1 + 1e-5).all()
    counts = np.count_nonzero(codes, axis=1)
    if isinstance(density, int):
        assert (counts <= density).all()
        assert kind == "one-hot" or (counts[new.any(axis=1)] == density).all()
    elif kind != "one-hot":  # all samples of one kind have the same outputs
        assert_allclose(
            counts.mean() / codes.shape[1], density, rtol=0.4 if kind == "m > N" else 0.2
        )
    assert network.score(new) > (0.9 if kind == "one-hot" else 0.3)
    # Least squares on the same non-zeros reconstructs no sample worse.
    projected = network.set_params(transform_algorithm="projection").transform(new)
    errors = [np.linalg.norm(new - U @ network.components_, axis=1) for U in (projected, codes)]
    assert (errors[0] <= errors[1] + 1e-6).all()
    assert not projected[codes == 0].any()


@pytest.mark.filterwarnings("ignore:.*poor features")
@pytest.mark.parametrize("algorithm", ["encoder", "projection", "export"])
@pytest.mark.parametrize(("cls", "kind", "density"), CASES[:12])
def test_codes(cls: Any, kind: str, density: float, algorithm: str, tmp_path: Path) -> None:
    """Every row has a code of its own, which has its sign and, for an int density, its scale."""
    X, network = KINDS[kind](60, 3), fitted(cls, kind, density)
    split = algorithm == "export" and isinstance(density, float)  # as the format needs it
    network = copy.copy(network).set_params(split_sign=split)
    network.set_params(transform_algorithm="projection" if algorithm == "projection" else "encoder")
    if algorithm == "export":
        pytest.importorskip("safetensors")
        lincode.export_sae(network, tmp_path)
        expected, network = network.transform(X), lincode.load_sae(tmp_path)
        assert_allclose(network.transform(X), expected, atol=1e-4)
    U, order = network.transform(X), np.random.default_rng(0).permutation(len(X))
    for other, expected in (
        (X[order], U[order]),
        (np.vstack([X, X, 0 * X]), np.vstack([U, U, 0 * U])),
        (-X, np.roll(U, U.shape[1] // 2, axis=1) if split else -U),
        (4 * X, 4 * U if isinstance(density, int) else network.transform(4 * X)),
        (X if kind == "m > N" else X.astype(np.float32), U),  # least squares may be ill-posed
    ):
        assert_allclose(network.transform(other), expected, atol=1e-4)
    many = np.tile(X, (70, 1))
    assert_array_equal(
        network.set_params(n_jobs=3).transform(many), network.set_params(n_jobs=1).transform(many)
    )


@pytest.mark.parametrize("cls", [SCNN, MiniBatchSCNN])
@pytest.mark.parametrize("density", [0.2, 3])
def test_training(cls: Any, density: float) -> None:
    """The unit and the precision do not matter; other orders give networks that are as good."""
    X, new = planted(800), planted(600, seed=2)
    one = cls(16, density=density, random_state=0).fit(X)
    two = cls(16, density=density, random_state=0, n_jobs=2).fit(2.0**20 * X)
    for name in ("components_", "encoder_", "usage_", "encoder_r2_"):
        assert_array_equal(getattr(two, name), getattr(one, name))
    assert_array_equal(two.transform(2.0**20 * new), 2.0**20 * one.transform(new))
    order = np.random.default_rng(0).permutation(len(X))
    zeros = np.zeros((800, 3))
    for other in (X.astype(np.float32), X[order], np.vstack([X, X]), np.hstack([X, zeros])):
        two = cls(16, density=density, random_state=0).fit(other)
        rows = np.hstack([new, np.zeros((600, other.shape[1] - 24))])
        assert_allclose(two.score(rows), one.score(new), atol=0.03)
