"""Missing entries in fit, partial_fit, transform, reconstruct, score and calibrate."""

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from lincode.estimators.samples import check_samples
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Lasso
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lincode import SCNN, SCNNCV, MiniBatchSCNN, SparseCoder, scnn_path, sparse_encode
from lincode.exceptions import InvalidInputError
from lincode.rows import memory

ALGORITHMS = ["encoder", "exact", "lasso", "omp", "ols"]

pytestmark = pytest.mark.filterwarnings("ignore:(MiniBatch)?SCNN. max_iter")


def with_holes(X: Any, fraction: float = 0.3, seed: int = 0) -> tuple[Any, Any]:
    """Return X with NaN at random entries, but not in all entries of a row, and where they are."""
    missing = np.random.default_rng(seed).random(X.shape) < fraction
    missing[missing.all(axis=1), 0] = False
    return np.where(missing, np.asarray(np.nan, X.dtype), X), missing


def rms(a: Any, b: Any, where: Any) -> float:
    return float(np.sqrt(np.mean((a - b)[where] ** 2)))


@pytest.fixture(scope="module")
def fitted(digits: Any) -> SCNN:
    return SCNN(24, random_state=0, max_iter=30).fit(digits[:400])


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("parameters", [{}, {"encoder_weight": 0.0}, {"positive_code": True}])
def test_energy_never_increases(digits: Any, fraction: float, parameters: dict[str, Any]) -> None:
    """``train`` raises EnergyIncreaseError after any step that increases the energy."""
    X, _ = with_holes(digits[:300], fraction)
    scnn = SCNN(24, random_state=0, max_iter=40, tol=1e-5, **parameters).fit(X)
    assert np.all(np.diff(scnn.energy_path_) <= 0)
    assert scnn.energy_ < 0.7 * scnn.energy_path_[0]
    for array in (scnn.components_, scnn.encoder_, scnn.gains_):
        assert np.isfinite(array).all()


@pytest.mark.parametrize("cls", [SCNN, MiniBatchSCNN])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_missing_entries_are_predicted_better_than_by_means(
    digits: Any, cls: Any, dtype: Any
) -> None:
    train, test = digits[:450].astype(dtype), digits[450:].astype(dtype)
    X, _ = with_holes(train)
    holes, missing = with_holes(test, seed=1)
    scnn = cls(128, random_state=0).fit(X)
    by_means = rms(np.broadcast_to(np.nanmean(X, axis=0), test.shape), test, missing)
    for algorithm in ("encoder", "exact", "lasso"):
        reconstructed = scnn.set_params(transform_algorithm=algorithm).reconstruct(holes)
        assert reconstructed.dtype == dtype
        assert rms(reconstructed, test, missing) < 0.8 * by_means


def test_planted_dictionary_is_recovered_with_half_of_the_entries() -> None:
    rng = np.random.default_rng(0)
    m, p, n = 12, 24, 3000
    D = rng.standard_normal((m, p))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    U = rng.standard_normal((n, m)) * (rng.random((n, m)) < 0.15)
    X, missing = with_holes(U @ D, 0.5)
    scnn = SCNN(m, "0.02*max", random_state=0, tol=1e-5, max_iter=200).fit(X)
    cosines = np.abs(scnn.components_ @ D.T) / np.linalg.norm(scnn.components_, axis=1)[:, None]
    assert (cosines.max(axis=0) > 0.95).sum() >= m - 1
    filled = scnn.set_params(transform_algorithm="lasso").reconstruct(X[:300])
    assert rms(filled, (U @ D)[:300], missing[:300]) < 0.3 * np.sqrt(np.mean((U @ D) ** 2))


@pytest.mark.parametrize("cls", [SCNN, MiniBatchSCNN])
def test_nearly_complete_data_give_nearly_the_same_network(digits: Any, cls: Any) -> None:
    X = digits[:300].copy()
    parameters = {"init": digits[:16], "alpha": 0.1, "encoder_ridge": 0.1}
    learn = cls.partial_fit if cls is MiniBatchSCNN else cls.fit
    complete = learn(cls(16, **parameters), X)
    X[7, 30] = np.nan
    scnn = learn(cls(16, **parameters), X)
    assert_allclose(scnn.components_, complete.components_, atol=5e-3)
    assert_allclose(scnn.energy_, complete.energy_, rtol=1e-2)


