"""The codes of the fitted network: density, algorithms, score, and changes by calibrate."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits

from lincode import SCNN, MiniBatchSCNN, sparse_encode
from lincode.core.threshold import soft_threshold
from lincode.exceptions import InvalidInputError

ESTIMATORS = (SCNN, MiniBatchSCNN)


@pytest.fixture(scope="module")
def samples() -> tuple[Any, Any]:
    """Training samples and new samples, 600 and 400 digits in random order."""
    X = np.random.default_rng(1).permutation(load_digits().data / 16)
    return X[:600], X[600:1000]


@pytest.fixture(scope="module")
def trained(samples: Any) -> Any:
    return fit(SCNN, samples[0], 24)


@pytest.fixture
def fitted(trained: Any) -> Any:
    """A copy that a test may change."""
    return copy.deepcopy(trained)


def fit(cls: Any, X: Any, m: int = 16, **parameters: Any) -> Any:
    return cls(m, random_state=0, **parameters).fit(X)


def density(U: Any) -> float:
    return float(np.count_nonzero(U) / U.size)


def fraction(X: Any, R: Any) -> float:
    return float(1 - np.sum((X - R) ** 2) / np.sum(X**2))


def short_and_wide() -> tuple[Any, Any]:
    """80 training samples with 150 features, and new samples."""
    rng = np.random.default_rng(0)
    U = rng.standard_normal((600, 8)) * (rng.random((600, 8)) < 0.4)
    X = U @ rng.standard_normal((8, 150)) + 0.5 * rng.standard_normal((600, 150))
    return X[:80], X[80:]


# Density


@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.parametrize("refine", [True, False])
@pytest.mark.parametrize("target", [0.1, 0.3, 3, 1.0])
def test_new_samples_have_the_density(samples: Any, cls: Any, refine: bool, target: float) -> None:
    train, new = samples
    scnn = fit(cls, train, 20, density=target, refine=refine)
    codes = scnn.transform(new)
    if isinstance(target, int):
        assert (np.count_nonzero(codes, axis=1) == target).all()
        assert scnn.threshold_ is None
    else:
        assert_allclose(density(codes), target, rtol=0.15)
    assert scnn.density_ == target
    assert_allclose(scnn.usage_.mean(), density(codes), rtol=0.15)
    assert_allclose(scnn.encoder_r2_, fraction(new, scnn.reconstruct(new)), atol=0.04)


@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.parametrize("refine", [True, False])
def test_density_with_fewer_samples_than_features(cls: Any, refine: bool) -> None:
    """The threshold of the outputs for training samples would be too high."""
    train, new = short_and_wide()
    scnn = fit(cls, train, density=0.2, refine=refine)
    assert_allclose(density(scnn.transform(new)), 0.2, rtol=0.15)


@pytest.mark.parametrize("target", [0.2, 4])
def test_density_of_positive_codes(samples: Any, target: float) -> None:
    train, new = samples
    scnn = fit(SCNN, train, 20, density=target, positive_code=True)
    codes = scnn.transform(new)
    assert (codes >= 0).all()
    assert_allclose(density(codes), 0.2, rtol=0.15)


def test_alpha_follows_from_the_density(digits: Any) -> None:
    length = np.linalg.norm(digits, axis=1).mean()
    for target, fraction in ((0.1, 0.1), (0.4, 0.4), (4, 0.25)):
        scnn = fit(SCNN, digits, density=target, refine=False, tol=1e-1)
        expected = np.sqrt(16) / 64 * length * (0.1 / fraction) ** (2 / 3)
        assert_allclose(scnn.alpha_, expected)
    assert fit(SCNN, digits, alpha=0.3, tol=1e-1).alpha_ == 0.3


# Codes


@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.parametrize("target", [0.2, 3])
@pytest.mark.parametrize("positive", [False, True])
def test_codes_are_the_largest_outputs(
    samples: Any, cls: Any, target: float, positive: bool
) -> None:
    train, new = samples
    scnn = fit(cls, train[:200], 12, density=target, positive_code=positive)
    Z = new @ scnn.encoder_.T
    magnitude = np.maximum(Z, 0) if positive else np.abs(Z)
    limit: Any = scnn.threshold_
    if limit is None:
        limit = np.sort(magnitude, axis=1)[:, [-4]]
    assert_allclose(scnn.transform(new), np.where(magnitude > limit, Z, 0), atol=1e-12)


@pytest.mark.parametrize("algorithm", ["encoder", "projection", "lasso", "omp", "exact", "paper"])
@pytest.mark.parametrize("cls", ESTIMATORS)
def test_reconstruction_and_score(samples: Any, cls: Any, algorithm: str) -> None:
    train, new = samples
    refine = algorithm not in ("exact", "paper")
    scnn = fit(cls, train, 12, refine=refine, transform_algorithm=algorithm)
    U = scnn.transform(new)
    expected = U @ scnn.components_
    assert_allclose(scnn.inverse_transform(U), expected, atol=1e-12)
    assert_allclose(scnn.inverse_transform(scipy.sparse.csr_array(U)), expected, atol=1e-12)
    assert_allclose(scnn.reconstruct(new), expected, atol=1e-12)
    assert_allclose(scnn.score(new), fraction(new, expected))
    assert_allclose(scnn.score(scipy.sparse.csr_array(new)), fraction(new, expected))
    assert scnn.score(np.zeros((3, 64))) == 0


def test_missing_entries_do_not_count_in_the_score(fitted: SCNN, samples: Any) -> None:
    X = np.where(np.random.default_rng(0).random(samples[1].shape) < 0.2, np.nan, samples[1])
    R = fitted.reconstruct(X)
    assert_allclose(fitted.score(X), 1 - np.nansum((X - R) ** 2) / np.nansum(X**2))


def test_projection_is_least_squares_on_the_support(fitted: SCNN, samples: Any) -> None:
    new, D = samples[1], fitted.components_
    codes, score = fitted.transform(new), fitted.score(new)
    fitted.set_params(transform_algorithm="projection")
    projected = fitted.transform(new)
    assert_array_equal(projected != 0, codes != 0)
    for x, u in zip(new, projected, strict=True):
        atoms = D[u != 0]
        assert_allclose(u[u != 0], np.linalg.lstsq(atoms.T, x, rcond=None)[0], atol=1e-4)
    assert fitted.score(new) > score + 0.01


def test_omp_codes_have_the_density(fitted: SCNN, samples: Any) -> None:
    new, D = samples[1], fitted.components_
    codes = fitted.set_params(transform_algorithm="omp").transform(new)
    assert_array_equal(codes, sparse_encode(new, D, algorithm="omp", n_nonzero_coefs=2))
    four = fit(SCNN, samples[0][:200], 12, density=4, transform_algorithm="omp")
    assert (np.count_nonzero(four.transform(new), axis=1) == 4).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("weight", "threshold"), [(4.0, 0.005), (0.0, 0.02)])
def test_the_network_of_the_paper(digits: Any, dtype: Any, weight: float, threshold: float) -> None:
    X = digits[:150].astype(dtype)
    scnn = SCNN(15, alpha=0.02, encoder_weight=weight, encoder_ridge=0, random_state=0, tol=1e-2)
    scnn.set_params(refine=False, transform_algorithm="paper").fit(X)
    assert scnn.threshold_ == threshold
    assert scnn.encoder_ridge_ == scnn.noise_variance_ == 0
    assert scnn.density_ is None
    assert_array_equal(scnn.transform(X), soft_threshold(X @ scnn.encoder_.T, dtype(threshold)))
    assert_allclose(scnn.encoder_r2_, fraction(X, scnn.reconstruct(X)), rtol=1e-5)


# Changes after fit


@pytest.mark.parametrize("refine", [True, False])
def test_another_density_needs_calibrate(samples: Any, refine: bool) -> None:
    train, new = samples
    scnn = fit(SCNN, train, 20, refine=refine)
    encoder = scnn.encoder_
    for target in (0.25, 3):
        scnn.set_params(density=target)
        for call in (scnn.transform, scnn.reconstruct, scnn.score):
            with pytest.raises(InvalidInputError, match=f"density is {target}, .* calibrate"):
                call(new)
        assert scnn.calibrate(train) is scnn
        assert scnn.density_ == target
        assert_allclose(
            density(scnn.transform(new)), target / 20 if target == 3 else 0.25, rtol=0.2
        )
    assert scnn.calibrate(train, density=0.1).density == 0.1
    assert_allclose(density(scnn.transform(new)), 0.1, rtol=0.2)
    if not refine:  # only the lengths of the filters change
        cosines = np.sum(scnn.encoder_ * encoder, axis=1) / np.linalg.norm(encoder, axis=1)
        assert_allclose(np.abs(cosines), np.linalg.norm(scnn.encoder_, axis=1))


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_calibrated_network_is_as_good_as_a_new_one(samples: Any, cls: Any) -> None:
    train, new = samples
    scnn = fit(cls, train, 20).calibrate(train, density=0.3)
    assert scnn.score(new) > fit(cls, train, 20, density=0.3).score(new) - 0.01
    # It adapts to other data.
    before = scnn.score(1 - new)
    assert scnn.calibrate(1 - train).score(1 - new) > before + 0.02


def test_calibrate_after_the_network_of_the_paper(samples: Any) -> None:
    train, new = samples
    scnn = fit(SCNN, train, 20, refine=False, transform_algorithm="paper")
    with pytest.raises(InvalidInputError, match="codes of transform_algorithm='paper' are not"):
        scnn.calibrate(train)
    scnn.set_params(transform_algorithm="encoder")
    with pytest.raises(InvalidInputError, match="the network was fitted with another algorithm"):
        scnn.transform(new)
    assert_allclose(density(scnn.calibrate(train).transform(new)), 0.1, rtol=0.2)


def test_a_failed_fit_or_calibrate_changes_nothing(fitted: Any, samples: Any) -> None:
    before = pickle.dumps(vars(fitted))
    X = samples[0]
    for bad, sentence in ((X[:, :5], "features"), (np.full_like(X, np.inf), "infinity")):
        with pytest.raises(InvalidInputError, match=sentence):
            fitted.calibrate(bad, density=0.3)
    for value in (0.0, -0.1, np.nan, "0.1", 1.5, 0, True):
        with pytest.raises(InvalidInputError, match=r"density must be a float above 0 and at most"):
            fitted.calibrate(X, density=value)
    with pytest.raises(InvalidInputError, match=r"density=25 non-zeros per sample need at least"):
        fitted.calibrate(X, density=25)
    with pytest.raises(InvalidInputError, match=r"density=25 non-zeros per sample need at least"):
        fitted.set_params(density=25).fit(X)
    with pytest.raises(InvalidInputError, match="set refine=False"):
        fitted.set_params(density=0.1, transform_algorithm="exact").fit(X)
    fitted.set_params(transform_algorithm="encoder")
    assert pickle.dumps(vars(fitted)) == before
