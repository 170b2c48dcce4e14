"""The online algorithm: the sums that are kept, the steps of a batch, and the stopping rule."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from lincode.core.dictionary import dictionary_residual, start_from_data
from lincode.core.energy import CodeStats, energy
from lincode.core.ridge import encoder_residual
from lincode.training.alternation import EnergyWeights
from lincode.training.online import BatchStopping, OnlineTraining, RecentRows

LASSO = EnergyWeights(0.1, 0.0)
JOINT = EnergyWeights(0.1, 0.7, ridge=0.05)
M = 12


def new_training(X: Any, weights: EnergyWeights = LASSO, **options: Any) -> OnlineTraining:
    start = start_from_data(lambda indices: X[indices], X.shape, M, np.random.RandomState(0))
    settings: Any = {"batch_size": 1000, "n_threads": 1} | options
    training = OnlineTraining(start.D, start.C, weights, **settings)
    training.choose_ridge(X, len(X))
    training.eigenvalue_ratio = 1.0  # the ridge is relative to the mean of the diagonal
    return training


def stats_of(training: OnlineTraining) -> CodeStats:
    assert training.stats is not None
    return training.stats


def gram_of(training: OnlineTraining) -> Any:
    assert training.XtX is not None
    return training.XtX


@pytest.mark.parametrize("weights", [LASSO, JOINT])
def test_sums_are_those_of_the_codes_with_weights_by_age(
    digits: Any, weights: EnergyWeights
) -> None:
    X, Y = digits[:200], digits[200:210]
    training = new_training(digits, weights)
    U = training.learn(X, keep_gram=True).U
    V = training.learn(Y, keep_gram=True).U
    stats, past = stats_of(training), 0.5 ** (10 / max(M, 200 / (24 if weights.eta else 12)))
    assert_allclose(stats.UtU, past * U.T @ U + V.T @ V)
    assert_allclose(stats.UtX, past * U.T @ X + V.T @ Y)
    assert_allclose(stats.n, past * 200 + 10)
    assert_allclose(gram_of(training), past * X.T @ X + Y.T @ Y)


@pytest.mark.parametrize(("weights", "fraction"), [(LASSO, 12), (JOINT, 24)])
def test_half_life_grows_with_the_rows_seen(
    digits: Any, weights: EnergyWeights, fraction: int
) -> None:
    training, n = new_training(digits, weights), 0.0
    for seen, rows in ((0, 500), (500, 20), (520, 30)):
        n = n * 0.5 ** (rows / max(M, seen / fraction)) + rows
        training.learn(digits[seen : seen + rows])
    assert_allclose(stats_of(training).n, n)


@pytest.mark.parametrize("weights", [LASSO, JOINT])
def test_energy_of_a_batch_is_that_before_it_is_learned(
    digits: Any, weights: EnergyWeights
) -> None:
    training = new_training(digits, weights)
    training.learn(digits[:200])
    D, C, X = training.D, training.C, digits[200:350]
    expected = -0.0
    if weights.eta > 0:
        diagonal = np.diag(gram_of(training))
        ridge = 0.05 * diagonal[diagonal > 0].mean() / stats_of(training).n
        expected = weights.eta / M * ridge * np.sum(C**2)
    U = training.learn(X).U
    expected += energy(X, U, D, C, weights.lam, weights.eta) / 150
    assert_allclose(training.energy_path[-1], expected)


def test_encoder_of_each_batch_is_optimal_for_the_weighted_sums(digits: Any) -> None:
    training = new_training(digits, JOINT)
    training.learn(digits[:200])
    training.learn(digits[200:350])
    XtX = gram_of(training)
    ridge = 0.05 * np.trace(XtX) / np.count_nonzero(np.diag(XtX))
    UtX = training.C @ XtX + ridge * training.C
    assert_allclose(UtX, stats_of(training).UtX, atol=1e-9 * np.abs(UtX).max())


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_array])
def test_large_batch_is_learned_in_parts_from_the_whole_batch(digits: Any, convert: Any) -> None:
    X = convert(digits)
    whole = new_training(digits, JOINT, batch_size=200)
    last = whole.learn(X)
    parts = new_training(digits, JOINT)
    for k in range(3):
        parts.learn(X[k::3])
    assert_array_equal(whole.D, parts.D)
    assert_array_equal(whole.C, parts.C)
    assert_allclose(whole.energy_path, [np.mean(parts.energy_path)])
    assert (whole.n_batches, whole.n_seen, last.shape) == (1, 600, (200, 64))


@pytest.mark.parametrize("weights", [LASSO, JOINT])
def test_unused_atom_is_replaced_by_a_residual(digits: Any, weights: EnergyWeights) -> None:
    training = new_training(digits, weights)
    training.D[3] = np.eye(64)[0]  # this pixel is always 0
    training.learn(digits)
    assert training.n_replaced == 1
    assert training.D[3, 0] == 0
    assert_allclose(np.linalg.norm(training.D[3]), 1)
    assert not training.C[3].any()
    training.learn(digits)
    assert stats_of(training).used[3] > 0


@pytest.mark.parametrize("weights", [LASSO, JOINT])
def test_final_sums_are_those_of_new_codes_with_the_weight_of_the_stream(
    digits: Any, weights: EnergyWeights
) -> None:
    training = new_training(digits, weights, recent=RecentRows(600))
    for start in range(0, 600, 200):
        training.learn(digits[start : start + 200])
    weight, D, C = stats_of(training).n, training.D, training.C
    rows, trained = training.finish()
    stats = trained.stats
    assert weight < stats.n == 600
    assert stats_of(training).n == pytest.approx(weight)
    assert_allclose(gram_of(training), weight / 600 * digits.T @ digits)
    assert_allclose(rows.U.T @ digits, stats.UtX)
    assert dictionary_residual(training.D, stats) < 1e-3
    assert encoder_residual(training.C, stats.UtU, stats.UtX, trained.factor) < 1e-6
    ridge = weights.eta / M * trained.factor.ridge
    before, after = (
        energy(digits, rows.U, *pair, 0.1, weights.eta) + ridge * np.sum(pair[1] ** 2)
        for pair in ((D, C), (training.D, training.C))
    )
    assert after < before


def test_dictionary_of_many_rows_is_not_replaced_by_that_of_a_small_sample(digits: Any) -> None:
    training = new_training(digits, recent=RecentRows(50))
    training.learn(digits[:550])
    training.learn(digits[550:])
    D = training.D
    training.finish()
    assert_array_equal(training.D, D)


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_array])
def test_recent_rows_are_the_last_ones(digits: Any, convert: Any) -> None:
    recent = RecentRows(250)
    for start in range(0, 600, 100):
        penalties = np.full(100, 0.5) if start == 400 else None
        recent = recent.with_batch(convert(digits[start : start + 100]), penalties)
    rows, factors = recent.rows()
    assert_array_equal(rows.toarray() if scipy.sparse.issparse(rows) else rows, digits[300:])
    assert_array_equal(factors, np.repeat([1, 0.5, 1], 100))


# The stopping rule


def n_batches(rule: BatchStopping, energies: Any, rows: Any = None) -> int:
    """Return the number of batches of ten rows after which training stops, or −1."""
    for k, value in enumerate(energies):
        X = np.ones((10, 4)) if rows is None else rows[k]
        if rule.add(X, value):
            return k + 1
    return -1


def test_training_stops_after_windows_without_improvement() -> None:
    energies = [9.0, 1.0, 0.9, 0.9, 0.8995, 0.9, 0.5]
    assert n_batches(BatchStopping(1e-2, 3, 10, 0.0), energies) == 6
    assert n_batches(BatchStopping(1e-4, 3, 10, 0.0), energies) == -1
    assert n_batches(BatchStopping(1e-2, None, 10, 0.0), energies) == -1
    # The first batch does not count.
    assert n_batches(BatchStopping(1e-2, 1, 10, 0.0), [0.1, 1.0, 0.5, 0.4]) == -1
    assert n_batches(BatchStopping(1e-2, 2, 10, 0.0), [0.0] * 6, [np.zeros((10, 4))] * 6) == 4


def test_energies_are_averaged_over_a_pass() -> None:
    noise = np.array([1.2, 0.8] * 20)
    steady = noise * np.repeat(0.9 ** np.arange(20), 2)
    assert n_batches(BatchStopping(1e-2, 2, 20, 0.0), [2.0, *steady]) == -1
    # The windows end after the batches 2, 4, 6 and 8. The first has the energy of one batch only.
    assert n_batches(BatchStopping(1e-2, 2, 20, 0.0), [2.0, *noise]) == 8


def test_training_with_the_encoder_makes_at_least_three_passes() -> None:
    assert n_batches(BatchStopping(1e-2, 1, 20, 0.0), [1.0] * 9) == 4
    assert n_batches(BatchStopping(1e-2, 1, 20, 1.0), [1.0] * 9) == 6
