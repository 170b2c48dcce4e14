"""SCNN as a scikit-learn transformer."""

import copy
import pickle
import tracemalloc
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from lincode.networks.scnn import EnergyWeights, SCNNTraining
from lincode.networks.training import train
from lincode.rows.memory import MemoryRows
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from lincode import SCNN, Iteration, soft_threshold
from lincode.core.energy import energy

PAPER: dict[str, Any] = {
    "threshold": "alpha",
    "threshold_mode": "soft",
    "fit_gains": False,
    "encoder_ridge": 0,
}
"""The parameters with which the encoder is that of the paper."""


@pytest.fixture(scope="module")
def fitted(digits: Any) -> SCNN:
    return SCNN(n_components=16, alpha=0.1, random_state=0, **PAPER).fit(digits)


def view(scnn: SCNN, **parameters: Any) -> SCNN:
    """Return a copy of a fitted network with other parameters."""
    other: SCNN = copy.copy(scnn).set_params(**parameters)
    return other


def test_encoder_codes_are_a_product_and_a_soft_threshold(fitted: SCNN, digits: Any) -> None:
    expected = soft_threshold(digits @ fitted.encoder_.T, 0.1)
    assert_allclose(fitted.transform(digits), expected, atol=1e-12)
    assert_allclose(
        view(fitted, threshold=0.02).transform(digits),
        soft_threshold(digits @ fitted.encoder_.T, 0.02),
        atol=1e-12,
    )
    assert_allclose(
        view(fitted, positive_code=True).transform(digits),
        np.maximum(digits @ fitted.encoder_.T - 0.1, 0),
        atol=1e-12,
    )


@pytest.mark.parametrize(("eta", "threshold"), [(0.5, 0.2), (2.0, 0.05), (0.0, 0.1)])
def test_threshold_alpha_minimises_the_encoder_and_l1_terms(
    digits: Any, eta: float, threshold: float
) -> None:
    scnn = SCNN(8, 0.1, encoder_weight=eta, random_state=0, tol=1e-2, **PAPER).fit(digits)
    expected = soft_threshold(digits @ scnn.encoder_.T, threshold)
    assert_allclose(scnn.transform(digits), expected, atol=1e-12)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("algorithm", ["exact", "lasso"])
def test_codes_computed_by_optimisation_are_optimal(
    digits: Any, algorithm: str, positive: bool
) -> None:
    scnn = SCNN(16, 0.1, random_state=0, positive_code=positive, transform_algorithm=algorithm)
    U = scnn.fit_transform(digits)
    eta = 1.0 if algorithm == "exact" else 0.0

    def value(V: Any) -> float:
        return energy(digits, V, scnn.components_, scnn.encoder_, 0.1, eta)

    best = value(U)
    rng = np.random.default_rng(0)
    for size in (1e-4, 1e-2):
        nearby = U + size * rng.standard_normal(U.shape) * (rng.random(U.shape) < 0.1)
        assert value(np.maximum(nearby, 0) if positive else nearby) > best
    assert value(view(scnn, transform_algorithm="encoder").transform(digits)) > best
    assert not (positive and (U < 0).any())


@pytest.mark.parametrize("algorithm", ["encoder", "exact", "lasso"])
@pytest.mark.parametrize("split_sign", [False, True])
def test_fit_transform_equals_fit_and_transform(
    digits: Any, algorithm: str, split_sign: bool
) -> None:
    scnn = SCNN(10, 0.1, transform_algorithm=algorithm, split_sign=split_sign, random_state=0)
    assert_array_equal(clone(scnn).fit_transform(digits), scnn.fit(digits).transform(digits))


def test_split_signs_can_be_merged(fitted: SCNN, digits: Any) -> None:
    U = fitted.transform(digits)
    split = view(fitted, split_sign=True)
    V = split.transform(digits)
    assert V.shape == (len(digits), 32)
    assert (V >= 0).all()
    assert_array_equal(V[:, :16] - V[:, 16:], U)
    assert_allclose(split.inverse_transform(V), fitted.inverse_transform(U))
    names = split.get_feature_names_out()
    assert list(names[[0, 15, 16, 31]]) == ["scnn0_pos", "scnn15_pos", "scnn0_neg", "scnn15_neg"]


