"""Weights of samples: a weight counts as repetitions of a sample."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import sklearn
from lincode.core.calibration import matching_threshold
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lincode import SCNN, SCNNCV, MiniBatchSCNN, scnn_path
from lincode.exceptions import InvalidInputError

pytestmark = pytest.mark.filterwarnings("ignore:(MiniBatch)?SCNN. max_iter")
NAMES = (
    "energy_",
    "alpha_",
    "usage_",
    "components_",
    "encoder_",
    "encoder_ridge_",
    "noise_variance_",
    "matching_threshold_",
    "gains_",
    "encoder_r2_",
)


def data(digits: Any) -> tuple[Any, Any]:
    """Return samples and the number of times that each counts, 0 to 3."""
    return digits[:240], np.random.default_rng(0).integers(0, 4, 240)


def holes(X: Any) -> Any:
    return np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)


@pytest.mark.parametrize("kind", ["dense", "sparse", "float32", "holes", "wide"])
def test_weights_are_repetitions(digits: Any, kind: str) -> None:
    X, counts = data(digits)
    if kind == "wide":
        X, counts = X[:25], counts[:25]
    X = {"float32": lambda: X.astype(np.float32), "holes": lambda: holes(X)}.get(kind, lambda: X)()
    repeated = np.repeat(X, counts, axis=0)
    if kind == "sparse":
        X, repeated = scipy.sparse.csr_matrix(X), scipy.sparse.csr_matrix(repeated)
    parameters: dict[str, Any] = {"init": digits[:12], "tol": 1e-6, "max_iter": 20}
    weighted = SCNN(12, **parameters).fit(X, sample_weight=counts)
    expected = SCNN(12, **parameters).fit(repeated)
    rtol = 1e-2 if kind == "float32" else 1e-4
    for name in NAMES:
        value = getattr(expected, name)
        scale = np.abs(value).max()
        assert_allclose(getattr(weighted, name) / scale, value / scale, atol=rtol, err_msg=name)


def test_batches_with_weights_are_batches_with_repetitions(digits: Any) -> None:
    X, counts = data(digits)
    weighted, expected = (MiniBatchSCNN(12, init=digits[:12]) for _ in range(2))
    for rows in (slice(120), slice(120, 240)):
        weighted.partial_fit(X[rows], sample_weight=counts[rows])
        expected.partial_fit(np.repeat(X[rows], counts[rows], axis=0))
    for name in NAMES:
        value = getattr(expected, name)
        scale = np.abs(value).max()
        assert_allclose(getattr(weighted, name) / scale, value / scale, atol=1e-4, err_msg=name)
    fit = MiniBatchSCNN(12, init=digits[:12], batch_size=1000, max_iter=1)
    repeated = np.repeat(X, counts, axis=0)
    assert_allclose(
        fit.fit(X, sample_weight=2 * counts).components_,
        fit.fit(repeated, sample_weight=np.full(len(repeated), 2.0)).components_,
        atol=1e-4,
    )


def test_equal_weights_change_nothing_but_the_size(digits: Any) -> None:
    """The scale of the weights matters only for what depends on the number of samples."""
    X, _ = data(digits)
    parameters: dict[str, Any] = {"init": digits[:12], "encoder_ridge": 0.1, "max_iter": 10}
    plain = SCNN(12, **parameters).fit(X)
    ones = SCNN(12, **parameters).fit(X, sample_weight=1)
    many = SCNN(12, **parameters).fit(X, sample_weight=np.full(len(X), 1e3))
    for scnn in (ones, many):
        assert_allclose(scnn.components_, plain.components_, atol=1e-8)
        assert_allclose(scnn.encoder_, plain.encoder_, atol=1e-8)
        assert_allclose(scnn.energy_, plain.energy_)
    assert_allclose(ones.matching_threshold_, plain.matching_threshold_)
    assert_allclose(ones.gains_, plain.gains_)


def test_fractional_weights_are_finite(digits: Any) -> None:
    X, _ = data(digits)
    weights = np.random.default_rng(0).random(len(X)) * 1e-3
    scnn = SCNN(80, random_state=0, max_iter=10).fit(X, sample_weight=weights)
    assert all(np.isfinite(getattr(scnn, name)).all() for name in NAMES)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("density", [0.0, 0.1, 0.5, 0.77, 1.0])
def test_weighted_threshold_is_that_of_repeated_rows(positive: bool, density: float) -> None:
    rng = np.random.default_rng(0)
    Z, counts = rng.standard_normal((9, 4)).round(1), rng.integers(1, 4, 9)
    total = counts.sum() * 4
    density = round(density * total) / total
    expected = matching_threshold(np.repeat(Z, counts, axis=0), density, positive=positive)
    weights = counts.astype(float)
    assert matching_threshold(Z, density, positive=positive, weights=weights) == expected


@pytest.mark.parametrize("cls", [SCNN, MiniBatchSCNN])
@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.ones(3), "shape"),
        (np.ones((50, 1)), "1D array"),
        (-np.ones(50), "not negative"),
        (np.full(50, np.nan), "finite"),
        (np.r_[np.inf, np.ones(49)], "finite"),
        (np.zeros(50), "all are zero"),
        (["a"] * 50, "one number per sample"),
    ],
)
def test_bad_weights(digits: Any, cls: Any, weights: Any, words: str) -> None:
    scnn = cls(4, random_state=0, max_iter=2).fit(digits[:50])
    before = scnn.components_
    with pytest.raises(InvalidInputError, match=words):
        scnn.fit(digits[:50], sample_weight=weights)
    assert scnn.components_ is before


def test_weights_are_refused_where_they_are_not_used(digits: Any) -> None:
    weights = np.full(50, 2.0)
    with pytest.raises(InvalidInputError, match="solver='auto'"):
        SCNN(4, solver="paper", max_iter=2).fit(digits[:50], sample_weight=weights)
    for cls in (SCNN, MiniBatchSCNN):
        with pytest.raises(InvalidInputError, match="refine_max_iter=0"):
            cls(4, refine_max_iter=2).fit(digits[:50], sample_weight=weights)


def test_path_and_cross_validation_use_weights(digits: Any) -> None:
    X, counts = data(digits)
    parameters: dict[str, Any] = {"alphas": [0.2], "init": digits[:8], "max_iter": 10}
    (weighted,) = scnn_path(X, 8, sample_weight=counts, **parameters)
    (expected,) = scnn_path(np.repeat(X, counts, axis=0), 8, **parameters)
    assert_allclose(weighted.components_, expected.components_, atol=1e-5)
    search = SCNNCV(SCNN(8, init=digits[:8], tol=1e-2), alphas=[0.2], cv=2, target_sparsity=0.5)
    with pytest.warns(UserWarning, match="no alpha gives codes"):
        search.fit(X, sample_weight=counts)
    final = SCNN(8, 0.2, init=digits[:8], tol=1e-2).fit(X, sample_weight=counts)
    assert_array_equal(search.components_, final.components_)


def test_metadata_routing_in_a_pipeline(digits: Any) -> None:
    X, counts = data(digits)
    with sklearn.config_context(enable_metadata_routing=True):
        scnn = SCNN(8, init=digits[:8], max_iter=5).set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, scnn).fit(X, sample_weight=counts)
    expected = SCNN(8, init=digits[:8], max_iter=5).fit(
        StandardScaler().fit_transform(X), sample_weight=counts
    )
    assert_array_equal(pipeline[-1].components_, expected.components_)


def test_weights_of_samples_that_are_not_in_memory_are_refused(
    digits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lincode.estimators.minibatch.is_lazy", lambda X: True)
    with pytest.raises(InvalidInputError, match="partial_fit with the weights of each batch"):
        MiniBatchSCNN(4).fit(digits[:50], sample_weight=np.ones(50))
