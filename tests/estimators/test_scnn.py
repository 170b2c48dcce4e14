"""SCNN: training, codes, invariants, warm start, callbacks and warnings."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lincode import SCNN, Iteration, MiniBatchSCNN, sparse_encode
from lincode.estimators import scnn as estimators_scnn
from lincode.metrics import rms_error
from lincode.training import alternation
from lincode.training.loop import HAS_CALLBACKS
from tests.estimators.energies import exact_energy

EXACT: dict[str, Any] = {"refine": False, "transform_algorithm": "exact"}
"""The parameters with which the network minimises the energy."""


def train(m: int, X: Any, **parameters: Any) -> SCNN:
    """Fit a network that minimises the energy, unless the parameters say something else."""
    scnn: SCNN = SCNN(m, **{"alpha": 0.1, "random_state": 0, **EXACT} | parameters).fit(X)
    return scnn


@pytest.fixture(scope="module")
def fitted(digits: Any) -> SCNN:
    return train(16, digits, encoder_ridge=0, transform_algorithm="paper")


def view(scnn: SCNN, **parameters: Any) -> SCNN:
    """Return a copy of a fitted network with other parameters."""
    other: SCNN = copy.copy(scnn).set_params(**parameters)
    return other


# Training


def test_fitted_attributes(fitted: SCNN) -> None:
    D = fitted.components_
    assert D.shape == fitted.encoder_.shape == (16, 64)
    assert (np.linalg.norm(D, axis=1) <= 1 + 1e-9).all()
    assert fitted.n_iter_ == len(fitted.energy_path_) - 1
    assert fitted.energy_ == fitted.energy_path_[-1]
    assert (np.diff(fitted.energy_path_) <= 0).all()
    reason = "converged: the relative decrease of the energy fell to tol or below"
    assert fitted.stop_reason_ == reason
    assert fitted.usage_.shape == (16,)
    assert ((fitted.usage_ >= 0) & (fitted.usage_ <= 1)).all()
    assert set(fitted.optimality_) == {"codes", "dictionary", "encoder", "joint"}
    assert fitted.optimality_["codes"] <= 1e-4
    assert fitted.optimality_["dictionary"] <= 1e-4
    assert fitted.optimality_["encoder"] <= 1e-10


def test_smaller_tolerance_gives_smaller_residuals(digits: Any) -> None:
    X = digits[:200]
    loose, tight = train(8, X, tol=1e-3), train(8, X, tol=1e-7, max_iter=2000)
    assert tight.stop_reason_.startswith("converged")
    assert tight.energy_ < loose.energy_
    assert tight.optimality_["codes"] <= 1e-6
    assert tight.optimality_["dictionary"] <= 1e-6
    assert tight.optimality_["joint"] < 0.2 * loose.optimality_["joint"]


def test_training_starts_from_a_given_dictionary(digits: Any) -> None:
    D = train(12, digits).components_
    again = train(12, digits, dict_init=D, tol=1e-3)
    assert again.n_iter_ <= 15
    assert (np.sum(again.components_ * D, axis=1) > 0.95).all()
    # Only the directions of atoms outside of the unit balls matter.
    D = 1e300 * D / np.linalg.norm(D, axis=1, keepdims=True)
    huge = train(12, digits, dict_init=D, tol=1e-3)
    assert_allclose(huge.components_, again.components_, atol=0.05)


def test_warm_start_continues_the_training(digits: Any) -> None:
    scnn = train(12, digits, warm_start=True)
    first, components, n_iter = scnn.energy_, scnn.components_, scnn.n_iter_
    scnn.fit(digits)
    assert scnn.n_iter_ < 0.5 * n_iter
    assert scnn.energy_ <= first * (1 + 1e-6)
    assert_allclose(scnn.components_, components, atol=0.05)
    with pytest.raises(ValueError, match=r"must remain \(12, 64\), got \(12, 63\)"):
        scnn.fit(digits[:, 1:])
    assert scnn.set_params(warm_start=False).fit(digits[:, 1:]).n_features_in_ == 63


def test_warm_start_of_a_refined_network(digits: Any) -> None:
    scnn = SCNN(12, random_state=0, warm_start=True).fit(digits[:400])
    score = scnn.score(digits[400:])
    assert scnn.fit(digits[:400]).score(digits[400:]) > score - 0.02


def test_warm_start_on_data_that_lack_a_former_direction(rng: np.random.Generator) -> None:
    """The encoder along directions in which the new data are zero must have no effect."""
    X = rng.standard_normal((200, 10))
    X[:, 3] = 0
    scnn = train(6, X, alpha=0.05, warm_start=True)
    expected = copy.copy(scnn).fit(X)
    scnn.encoder_[:, 3] = 1e6
    assert_allclose(scnn.fit(X).energy_path_, expected.energy_path_, rtol=1e-9)


def test_zero_encoder_weight_is_plain_dictionary_learning(digits: Any) -> None:
    scnn = train(16, digits, encoder_weight=0.0, encoder_ridge=0)
    U = view(scnn, transform_algorithm="exact").transform(digits)
    assert_array_equal(U, view(scnn, transform_algorithm="lasso").transform(digits))
    # The energy is that of the lasso,
    lasso = ((digits - U @ scnn.components_) ** 2).sum() / 64 + 2 * 0.1 / 16 * np.abs(U).sum()
    assert_allclose(scnn.energy_, lasso / len(digits), rtol=1e-3)
    # and the encoder is the least-squares fit to the codes.
    C = np.linalg.lstsq(digits, U, rcond=None)[0].T
    assert_allclose(digits @ scnn.encoder_.T, digits @ C.T, atol=0.05)


def test_alpha_max_is_the_smallest_alpha_with_zero_codes(digits: Any) -> None:
    scnn = SCNN(8, random_state=0)
    edge = scnn.alpha_max(digits)
    assert not hasattr(scnn, "n_features_in_")
    assert_allclose(edge, 8 / 64 * np.linalg.norm(digits, axis=1).max())
    with pytest.warns(UserWarning, match=r"all codes will be zero: alpha is .* must be below"):
        above = train(8, digits, alpha=1.0001 * edge)
    assert not above.usage_.any()
    assert above.n_replaced_atoms_ == 0
    # Below it, unused atoms are replaced, and there is no warning.
    assert train(8, digits, alpha=0.999 * edge).transform(digits).any()


def test_replaced_atoms_are_counted_and_used(digits: Any) -> None:
    D = np.zeros((10, 64))
    D[0, 30] = 1
    scnn = train(10, digits, alpha=0.05, dict_init=D)
    assert scnn.n_replaced_atoms_ >= 9
    assert (scnn.usage_ > 0).all()
    assert (np.diff(scnn.energy_path_) <= 0).all()


@pytest.mark.parametrize(("eta", "positive_code"), [(0.0, True), (1.0, False)])
def test_positive_dictionary(digits: Any, eta: float, positive_code: bool) -> None:
    X = digits - digits.mean(axis=0)
    alpha = 0.1 * SCNN(20).alpha_max(X)
    signs: Any = {"positive_code": positive_code, "encoder_weight": eta, "alpha": alpha}
    scnn = train(20, X, positive_dict=True, tol=1e-3, **signs)
    assert (scnn.components_ >= 0).all()
    assert (scnn.usage_ > 0).mean() > 0.5
    assert scnn.optimality_["dictionary"] <= 1e-3
    free = train(20, X, tol=1e-3, **signs)
    assert free.energy_ < scnn.energy_ < 0.9 * scnn.energy_path_[0]
    assert (free.components_ < 0).any()
    # The signs of a given start are changed if necessary.
    start = -np.random.default_rng(0).standard_normal((20, 64))
    scnn.set_params(dict_init=start, tol=1e-1).fit(X)
    assert (scnn.components_ >= 0).all()
    assert scnn.usage_.any()
    refined = SCNN(20, positive_dict=True, positive_code=positive_code, random_state=0).fit(X)
    assert (refined.components_ >= 0).all()
    assert refined.score(X) > 0.2


# Data for which the answer is known


@pytest.mark.parametrize("m", [10, 40])
def test_reconstruction_without_penalty_is_that_of_pca(patches: Any, m: int) -> None:
    """Section 4.1 of the paper."""
    scnn = train(m, patches, alpha=0.0, transform_algorithm="paper")
    pca = PCA(m).fit(patches)
    best = rms_error(patches, pca.inverse_transform(pca.transform(patches)))
    assert rms_error(patches, scnn.reconstruct(patches)) <= 1.01 * best


@pytest.mark.slow
@pytest.mark.parametrize("encoder_weight", [1.0, 0.0])
def test_dictionary_of_generated_data_is_recovered(
    rng: np.random.Generator, encoder_weight: float
) -> None:
    N, p, m = 3000, 64, 40
    D = rng.standard_normal((m, p))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    U = rng.standard_normal((N, m)) * (rng.random((N, m)) < 0.05)
    X = U @ D + 0.01 * rng.standard_normal((N, p))
    scnn = train(m, X, alpha=0.02, encoder_weight=encoder_weight, encoder_ridge=0)
    cosine = np.abs(scnn.components_ @ D.T).max(axis=0)
    assert np.mean(cosine > 0.98) >= 0.95


# Codes


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("algorithm", ["exact", "lasso"])
def test_codes_computed_by_optimisation_are_optimal(
    digits: Any, algorithm: str, positive: bool
) -> None:
    scnn = train(16, digits, positive_code=positive, tol=1e-2, transform_algorithm=algorithm)
    U = scnn.transform(digits)
    D, C = scnn.components_, scnn.encoder_
    eta = 1.0 if algorithm == "exact" else 0.0
    b = digits @ D.T / 64 + eta * digits @ C.T / 16
    G = U @ (D @ D.T / 64 + eta * np.eye(16) / 16) - b
    tau = 0.1 / 16
    below = np.maximum(-G - tau, 0)
    zero = below if positive else np.maximum(np.abs(G) - tau, 0)
    violation = np.where(U == 0, zero, np.abs(G + tau * np.sign(U)))
    assert (violation.max(axis=1) <= 2e-6 * np.abs(b).max(axis=1)).all()
    assert not (positive and (U < 0).any())


def test_lasso_codes_are_those_of_sparse_encode(fitted: SCNN, digits: Any) -> None:
    D = fitted.components_
    for alpha in (None, 0.3):
        network = view(fitted, transform_algorithm="lasso", transform_alpha=alpha)
        U = network.transform(digits)
        expected = sparse_encode(digits, D, alpha=(alpha or 0.1) * 64 / 16)
        assert_allclose(U, expected, atol=1e-4 * np.abs(expected).max())


def test_energy_of_training_is_that_of_exact_codes(fitted: SCNN, digits: Any) -> None:
    """It is minimised once more over the codes."""
    assert_allclose(exact_energy(fitted, digits), fitted.energy_, rtol=1e-3)
    assert exact_energy(fitted, digits) <= fitted.energy_


# Invariants


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scaling_data_and_alpha_scales_only_the_codes(digits: Any, dtype: Any) -> None:
    scale = dtype(2.0**300 if dtype == np.float64 else 2.0**30)
    X = digits[:200].astype(dtype)
    one, two = train(6, X), train(6, scale * X, alpha=0.1 * float(scale))
    rtol = 1e-9 if dtype == np.float64 else 1e-3
    assert_allclose(two.components_, one.components_, atol=rtol)
    assert_allclose(two.transform(scale * X) / scale, one.transform(X), atol=rtol)


def test_training_does_not_depend_on_the_order_of_the_samples(digits: Any) -> None:
    order = np.random.default_rng(0).permutation(len(digits))
    one, two = (train(12, X, dict_init=digits[:12]) for X in (digits, digits[order]))
    assert_allclose(two.components_, one.components_, atol=1e-7)
    assert_allclose(two.transform(digits), one.transform(digits), atol=1e-7)


# Subsets, callbacks and progress


@pytest.fixture
def subsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start on subsets of 50 and 200 of 600 samples."""
    for name, value in (("MIN_ROWS", 50), ("ROWS_PER_UNIT", 1), ("MIN_TOTAL_ROWS", 1)):
        monkeypatch.setattr(alternation, name, value)