def test_inverse_transform_and_reconstruct(fitted: SCNN, digits: Any) -> None:
    U = fitted.transform(digits)
    assert_allclose(fitted.inverse_transform(U), U @ fitted.components_)
    assert_allclose(fitted.reconstruct(digits), U @ fitted.components_)
    assert_allclose(view(fitted, split_sign=True).reconstruct(digits), U @ fitted.components_)
    assert_allclose(fitted.inverse_transform(scipy.sparse.csr_array(U)), U @ fitted.components_)
    with pytest.raises(ValueError, match=r"codes must have 16 columns.*got 3"):
        fitted.inverse_transform(np.ones((2, 3)))


def test_score_is_the_negative_energy_per_sample(fitted: SCNN, digits: Any) -> None:
    new = digits[::7]
    U = view(fitted, transform_algorithm="exact").transform(new)
    E = energy(new, U, fitted.components_, fitted.encoder_, 0.1)
    assert_allclose(fitted.score(new), -E / len(new), rtol=1e-12)
    # The parameters of transform have no effect.
    assert fitted.score(new) == view(fitted, threshold=9.0, split_sign=True).score(new)
    # On the training data it is the energy of training, minimised once more over the codes.
    assert_allclose(-fitted.score(digits), fitted.energy_, rtol=1e-3)
    assert -fitted.score(digits) <= fitted.energy_


def test_fitted_attributes(fitted: SCNN, digits: Any) -> None:
    assert fitted.components_.shape == fitted.encoder_.shape == (16, 64)
    assert (np.linalg.norm(fitted.components_, axis=1) <= 1 + 1e-9).all()
    assert fitted.n_iter_ == len(fitted.energy_path_) - 1
    assert fitted.energy_ == fitted.energy_path_[-1]
    assert (np.diff(fitted.energy_path_) <= 0).all()
    assert fitted.stop_reason_.startswith("converged")
    assert fitted.usage_.shape == (16,)
    assert (fitted.usage_ >= 0).all()
    assert (fitted.usage_ <= 1).all()
    assert set(fitted.optimality_) == {"codes", "dictionary", "encoder", "joint"}
    assert fitted.optimality_["codes"] <= 1e-4
    assert fitted.optimality_["dictionary"] <= 1e-4
    assert fitted.optimality_["encoder"] <= 1e-10
    largest = np.take_along_axis(
        fitted.components_, np.abs(fitted.components_).argmax(axis=1)[:, None], axis=1
    )
    assert (largest > 0).all()


@pytest.mark.slow
def test_smaller_tolerance_gives_smaller_residuals(digits: Any) -> None:
    loose = SCNN(16, 0.1, tol=1e-3, random_state=0).fit(digits)
    tight = SCNN(16, 0.1, tol=1e-7, max_iter=2000, random_state=0).fit(digits)
    assert tight.stop_reason_.startswith("converged")
    assert tight.energy_ < loose.energy_
    assert tight.optimality_["codes"] <= 1e-6
    assert tight.optimality_["dictionary"] <= 1e-6
    assert tight.optimality_["joint"] < 0.2 * loose.optimality_["joint"]


def test_joint_residual_is_that_of_the_final_network(digits: Any) -> None:
    """Compute it from the codes, D and C of a separate training."""
    X = digits[:100]
    rows = MemoryRows(X, 8, n_threads=1)
    training = SCNNTraining(
        rows,
        X[:8] / np.linalg.norm(X[:8], axis=1, keepdims=True),
        np.zeros((8, 64)),
        EnergyWeights(0.1),
        tol=1e-4,
    )
    train(training, max_iter=10, tol=0.0)
    U, D, C = rows.U, training.D, training.C
    b = X @ D.T / 64 + X @ C.T / 8
    G = U @ (D @ D.T / 64 + np.eye(8) / 8) - b
    tau = 0.1 / 8
    violation = np.where(U != 0, np.abs(G + tau * np.sign(U)), np.maximum(np.abs(G) - tau, 0))
    expected = (violation.max(axis=1) / np.abs(b).max(axis=1)).max()
    optimality = training.result().optimality
    assert_allclose(optimality["joint"], expected, rtol=1e-6)
    assert optimality["joint"] > 2 * optimality["codes"]


