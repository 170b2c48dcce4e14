"""MiniBatchSCNN: training on batches, with and without the encoder term."""

import pickle
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from lincode import SCNN, Iteration, MiniBatchSCNN
from lincode.exceptions import InvalidInputError


def network(**parameters: Any) -> MiniBatchSCNN:
    scnn: MiniBatchSCNN = MiniBatchSCNN(16, 0.1, random_state=0).set_params(**parameters)
    return scnn


def spectra(N: int) -> Any:
    """Return sums of few of 20 peaks."""
    rng = np.random.default_rng(0)
    peaks = np.exp(-0.5 * ((np.arange(40) - rng.uniform(0, 40, (20, 1))) / 2) ** 2)
    return (rng.gamma(2, 1, (N, 20)) * (rng.random((N, 20)) < 0.15)) @ peaks


# The energy


@pytest.mark.parametrize("weight", [0.0, 1.0])
@pytest.mark.parametrize("name", ["digits", "spectra", "heavy-tailed"])
def test_fit_stops_by_itself_close_to_scnn(name: str, weight: float, digits: Any) -> None:
    heavy = np.random.default_rng(0).standard_t(2, (1000, 12))
    X = {"digits": digits, "spectra": spectra(1500), "heavy-tailed": heavy}[name]
    parameters: Any = {"encoder_weight": weight, "encoder_ridge": 0.01, "random_state": 0}
    best = SCNN(16, **parameters).fit(X)
    scnn = MiniBatchSCNN(16, batch_size=150 if weight else 64, **parameters).fit(X)
    assert -scnn.score(X) < 1.02 * -best.score(X)
    assert "converged" in scnn.stop_reason_
    assert scnn.n_iter_ < 60


