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
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from lincode import SCNN, Iteration, MiniBatchSCNN
from lincode.encoder import refinement
from lincode.estimators import minibatch
from lincode.exceptions import InvalidInputError
from tests.estimators.energies import exact_energy

EXACT: dict[str, Any] = {"refine": False, "transform_algorithm": "exact"}
"""The parameters with which the network minimises the energy."""


def network(**parameters: Any) -> MiniBatchSCNN:
    """A network that minimises the energy, unless the parameters say something else."""
    options: Any = {"alpha": 0.1, "random_state": 0, **EXACT} | parameters
    return MiniBatchSCNN(options.pop("n_components", 16), **options)


def refined(**parameters: Any) -> MiniBatchSCNN:
    """A network that is refined, with the default codes."""
    options: Any = {"alpha": "auto", "refine": True, "transform_algorithm": "encoder"}
    return network(**options | parameters)


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
    parameters: Any = {"encoder_weight": weight, "encoder_ridge": 0.01, "random_state": 0} | EXACT
    best = SCNN(16, **parameters).fit(X)
    scnn = MiniBatchSCNN(16, batch_size=150 if weight else 64, **parameters).fit(X)
    assert exact_energy(scnn, X) < 1.02 * exact_energy(best, X)
    assert "converged" in scnn.stop_reason_
    assert scnn.n_iter_ < 60


def test_energy_of_batches_is_that_of_the_data_for_features_that_depend_on_each_other() -> None:
    """The ridge is relative to the mean eigenvalue that is not zero, in training and afterwards."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((400, 5)) @ rng.standard_normal((5, 100))
    parameters: Any = {"encoder_ridge": 0.3, "random_state": 0} | EXACT
    scnn = MiniBatchSCNN(10, batch_size=100, **parameters).fit(X)
    assert_allclose(scnn.energy_, exact_energy(scnn, X), rtol=0.03)
    assert exact_energy(scnn, X) < 1.03 * SCNN(10, **parameters).fit(X).energy_


def test_encoder_without_weight_is_the_ridge_regression_of_the_lasso_codes(digits: Any) -> None:
    scnn = network(encoder_weight=0, batch_size=64, encoder_ridge=0.1).fit(digits)
    U = scnn.set_params(transform_algorithm="lasso").transform(digits)
    XtX = digits.T @ digits
    ridge = 0.1 * np.trace(XtX) / np.linalg.matrix_rank(XtX)
    C = np.linalg.solve(XtX + ridge * np.eye(64), digits.T @ U).T
    assert np.linalg.norm(scnn.encoder_ - C) < 0.05 * np.linalg.norm(C)
    assert_allclose(scnn.usage_, np.count_nonzero(U, axis=0) / 600, atol=0.03)


def test_constraints_hold(digits: Any) -> None:
    for make in (network, refined):
        scnn = make(positive_code=True, positive_dict=True).fit(digits)
        assert scnn.components_.min() >= 0
        assert np.linalg.norm(scnn.components_, axis=1).max() < 1 + 1e-6
        assert scnn.transform(digits).min() >= 0


# The same network from the same rows


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
    seen, before = fitted.n_samples_seen_, exact_energy(fitted, digits)
    assert fitted.partial_fit(digits[:100]).n_samples_seen_ == seen + 100
    assert exact_energy(fitted, digits) < 1.1 * before


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_large_batches_are_learned_as_well_as_by_several_passes(digits: Any, weight: float) -> None:
    """``partial_fit`` sees a batch once, so it repeats the updates."""
    scnn = network(batch_size=100, encoder_weight=weight, encoder_ridge=0.1).partial_fit(digits)
    best = network(batch_size=100, encoder_weight=weight, encoder_ridge=0.1).fit(digits)
    assert exact_energy(scnn, digits) < 1.05 * exact_energy(best, digits)
    assert (scnn.n_steps_, scnn.n_samples_seen_, len(scnn.energy_path_)) == (1, 600, 1)


@pytest.mark.parametrize("make", [network, refined])
@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_pickled_stream_continues_identically(
    digits: Any, make: Any, weight: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minibatch, "n_start_rows", lambda m: 300)
    parameters = {"encoder_weight": weight, "batch_size": 100}
    fitted = make(max_iter=2, max_no_improvement=None, **parameters).fit(digits[:300])
    for scnn in (make(**parameters).partial_fit(digits[:300]).partial_fit(digits[:200]), fitted):
        restored = pickle.loads(pickle.dumps(scnn))
        for model in (scnn, restored):
            model.partial_fit(digits[300:])
        for name in ("components_", "encoder_", "usage_", "energy_path_", "threshold_"):
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


def test_encoder_weight_and_kind_of_batches_may_change(digits: Any) -> None:
    scnn = network(encoder_weight=0).partial_fit(digits[:300])
    scnn.set_params(encoder_weight=1.0).partial_fit(scipy.sparse.csr_matrix(digits[300:]))
    scnn.set_params(encoder_weight=0).partial_fit(digits[:300].astype(np.float32))
    assert scnn.n_steps_ == 3
    assert scnn.components_.dtype == np.float32
    best = network(encoder_weight=0).fit(digits)
    assert exact_energy(scnn, digits) < 1.1 * exact_energy(best, digits)


# Refinement of batches


def stream(N: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).permutation(load_digits().data / 16)[:N]


def test_partial_fit_refines_after_the_first_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later batches improve the codes of the encoder, but not the energy."""
    assert minibatch.n_start_rows(5) == 20_000
    assert minibatch.n_start_rows(4000) == 40_000
    monkeypatch.setattr(minibatch, "MIN_START_ROWS", 600)
    X = stream(1797)
    batches, new = np.split(X[:1400], 14), X[1400:]
    scnn, plain = refined(), refined(refine=False)
    scores: list[float] = []
    for batch in batches:
        before = scnn.energy_path_ if scores else None
        scores.append(scnn.partial_fit(batch).score(new))
        plain.partial_fit(batch)
    assert scnn.n_samples_seen_ == plain.n_samples_seen_ == 1400
    assert scnn.n_steps_ == plain.n_steps_ == 14
    assert_array_equal(scnn.energy_path_, before)
    assert_array_equal(scnn.energy_path_, plain.energy_path_[:6])
    for _ in range(15):  # further passes
        for batch in batches:
            scnn.partial_fit(batch)
    assert scnn.score(new) > max(scores[5], plain.score(new)) + 0.02
    assert_allclose(np.mean(scnn.transform(new) != 0), 0.1, rtol=0.15)
    assert_allclose(scnn.encoder_r2_, scnn.score(new), atol=0.05)


