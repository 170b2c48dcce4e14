"""The calibrated encoder of SCNN and MiniBatchSCNN: what users see."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfTransformer

import lincode
from lincode import SCNN, MiniBatchSCNN
from lincode.core.threshold import soft_threshold
from lincode.exceptions import InvalidInputError

MODES = ("soft", "hard", "top_k")
PAPER: dict[str, Any] = dict(
    threshold="alpha", threshold_mode="soft", fit_gains=False, encoder_ridge=0
)


def shuffled_digits(_: Any) -> tuple[Any, int, int]:
    X = load_digits().data / 16
    return X[np.random.default_rng(1).permutation(len(X))[:1000]], 600, 64


def shuffled_patches(patches: Any) -> tuple[Any, int, int]:
    return patches[np.random.default_rng(0).permutation(len(patches))], 1200, 64


def tfidf_text(_: Any) -> tuple[Any, int, int]:
    """Documents of a topic model, fewer than words."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(500, 0.05), size=12)
    mixtures = rng.dirichlet(np.full(12, 0.2), size=400)
    counts = np.array([rng.multinomial(60, mixture @ topics) for mixture in mixtures])
    return TfidfTransformer().fit_transform(scipy.sparse.csr_matrix(counts)).tocsr(), 200, 40


def gaussian_embeddings(_: Any) -> tuple[Any, int, int]:
    """As many embeddings as dimensions, with noise in all of them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 30)) @ rng.standard_normal((30, 300)) / np.sqrt(30)
    return X + 0.5 * rng.standard_normal(X.shape), 300, 64


DATA = {
    "digits": shuffled_digits,
    "patches": shuffled_patches,
    "text": tfidf_text,
    "embeddings": gaussian_embeddings,
}


@pytest.fixture(scope="module", params=list(DATA))
def fitted(request: Any, patches: Any) -> tuple[str, Any, Any, Any]:
    """The name of the data, an SCNN with default parameters, and its new samples."""
    X, n, m = DATA[request.param](patches)
    return request.param, SCNN(m, random_state=0).fit(X[:n]), X[:n], X[n:]


@pytest.fixture
def small(digits: Any) -> Any:
    """A new SCNN with 15 units, fitted to 150 digits."""
    return SCNN(15, random_state=0, tol=1e-3).fit(digits[:150])


def dense(X: Any) -> Any:
    return X.toarray() if scipy.sparse.issparse(X) else X


def rms(A: Any) -> float:
    return float(np.sqrt(np.mean(A**2)))


def density(U: Any) -> float:
    return float(np.count_nonzero(U) / U.size)


def fraction(X: Any, R: Any) -> float:
    return float(1 - np.sum((dense(X) - R) ** 2) / np.sum(dense(X) ** 2))


# Quality on new samples


def test_density_of_new_samples(fitted: Any) -> None:
    """It is close to the density in training; with few samples the dictionary overfits."""
    name, scnn, _, new = fitted
    tolerance = {"digits": 0.05, "patches": 0.07, "text": 0.05, "embeddings": 0.13}
    assert abs(density(scnn.transform(new)) - scnn.usage_.mean()) < tolerance[name]


def test_reconstruction_of_new_samples(fitted: Any) -> None:
    """The encoder's codes reconstruct better than the exact ones, which alpha shrinks."""
    _, scnn, _, new = fitted
    exact = clone(scnn).set_params(transform_algorithm="exact")
    exact.__dict__.update({k: v for k, v in vars(scnn).items() if k.endswith("_")})
    assert rms(dense(new) - scnn.reconstruct(new)) < rms(dense(new) - exact.reconstruct(new))


def test_encoder_r2_of_new_samples(fitted: Any) -> None:
    """It is close to the fraction for new samples; with few samples the dictionary overfits."""
    name, scnn, train, new = fitted
    true = fraction(new, scnn.reconstruct(new))
    tolerance = {"digits": 0.02, "patches": 0.06, "text": 0.08, "embeddings": 0.12}
    assert abs(scnn.encoder_r2_ - true) < tolerance[name]
    # Without leave-one-out outputs it would promise more.
    assert scnn.encoder_r2_ <= fraction(train, scnn.reconstruct(train)) + 1e-3


