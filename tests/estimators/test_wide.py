"""SCNN and MiniBatchSCNN on wide data: the iterative C step gives the results of the direct one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from lincode.core.stream_gram import StreamGram
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

import lincode
from lincode import SCNN, MiniBatchSCNN
from lincode.exceptions import InvalidInputError
from lincode.rows import memory


@pytest.fixture
def iterative(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the iterative factor for data of any size."""
    monkeypatch.setattr(memory, "MAX_DIRECT_BYTES", 0)


def texts(N: int, p: int, dtype: Any = np.float64, seed: int = 0) -> Any:
    """Rows of unit length, with a few topics and word frequencies that follow Zipf's law."""
    rng = np.random.default_rng(seed)
    topics = rng.gamma(0.3, 1, (6, p)) / np.arange(1, p + 1) ** 0.5
    rates = topics[rng.integers(0, 6, N)] + topics[rng.integers(0, 6, N)]
    counts = rng.poisson(30 * rates / rates.sum(axis=1, keepdims=True))
    counts[counts.sum(axis=1) == 0, 0] = 1
    X = np.log1p(counts)
    return scipy.sparse.csr_array((X / np.linalg.norm(X, axis=1, keepdims=True)).astype(dtype))


@pytest.mark.parametrize("shape", [(300, 120), (120, 300)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("options", [{}, {"encoder_ridge": 0.0}, {"positive_code": True}])
@pytest.mark.filterwarnings("ignore:.*poor features")  # the encoder overfits without a ridge
def test_same_network_as_with_the_direct_factor(
    request: pytest.FixtureRequest, shape: tuple[int, int], dtype: Any, options: dict[str, Any]
) -> None:
    X = texts(*shape, dtype)
    direct = SCNN(10, random_state=0, **options).fit(X)
    request.getfixturevalue("iterative")
    scnn = SCNN(10, random_state=0, **options).fit(X)
    assert_allclose(scnn.energy_, direct.energy_, rtol=1e-3)
    assert scnn.encoder_ridge_ == direct.encoder_ridge_
    assert scnn.optimality_["encoder"] < 1e-3
    assert np.all(np.diff(scnn.energy_path_) <= 0)
    assert scnn.encoder_.dtype == dtype
    if "encoder_ridge" not in options:  # folds and single rows differ if there is no ridge
        assert_allclose(scnn.matching_threshold_, direct.matching_threshold_, rtol=0.1)
        assert_allclose(scnn.encoder_r2_, direct.encoder_r2_, atol=0.05)
    assert_allclose(-scnn.score(X), scnn.energy_, rtol=1e-2)


@pytest.mark.usefixtures("iterative")
def test_sparse_and_dense_rows_give_the_same_network() -> None:
    X = texts(150, 100)
    sparse, dense = (SCNN(8, random_state=0).fit(A) for A in (X, X.toarray()))
    assert_allclose(sparse.energy_, dense.energy_, rtol=1e-6)
    assert_allclose(sparse.score(X), dense.score(X.toarray()), rtol=1e-6)


@pytest.mark.usefixtures("iterative")
def test_threads_do_not_change_the_result() -> None:
    X = texts(150, 100)
    one, two = (SCNN(70, max_iter=3, tol=0.0, random_state=0, n_jobs=n) for n in (1, 2))
    for scnn in (one, two):
        with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
            scnn.fit(X)
    np.testing.assert_array_equal(one.encoder_, two.encoder_)


@pytest.mark.usefixtures("iterative")
@pytest.mark.parametrize("shape", [(1, 3), (3, 1), (2, 2), (5, 40)])
def test_tiny_data(shape: tuple[int, int]) -> None:
    X = np.random.default_rng(0).standard_normal(shape)
    scnn = SCNN(2, alpha="0.1*max", random_state=0, max_iter=50).fit(X)
    assert np.isfinite(scnn.energy_)
    assert scnn.transform(X).shape == (shape[0], 2)


@pytest.mark.usefixtures("iterative")
def test_warm_start_and_refinement() -> None:
    X = texts(200, 150)
    scnn = SCNN(8, random_state=0, refine_max_iter=3).fit(X)
    energy = scnn.energy_
    scnn.set_params(warm_start=True).fit(X)
    assert scnn.energy_ <= energy * (1 + 1e-6)


@pytest.mark.usefixtures("iterative")
def test_solver_of_the_paper_needs_the_direct_factor() -> None:
    with pytest.raises(InvalidInputError, match="use solver='auto'"):
        SCNN(4, solver="paper").fit(texts(30, 20))


# Streams


def test_stream_is_close_to_the_exact_one(request: pytest.FixtureRequest) -> None:
    X = texts(900, 150)
    options: dict[str, Any] = {"batch_size": 300, "random_state": 0, "max_no_improvement": None}
    exact = MiniBatchSCNN(10, max_iter=3, **options).fit(X)
    request.getfixturevalue("iterative")
    wide = MiniBatchSCNN(10, max_iter=3, **options).fit(X)
    gram = wide._stream.XtX
    assert isinstance(gram, StreamGram)
    assert gram.B.shape == (64, 150)
    assert_allclose(wide.energy_, exact.energy_, rtol=0.01)
    assert_allclose(wide.score(X), exact.score(X), rtol=0.01)
    # The reported energy is that of the batch itself.
    assert_allclose(wide.energy_, -wide.score(X), rtol=0.05)


@pytest.mark.parametrize("partial", [False, True])
def test_stream_without_encoder_weight(request: pytest.FixtureRequest, partial: bool) -> None:
    X = texts(900, 150)

    def trained() -> MiniBatchSCNN:
        model = MiniBatchSCNN(10, encoder_weight=0.0, random_state=0, half_life=float("inf"))
        if not partial:
            return model.fit(X)
        return model.partial_fit(X[:500]).partial_fit(X[500:])

    exact = trained()
    request.getfixturevalue("iterative")
    wide = trained()
    assert_allclose(wide.components_, exact.components_, atol=1e-9)
    assert wide.encoder_ridge_ == exact.encoder_ridge_
    outputs, expected = X @ wide.encoder_.T, X @ exact.encoder_.T
    # After fit, XᵀX is that of a sample; after partial_fit, that of earlier parts is approximate.
    error = np.linalg.norm(outputs - expected) / np.linalg.norm(expected)
    assert error < (0.2 if partial else 1e-4)


@pytest.mark.usefixtures("iterative")
def test_stream_is_saved_and_continued(tmp_path: Path) -> None:
    X = texts(400, 150, np.float32)
    model = MiniBatchSCNN(8, random_state=0).partial_fit(X[:200])
    lincode.save(model, tmp_path / "wide.skops")
    loaded = lincode.load(tmp_path / "wide.skops")
    for network in (model, loaded):
        network.partial_fit(X[200:])
    np.testing.assert_array_equal(loaded.encoder_, model.encoder_)
    assert loaded._stream.XtX.n_rows == 400