@pytest.mark.parametrize("wide", [False, True])
def test_few_rows_do_not_change_a_network_much(wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minibatch, "MIN_START_ROWS", 300)
    if wide:
        monkeypatch.setattr(refinement, "MAX_ROTATED_FEATURES", 10)
    X = stream(800)
    scnn = refined().partial_fit(X[:400])
    before = scnn.score(X[400:])
    for k in range(400, 410, 2):
        scnn.partial_fit(X[k : k + 2])
    assert scnn.score(X[400:]) > before - 0.02


def test_calibrated_stream_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minibatch, "MIN_START_ROWS", 300)
    X = stream(1200)
    scnn = refined().partial_fit(X[:400]).partial_fit(X[400:500])
    scnn.set_params(density=0.3)
    with pytest.raises(InvalidInputError, match=r"density is 0.3, .* for 0.1; call calibrate"):
        scnn.partial_fit(X[500:700])
    scnn.calibrate(X[:500])
    score, encoder = scnn.score(X[700:]), scnn.encoder_
    scnn.partial_fit(X[500:700])
    assert np.linalg.norm(scnn.encoder_ - encoder) < 0.2 * np.linalg.norm(encoder)
    assert scnn.score(X[700:]) > score - 0.01
    assert_allclose(np.mean(scnn.transform(X[700:]) != 0), 0.3, rtol=0.15)


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
    expected = np.cumsum([101, 100, 100, 100, 100] * 3)
    assert [iteration.n_samples for iteration in seen] == expected.tolist()
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
        ({"density": 1.5}, "density must be a float above 0 and at most 1.0 or an integer"),
        ({"dict_init": "random"}, "dict_init: "),
        ({"max_no_improvement": 0}, "max_no_improvement must be None or an integer"),
    ],
)
def test_invalid_parameters_are_explained(
    digits: Any, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        network(**parameters).fit(digits)


def test_small_batches_after_others_do_no_harm(digits: Any) -> None:
    """A batch of one sample is too small to calibrate, and a refined network stays refined."""
    train, test = digits[:500], digits[500:]
    stream = MiniBatchSCNN(32, density=0.2, random_state=0).partial_fit(train)
    score = stream.score(test)
    stream.partial_fit(train[:1])
    assert stream.score(test) > score - 0.02
    assert np.mean(stream.transform(test) != 0) == pytest.approx(0.2, rel=0.15)
    refined = MiniBatchSCNN(32, density=0.2, random_state=0).fit(train)
    score = refined.score(test)
    refined.partial_fit(train[:20])
    assert refined.score(test) > score - 0.02