def test_batches_with_and_without_missing_entries_end_at_nearly_the_same_energy(
    digits: Any,
) -> None:
    """Complete samples are learned in small batches, others in large ones."""
    parameters = {"init": digits[:16], "alpha": 0.1, "encoder_ridge": 0.1}
    complete = MiniBatchSCNN(16, batch_size=100, random_state=0, **parameters).fit(digits)
    X = digits.copy()
    X[7, 30] = np.nan
    scnn = MiniBatchSCNN(16, random_state=0, **parameters).fit(X)
    assert_allclose(scnn.score(digits), complete.score(digits), rtol=1e-2)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("output", [{}, {"split_sign": True}, {"sparse_output": True}])
def test_codes_of_a_sample_do_not_depend_on_others(
    fitted: SCNN, digits: Any, algorithm: str, output: dict[str, bool]
) -> None:
    scnn = SCNN(24).set_params(**{**fitted.get_params(), "transform_algorithm": algorithm})
    vars(scnn).update({k: v for k, v in vars(fitted).items() if k.endswith("_")})
    scnn.set_params(**output)
    X = digits[400:].copy()
    holes, _ = with_holes(X)
    mixed = X.copy()
    mixed[::2] = holes[::2]
    codes, complete = scnn.transform(mixed), scnn.transform(X)
    alone = scnn.transform(holes[::2])
    if output.get("sparse_output"):
        codes, complete, alone = codes.toarray(), complete.toarray(), alone.toarray()
    if algorithm == "encoder":
        assert_array_equal(codes[1::2], complete[1::2])
    assert_allclose(codes[1::2], complete[1::2], atol=1e-6)
    assert_allclose(codes[::2], alone, atol=1e-9)
    assert not np.isnan(codes).any()
    fitted.set_params(split_sign=False, sparse_output=False)


def test_lasso_codes_agree_with_scikit_learn_on_observed_entries(fitted: SCNN, digits: Any) -> None:
    holes, missing = with_holes(digits[400:440], 0.5)
    codes = fitted.set_params(transform_algorithm="lasso").transform(holes)
    m, p = fitted.components_.shape
    for u, x, gone in zip(codes, holes, missing, strict=True):
        n = p - gone.sum()
        alpha = n / p * fitted.alpha_ * p / m
        solver = Lasso(alpha / n, fit_intercept=False, tol=1e-10, max_iter=100_000)
        solver.fit(fitted.components_[:, ~gone].T, x[~gone])
        assert_allclose(u, solver.coef_, atol=1e-4)
    fitted.set_params(transform_algorithm="encoder")


def test_score_of_complete_samples_is_a_limit(fitted: SCNN, digits: Any) -> None:
    """Samples with holes have a lower energy, because there is less to reconstruct."""
    X = digits[400:420]
    holes, _ = with_holes(X, 0.05)
    assert fitted.score(X) < fitted.score(holes) < 0
    copies = np.vstack([X, X])
    assert_allclose(fitted.score(copies), fitted.score(X))
    mixed = np.vstack([X, holes])
    assert_allclose(fitted.score(mixed), (fitted.score(X) + fitted.score(holes)) / 2)


def test_masked_arrays_and_data_frames(digits: Any) -> None:
    pd = pytest.importorskip("pandas")
    X, missing = with_holes(digits[:200])
    masked = np.ma.array(digits[:200], mask=missing)
    expected = SCNN(8, random_state=0, max_iter=10).fit(X)
    for given in (masked, pd.DataFrame(X).rename(columns=str)):
        scnn = SCNN(8, random_state=0, max_iter=10).fit(given)
        assert_allclose(scnn.components_, expected.components_, atol=1e-12)
        assert_allclose(scnn.reconstruct(given), expected.reconstruct(X), atol=1e-10)
    nullable = pd.DataFrame(X).rename(columns=str).astype("Float64")
    assert nullable.isna().to_numpy().sum() == missing.sum()
    scnn = SCNN(8, random_state=0, max_iter=10).fit(nullable)
    assert_allclose(scnn.components_, expected.components_, atol=1e-5)
    integers = np.ma.array((16 * digits[:200]).astype(int), mask=missing)
    assert np.isfinite(SCNN(8, random_state=0, max_iter=5).fit(integers).components_).all()
    assert_array_equal(
        scnn.transform(nullable.astype("Float64")),
        scnn.transform(pd.DataFrame(X).rename(columns=str)),
    )


