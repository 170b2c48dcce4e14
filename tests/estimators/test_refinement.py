"""Refinement through the estimators."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal
from sklearn.base import clone

import lincode
from lincode import SCNN, MiniBatchSCNN
from lincode.exceptions import InvalidInputError
from lincode.metrics import rms_error


@pytest.fixture(scope="module")
def refined(digits: Any) -> SCNN:
    return SCNN(24, refine_max_iter=10, random_state=0).fit(digits[:450])


def test_refined_codes_reconstruct_better(refined: SCNN, digits: Any) -> None:
    test = digits[450:]
    plain = clone(refined).set_params(refine_max_iter=0).fit(digits[:450])
    error = rms_error(test, refined.inverse_transform(refined.transform(test)))
    assert error < 0.9 * rms_error(test, plain.reconstruct(test))
    assert_array_equal(refined.encoder_, plain.encoder_)
    assert_array_equal(refined.components_, plain.components_)
    exact = clone(refined).set_params(transform_algorithm="exact").fit(digits[:450])
    codes = exact.transform(test)
    assert_array_equal(exact.inverse_transform(codes), codes @ exact.components_)


@pytest.mark.parametrize("kind", [SCNN, MiniBatchSCNN])
@pytest.mark.parametrize("mode", ["hard", "soft", "top_k"])
def test_modes_and_sparse_input(kind: Any, mode: str, digits: Any) -> None:
    network = kind(24, refine_max_iter=3, threshold_mode=mode, random_state=0)
    dense = network.fit(digits).transform(digits)
    sparse = clone(network).fit(scipy.sparse.csr_matrix(digits)).transform(digits)
    assert np.isfinite(dense).all()
    assert abs((dense != 0).mean() - (sparse != 0).mean()) < 0.01
    assert abs((dense != 0).mean() - network.usage_.mean()) < 0.1


def test_change_of_refine_max_iter_after_fit_is_refused(digits: Any) -> None:
    for fit_gains in (True, False):
        parameters: Any = {"refine_max_iter": 3, "fit_gains": fit_gains, "random_state": 0}
        network = SCNN(24, **parameters).fit(digits)
        with pytest.raises(InvalidInputError, match="refine_max_iter was changed"):
            network.set_params(refine_max_iter=0).transform(digits)
        with pytest.raises(InvalidInputError, match="refine_max_iter was changed"):
            network.inverse_transform(np.ones((1, 24)))
        codes = network.calibrate(digits).transform(digits)
        assert not hasattr(network, "refined_encoder_")
        assert abs((codes != 0).mean() - network.usage_.mean()) < 0.01


def test_change_of_gains_with_a_decoder_is_refused(digits: Any) -> None:
    network = SCNN(24, fit_decoder=True, random_state=0).fit(digits)
    with pytest.raises(InvalidInputError, match="fit_gains was changed"):
        network.set_params(fit_gains=False).reconstruct(digits)


def test_partial_fit_refuses_what_one_batch_is_too_small_for(digits: Any) -> None:
    for parameters in ({"fit_decoder": True}, {"refine_max_iter": 2}):
        with pytest.raises(InvalidInputError, match="partial_fit requires fit_decoder=False"):
            MiniBatchSCNN(8, **parameters).partial_fit(digits)
        network = MiniBatchSCNN(8, random_state=0).partial_fit(digits)
        network.set_params(**parameters).calibrate(digits)
        assert np.isfinite(network.reconstruct(digits)).all()


def test_thresholds_other_than_match_are_refused(digits: Any) -> None:
    for threshold in ("alpha", 0.1):
        with pytest.raises(InvalidInputError, match="requires threshold='match'"):
            SCNN(8, refine_max_iter=1, threshold=threshold).fit(digits)


def test_save_load_and_pickle(refined: SCNN, digits: Any, tmp_path: Path) -> None:
    lincode.save(refined, tmp_path / "model")
    for other in (lincode.load(tmp_path / "model"), pickle.loads(pickle.dumps(refined))):
        assert_array_equal(other.transform(digits), refined.transform(digits))
        assert_array_equal(other.reconstruct(digits), refined.reconstruct(digits))


def test_result_does_not_depend_on_the_number_of_threads(digits: Any) -> None:
    X = digits.astype(np.float32)
    fits = [SCNN(24, refine_max_iter=5, n_jobs=n, random_state=0).fit(X) for n in (1, 2)]
    assert_array_equal(fits[0].encoder_, fits[1].encoder_)
    assert_array_equal(fits[0].refined_encoder_, fits[1].refined_encoder_)


def test_refinement_that_does_not_help_keeps_the_encoder(digits: Any) -> None:
    """There are too few samples for 64 units."""
    network = SCNN(64, random_state=0).fit(digits[:60])
    error = rms_error(digits[60:], network.reconstruct(digits[60:]))
    with pytest.warns(UserWarning, match="refinement did not reduce the error"):
        network.set_params(refine_max_iter=20).calibrate(digits[:60])
    assert_array_equal(network.refined_encoder_, network.encoder_)
    assert rms_error(digits[60:], network.reconstruct(digits[60:])) < 1.1 * error


def test_warning_as_error_keeps_the_fitted_network(digits: Any) -> None:
    network = SCNN(64, refine_max_iter=20, random_state=0)
    with pytest.raises(UserWarning, match="refine"):  # warnings are errors in these tests
        network.fit(digits[:60])
    assert np.isfinite(network.reconstruct(digits)).all()