@pytest.mark.usefixtures("subsets")
def test_training_starts_on_subsets(digits: Any) -> None:
    seen: list[Iteration] = []
    scnn = train(8, digits, alpha="auto", callback=seen.append)
    sizes = [now.n_samples for now in seen]
    assert sizes == sorted(sizes)
    assert list(dict.fromkeys(sizes)) == [50, 200, 600]
    assert scnn.energy_path_.shape == (scnn.n_iter_ + 1,)
    assert scnn.n_iter_ == sizes.count(600)
    assert (np.diff(scnn.energy_path_) <= 0).all()
    assert_allclose(exact_energy(scnn, digits), scnn.energy_, rtol=1e-3)
    seen.clear()
    scnn.set_params(warm_start=True).fit(digits)
    assert {now.n_samples for now in seen} == {600}
    # A stop on a subset is followed by one iteration on all samples.
    stopped = train(8, digits, callback=lambda now: True)
    assert stopped.n_iter_ == 1
    assert stopped.stop_reason_ == "the callback requested a stop"
    assert stopped.transform(digits).shape == (600, 8)


def test_refined_network_starts_with_a_short_training(
    digits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Iteration] = []
    assert SCNN(8, random_state=0, callback=seen.append).fit(digits).n_iter_ == 10
    started = [(now.n_samples, now.max_iter) for now in seen if now.stage == "iterations"]
    assert started == [(500, 10)] * 10  # 100 samples are held out
    monkeypatch.setattr(estimators_scnn, "START_CODES", 8 * 150)
    seen.clear()
    scnn = SCNN(8, random_state=0, callback=seen.append, max_iter=3).fit(digits)
    assert "refinement" in scnn.stop_reason_
    assert {(now.n_samples, now.max_iter) for now in seen[:3]} == {(150, 3)}


