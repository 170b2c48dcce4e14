"""MiniBatchSCNN with encoder_weight=0: online dictionary learning."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_sparse_coded_signal

from lincode import SCNN, MiniBatchSCNN, load, save


def network(**parameters: Any) -> MiniBatchSCNN:
    scnn = MiniBatchSCNN(16, 0.1, encoder_weight=0, batch_size=64, random_state=0)
    return scnn.set_params(**parameters)  # type: ignore[no-any-return]


def spectra(N: int) -> Any:
    """Return sums of few of 20 peaks."""
    rng = np.random.default_rng(0)
    peaks = np.exp(-0.5 * ((np.arange(40) - rng.uniform(0, 40, (20, 1))) / 2) ** 2)
    return (rng.gamma(2, 1, (N, 20)) * (rng.random((N, 20)) < 0.15)) @ peaks


def planted(N: int) -> Any:
    X, _, _ = make_sparse_coded_signal(
        n_samples=N, n_components=32, n_features=16, n_nonzero_coefs=3, random_state=0
    )
    return X


@pytest.mark.parametrize("name", ["digits", "spectra", "planted", "heavy-tailed"])
def test_fit_stops_by_itself_close_to_scnn(name: str, digits: Any) -> None:
    heavy = np.random.default_rng(0).standard_t(2, (1000, 12))
    data = {"digits": digits, "spectra": spectra(1500), "planted": planted(1500)}
    X = (data | {"heavy-tailed": heavy})[name]
    best = SCNN(16, "mean", encoder_weight=0, encoder_ridge=0.01, random_state=0).fit(X)
    scnn = network(alpha="mean", encoder_ridge=0.01).fit(X)
    assert -scnn.score(X) < 1.02 * -best.score(X)
    assert "converged" in scnn.stop_reason_
    assert scnn.n_iter_ < 60


def test_encoder_is_the_ridge_regression_of_the_lasso_codes(digits: Any) -> None:
    scnn = network(encoder_ridge=0.1).fit(digits)
    codes = np.count_nonzero(scnn.transform(digits), axis=1)
    U = scnn.set_params(transform_algorithm="lasso").transform(digits)
    XtX = digits.T @ digits
    ridge = 0.1 * np.trace(XtX) / np.linalg.matrix_rank(XtX)
    C = np.linalg.solve(XtX + ridge * np.eye(64), digits.T @ U).T
    assert np.linalg.norm(scnn.encoder_ - C) < 0.05 * np.linalg.norm(C)
    assert_allclose(scnn.usage_, np.count_nonzero(U, axis=0) / 600, atol=0.03)
    assert codes.mean() == pytest.approx(np.count_nonzero(U, axis=1).mean(), rel=0.1)


def test_same_seed_gives_the_same_bits_for_any_number_of_threads(digits: Any) -> None:
    X = np.vstack([digits, 1 - digits])
    one, again, two = (network(batch_size=400, n_jobs=jobs).fit(X) for jobs in (1, 1, 2))
    for name in ("components_", "encoder_", "gains_", "energy_path_"):
        assert_array_equal(getattr(one, name), getattr(again, name))
        assert_allclose(getattr(one, name), getattr(two, name), atol=1e-9)


def test_partial_fit_continues_after_save_and_load(digits: Any, tmp_path: Path) -> None:
    two_passes = network(max_iter=2, max_no_improvement=None)
    for scnn in (network().partial_fit(digits[:300]), two_passes.fit(digits[:300])):
        save(scnn, tmp_path / "model.skops")
        restored = load(tmp_path / "model.skops")
        for model in (scnn, restored):
            model.partial_fit(digits[300:])
        assert_array_equal(scnn.components_, restored.components_)
        assert_array_equal(scnn.encoder_, restored.encoder_)
        assert scnn.matching_threshold_ == restored.matching_threshold_


def test_partial_fit_learns_a_large_batch_in_parts(digits: Any) -> None:
    scnn = network().partial_fit(digits)
    assert (scnn.n_steps_, scnn.n_samples_seen_, len(scnn.energy_path_)) == (1, 600, 1)
    once = network(batch_size=600).partial_fit(digits)
    assert scnn.score(digits) > once.score(digits)


def test_partial_fit_with_one_row_at_a_time(digits: Any) -> None:
    scnn = network(n_components=4)
    for row in digits[:20]:
        scnn.partial_fit(row[None])
    assert scnn.n_samples_seen_ == 20
    assert np.isfinite(scnn.encoder_).all()


def test_encoder_weight_may_change_between_batches(digits: Any) -> None:
    scnn = network().partial_fit(digits[:300])
    scnn.set_params(encoder_weight=1.0).partial_fit(digits[300:])
    scnn.set_params(encoder_weight=0).partial_fit(digits[:300])
    assert scnn.n_steps_ == 3
    assert np.isfinite(scnn.score(digits))


def test_sparse_input_gives_the_same_network(digits: Any) -> None:
    dense = network(max_iter=3, max_no_improvement=None).fit(digits)
    sparse = network(max_iter=3, max_no_improvement=None).fit(scipy.sparse.csr_array(digits))
    assert_allclose(sparse.components_, dense.components_, atol=1e-6)
    assert_allclose(sparse.encoder_, dense.encoder_, atol=1e-5)


def test_float32_gives_nearly_the_same_energy(digits: Any) -> None:
    X = digits.astype(np.float32)
    scnn = network().fit(X)
    assert scnn.components_.dtype == scnn.encoder_.dtype == np.float32
    assert -scnn.score(digits) == pytest.approx(-network().fit(digits).score(digits), rel=0.02)


def test_positive_codes_and_atoms(digits: Any) -> None:
    scnn = network(positive_code=True, positive_dict=True, transform_algorithm="lasso").fit(digits)
    assert scnn.components_.min() >= 0
    assert scnn.transform(digits).min() >= 0


def test_failed_batch_changes_nothing(digits: Any) -> None:
    scnn = network().partial_fit(digits)
    before = pickle.dumps(vars(scnn))
    bad = digits.copy()
    bad[-1, 3] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        scnn.partial_fit(bad)
    scnn.set_params(alpha=-1.0)
    with pytest.raises(ValueError, match="alpha"):
        scnn.fit(digits)
    scnn.set_params(alpha=0.1)
    assert pickle.dumps(vars(scnn)) == before


def test_batch_size_of_one_encoder_weight_is_not_that_of_the_other(digits: Any) -> None:
    scnn = network(batch_size=None, max_iter=1, max_no_improvement=None)
    assert scnn.fit(digits).n_steps_ == 2
    assert scnn.set_params(encoder_weight=1.0).fit(digits).n_steps_ == 1