@pytest.mark.parametrize("positive", [False, True])
def test_matching_threshold_gives_the_density_of_the_trained_codes(
    digits: Any, positive: bool
) -> None:
    scnn = SCNN(20, 0.1, threshold_mode="soft", positive_code=positive, random_state=0)
    # fit measures the threshold on leave-one-out outputs, and calibrate on the samples themselves.
    codes = scnn.fit_transform(digits)
    assert_allclose((codes != 0).mean(), scnn.usage_.mean(), atol=0.02)
    codes = scnn.calibrate(digits).transform(digits)
    assert_allclose((codes != 0).mean(), scnn.usage_.mean(), atol=1e-3)
    Z = soft_threshold(digits @ scnn.encoder_.T, scnn.matching_threshold_, positive=positive)
    assert_allclose(codes, scnn.gains_ * Z, atol=1e-12)
    assert (view(scnn, threshold="alpha").transform(digits) != 0).mean() < (codes != 0).mean()


def test_nearly_empty_encoder_codes_are_reported(digits: Any) -> None:
    scnn = SCNN(20, "0.3*max", threshold="alpha", encoder_weight=0.1, random_state=0)
    with pytest.warns(UserWarning, match=r"threshold .* is too high. Set threshold='match'"):
        scnn.fit(digits)
    scnn.set_params(threshold="match").fit(digits)
    scnn.set_params(threshold="alpha", transform_algorithm="exact").fit(digits)


def test_warm_start_on_data_without_a_former_direction(digits: Any) -> None:
    """The encoder along directions that the new data lack must have no effect."""
    for seed in range(10):
        Y = np.random.default_rng(seed).standard_normal((200, 10))
        scnn = SCNN(6, 0.05, random_state=0, warm_start=True, transform_algorithm="exact")
        small, smaller = (np.where(np.arange(10) == 3, size, 1) for size in (4e-7, 1e-7))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such small features are reported
            scnn.fit(Y * small).fit(Y * smaller)
            scnn.encoder_[:, 3] = 1e6
            scnn.fit(Y * smaller)
        assert (np.diff(scnn.energy_path_) <= 0).all()


def test_alpha_max_does_not_copy_the_callback(digits: Any) -> None:
    class Uncopyable:
        def __deepcopy__(self, memo: object) -> None:
            raise AssertionError("copied")

        def __call__(self, iteration: Iteration) -> None: ...

    assert SCNN(8, callback=Uncopyable()).alpha_max(digits) > 0


def test_same_seed_gives_identical_results_and_another_seed_does_not(digits: Any) -> None:
    one, two, other = (SCNN(12, 0.1, random_state=seed).fit(digits) for seed in (3, 3, 4))
    assert_array_equal(one.components_, two.components_)
    assert_array_equal(one.encoder_, two.encoder_)
    assert_array_equal(one.energy_path_, two.energy_path_)
    assert not np.allclose(one.components_, other.components_)


def test_threads_change_results_only_by_rounding(digits: Any) -> None:
    reference = SCNN(40, 0.1, n_jobs=1, random_state=0, max_iter=15, tol=0)
    with pytest.warns(ConvergenceWarning):
        reference.fit(digits)
    for n_jobs, blas in ((2, 1), (3, 2), (None, 2), (None, 1)):
        with threadpool_limits(blas, user_api="blas"), pytest.warns(ConvergenceWarning):
            other = clone(reference).set_params(n_jobs=n_jobs).fit(digits)
        assert_allclose(other.components_, reference.components_, atol=1e-8)
        assert_allclose(other.energy_path_, reference.energy_path_, rtol=1e-10)


def test_warm_start_continues_the_training(digits: Any) -> None:
    scnn = SCNN(12, 0.1, random_state=0, warm_start=True).fit(digits)
    first, components = scnn.energy_, scnn.components_
    scnn.fit(digits)
    assert scnn.n_iter_ < 10
    assert scnn.energy_ <= first * (1 + 1e-6)
    assert_allclose(scnn.components_, components, atol=0.05)
    with pytest.raises(
        ValueError, match=r"warm_start=True, .* must remain \(12, 64\), got \(12, 63\)"
    ):
        scnn.fit(digits[:, 1:])
    assert scnn.set_params(warm_start=False).fit(digits[:, 1:]).n_features_in_ == 63