def test_energy_of_batches_is_that_of_the_score_for_features_that_depend_on_each_other() -> None:
    """The ridge is relative to the mean eigenvalue that is not zero, in training and afterwards."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((400, 5)) @ rng.standard_normal((5, 100))
    scnn = MiniBatchSCNN(10, encoder_ridge=0.3, batch_size=100, random_state=0).fit(X)
    assert_allclose(scnn.energy_, -scnn.score(X), rtol=0.03)
    assert -scnn.score(X) < 1.03 * SCNN(10, encoder_ridge=0.3, random_state=0).fit(X).energy_


def test_encoder_without_weight_is_the_ridge_regression_of_the_lasso_codes(digits: Any) -> None:
    scnn = network(encoder_weight=0, batch_size=64, encoder_ridge=0.1).fit(digits)
    codes = np.count_nonzero(scnn.transform(digits), axis=1)
    U = scnn.set_params(transform_algorithm="lasso").transform(digits)
    XtX = digits.T @ digits
    ridge = 0.1 * np.trace(XtX) / np.linalg.matrix_rank(XtX)
    C = np.linalg.solve(XtX + ridge * np.eye(64), digits.T @ U).T
    assert np.linalg.norm(scnn.encoder_ - C) < 0.05 * np.linalg.norm(C)
    assert_allclose(scnn.usage_, np.count_nonzero(U, axis=0) / 600, atol=0.03)
    assert codes.mean() == pytest.approx(np.count_nonzero(U, axis=1).mean(), rel=0.1)


def test_constraints_hold(digits: Any) -> None:
    scnn = network(positive_code=True, positive_dict=True, transform_algorithm="lasso").fit(digits)
    assert scnn.components_.min() >= 0
    assert np.linalg.norm(scnn.components_, axis=1).max() < 1 + 1e-12
    assert scnn.transform(digits).min() >= 0


# The same network from the same rows


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_result_depends_on_the_seed_but_not_on_threads_or_the_fit_before(
    digits: Any, weight: float
) -> None:
    parameters = {"batch_size": 200, "encoder_weight": weight}
    one = network(n_jobs=1, **parameters).fit(digits)
    again = network(n_jobs=1, **parameters).fit(1 - digits).fit(digits)
    two = network(n_jobs=2, **parameters).fit(digits)
    for name in ("components_", "encoder_", "gains_", "energy_path_", "matching_threshold_"):
        assert_array_equal(getattr(one, name), getattr(again, name), name)
        assert_allclose(getattr(one, name), getattr(two, name), atol=1e-9)
    other = network(random_state=1, **parameters).fit(digits)
    assert not np.allclose(one.components_, other.components_)


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_sparse_input_gives_the_same_network(digits: Any, weight: float) -> None:
    fits = [
        network(batch_size=100, encoder_weight=weight, max_iter=3, max_no_improvement=None).fit(X)
        for X in (digits, scipy.sparse.csr_matrix(digits), scipy.sparse.csr_array(digits))
    ]
    for sparse in fits[1:]:
        assert_allclose(sparse.components_, fits[0].components_, atol=1e-6)
        assert_allclose(sparse.encoder_, fits[0].encoder_, atol=1e-5)


def test_float32_gives_nearly_the_same_energy(digits: Any) -> None:
    X = digits.astype(np.float32)
    scnn = network(batch_size=200).fit(X)
    assert scnn.components_.dtype == scnn.encoder_.dtype == scnn.transform(X).dtype == np.float32
    assert_allclose(
        scnn.score(digits), network(batch_size=200).fit(digits).score(digits), rtol=0.02
    )


@pytest.mark.slow
def test_memory_does_not_depend_on_the_number_of_samples(tmp_path: Path) -> None:
    def peak(N: int) -> int:
        np.save(tmp_path / "X.npy", np.random.default_rng(0).standard_normal((N, 20)))
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
        tracemalloc.start()
        network(n_components=40, batch_size=1000, max_iter=1, max_no_improvement=None).fit(X)
        largest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return largest

    peak(2_000)
    small, large = peak(12_000), peak(48_000)  # at most 10,000 rows are kept for the last step
    codes = 36_000 * 40 * 8
    assert large - small < 0.15 * codes


# partial_fit


def test_partial_fit_learns_batches_of_any_size_and_continues_after_fit(digits: Any) -> None:
    scnn = network()
    for rows in (slice(0, 200), slice(200, 210), slice(210, 600)):
        scnn.partial_fit(digits[rows])
    assert (scnn.n_samples_seen_, scnn.n_steps_, scnn.n_iter_) == (600, 3, 1)
    assert scnn.energy_path_.shape == (3,)
    assert scnn.energy_path_[2] < 0.9 * scnn.energy_path_[0]
    fitted = network(batch_size=200).fit(digits)
    seen, score = fitted.n_samples_seen_, fitted.score(digits)
    assert fitted.partial_fit(digits[:100]).n_samples_seen_ == seen + 100
    assert fitted.score(digits) > 1.1 * score


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_large_batches_are_learned_as_well_as_by_several_passes(digits: Any, weight: float) -> None:
    """``partial_fit`` sees a batch once, so it repeats the updates."""
    scnn = network(batch_size=100, encoder_weight=weight, encoder_ridge=0.1).partial_fit(digits)
    best = network(batch_size=100, encoder_weight=weight, encoder_ridge=0.1).fit(digits)
    assert -scnn.score(digits) < 1.05 * -best.score(digits)
    assert (scnn.n_steps_, scnn.n_samples_seen_, len(scnn.energy_path_)) == (1, 600, 1)


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_pickled_stream_continues_identically(digits: Any, weight: float) -> None:
    parameters = {"encoder_weight": weight, "batch_size": 100}
    fitted = network(max_iter=2, max_no_improvement=None, **parameters).fit(digits[:300])
    for scnn in (network(**parameters).partial_fit(digits[:300]), fitted):
        restored = pickle.loads(pickle.dumps(scnn))
        for model in (scnn, restored):
            model.partial_fit(digits[300:])
        for name in ("components_", "encoder_", "gains_", "energy_path_", "matching_threshold_"):
            assert_array_equal(getattr(scnn, name), getattr(restored, name), name)


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_failed_batch_changes_nothing(digits: Any, weight: float) -> None:
    scnn = network(encoder_weight=weight).partial_fit(digits)
    before = pickle.dumps(vars(scnn))
    bad = digits.copy()
    bad[3, 3] = np.inf
    with pytest.raises(InvalidInputError, match="infinity"):
        scnn.partial_fit(bad)
    with pytest.raises(InvalidInputError, match="features"):
        scnn.partial_fit(digits[:, :30])
    with pytest.raises(InvalidInputError, match="n_components must remain 16"):
        scnn.set_params(n_components=10).partial_fit(digits)
    scnn.set_params(n_components=16)

    def fail(_: Iteration) -> None:
        raise KeyboardInterrupt

    for method in (scnn.fit, scnn.partial_fit):
        scnn.callback = fail
        with pytest.raises(KeyboardInterrupt):
            method(1 - digits)
        scnn.callback = None
    assert pickle.dumps(vars(scnn)) == before
    fresh = network()
    with pytest.raises(InvalidInputError, match="infinity"):
        fresh.partial_fit(bad)
    assert vars(fresh) == vars(network())


def test_short_half_life_adapts_to_a_changing_stream() -> None:
    rng = np.random.default_rng(0)
    first = rng.random((500, 12)) * (np.arange(12) < 6)
    then = rng.random((500, 12)) * (np.arange(12) >= 6)
    scores = {}
    for half_life in (500.0, float("inf")):
        scnn = MiniBatchSCNN(10, 0.05, half_life=half_life, random_state=0).partial_fit(first)
        for _ in range(20):
            scnn.partial_fit(then)
        scores[half_life] = scnn.score(then)
        if half_life == 500:
            assert scnn.n_replaced_atoms_ > 0, "atoms of forgotten data are replaced"
    alone = MiniBatchSCNN(10, 0.05, random_state=0).partial_fit(then)
    assert -scores[500] < 1.1 * -alone.score(then)
    assert scores[500] > scores[float("inf")]


def test_encoder_weight_and_kind_of_batches_may_change(digits: Any) -> None:
    scnn = network(encoder_weight=0).partial_fit(digits[:300])
    scnn.set_params(encoder_weight=1.0).partial_fit(scipy.sparse.csr_matrix(digits[300:]))
    scnn.set_params(encoder_weight=0).partial_fit(digits[:300].astype(np.float32))
    assert scnn.n_steps_ == 3
    assert scnn.components_.dtype == np.float32
    assert -scnn.score(digits) < 1.1 * -network(encoder_weight=0).fit(digits).score(digits)


# Stopping, callbacks and parameters


def test_warning_at_max_iter_unless_all_passes_were_requested(digits: Any) -> None:
    with pytest.warns(ConvergenceWarning, match="max_iter passes"):
        network(batch_size=100, max_iter=1, max_no_improvement=50).fit(digits)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        scnn = network(batch_size=100, max_iter=2, max_no_improvement=None).fit(digits)
    assert (scnn.n_iter_, scnn.n_steps_, scnn.n_samples_seen_) == (2, 12, 1200)


def test_callback_receives_every_batch_and_can_stop(digits: Any) -> None:
    seen: list[Iteration] = []
    scnn = network(batch_size=110, max_iter=3, max_no_improvement=None, callback=seen.append)
    scnn.fit(digits[:501])
    assert [iteration.n_iter for iteration in seen] == list(range(1, 16))
    assert [iteration.n_samples for iteration in seen] == [101, 100, 100, 100, 100] * 3
    assert {iteration.max_iter for iteration in seen} == {15}
    assert_allclose([iteration.energy_per_sample for iteration in seen], scnn.energy_path_)
    expected = np.abs(np.diff(scnn.energy_path_)) / scnn.energy_path_[:-1]
    assert_allclose([iteration.change for iteration in seen[1:]], expected)
    scnn.set_params(callback=lambda iteration: iteration.n_iter == 4).fit(digits)
    assert (scnn.n_steps_, scnn.n_samples_seen_, scnn.n_iter_) == (4, 400, 1)
    assert scnn.stop_reason_ == "the callback requested a stop"
    assert scnn.transform(digits).any()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"batch_size": 0}, "batch_size must be None or an integer of at least 1"),
        ({"half_life": 0.0}, "half_life must be None or a number of at least 1, got"),
        ({"half_life": "inf"}, "half_life must be None or"),
        ({"init": "random"}, "init must be 'data', got 'random'"),
        ({"max_no_improvement": 0}, "max_no_improvement must be None or an integer"),
    ],
)
def test_invalid_parameters_are_explained(
    digits: Any, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        network(**parameters).fit(digits)
