"""The codes of the encoder: threshold, gains, decoder, calibration and refinement."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits

from lincode import SCNN, MiniBatchSCNN
from lincode.core.threshold import soft_threshold
from lincode.exceptions import InvalidInputError
from lincode.metrics import rms_error

MODES = ("soft", "hard", "top_k")


@pytest.fixture(scope="module")
def fitted() -> tuple[Any, Any, Any]:
    """An SCNN with default parameters, its samples, and new samples."""
    X = np.random.default_rng(1).permutation(load_digits().data / 16)
    return SCNN(64, random_state=0).fit(X[:600]), X[:600], X[600:1000]


@pytest.fixture
def small(digits: Any) -> Any:
    """A new SCNN with 15 units, fitted to 150 digits."""
    return SCNN(15, random_state=0, tol=1e-3).fit(digits[:150])


def density(U: Any) -> float:
    return float(np.count_nonzero(U) / U.size)


def fraction(X: Any, R: Any) -> float:
    return float(1 - np.sum((X - R) ** 2) / np.sum(X**2))


# Quality on new samples


def test_codes_of_new_samples(fitted: Any) -> None:
    """Their density and their error are about those of training."""
    scnn, train, new = fitted
    assert abs(density(scnn.transform(new)) - scnn.usage_.mean()) < 0.05
    reconstructed = fraction(new, scnn.reconstruct(new))
    assert abs(scnn.encoder_r2_ - reconstructed) < 0.02
    # Without leave-one-out outputs it would promise more.
    assert scnn.encoder_r2_ <= fraction(train, scnn.reconstruct(train)) + 1e-3
    # The exact codes are shrunk by alpha.
    exact = copy.copy(scnn).set_params(transform_algorithm="exact")
    assert reconstructed > fraction(new, exact.reconstruct(new))
    # Without gains, so are the encoder's codes.
    assert (scnn.gains_ >= 0).all()
    plain = copy.copy(scnn).set_params(fit_gains=False)
    assert reconstructed > fraction(new, plain.reconstruct(new))


def test_calibrate_to_a_density_and_with_a_decoder(fitted: Any) -> None:
    scnn, _, new = fitted
    scnn = pickle.loads(pickle.dumps(scnn))
    for target in (0.02, 0.1, 0.3):
        assert scnn.calibrate(new, density=target) is scnn
        units = scnn.gains_ > 0  # a unit with the gain 0 has no codes
        assert_allclose(density(scnn.transform(new)), target, atol=1e-3 if units.all() else 0.03)
        assert_allclose(scnn.encoder_r2_, fraction(new, scnn.reconstruct(new)), atol=1e-6)
    before = scnn.encoder_r2_
    scnn.set_params(fit_decoder=True).calibrate(new)
    assert_allclose(scnn.encoder_r2_, fraction(new, scnn.reconstruct(new)), atol=1e-6)
    assert scnn.encoder_r2_ > before


# The codes


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("positive", [False, True])
def test_codes_are_the_thresholded_output(digits: Any, mode: str, positive: bool) -> None:
    X, new = digits[:150], digits[150:300]
    scnn = SCNN(15, random_state=0, tol=1e-2, threshold_mode=mode, transform_n_nonzero_coefs=4)
    scnn.set_params(positive_code=positive).fit(X)
    Z = new @ scnn.encoder_.T
    magnitude = Z if positive else np.abs(Z)
    if mode == "top_k":
        kept = (magnitude >= -np.sort(-magnitude, axis=1)[:, [3]]) & (magnitude > 0)
    else:
        kept = magnitude > scnn.threshold_
    shrunk = Z - np.sign(Z) * scnn.threshold_ if mode == "soft" else Z
    expected = np.where(kept, shrunk, 0)
    codes = scnn.transform(new)
    assert_allclose(codes, expected * scnn.gains_, atol=1e-12)
    assert_allclose(scnn.inverse_transform(codes), codes @ scnn.components_, atol=1e-12)
    assert_allclose(scnn.reconstruct(new), codes @ scnn.components_, atol=1e-12)
    assert_allclose(
        copy.copy(scnn).set_params(fit_gains=False).transform(new), expected, atol=1e-12
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_codes_of_the_paper(digits: Any, dtype: Any) -> None:
    X = digits[:150].astype(dtype)
    scnn = SCNN(15, 0.02, encoder_weight=4.0, random_state=0, tol=1e-2, encoder_ridge=0)
    scnn.set_params(threshold="alpha", threshold_mode="soft", fit_gains=False).fit(X)
    assert scnn.threshold_ == 0.02 / 4
    assert scnn.encoder_ridge_ == scnn.noise_variance_ == 0
    expected = soft_threshold(X @ scnn.encoder_.T, dtype(0.02 / 4))
    assert_array_equal(scnn.transform(X), expected)


def test_density_of_top_k(small: Any, digits: Any) -> None:
    n_used = round(small.usage_.sum())
    small.set_params(threshold_mode="top_k").calibrate(digits[:150])
    assert small.n_nonzero_coefs_ == n_used
    for target, k in ((0.2, 3), (1.0, 15), (0.03, 1)):
        codes = small.calibrate(digits, density=target).transform(digits)
        assert small.n_nonzero_coefs_ == k
        assert (np.count_nonzero(codes, axis=1) == k).all()
    assert small.calibrate(digits).matching_density_ == 0.03  # the previous density is kept
    small.set_params(transform_n_nonzero_coefs=4)
    assert small.calibrate(digits, density=4 / 15).n_nonzero_coefs_ == 4
    with pytest.raises(
        InvalidInputError, match=r"means 8 of 15 units .*_coefs is 4; set it to None"
    ):
        small.calibrate(digits, density=0.5)


# Changes after fit


def test_a_new_mode_needs_calibrate(small: Any, digits: Any) -> None:
    small.set_params(threshold_mode="soft")
    for call in (small.transform, small.reconstruct):
        with pytest.raises(
            InvalidInputError, match=r"threshold_mode was changed to 'soft' .*calib"
        ):
            call(digits)
    small.score(digits)  # it does not use the encoder's codes
    assert copy.copy(small).set_params(transform_algorithm="lasso").transform(digits).any()
    assert copy.copy(small).set_params(fit_gains=False).transform(digits).any()
    small.calibrate(digits[:150]).transform(digits)
    assert_allclose(small.encoder_r2_, fraction(digits, small.reconstruct(digits)), atol=0.06)


def test_a_failed_calibrate_changes_nothing(small: Any, digits: Any) -> None:
    before = dict(vars(small))
    with pytest.raises(InvalidInputError, match="features"):
        small.calibrate(digits[:, :5], density=0.1)
    for value in (-0.1, np.nan, "0.1", 2):
        with pytest.raises(
            InvalidInputError, match="density must be a finite number of at least 0"
        ):
            small.calibrate(digits, density=value)
    with pytest.raises(InvalidInputError, match="density requires threshold='match', got"):
        small.set_params(threshold=0.1).calibrate(digits, density=0.1)
    assert vars(small.set_params(threshold="match")) == before


def test_decoder_is_only_for_the_encoder(digits: Any) -> None:
    X = digits[:150]
    scnn = SCNN(15, random_state=0, tol=1e-3, fit_decoder=True).fit(X)
    U = scnn.transform(X)
    assert_array_equal(scnn.inverse_transform(U), U @ scnn.decoder_)
    assert fraction(X, U @ scnn.decoder_) > fraction(X, U @ scnn.components_)
    exact = copy.copy(scnn).set_params(transform_algorithm="exact")
    assert_array_equal(exact.inverse_transform(U), U @ scnn.components_)
    with pytest.raises(InvalidInputError, match="fit_gains was changed"):
        copy.copy(scnn).set_params(fit_gains=False).reconstruct(X)
    scnn.set_params(fit_decoder=False).calibrate(X)
    assert not hasattr(scnn, "decoder_")
    with pytest.raises(InvalidInputError, match="fit_decoder was changed"):
        scnn.set_params(fit_decoder=True).inverse_transform(U)


# Batches


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore:MiniBatchSCNN")
def test_tiny_batches_keep_usable_gains(digits: Any, mode: str) -> None:
    scnn = MiniBatchSCNN(10, random_state=0, threshold_mode=mode)
    for batch in np.array_split(digits[:75], 50):  # one or two samples
        scnn.partial_fit(batch)
        assert ((scnn.gains_ >= 0) & (scnn.gains_ < 100)).all()
        assert (scnn.gains_ > 0).any()
    assert fraction(digits, scnn.reconstruct(digits)) > 0.3


def test_batches_are_calibrated_like_the_whole(digits: Any) -> None:
    """The gains of a hard threshold are no prior for those of a soft threshold."""
    batches = np.array_split(digits, 6)
    scnn = MiniBatchSCNN(20, random_state=0)
    always = MiniBatchSCNN(20, random_state=0, threshold_mode="soft")
    for batch in batches[:-1]:
        scnn.partial_fit(batch)
        always.partial_fit(batch)
    changed = pickle.loads(pickle.dumps(scnn)).set_params(threshold_mode="soft")
    for network in (scnn, always, changed):
        network.partial_fit(batches[-1])
    new = (load_digits().data / 16)[600:1000]
    assert abs(density(scnn.transform(new)) - scnn.usage_.mean()) < 0.05
    assert fraction(new, scnn.reconstruct(new)) > 0.8
    soft, hard = always.gains_.mean(), scnn.gains_.mean()
    assert abs(changed.gains_.mean() - soft) < 0.3 * (soft - hard)


# Refinement


def test_refined_codes_reconstruct_better(digits: Any) -> None:
    refined = SCNN(24, refine_max_iter=10, random_state=0).fit(digits[:450])
    plain, test = clone(refined).set_params(refine_max_iter=0).fit(digits[:450]), digits[450:]
    codes = refined.transform(test)
    assert_allclose(
        rms_error(test, refined.inverse_transform(codes)),
        rms_error(test, codes @ refined.decoder_),
    )
    error = rms_error(test, refined.reconstruct(test))
    assert error < 0.9 * rms_error(test, plain.reconstruct(test))
    assert_array_equal(refined.encoder_, plain.encoder_)
    assert_array_equal(refined.components_, plain.components_)
    with pytest.raises(InvalidInputError, match="refine_max_iter was changed"):
        refined.set_params(refine_max_iter=0).transform(digits)
    assert_array_equal(refined.calibrate(digits).encoder_, plain.encoder_)
    assert not hasattr(refined, "refined_encoder_")


@pytest.mark.parametrize("mode", MODES)
def test_refinement_of_sparse_input_and_with_threads(mode: str, digits: Any) -> None:
    network = SCNN(24, refine_max_iter=3, threshold_mode=mode, random_state=0, n_jobs=1)
    codes = network.fit(digits).transform(digits)
    sparse = clone(network).fit(scipy.sparse.csr_matrix(digits)).transform(digits)
    assert abs(density(codes) - density(sparse)) < 0.01
    assert abs(density(codes) - network.usage_.mean()) < 0.1
    two = clone(network).set_params(n_jobs=2).fit(digits)
    assert_array_equal(two.refined_encoder_, network.refined_encoder_)


def test_refinement_that_does_not_help_keeps_the_encoder(digits: Any) -> None:
    """There are too few samples for 64 units."""
    network = SCNN(64, random_state=0).fit(digits[:60])
    error = rms_error(digits[60:], network.reconstruct(digits[60:]))
    with pytest.warns(UserWarning, match="refinement did not reduce the error"):
        network.set_params(refine_max_iter=20).calibrate(digits[:60])
    assert_array_equal(network.refined_encoder_, network.encoder_)
    assert rms_error(digits[60:], network.reconstruct(digits[60:])) < 1.1 * error


def test_combinations_that_are_refused(digits: Any) -> None:
    with pytest.raises(InvalidInputError, match="requires threshold='match'"):
        SCNN(8, refine_max_iter=1, threshold="alpha").fit(digits)
    for parameters in ({"fit_decoder": True}, {"refine_max_iter": 2}):
        with pytest.raises(InvalidInputError, match="partial_fit requires fit_decoder=False"):
            MiniBatchSCNN(8, **parameters).partial_fit(digits)