def test_unmasked_masked_array_is_complete(digits: Any) -> None:
    masked = np.ma.array(digits[:100])
    scnn = SCNN(4, random_state=0, max_iter=3)
    assert_array_equal(scnn.fit(masked).encoder_, scnn.fit(digits[:100]).encoder_)


@pytest.mark.parametrize("cls", [SCNN, MiniBatchSCNN])
def test_infinity_is_refused(fitted: SCNN, digits: Any, cls: Any) -> None:
    X, _ = with_holes(digits[:100])
    X[3, 3] = np.inf
    with pytest.raises(InvalidInputError, match="infinity"):
        cls(4).fit(X)
    for algorithm in ALGORITHMS:
        with pytest.raises(InvalidInputError, match="infinity"):
            fitted.set_params(transform_algorithm=algorithm).transform(X)
    fitted.set_params(transform_algorithm="encoder")
    with pytest.raises(InvalidInputError, match="infinity"):
        fitted.score(X)


def test_nan_in_sparse_matrix_is_refused(fitted: SCNN, digits: Any) -> None:
    X = scipy.sparse.csr_matrix(digits[:50])
    X.data[0] = np.nan
    with pytest.raises(InvalidInputError, match=r"sparse X must not contain NaN.*toarray"):
        SCNN(4).fit(X)
    for algorithm in ("encoder", "lasso"):
        with pytest.raises(InvalidInputError, match="sparse X must not contain NaN"):
            fitted.set_params(transform_algorithm=algorithm).transform(X)
    fitted.set_params(transform_algorithm="encoder")


def test_feature_without_observed_entry_is_refused(digits: Any) -> None:
    pd = pytest.importorskip("pandas")
    X = digits[:50].copy()
    X[:, 5] = np.nan
    with pytest.raises(InvalidInputError, match="feature 5 are NaN"):
        SCNN(4).fit(X)
    frame = pd.DataFrame(X, columns=[f"f{k}" for k in range(X.shape[1])])
    with pytest.raises(InvalidInputError, match="'f5'"):
        MiniBatchSCNN(4).fit(frame)
    # A later batch may lack a feature.
    scnn = MiniBatchSCNN(4, random_state=0).partial_fit(digits[:50]).partial_fit(X)
    assert np.isfinite(scnn.components_).all()


@pytest.mark.parametrize("cls", [SCNN, MiniBatchSCNN])
def test_samples_without_observed_entry_have_zero_codes(digits: Any, cls: Any) -> None:
    X, _ = with_holes(digits[:200])
    empty = np.vstack([X, np.full((2, X.shape[1]), np.nan)])
    scnn, without = (cls(8, init=digits[:8], max_iter=5) for _ in range(2))
    with pytest.warns(UserWarning, match="2 samples have no observed entry"):
        scnn.fit(empty)
    if cls is SCNN:
        assert_array_equal(scnn.components_, without.fit(X).components_)
    for algorithm in ALGORITHMS:
        scnn.set_params(transform_algorithm=algorithm)
        with pytest.warns(UserWarning, match="2 samples have no observed entry"):
            codes = scnn.transform(empty)
        assert_array_equal(codes[-2:], 0)
    with pytest.raises(InvalidInputError, match=r"all entries of X are NaN|at least one observed"):
        cls(4).fit(np.full((3, 4), np.nan))


def test_partial_fit_and_calibrate(digits: Any) -> None:
    X, missing = with_holes(digits)
    scnn = MiniBatchSCNN(24, random_state=0)
    for rows in np.array_split(np.arange(len(X)), 3):
        scnn.partial_fit(X[rows])
    assert scnn.n_samples_seen_ == len(X)
    scnn.calibrate(X, density=0.3)
    codes = scnn.transform(X)
    assert 0.25 < np.mean(codes != 0) < 0.35
    assert rms(scnn.reconstruct(X), digits, missing) < rms(
        np.broadcast_to(digits.mean(axis=0), X.shape), digits, missing
    )


def test_decoder_and_refinement_with_missing_entries(digits: Any) -> None:
    X, _ = with_holes(digits)
    for cls in (SCNN, MiniBatchSCNN):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*refine")
            scnn = cls(16, random_state=0, fit_decoder=True, refine_max_iter=2).fit(X)
        assert np.isfinite(scnn.decoder_).all()
        assert scnn.encoder_r2_ > 0.5