def test_training_starts_from_a_given_array(digits: Any) -> None:
    D = SCNN(12, 0.1, random_state=0).fit(digits).components_
    again = SCNN(12, 0.1, init=D, tol=1e-3).fit(digits)
    assert again.n_iter_ <= 15
    assert (np.sum(again.components_ * D, axis=1) > 0.95).all()


def test_zero_encoder_weight_is_plain_dictionary_learning(digits: Any) -> None:
    scnn = SCNN(16, 0.1, encoder_weight=0.0, encoder_ridge=0, random_state=0).fit(digits)
    U = view(scnn, transform_algorithm="exact").transform(digits)
    assert_array_equal(U, view(scnn, transform_algorithm="lasso").transform(digits))
    # The energy is that of the lasso,
    lasso = ((digits - U @ scnn.components_) ** 2).sum() / 64 + 2 * 0.1 / 16 * np.abs(U).sum()
    assert_allclose(scnn.energy_, lasso / len(digits), rtol=1e-3)
    # and the encoder is the least-squares fit to the codes.
    C = np.linalg.lstsq(digits, U, rcond=None)[0].T
    assert_allclose(digits @ scnn.encoder_.T, digits @ C.T, atol=0.05)
    assert scnn.energy_ < SCNN(16, 0.1, random_state=0).fit(digits).energy_


def test_larger_encoder_weight_brings_encoder_codes_closer_to_exact_codes(digits: Any) -> None:
    def distance(eta: float) -> float:
        scnn = SCNN(16, 0.1, encoder_weight=eta, random_state=0, **PAPER)
        U = view(scnn.fit(digits), transform_algorithm="exact").transform(digits)
        return float(np.linalg.norm(U - scnn.transform(digits)) / np.linalg.norm(U))

    assert distance(10.0) < 0.5 * distance(1.0)


def test_alpha_max_is_the_smallest_alpha_with_zero_codes(digits: Any) -> None:
    scnn = SCNN(8, random_state=0)
    edge = scnn.alpha_max(digits)
    assert not hasattr(scnn, "n_features_in_")
    assert_allclose(edge, 8 / 64 * np.linalg.norm(digits, axis=1).max())
    with pytest.warns(UserWarning, match=r"all codes will be zero: alpha is .* must be below"):
        above = SCNN(8, 1.0001 * edge, random_state=0).fit(digits)
    assert not above.usage_.any()
    assert above.n_replaced_atoms_ == 0
    for seed in range(3):
        below = SCNN(8, 0.999 * edge, transform_algorithm="exact", random_state=seed)
        assert below.fit_transform(digits).any()


def test_replaced_atoms_are_counted_and_used(digits: Any) -> None:
    D = np.zeros((10, 64))
    D[0, 30] = 1
    scnn = SCNN(10, 0.05, init=D).fit(digits)
    assert scnn.n_replaced_atoms_ >= 9
    assert (scnn.usage_ > 0).all()
    assert (np.diff(scnn.energy_path_) <= 0).all()


@pytest.mark.slow
def test_default_solver_is_at_least_as_good_as_that_of_the_paper(digits: Any) -> None:
    for init in ("data", "paper"):
        for dtype in (np.float64, np.float32):
            X = digits[:150].astype(dtype)
            paper = SCNN(10, 0.1, init=init, solver="paper", encoder_ridge=0, random_state=0)
            with pytest.warns(ConvergenceWarning):
                paper.fit(X)
            assert paper.n_iter_ == 50
            default = SCNN(10, 0.1, init=init, encoder_ridge=0, random_state=0).fit(X)
            assert paper.energy_path_[0] == default.energy_path_[0]  # the same start
            assert default.energy_ <= paper.energy_


def test_training_does_not_depend_on_the_order_of_the_samples(digits: Any) -> None:
    D = SCNN(12, 0.1, random_state=0, tol=1e-2).fit(digits).components_
    order = np.random.default_rng(0).permutation(len(digits))
    straight = SCNN(12, 0.1, init=D).fit(digits)
    shuffled = SCNN(12, 0.1, init=D).fit(digits[order])
    assert_allclose(shuffled.components_, straight.components_, atol=1e-7)
    assert_allclose(shuffled.transform(digits), straight.transform(digits), atol=1e-7)