def test_gains_improve_the_reconstruction(fitted: Any) -> None:
    _, scnn, _, new = fitted
    assert (scnn.gains_ >= 0).all()
    codes = scnn.transform(new)
    with_gains = rms(dense(new) - codes @ scnn.components_)
    scnn.set_params(fit_gains=False)
    without = rms(dense(new) - scnn.transform(new) @ scnn.components_)
    scnn.set_params(fit_gains=True)
    assert with_gains < without


def test_calibrate_to_a_density(fitted: Any) -> None:
    _, scnn, _, new = fitted
    scnn = pickle.loads(pickle.dumps(scnn))
    for target in (0.02, 0.1, 0.3):
        assert scnn.calibrate(new, density=target) is scnn
        units = scnn.gains_ > 0  # a unit with the gain 0 has no codes
        assert_allclose(density(scnn.transform(new)), target, atol=1e-3 if units.all() else 0.03)
        assert_allclose(scnn.encoder_r2_, fraction(new, scnn.reconstruct(new)), atol=1e-6)


def test_encoder_r2_counts_the_decoder(fitted: Any) -> None:
    _, scnn, _, new = fitted
    scnn = pickle.loads(pickle.dumps(scnn))
    before = scnn.calibrate(new).encoder_r2_
    scnn.set_params(fit_decoder=True).calibrate(new)
    assert_allclose(scnn.encoder_r2_, fraction(new, scnn.reconstruct(new)), atol=1e-6)
    assert scnn.encoder_r2_ > before


# The codes


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("fit_gains", [False, True])
def test_codes_are_the_thresholded_output(
    digits: Any, mode: str, positive: bool, fit_gains: bool
) -> None:
    X, new = digits[:150], digits[150:300]
    scnn = SCNN(15, random_state=0, tol=1e-2, threshold_mode=mode, transform_n_nonzero_coefs=4)
    scnn.set_params(positive_code=positive, fit_gains=fit_gains).fit(X)
    Z = new @ scnn.encoder_.T
    magnitude = Z if positive else np.abs(Z)
    if mode == "top_k":
        kept = magnitude >= -np.sort(-magnitude, axis=1)[:, [3]]
        kept &= magnitude > 0
    else:
        kept = magnitude > scnn.threshold_
    shrunk = Z - np.sign(Z) * scnn.threshold_ if mode == "soft" else Z
    expected = np.where(kept, shrunk, 0) * (scnn.gains_ if fit_gains else 1)
    codes = scnn.transform(new)
    assert_allclose(codes, expected, atol=1e-12)
    assert_allclose(scnn.inverse_transform(codes), expected @ scnn.components_, atol=1e-12)
    assert_allclose(scnn.reconstruct(new), expected @ scnn.components_, atol=1e-12)
    # The other forms of output contain the same codes.
    sparse = scnn.set_params(sparse_output=True).transform(new)
    assert scipy.sparse.issparse(sparse)
    assert_array_equal(sparse.toarray(), codes)
    assert sparse.nnz == np.count_nonzero(codes)
    if not positive:
        split = scnn.set_params(split_sign=True).transform(new)
        assert_array_equal(
            split.toarray(), np.hstack([np.maximum(codes, 0), np.maximum(-codes, 0)])
        )
        assert_allclose(scnn.inverse_transform(split), scnn.reconstruct(new), atol=1e-12)
    assert_array_equal(
        scnn.set_params(split_sign=False, sparse_output=False).transform(
            scipy.sparse.csr_matrix(new)
        )
        != 0,
        codes != 0,
    )


@pytest.mark.parametrize("k", [1, 4, 15, 100])
def test_top_k_keeps_exactly_k(digits: Any, k: int) -> None:
    scnn = SCNN(15, random_state=0, tol=1e-2, threshold_mode="top_k", transform_n_nonzero_coefs=k)
    codes = scnn.fit(digits[:150]).transform(digits)
    assert scnn.n_nonzero_coefs_ == min(k, 15)
    assert (scnn.gains_ > 0).all()
    assert (np.count_nonzero(codes, axis=1) == min(k, 15)).all()


def test_top_k_by_default_keeps_as_many_as_training(digits: Any) -> None:
    scnn = SCNN(15, random_state=0, tol=1e-2, threshold_mode="top_k").fit(digits[:150])
    assert scnn.n_nonzero_coefs_ == round(scnn.usage_.sum())
    scnn.set_params(transform_n_nonzero_coefs=2)
    assert scnn.n_nonzero_coefs_ == 2


