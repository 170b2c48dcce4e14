"""SCNN and MiniBatchSCNN on wide data: the iterative C step, and streams without XᵀX."""

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from lincode import SCNN, MiniBatchSCNN
from lincode.training import rows
from tests.estimators.energies import exact_energy


@pytest.fixture
def iterative(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the iterative factor for data of any size."""
    monkeypatch.setattr(rows, "MAX_DIRECT_BYTES", 0)


def texts(N: int, p: int, dtype: Any = np.float64, seed: int = 0) -> Any:
    """Rows of unit length, with a few topics and word frequencies that follow Zipf's law."""
    rng = np.random.default_rng(seed)
    topics = rng.gamma(0.3, 1, (6, p)) / np.arange(1, p + 1) ** 0.5
    rates = topics[rng.integers(0, 6, N)] + topics[rng.integers(0, 6, N)]
    counts = rng.poisson(30 * rates / rates.sum(axis=1, keepdims=True))
    counts[counts.sum(axis=1) == 0, 0] = 1
    X = np.log1p(counts)
    return scipy.sparse.csr_array((X / np.linalg.norm(X, axis=1, keepdims=True)).astype(dtype))


@pytest.mark.parametrize(
    ("shape", "dtype", "options"),
    [
        ((300, 120), np.float64, {}),
        ((120, 300), np.float32, {}),
        ((120, 300), np.float64, {"encoder_ridge": 0.0}),
        ((300, 120), np.float64, {"positive_code": True}),
    ],
)
@pytest.mark.filterwarnings("ignore:.*poor features")  # the encoder overfits without a ridge
def test_same_network_as_with_the_direct_factor(
    request: pytest.FixtureRequest, shape: tuple[int, int], dtype: Any, options: dict[str, Any]
) -> None:
    X = texts(*shape, dtype)
    direct, calibrated = (
        SCNN(10, random_state=0, refine=False, transform_algorithm=algorithm, **options).fit(X)
        for algorithm in ("exact", "encoder")
    )
    request.getfixturevalue("iterative")
    scnn, again = clone(direct).fit(X), clone(calibrated).fit(X)
    assert_allclose(scnn.energy_, direct.energy_, rtol=1e-3)
    assert scnn.encoder_ridge_ == direct.encoder_ridge_
    assert scnn.optimality_["encoder"] < 1e-3
    assert np.all(np.diff(scnn.energy_path_) <= 0)
    assert scnn.encoder_.dtype == dtype
    if "encoder_ridge" not in options:  # folds and single rows differ if there is no ridge
        assert calibrated.threshold_ is not None
        assert_allclose(again.threshold_, calibrated.threshold_, rtol=0.1)
        assert_allclose(again.encoder_r2_, calibrated.encoder_r2_, atol=0.05)
    assert_allclose(exact_energy(scnn, X), scnn.energy_, rtol=1e-2)


@pytest.mark.usefixtures("iterative")
def test_sparse_dense_and_threads_give_the_same_network() -> None:
    X = texts(150, 100)
    sparse, two, dense = (
        SCNN(70, tol=1e-2, random_state=0, n_jobs=n, refine=False).fit(A)
        for A, n in ((X, 1), (X, 2), (X.toarray(), 1))
    )
    assert_array_equal(sparse.encoder_, two.encoder_)
    assert_allclose(sparse.energy_, dense.energy_, rtol=1e-6)
    assert_allclose(sparse.score(X), dense.score(X.toarray()), rtol=1e-6)


def test_small_decrease_of_the_energy_does_not_stop_the_training_on_sparse_rows() -> None:
    """Most of the energy is out of the reach of any code, so its decrease is always small."""
    X = texts(300, 600)
    scnn = SCNN(32, alpha=0.9 * SCNN(32).alpha_max(X), encoder_ridge=0.1, random_state=0)
    path = scnn.set_params(refine=False, transform_algorithm="exact").fit(X).energy_path_
    assert path[0] - path[1] < scnn.tol * path[0]
    assert scnn.n_iter_ > 4
    assert path[0] - path[-1] > 2 * (path[0] - path[1])


# Streams


@pytest.mark.usefixtures("iterative")
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_wide_stream_is_plain_dictionary_learning_with_an_encoder_for_its_codes(
    method: str,
) -> None:
    X = texts(600, 150)
    exact: Any = {"refine": False, "transform_algorithm": "exact", "encoder_ridge": 0.3}
    scnn = MiniBatchSCNN(10, batch_size=150, random_state=0, **exact)
    plain = MiniBatchSCNN(10, batch_size=150, random_state=0, encoder_weight=0, **exact)
    for network in (scnn, plain):
        if method == "fit":
            network.fit(X)
        else:
            network.partial_fit(X[:300]).partial_fit(X[300:])
    assert_array_equal(scnn.components_, plain.components_)
    U = scnn.set_params(transform_algorithm="lasso").transform(X)
    A = X.toarray()
    XtX = A.T @ A
    ridge = 0.3 * np.trace(XtX) / np.linalg.matrix_rank(XtX)
    C = np.linalg.solve(XtX + ridge * np.eye(150), A.T @ U).T
    # After ``partial_fit`` the dictionary is not converged: its last step comes after the codes.
    tol = 0.01 if method == "fit" else 0.15
    assert np.linalg.norm(X @ (scnn.encoder_ - C).T) < tol * np.linalg.norm(X @ C.T)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*poor features")  # there are few rows
def test_pickled_wide_stream_continues_identically() -> None:
    """With this number of features, XᵀX is too large."""
    X = texts(60, 9_500, np.float32)
    scnn = MiniBatchSCNN(4, random_state=0).partial_fit(X[:40])
    restored = pickle.loads(pickle.dumps(scnn))
    for network in (scnn, restored):
        network.partial_fit(X[40:])
    assert scnn.n_samples_seen_ == 60
    for name in ("components_", "encoder_", "threshold_"):
        assert_array_equal(getattr(restored, name), getattr(scnn, name))
