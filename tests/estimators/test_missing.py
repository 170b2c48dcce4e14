"""Missing entries in fit, partial_fit, transform, reconstruct, score and calibrate."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import Lasso, orthogonal_mp

from lincode import SCNN, MiniBatchSCNN, SparseCoder, sparse_encode
from lincode.exceptions import InvalidInputError

ALGORITHMS = ["encoder", "projection", "exact", "lasso", "omp"]

pytestmark = pytest.mark.filterwarnings("ignore:(MiniBatch)?SCNN. max_iter")


def with_holes(X: Any, fraction: float = 0.3, seed: int = 0) -> tuple[Any, Any]:
    """Return X with NaN at random entries, but not in all entries of a row, and where they are."""
    missing = np.random.default_rng(seed).random(X.shape) < fraction
    missing[missing.all(axis=1), 0] = False
    return np.where(missing, np.asarray(np.nan, X.dtype), X), missing


def rms(a: Any, b: Any, where: Any) -> float:
    return float(np.sqrt(np.mean((a - b)[where] ** 2)))


@pytest.fixture(scope="module")
def trained(digits: Any) -> Any:
    return SCNN(24, random_state=0, max_iter=30, refine=False).fit(digits[:400])


@pytest.fixture
def fitted(trained: SCNN) -> Any:
    """A copy that a test may change."""
    scnn = clone(trained)
    vars(scnn).update({name: value for name, value in vars(trained).items() if name[-1] == "_"})
    return scnn


# Training


@pytest.mark.parametrize("cls", [SCNN, MiniBatchSCNN])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_missing_entries_are_predicted_better_than_by_means(
    digits: Any, cls: Any, dtype: Any
) -> None:
    train, test = digits[:450].astype(dtype), digits[450:].astype(dtype)
    X, _ = with_holes(train)
    holes, missing = with_holes(test, seed=1)
    scnn = cls(32, random_state=0, density=0.2).fit(X)
    by_means = rms(np.broadcast_to(np.nanmean(X, axis=0), test.shape), test, missing)
    # With eight seeds, "lasso" has 0.86 to 0.93 of the error of means.
    for algorithm, limit in (("encoder", 0.85), ("projection", 0.8), ("lasso", 0.95)):
        reconstructed = scnn.set_params(transform_algorithm=algorithm).reconstruct(holes)
        assert reconstructed.dtype == dtype
        assert rms(reconstructed, test, missing) < limit * by_means


def test_planted_dictionary_is_recovered_with_a_third_of_the_entries_missing() -> None:
    rng = np.random.default_rng(0)
    m, p, n = 12, 24, 3000
    D = rng.standard_normal((m, p))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    U = rng.standard_normal((n, m)) * (rng.random((n, m)) < 0.15)
    X, missing = with_holes(U @ D, 0.3)
    alpha = 0.02 * SCNN(m).alpha_max(X)
    scnn = SCNN(m, alpha=alpha, random_state=0, tol=1e-5, max_iter=200, refine=False)
    scnn.set_params(transform_algorithm="exact").fit(X)
    cosines = np.abs(scnn.components_ @ D.T) / np.linalg.norm(scnn.components_, axis=1)[:, None]
    assert (cosines.max(axis=0) > 0.95).sum() >= m - 1
    filled = scnn.set_params(transform_algorithm="lasso").reconstruct(X[:300])
    assert rms(filled, (U @ D)[:300], missing[:300]) < 0.3 * np.sqrt(np.mean((U @ D) ** 2))


@pytest.mark.parametrize("method", [SCNN.fit, MiniBatchSCNN.fit, MiniBatchSCNN.partial_fit])
def test_nearly_complete_data_give_nearly_the_same_network(digits: Any, method: Any) -> None:
    cls: Any = SCNN if method is SCNN.fit else MiniBatchSCNN
    parameters = {"dict_init": digits[:16], "alpha": 0.1, "encoder_ridge": 0.1, "refine": False}
    parameters |= {"random_state": 0, "transform_algorithm": "exact"}
    complete = method(cls(16, **parameters), digits[:300])
    X = digits[:300].copy()
    X[7, 30] = np.nan
    scnn = method(cls(16, **parameters), X)
    assert_allclose(scnn.components_, complete.components_, atol=5e-3)
    assert_allclose(scnn.energy_, complete.energy_, rtol=1e-2)


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_streams_of_complete_and_incomplete_batches(digits: Any, weight: float) -> None:
    X, missing = with_holes(digits)
    scnn = MiniBatchSCNN(24, encoder_weight=weight, random_state=0)
    for batch in (X[:200], digits[200:400], X[400:]):
        scnn.partial_fit(batch)
    assert scnn.n_samples_seen_ == len(X)
    scnn.calibrate(X, density=0.3)
    assert 0.25 < np.mean(scnn.transform(X) != 0) < 0.35
    by_means = rms(np.broadcast_to(digits.mean(axis=0), X.shape), digits, missing)
    assert rms(scnn.reconstruct(X), digits, missing) < by_means


# Codes


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("output", [{}, {"split_sign": True, "sparse_output": True}])
def test_codes_of_a_sample_do_not_depend_on_others(
    fitted: SCNN, digits: Any, algorithm: str, output: dict[str, bool]
) -> None:
    fitted.set_params(transform_algorithm=algorithm, **output)
    X = digits[400:].copy()
    holes, _ = with_holes(X)
    mixed = X.copy()
    mixed[::2] = holes[::2]
    parts = [fitted.transform(rows) for rows in (mixed, X, holes[::2])]
    codes, complete, alone = (U.toarray() if scipy.sparse.issparse(U) else U for U in parts)
    if algorithm == "encoder":
        assert_array_equal(codes[1::2], complete[1::2])
    assert_allclose(codes[1::2], complete[1::2], atol=1e-6)
    assert_allclose(codes[::2], alone, atol=1e-9)
    assert not np.isnan(codes).any()


def test_lasso_and_omp_codes_agree_with_scikit_learn_on_observed_entries(
    fitted: SCNN, digits: Any
) -> None:
    holes, missing = with_holes(digits[400:440], 0.5)
    lasso = fitted.set_params(transform_algorithm="lasso").transform(holes)
    omp = fitted.set_params(transform_algorithm="omp").transform(holes)
    m, p = fitted.components_.shape
    for u, v, x, gone in zip(lasso, omp, holes, missing, strict=True):
        n, D = p - gone.sum(), fitted.components_[:, ~gone]
        alpha = n / p * fitted.alpha_ * p / m
        solver = Lasso(alpha / n, fit_intercept=False, tol=1e-10, max_iter=100_000)
        assert_allclose(u, solver.fit(D.T, x[~gone]).coef_, atol=1e-4)
        norms = np.linalg.norm(D, axis=1)
        expected = orthogonal_mp((D / norms[:, None]).T, x[~gone], n_nonzero_coefs=1)
        first = np.flatnonzero(expected)
        assert v[first].all(), "the first atom that is chosen is that with the largest correlation"


def test_other_codes_are_those_of_predicted_entries(fitted: SCNN, digits: Any) -> None:
    """The prediction is the ridge regression on the observed entries for the moments of D."""
    holes, missing = with_holes(digits[400:420])
    F = np.sqrt(fitted.usage_)[:, None] * fitted.components_
    G = F.T @ F
    X = holes.copy()
    for x, gone in zip(X, missing, strict=True):
        kept = ~gone
        A = G[np.ix_(kept, kept)] + 0.1 * np.trace(G) / 64 * np.eye(kept.sum())
        x[gone] = np.linalg.solve(A, x[kept]) @ G[np.ix_(kept, gone)]
    for algorithm in ("encoder", "projection", "exact"):
        fitted.set_params(transform_algorithm=algorithm)
        codes, expected = fitted.transform(holes), fitted.transform(X)
        same = ((codes != 0) == (expected != 0)).all(axis=1)
        assert same.mean() > 0.5  # outputs near the threshold may change sides
        assert np.linalg.norm((codes - expected)[same]) < 0.04 * np.linalg.norm(expected[same])


def test_lengths_of_samples_with_missing_entries() -> None:
    X = np.array([[3.0, np.nan], [np.nan, 2.0], [1.0, 2.0]])
    # The mean square of a feature, 5 and 4, replaces that of a missing entry.
    lengths = np.sqrt([9 + 4, 5 + 4, 1 + 4])
    assert_allclose(SCNN(4).alpha_max(X), 2 * lengths.max())
    scnn = SCNN(4, random_state=0, max_iter=1, transform_algorithm="lasso").fit(X)
    assert_allclose(scnn.alpha_, 2 / 2 * lengths.mean())


# Containers and refusals


def test_masked_arrays_and_data_frames(digits: Any) -> None:
    pd = pytest.importorskip("pandas")
    X, missing = with_holes(digits[:200])
    frame = pd.DataFrame(X).rename(columns=str)
    expected = SCNN(8, random_state=0, max_iter=10, refine=False).fit(X)
    for given in (np.ma.array(digits[:200], mask=missing), frame, frame.astype("Float64")):
        scnn = SCNN(8, random_state=0, max_iter=10, refine=False).fit(given)
        assert_allclose(scnn.components_, expected.components_, atol=1e-5)
        assert_allclose(scnn.reconstruct(given), expected.reconstruct(X), atol=1e-5)
    integers = np.ma.array((16 * digits[:200]).astype(int), mask=missing)
    assert np.isfinite(SCNN(8, random_state=0, max_iter=5).fit(integers).components_).all()
    complete = np.ma.array(digits[:100])
    scnn = SCNN(4, random_state=0, max_iter=3)
    assert_array_equal(scnn.fit(complete).encoder_, scnn.fit(digits[:100]).encoder_)


def test_infinity_is_refused(fitted: SCNN, digits: Any) -> None:
    X, _ = with_holes(digits[:100])
    X[3, 3] = np.inf
    for cls in (SCNN, MiniBatchSCNN):
        with pytest.raises(InvalidInputError, match="infinity"):
            cls(4).fit(X)
    for algorithm in ALGORITHMS:
        with pytest.raises(InvalidInputError, match="infinity"):
            fitted.set_params(transform_algorithm=algorithm).transform(X)
    with pytest.raises(InvalidInputError, match="infinity"):
        fitted.score(X)


def test_nan_in_sparse_matrix_is_refused(fitted: SCNN, digits: Any) -> None:
    X = scipy.sparse.csr_matrix(digits[:50])
    X.data[0] = np.nan
    for algorithm in ("encoder", "lasso"):
        with pytest.raises(InvalidInputError, match=r"NaN in row 0, .* needs a dense X"):
            fitted.set_params(transform_algorithm=algorithm).transform(X)


def test_feature_without_observed_entry_is_refused_except_in_later_batches(digits: Any) -> None:
    X = digits[:50].copy()
    X[:, 5] = np.nan
    for cls in (SCNN, MiniBatchSCNN):
        with pytest.raises(InvalidInputError, match=r"features \[5\] are NaN; remove"):
            cls(4).fit(X)
    scnn = MiniBatchSCNN(4, random_state=0).partial_fit(digits[:50]).partial_fit(X)
    assert np.isfinite(scnn.components_).all()


@pytest.mark.parametrize("cls", [SCNN, MiniBatchSCNN])
def test_samples_without_observed_entry_have_zero_codes(digits: Any, cls: Any) -> None:
    X, _ = with_holes(digits[:200])
    empty = np.vstack([X, np.full((2, X.shape[1]), np.nan)])
    scnn, without = (
        cls(8, dict_init=digits[:8], max_iter=5, random_state=0, refine=False) for _ in range(2)
    )
    with pytest.warns(UserWarning, match="2 samples have no observed entry"):
        scnn.fit(empty)
    assert_array_equal(scnn.components_, without.fit(X).components_)
    for algorithm in ALGORITHMS:
        scnn.set_params(transform_algorithm=algorithm)
        with pytest.warns(UserWarning, match="2 samples have no observed entry"):
            codes = scnn.transform(empty)
        assert_array_equal(codes[-2:], 0)
    with pytest.raises(InvalidInputError, match="all entries of X are NaN"):
        cls(4).fit(np.full((3, 4), np.nan))


def test_sparse_coding_refuses_missing_entries(digits: Any) -> None:
    X, _ = with_holes(digits[:50])
    with pytest.raises(InvalidInputError, match="NaN"):
        SparseCoder(np.eye(64)).fit_transform(X)
    with pytest.raises(InvalidInputError, match="NaN"):
        sparse_encode(np.ma.array(digits[:50], mask=np.isnan(X)), np.eye(64))