@pytest.mark.parametrize("weight", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_codes_of_the_paper(digits: Any, weight: float, dtype: Any) -> None:
    X = digits[:150].astype(dtype)
    scnn = SCNN(15, alpha=0.02, encoder_weight=weight, random_state=0, tol=1e-2, **PAPER).fit(X)
    assert scnn.threshold_ == 0.02 / weight
    assert scnn.encoder_ridge_ == scnn.noise_variance_ == 0
    expected = soft_threshold(X @ scnn.encoder_.T, dtype(0.02 / weight))
    assert_array_equal(scnn.transform(X), expected)
    assert_array_equal(scnn.inverse_transform(expected), expected @ scnn.components_)


def test_one_row_is_coded_like_many(fitted: Any) -> None:
    _, scnn, _, new = fitted
    codes = scnn.transform(new)
    for i in (0, 17):
        assert_allclose(scnn.transform(new[[i]])[0], codes[i], rtol=1e-9, atol=1e-12)


def test_threshold_names_and_numbers(small: Any, digits: Any) -> None:
    assert small.threshold_ == small.matching_threshold_
    assert small.set_params(threshold="alpha").threshold_ == small.alpha_
    assert small.set_params(threshold=0.25).threshold_ == 0.25
    small.set_params(threshold=0, fit_gains=False)
    assert_allclose(small.transform(digits), digits @ small.encoder_.T)
    small.set_params(threshold=1e300)
    assert not small.transform(digits).any()


# Changes after fit


def test_a_new_mode_needs_calibrate(small: Any, digits: Any) -> None:
    codes = small.transform(digits)
    small.set_params(threshold_mode="soft")
    for call in (small.transform, small.reconstruct):
        with pytest.raises(InvalidInputError, match=r"calibrate") as error:
            call(digits)
        assert "'hard'" in str(error.value)
        assert "'soft'" in str(error.value)
    # What does not use the gains still works.
    small.score(digits)
    assert small.set_params(transform_algorithm="lasso").transform(digits).any()
    assert small.set_params(transform_algorithm="encoder", fit_gains=False).transform(digits).any()
    small.set_params(fit_gains=True).calibrate(digits[:150])
    assert small.calibrated_mode_ == "soft"
    soft = small.transform(digits)
    assert_allclose(small.encoder_r2_, fraction(digits, small.reconstruct(digits)), atol=0.06)
    # A soft threshold needs larger gains than a hard one.
    assert rms(soft) > 0.5 * rms(codes)
    small.set_params(threshold_mode="hard")
    with pytest.raises(InvalidInputError, match=r"calibrate"):
        small.transform(digits)


def test_a_failed_calibrate_changes_nothing(small: Any, digits: Any) -> None:
    before = dict(vars(small))
    for X in (digits[:, :5], np.full((3, 64), np.nan), "text"):
        with pytest.raises(InvalidInputError):
            small.calibrate(X)
    for value in (-0.1, np.nan, "0.1", True):
        with pytest.raises(InvalidInputError, match="density"):
            small.calibrate(digits, density=value)
    assert vars(small) == before


def test_decoder_is_only_for_the_encoder(digits: Any) -> None:
    X = digits[:150]
    scnn = SCNN(15, random_state=0, tol=1e-3, fit_decoder=True).fit(X)
    U = scnn.transform(X)
    assert scnn.decoder_.shape == scnn.components_.shape
    assert not np.allclose(scnn.decoder_, scnn.components_)
    assert_array_equal(scnn.inverse_transform(U), U @ scnn.decoder_)
    assert_array_equal(scnn.reconstruct(X), U @ scnn.decoder_)
    assert fraction(X, U @ scnn.decoder_) > fraction(X, U @ scnn.components_)
    for algorithm in ("exact", "lasso"):
        scnn.set_params(transform_algorithm=algorithm)
        assert_array_equal(scnn.inverse_transform(U), U @ scnn.components_)
        assert_array_equal(scnn.reconstruct(X), scnn.transform(X) @ scnn.components_)
    scnn.set_params(transform_algorithm="encoder", fit_decoder=False)
    assert_array_equal(scnn.inverse_transform(U), U @ scnn.components_)
    scnn.calibrate(X)
    assert not hasattr(scnn, "decoder_")
    scnn.set_params(fit_decoder=True)
    with pytest.raises(InvalidInputError, match="calibrate"):
        scnn.inverse_transform(U)
    scnn.calibrate(X).inverse_transform(U)


def test_density_of_top_k(small: Any, digits: Any) -> None:
    small.set_params(threshold_mode="top_k")
    for target, k in ((0.2, 3), (0.5, 8), (1.0, 15), (0.0, 1), (0.03, 1)):
        codes = small.calibrate(digits, density=target).transform(digits)
        assert small.n_nonzero_coefs_ == k
        assert small.matching_density_ == target
        assert (np.count_nonzero(codes, axis=1) == k).all()
    # Without a density the previous one is kept.
    assert small.calibrate(digits).matching_density_ == 0.03
    small.calibrate(digits, density=0.5)
    assert small.calibrate(digits).n_nonzero_coefs_ == 8
    # A number that is given is not overridden.
    small.set_params(transform_n_nonzero_coefs=4)
    assert small.calibrate(digits, density=4 / 15).n_nonzero_coefs_ == 4
    before = dict(vars(small))
    with pytest.raises(
        InvalidInputError, match=r"means 8 of 15 units .*_coefs is 4; set it to None"
    ):
        small.calibrate(digits, density=0.5)
    assert vars(small) == before
    # In the other modes it is not used.
    small.set_params(threshold_mode="hard").calibrate(digits, density=0.5)
    assert_allclose(density(small.transform(digits)), 0.5, atol=0.01)


def test_encoder_r2_of_float32_without_a_ridge() -> None:
    """As in float64: the encoder reproduces the trained codes and knows nothing about new ones."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 15)) @ rng.standard_normal((15, 300))
    X += 0.01 * rng.standard_normal(X.shape)
    r2, true = {}, {}
    for dtype in (np.float64, np.float32):
        train, new = X[:100].astype(dtype), X[100:].astype(dtype)
        scnn = SCNN(20, encoder_ridge=0, random_state=0, tol=1e-2, transform_algorithm="exact")
        scnn.fit(train).set_params(transform_algorithm="encoder")
        r2[dtype], true[dtype] = scnn.encoder_r2_, fraction(new, scnn.reconstruct(new))
    assert_allclose(r2[np.float32], r2[np.float64], atol=0.02)
    assert r2[np.float32] < true[np.float32] + 0.1


# Copies and repetitions


@pytest.mark.parametrize("estimator", [SCNN, MiniBatchSCNN])
@pytest.mark.parametrize("with_decoder", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_clone_pickle_save_and_seed(
    digits: Any, tmp_path: Path, estimator: Any, with_decoder: bool, mode: str
) -> None:
    X, new = digits[:150].astype(np.float32), digits[150:300].astype(np.float32)
    model = estimator(8, random_state=3, tol=0.05, fit_decoder=with_decoder, threshold_mode=mode)
    model.fit(X)
    lincode.save(model, tmp_path / "model")
    copies = {
        "pickle": pickle.loads(pickle.dumps(model)),
        "file": lincode.load(tmp_path / "model"),
        "seed": clone(model).fit(X),
    }
    for name, copy in copies.items():
        assert copy.get_params() == model.get_params(), name
        assert hasattr(copy, "decoder_") == with_decoder
        for attribute in ("gains_", "components_", "encoder_") + ("decoder_",) * with_decoder:
            assert_array_equal(getattr(copy, attribute), getattr(model, attribute), name)
        for attribute in ("encoder_r2_", "encoder_ridge_", "noise_variance_", "threshold_"):
            assert getattr(copy, attribute) == getattr(model, attribute), name
        assert_array_equal(copy.transform(new), model.transform(new), name)
        assert_array_equal(copy.reconstruct(new), model.reconstruct(new), name)
        assert copy.transform(new).dtype == copy.reconstruct(new).dtype == np.float32
        # A copy can be calibrated again like the original.
        again = pickle.loads(pickle.dumps(model)).calibrate(new, density=0.2)
        assert_array_equal(copy.calibrate(new, density=0.2).gains_, again.gains_, name)


# Batches


@pytest.mark.parametrize("mode", MODES)
def test_a_single_sample(digits: Any, mode: str) -> None:
    """Nothing can be measured without it, so the gains are 1, without a warning."""
    for model in (SCNN(5, threshold_mode=mode), MiniBatchSCNN(5, threshold_mode=mode, max_iter=1)):
        model.set_params(random_state=0, fit_decoder=True).fit(digits[:1])
        assert_array_equal(model.gains_, np.ones(5))
        assert_array_equal(model.decoder_, model.components_)
        assert model.encoder_r2_ == 0
        assert model.threshold_ == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.filterwarnings("ignore:MiniBatchSCNN")
def test_tiny_batches_keep_usable_gains(digits: Any, mode: str, size: int) -> None:
    scnn = MiniBatchSCNN(10, random_state=0, threshold_mode=mode)
    for batch in np.array_split(digits[: 25 * size], 25):
        scnn.partial_fit(batch)
        assert ((scnn.gains_ >= 0) & (scnn.gains_ < 100)).all()
        assert (scnn.gains_ > 0).any()
        assert np.isfinite(scnn.encoder_r2_)
        assert scnn.threshold_ >= 0
    assert fraction(digits, scnn.reconstruct(digits)) > 0.3
    assert scnn.usage_.mean() > 0.5  # the codes of earlier batches are not forgotten


def test_batches_are_calibrated_like_the_whole(digits: Any) -> None:
    scnn = MiniBatchSCNN(20, random_state=0)
    for batch in np.array_split(digits, 6):
        scnn.partial_fit(batch)
    new = (load_digits().data / 16)[600:1000]
    assert abs(density(scnn.transform(new)) - scnn.usage_.mean()) < 0.05
    assert fraction(new, scnn.reconstruct(new)) > 0.8


def test_gains_of_another_mode_are_forgotten(digits: Any) -> None:
    """The gains of a hard threshold are no prior for those of a soft threshold."""
    batches = np.array_split(digits, 6)
    scnn = MiniBatchSCNN(20, random_state=0)
    for batch in batches[:-1]:
        scnn.partial_fit(batch)
    changed = pickle.loads(pickle.dumps(scnn)).set_params(threshold_mode="soft")
    changed.partial_fit(batches[-1])
    always = MiniBatchSCNN(20, random_state=0, threshold_mode="soft")
    for batch in batches:
        always.partial_fit(batch)
    assert_array_equal(changed.components_, always.components_)
    hard = scnn.partial_fit(batches[-1]).gains_.mean()
    assert abs(changed.gains_.mean() - always.gains_.mean()) < 0.3 * (always.gains_.mean() - hard)


# Warnings and errors


def test_warning_if_the_codes_reconstruct_nothing() -> None:
    X = np.random.default_rng(0).standard_normal((300, 768))
    with pytest.warns(UserWarning, match=r"reconstruct only .*encoder_r2_"):
        scnn = SCNN(40, random_state=0).fit(X)
    assert scnn.encoder_r2_ < 0.05
    SCNN(40, random_state=0, transform_algorithm="lasso").fit(X)  # does not use the encoder


@pytest.mark.parametrize("estimator", [SCNN, MiniBatchSCNN])
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("encoder_ridge", [-1, np.nan, np.inf, "gcv", None, True, [1]]),
        ("threshold_mode", ["Hard", None, 1, "topk", ["hard"]]),
        ("transform_n_nonzero_coefs", [0, -1, 2.0, "3", True]),
        ("threshold", [-1, np.nan, np.inf, "beta", None, True]),
        ("fit_gains", [0, 1, "yes", None]),
        ("fit_decoder", [0, 1, "no", None]),
    ],
)
def test_bad_parameters(digits: Any, estimator: Any, name: str, values: list[Any]) -> None:
    fitted = estimator(5, random_state=0, tol=0.1, alpha="0.05*max").fit(digits[:60])
    for value in values:
        with pytest.raises(InvalidInputError, match=name):
            estimator(5, **{name: value}).fit(digits[:60])
        good = getattr(fitted, name)
        for call in (fitted.set_params(**{name: value}).transform, fitted.calibrate):
            with pytest.raises(InvalidInputError, match=name):
                call(digits)
        fitted.set_params(**{name: good}).transform(digits)


def test_density_requires_a_threshold_that_matches_it(small: Any, digits: Any) -> None:
    before = dict(vars(small))
    small.set_params(threshold=0.1)
    with pytest.raises(InvalidInputError, match="density requires threshold='match', got"):
        small.calibrate(digits, density=0.1)
    assert vars(small.set_params(threshold="match")) == before
    with pytest.raises(InvalidInputError, match="density must be at most 1, got 2"):
        small.calibrate(digits, density=2)