def test_callback_receives_every_iteration_and_can_stop(digits: Any) -> None:
    seen: list[Iteration] = []
    scnn = SCNN(8, 0.1, random_state=0, callback=seen.append).fit(digits)
    assert [iteration.n_iter for iteration in seen] == list(range(1, scnn.n_iter_ + 1))
    stopped = SCNN(8, 0.1, random_state=0, callback=lambda now: now.n_iter == 3).fit(digits)
    assert stopped.n_iter_ == 3
    assert stopped.stop_reason_ == "the callback requested a stop"


def test_verbose_prints_one_line_per_iteration(
    digits: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    scnn = SCNN(8, 0.1, random_state=0, verbose=1).fit(digits)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + scnn.n_iter_
    assert lines[0] == "[SCNN] start: 600 samples, 64 features"
    assert lines[1].startswith("[SCNN] iteration 1/200  energy per sample ")
    SCNN(8, 0.1, random_state=0).fit(digits)
    assert capsys.readouterr().out == ""


def test_warning_if_max_iter_is_reached(digits: Any) -> None:
    with pytest.warns(
        ConvergenceWarning, match="max_iter was reached before convergence; increase"
    ):
        scnn = SCNN(8, 0.1, max_iter=2, random_state=0).fit(digits)
    assert scnn.n_iter_ == 2


@pytest.mark.slow
def test_pipeline_grid_search_and_pickle(digits: Any) -> None:
    y = (digits[:, 20] > 0.5).astype(int)
    model = make_pipeline(SCNN(6, random_state=0, tol=1e-2), LogisticRegression())
    search = GridSearchCV(model, {"scnn__alpha": [0.05, 0.1], "scnn__split_sign": [False, True]})
    search.fit(digits, y)
    assert search.best_score_ > 0.7
    by_energy = GridSearchCV(
        SCNN(alpha=0.1, random_state=0, tol=1e-2), {"n_components": [2, 8]}
    ).fit(digits)
    assert by_energy.best_params_ == {"n_components": 8}
    scnn = by_energy.best_estimator_
    assert_array_equal(pickle.loads(pickle.dumps(scnn)).transform(digits), scnn.transform(digits))


@pytest.mark.parametrize("algorithm", ["encoder", "exact", "lasso"])
@pytest.mark.parametrize("split", [False, True])
def test_sparse_output_equals_dense_output(
    fitted: SCNN, digits: Any, algorithm: str, split: bool
) -> None:
    dense = view(fitted, transform_algorithm=algorithm, split_sign=split, threshold="match")
    sparse = view(dense, sparse_output=True)
    codes = sparse.transform(digits)
    assert scipy.sparse.issparse(codes)
    assert codes.format == "csr"
    assert codes.has_canonical_format
    assert_array_equal(codes.toarray(), dense.transform(digits))
    assert codes.nnz == np.count_nonzero(codes.toarray())
    assert_allclose(sparse.inverse_transform(codes), dense.inverse_transform(codes.toarray()))


def test_split_signs_are_the_positive_and_negative_parts(fitted: SCNN, digits: Any) -> None:
    codes = view(fitted, threshold="match").transform(digits)
    split = view(fitted, threshold="match", split_sign=True).transform(digits)
    assert (split >= 0).all()
    assert_array_equal(split[:, :16], np.maximum(codes, 0))
    assert_array_equal(split[:, 16:], np.maximum(-codes, 0))


@pytest.mark.parametrize("split", [False, True])
def test_sparse_output_needs_no_dense_array_of_all_codes(fitted: SCNN, split: bool) -> None:
    X = np.tile(np.linspace(0, 1, 64, dtype=np.float32), (100_000, 1))
    sparse = view(fitted, threshold=0.5, sparse_output=True, split_sign=split)
    tracemalloc.start()
    codes = sparse.transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    stored = codes.data.nbytes + codes.indices.nbytes + codes.indptr.nbytes
    assert peak - 3 * stored < 0.4 * 100_000 * 16 * 4 * (1 + split)


@pytest.mark.parametrize(
    ("solver", "what"), [("auto", "the energy"), ("paper", "the reconstruction error")]
)
def test_stop_reason_names_what_converged(digits: Any, solver: str, what: str) -> None:
    scnn = SCNN(4, solver=solver, tol=0.1, random_state=0).fit(digits[:200])
    assert scnn.stop_reason_ == f"converged: the relative change of {what} fell to tol or below"