def test_callback_receives_every_iteration_and_can_stop(digits: Any) -> None:
    seen: list[Iteration] = []
    scnn = train(8, digits, callback=seen.append)
    assert [now.n_iter for now in seen] == list(range(1, scnn.n_iter_ + 1))
    assert_allclose([now.energy_per_sample for now in seen][:-1], scnn.energy_path_[1:-1])
    assert seen[-1].change <= scnn.tol < min(now.change for now in seen[:3])
    for parameters in ({}, {"refine": True, "transform_algorithm": "encoder"}):
        stopped = train(8, digits, callback=lambda now: now.n_iter == 3, **parameters)
        assert stopped.n_iter_ == 3
        assert stopped.stop_reason_ == "the callback requested a stop"


def test_snapshot_is_a_fitted_network_and_does_not_change_training(digits: Any) -> None:
    snapshots: list[SCNN] = []
    plain = train(8, digits, tol=1e-3)
    scnn = clone(plain).set_params(callback=lambda now: snapshots.append(now.snapshot()))
    scnn.fit(digits)
    assert_array_equal(scnn.components_, plain.components_)
    energies = [exact_energy(network, digits) for network in (*snapshots, scnn)]
    assert energies[0] > energies[2] > energies[-1]
    assert_allclose(snapshots[-1].transform(digits), scnn.transform(digits), atol=0.01)
    assert snapshots[0].callback is None
    assert snapshots[0].n_features_in_ == 64
    scnn.set_params(refine=True, transform_algorithm="encoder").fit(digits)
    assert_allclose(np.mean(snapshots[-1].transform(digits) != 0), 0.1, rtol=0.2)