def test_path_and_cross_validation(digits: Any) -> None:
    X, _ = with_holes(digits[:200])
    path = scnn_path(X, 8, alpha_ratios=[0.1, 0.02], random_state=0, max_iter=10)
    assert path[0].usage_.mean() < path[1].usage_.mean()
    search = SCNNCV(SCNN(8, random_state=0, tol=1e-2), alpha_ratios=3, cv=2, criterion="energy")
    assert np.isfinite(search.fit(X).transform(X)).all()


def test_pipeline_with_a_scaler_that_keeps_nan(digits: Any) -> None:
    X, _ = with_holes(digits[:200])
    pipeline = make_pipeline(StandardScaler(), SCNN(8, random_state=0, max_iter=10))
    assert pipeline.fit_transform(X).shape == (200, 8)


def test_wide_data(digits: Any) -> None:
    X, _ = with_holes(digits[:30])
    scnn = SCNN(8, random_state=0, max_iter=10).fit(X)
    assert np.all(np.diff(scnn.energy_path_) <= 0)


def test_other_estimators_and_the_paper_refuse_missing_entries(digits: Any) -> None:
    X, _ = with_holes(digits[:50])
    with pytest.raises(InvalidInputError, match="solver='auto'"):
        SCNN(4, solver="paper", max_iter=2).fit(X)
    with pytest.raises(InvalidInputError, match="NaN"):
        SparseCoder(np.eye(64)).fit_transform(X)
    with pytest.raises(InvalidInputError, match="NaN"):
        sparse_encode(np.ma.array(digits[:50], mask=np.isnan(X)), np.eye(64))


def test_lengths_of_rows_with_missing_entries() -> None:
    X = np.array([[3.0, np.nan], [np.nan, 2.0], [1.0, 2.0]])
    samples = check_samples(None, X, reset=False)
    squares = np.array([9 + 4, 5 + 4, 1 + 4])  # the mean square of a feature replaces NaN
    assert_allclose(samples.lengths.mean, np.sqrt(squares).mean())
    assert_allclose(samples.lengths.longest, np.sqrt(13))
    assert_allclose(SCNN(4).alpha_max(X), 2 * np.sqrt(13))


def test_fit_does_not_change_its_input(digits: Any) -> None:
    X, _ = with_holes(digits[:100])
    before = X.copy()
    SCNN(8, random_state=0, max_iter=5).fit(X).reconstruct(X)
    MiniBatchSCNN(8, random_state=0).partial_fit(X).partial_fit(X)
    assert_array_equal(X, before)


@pytest.mark.parametrize("parameters", [{}, {"batch_size": 150}])
def test_plain_dictionary_learning_on_batches(digits: Any, parameters: dict[str, Any]) -> None:
    """Batches with missing entries or weights are learned by the alternation, others are not."""
    X, missing = with_holes(digits)
    scnn = MiniBatchSCNN(32, random_state=0, encoder_weight=0.0, max_iter=2, **parameters).fit(X)
    assert np.isfinite(scnn.components_).all()
    scnn.set_params(transform_algorithm="lasso")
    by_means = rms(np.broadcast_to(digits.mean(axis=0), X.shape), digits, missing)
    assert rms(scnn.reconstruct(X), digits, missing) < by_means
    stream = MiniBatchSCNN(16, random_state=0, encoder_weight=0.0)
    for batch in (digits[:200], X[200:400], digits[400:]):
        stream.partial_fit(batch)
    stream.partial_fit(digits[:200], sample_weight=np.full(200, 0.5))
    assert np.isfinite(stream.transform(X)).all()


@pytest.mark.parametrize("cls", [SCNN, MiniBatchSCNN])
def test_wide_data_with_an_iterative_factor(
    digits: Any, cls: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, _ = with_holes(digits[:120])
    counts = np.random.default_rng(0).integers(1, 3, len(X))
    parameters: dict[str, Any] = {"init": digits[:8], "encoder_ridge": 0.1, "max_iter": 10}
    direct = cls(8, **parameters).fit(X, sample_weight=counts)
    monkeypatch.setattr(memory, "MAX_DIRECT_BYTES", 0)
    scnn = cls(8, **parameters).fit(X, sample_weight=counts)
    if cls is SCNN:
        assert np.all(np.diff(scnn.energy_path_) <= 0)
    assert_allclose(scnn.energy_, direct.energy_, rtol=0.05)
    scnn = MiniBatchSCNN(8, init=digits[:8])
    for rows in (slice(60), slice(60, 120)):
        scnn.partial_fit(X[rows], sample_weight=counts[rows])
    assert np.isfinite(scnn.transform(X)).all()
