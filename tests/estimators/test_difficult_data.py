"""Fits on data whose XᵀX is ill-conditioned or has repeated eigenvalues."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse

from lincode import SCNN

# SCNN reports that some features are tiny, or that no encoder can predict such codes.
pytestmark = pytest.mark.filterwarnings(
    "ignore:SCNN. some features of X are so small",
    "ignore:SCNN. max_iter was reached",
    "ignore:SCNN. the encoder's codes",
)


def check_fit(X: Any, **parameters: Any) -> None:
    """Fit and check the energy, the constraints and the least-squares encoder."""
    network = SCNN(**{"n_components": 6, "random_state": 0, "max_iter": 60, **parameters}).fit(X)
    assert (np.diff(network.energy_path_) <= 0).all()
    assert network.energy_ < network.energy_path_[0]
    assert (np.linalg.norm(network.components_, axis=1) <= 1 + 1e-9).all()
    for value in (network.components_, network.encoder_, network.transform(X), network.score(X)):
        assert np.isfinite(value).all()
    assert network.optimality_["dictionary"] <= 1e-3


@pytest.mark.parametrize("scale", [1e6, 1e5])
@pytest.mark.parametrize("alpha", ["0.05*mean", "1e-7*max", 0.01])
@pytest.mark.parametrize("seed", range(4))
def test_fit_with_one_row_much_longer_than_the_others(scale: float, alpha: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12, 40))
    X[3] *= scale
    check_fit(X, alpha=alpha)


@pytest.mark.parametrize("alpha", ["0.05*mean", 1e-4, 1e-3])
@pytest.mark.parametrize("seed", range(4))
def test_fit_with_nearly_constant_wide_data(alpha: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    check_fit(1 + 1e-4 * rng.standard_normal((12, 40)), alpha=alpha)


@pytest.mark.parametrize("seed", range(30))
def test_fit_with_one_hot_rows(seed: int) -> None:
    """D Dᵀ has repeated eigenvalues, because the atoms are columns of the identity."""
    rng = np.random.default_rng(seed)
    N, p = int(rng.integers(2, 80)), int(rng.integers(2, 60))
    X = np.eye(p)[rng.integers(0, p, N)]
    m = int(rng.integers(1, 40))
    check_one_hot = SCNN(m, "0.1*max", random_state=seed, max_iter=30)
    for given in (X, scipy.sparse.csr_matrix(X)):
        network = check_one_hot.fit(given)
        assert (np.diff(network.energy_path_) <= 0).all()
        assert np.isfinite(network.transform(given)).all()