def test_verbose_prints_one_line_per_iteration(digits: Any, capsys: Any) -> None:
    scnn = train(8, digits, tol=1e-2, verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == scnn.n_iter_
    assert lines[0].startswith("[SCNN] 600 samples, iteration 1 of at most 200: energy per sample ")
    scnn.set_params(verbose=0).fit(digits)
    assert capsys.readouterr().out == ""


class Recorder:
    """A callback of scikit-learn that records the tasks, and may stop or fail."""

    def __init__(self, fail_in: str = "", stop_after: int | None = None) -> None:
        self.fail_in, self.stop_after = fail_in, stop_after
        self.events: list[str] = []
        self.energies: list[float] = []

    def _record(self, event: str) -> None:
        self.events.append(event)
        if event == self.fail_in:
            raise RuntimeError(f"failure in {event}")

    def setup(self, estimator: Any, context: Any) -> None:
        self._record("setup")

    def teardown(self, estimator: Any, context: Any) -> None:
        self._record("teardown")

    def on_fit_task_begin(self, estimator: Any, context: Any, *, X: Any = None) -> None:
        assert X is not None
        self._record(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator: Any, context: Any, *, metadata: Any = None) -> bool:
        if context.task_name == "iteration":
            self.energies.append(metadata["energy"])
        self._record(f"end {context.task_name}")
        return self.stop_after is not None and len(self.energies) >= self.stop_after


needs_callbacks = pytest.mark.skipif(
    not HAS_CALLBACKS, reason="scikit-learn has callbacks since version 1.9"
)
CALLED_BACK = [
    pytest.param(SCNN(6, random_state=0, tol=1e-3), id="refined"),
    pytest.param(SCNN(6, random_state=0, tol=1e-3, refine=False), id="subsets"),
    pytest.param(MiniBatchSCNN(6, random_state=0, batch_size=200), id="MiniBatchSCNN"),
]


@needs_callbacks
@pytest.mark.usefixtures("subsets")
@pytest.mark.parametrize("network", CALLED_BACK)
def test_callbacks_of_scikit_learn_see_every_iteration(network: Any, digits: Any) -> None:
    plain = clone(network).fit(digits)
    recorder = Recorder()
    observed = clone(network).set_callbacks(recorder).fit(digits)
    assert_array_equal(observed.components_, plain.components_)
    n = len(recorder.energies)
    assert n >= getattr(plain, "n_steps_", plain.n_iter_)
    tasks = n * ["begin iteration", "end iteration"]
    assert recorder.events == ["setup", "begin fit", *tasks, "end fit", "teardown"]
    assert_allclose(recorder.energies[-2], plain.energy_path_[-2])
    stopped = clone(network).set_callbacks(Recorder(stop_after=2)).fit(digits)
    assert stopped.stop_reason_.startswith("the callback requested a stop")
    assert np.isfinite(stopped.transform(digits)).all()


@needs_callbacks
@pytest.mark.usefixtures("subsets")
@pytest.mark.parametrize("network", CALLED_BACK[:2])
@pytest.mark.parametrize("event", ["setup", "begin iteration", "end iteration", "teardown"])
def test_a_fitted_network_survives_a_callback_that_fails(
    network: Any, event: str, digits: Any
) -> None:
    network = clone(network).fit(digits)
    recorder = Recorder(event)
    network.set_callbacks(recorder)
    before = dict(vars(network))
    with pytest.raises(RuntimeError, match=f"failure in {event}"):
        network.fit(digits[::-1])
    assert vars(network).keys() == before.keys()
    assert all(vars(network)[name] is value for name, value in before.items())
    assert recorder.events[-1] == "teardown"


# Warnings: they point to the line of the user's program, and they say what helps

NOISE = np.random.default_rng(0).standard_normal((60, 100))
"""Fewer samples than features, which have nothing in common"""
SMALL = NOISE.T * np.where(np.arange(60) == 20, 1e-9, 1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: SCNN(4, refine=False, max_iter=1).fit(NOISE), "max_iter was reached before conv"),
        (lambda: SCNN(4, alpha=1e3).fit_transform(NOISE), "zero: alpha is 1e+03, but it must"),
        (lambda: SCNN(4).fit(0 * NOISE), "all codes will be zero: X is all zero"),
        (lambda: make_pipeline(StandardScaler(), SCNN(4, alpha=9)).fit(NOISE), "all codes will be"),
        (lambda: SCNN(5, random_state=0).fit(NOISE), "reconstruct only"),
        (lambda: SCNN(4, refine=False, random_state=0).fit(SMALL), "some features of X are so sm"),
        (lambda: SCNN(9, random_state=0).fit(NOISE), "density=0.1 of 9 components is less than"),
        (lambda: MiniBatchSCNN(61, random_state=0).fit(NOISE), "60 samples are too few for 61"),
    ],
)
def test_warnings_point_to_the_line_that_called_the_library(
    call: Callable[[], Any], words: str
) -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    (warning,) = [warning for warning in found if words in str(warning.message)]
    assert warning.filename == __file__
    assert warning.lineno == inspect.getsourcelines(call)[1]
    convergence = words.startswith("max_iter")
    assert issubclass(warning.category, ConvergenceWarning) == convergence


def test_codes_that_are_not_solved_are_reported(
    fitted: SCNN, digits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lincode.estimators.base.MAX_CODE_STEPS", 1)
    network = view(fitted, transform_algorithm="exact")
    for method in (network.transform, network.score):
        with pytest.warns(ConvergenceWarning, match="did not reach the tolerance; increase alpha"):
            method(digits)
