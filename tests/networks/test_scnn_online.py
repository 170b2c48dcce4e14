"""Online dictionary learning: the sums that are kept, the steps of a batch, and the encoder."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from lincode.core.dictionary_step import dictionary_objective, dictionary_residual
from lincode.core.encoder_step import (
    CholeskyFactor,
    encoder_residual,
    encoder_step,
    factor_gram,
)
from lincode.networks.scnn import EnergyWeights
from lincode.networks.scnn_minibatch import Stream
from lincode.networks.scnn_online import (
    OnlineBatch,
    batch_training,
    final_training,
    learn_online,
    online_batch_size,
)
from lincode.rows.batches import RecentRows
from lincode.rows.memory import MemoryRows
from numpy.testing import assert_allclose, assert_array_equal

from lincode.core.dictionary import start_from_data
from lincode.core.energy import CodeStats, energy

WEIGHTS = EnergyWeights(0.1, 0.0)
M = 12


def new_stream(X: Any) -> Stream:
    take = lambda indices: X[indices]  # noqa: E731
    start = start_from_data(take, X.shape, M, np.random.RandomState(0))
    return Stream(D=start.D, C=start.C)


def learn(stream: Stream, X: Any, **options: Any) -> tuple[Stream, OnlineBatch]:
    settings = {"batch_size": 1000, "half_life": np.inf, "n_threads": 1, "keep_gram": True}
    return learn_online(stream, X, WEIGHTS, **settings | options)


def stats_of(stream: Stream) -> CodeStats:
    assert stream.stats is not None
    return stream.stats


def test_sums_are_those_of_the_codes_with_weights_by_age(digits: Any) -> None:
    first, one = learn(new_stream(digits), digits[:200])
    second, two = learn(first, digits[200:300], half_life=100)
    stats = stats_of(second)
    assert_allclose(stats.UtU, one.U.T @ one.U / 2 + two.U.T @ two.U)
    assert_allclose(stats.UtX, one.U.T @ one.X / 2 + two.U.T @ two.X)
    assert_allclose(stats.n, 200 / 2 + 100)
    assert isinstance(second.XtX, np.ndarray)
    assert_allclose(second.XtX, one.X.T @ one.X / 2 + two.X.T @ two.X)


def test_default_half_life_grows_with_the_rows_seen(digits: Any) -> None:
    stream = new_stream(digits)
    n = 0.0
    for seen, rows in ((0, 300), (300, 20), (320, 30)):
        half_life = max(M, seen / 12)
        n = n * 0.5 ** (rows / half_life) + rows
        stream, _ = learn(stream, digits[seen : seen + rows], half_life=None)
    assert_allclose(stats_of(stream).n, n)
    assert max(M, 320 / 12) > M


def test_batch_energy_is_that_of_the_codes_before_the_dictionary_is_updated(digits: Any) -> None:
    stream, _ = learn(new_stream(digits), digits[:300])
    learned, batch = learn(stream, digits[300:500])
    expected = energy(batch.X, batch.U, stream.D, 0 * stream.D, WEIGHTS.lam, 0.0)
    assert_allclose(learned.batch_energy, expected / 200)


def test_update_of_the_dictionary_lowers_its_objective(digits: Any) -> None:
    stream, _ = learn(new_stream(digits), digits[:300])
    learned, _ = learn(stream, digits[300:])
    stats = stats_of(learned)
    assert dictionary_objective(learned.D, stats) < dictionary_objective(stream.D, stats)
    assert np.linalg.norm(learned.D, axis=1).max() < 1 + 1e-12


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_array])
def test_large_batch_is_learned_in_parts_from_the_whole_batch(digits: Any, convert: Any) -> None:
    X = convert(digits)
    whole, last = learn(new_stream(digits), X, batch_size=200, half_life=None)
    parts = new_stream(digits)
    energies = []
    for k in range(3):
        parts, _ = learn(parts, X[k::3], half_life=None)
        energies.append(parts.batch_energy)
    assert_array_equal(whole.D, parts.D)
    assert_allclose(whole.batch_energy, np.mean(energies))
    assert (whole.n_batches, whole.n_seen) == (1, 600)
    assert last.X.shape == (200, 64)


def test_unused_atom_is_replaced_by_a_residual(digits: Any) -> None:
    X = digits.copy()
    X[:, 0] = 0
    stream = new_stream(X)
    stream.D[3] = np.eye(64)[0]
    learned, _ = learn(stream, X)
    assert learned.n_replaced == 1
    assert learned.D[3, 0] == 0
    assert_allclose(np.linalg.norm(learned.D[3]), 1)
    again, _ = learn(learned, X)
    assert stats_of(again).used[3] > 0


def test_encoder_of_a_batch_is_optimal_for_the_sums_over_the_stream(digits: Any) -> None:
    stream, _ = learn(new_stream(digits), digits[:300], half_life=400)
    stream, batch = learn(stream, digits[300:], half_life=400)
    fitted, rows, trained = batch_training(stream, batch, WEIGHTS, n_threads=1)
    stats = stats_of(stream)
    assert_allclose(rows.stats().UtX, stats.UtX)
    assert isinstance(fitted.XtX, np.ndarray)
    factor = factor_gram(fitted.XtX, digits.dtype)
    assert encoder_residual(fitted.C, stats.UtU, stats.UtX, factor) < 1e-6
    assert_array_equal(fitted.D, stream.D)
    assert_array_equal(trained.C, fitted.C)


def test_final_sums_are_those_of_new_codes_with_the_weight_of_the_stream(digits: Any) -> None:
    stream = new_stream(digits)
    for start in range(0, 600, 200):
        stream, _ = learn(stream, digits[start : start + 200], half_life=100, keep_gram=False)
    weight = stats_of(stream).n
    fitted, rows, trained = final_training(stream, digits, WEIGHTS, n_threads=1)
    stats = trained.stats
    assert stats_of(fitted).n == pytest.approx(weight)
    assert weight < stats.n == 600
    assert dictionary_residual(fitted.D, stats) < 1e-3
    assert encoder_residual(fitted.C, stats.UtU, stats.UtX, trained.factor) < 1e-6
    assert_allclose(rows.take_codes(np.arange(600)).T @ digits, stats.UtX)
    assert isinstance(fitted.XtX, np.ndarray)
    assert_allclose(fitted.XtX, weight / 600 * digits.T @ digits)


def test_dictionary_of_many_rows_is_not_replaced_by_that_of_a_small_sample(digits: Any) -> None:
    stream, _ = learn(new_stream(digits), digits)
    fitted, _, _ = final_training(stream, digits[:50], WEIGHTS, n_threads=1)
    assert_array_equal(fitted.D, stream.D)


def test_batches_have_at_least_as_many_rows_as_units() -> None:
    assert online_batch_size(100, 64, 0.0) == 512
    assert online_batch_size(1000, 64, 0.0) == 1000
    assert online_batch_size(100, 784, 1.0) == 1024
    assert online_batch_size(2000, 784, 1.0) == 2000
    assert online_batch_size(100, 5000, 1.0) == 2500


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_array])
def test_recent_rows_are_the_last_ones(digits: Any, convert: Any) -> None:
    recent = RecentRows(250)
    for start in range(0, 600, 100):
        recent.add(convert(digits[start : start + 100]))
    rows = recent.rows()
    assert_array_equal(rows.toarray() if scipy.sparse.issparse(rows) else rows, digits[300:])


# With the encoder


JOINT = EnergyWeights(0.1, 0.7, ridge=0.05)


def learn_joint(stream: Stream, X: Any, half_life: float = 150) -> tuple[Stream, OnlineBatch]:
    return learn_online(
        stream, X, JOINT, batch_size=1000, half_life=half_life, n_threads=1, keep_gram=False
    )


def test_encoder_of_each_batch_is_optimal_for_the_weighted_sums(digits: Any) -> None:
    first, one = learn_joint(new_stream(digits), digits[:200])
    second, two = learn_joint(first, digits[200:350])
    assert_allclose(stats_of(second).UtX, one.U.T @ one.X / 2 + two.U.T @ two.X)
    assert isinstance(second.XtX, np.ndarray)
    assert_allclose(second.XtX, one.X.T @ one.X / 2 + two.X.T @ two.X)
    ridge = 0.05 * np.trace(second.XtX) / np.count_nonzero(np.diag(second.XtX))
    UtX = second.C @ second.XtX + ridge * second.C
    assert_allclose(UtX, stats_of(second).UtX, atol=1e-9 * np.abs(UtX).max())


def test_codes_of_a_batch_are_optimal_for_its_dictionary_and_encoder(digits: Any) -> None:
    first, _ = learn_joint(new_stream(digits), digits[:200])
    second, batch = learn_joint(first, digits[200:350])
    problem = JOINT.code_problem(first.D, first.C, digits.dtype)
    rows = MemoryRows(digits[200:350], M, n_threads=1)
    rows.restore_codes(batch.U)
    assert rows.code_residual(problem) <= 1e-2
    assert stats_of(second).residual <= 1e-2


def test_batch_energy_with_the_encoder_is_that_of_the_arrays(digits: Any) -> None:
    first, _ = learn_joint(new_stream(digits), digits[:200])
    second, batch = learn_joint(first, digits[200:350])
    assert isinstance(first.XtX, np.ndarray)
    ridge = 0.05 * np.trace(first.XtX) / np.count_nonzero(np.diag(first.XtX)) / stats_of(first).n
    rows = energy(batch.X, batch.U, first.D, first.C, 0.1, 0.7) / 150
    expected = rows + 0.7 / M * ridge * np.sum(first.C**2)
    assert_allclose(second.batch_energy, expected)


def test_encoder_of_a_replaced_atom_starts_from_zero(digits: Any) -> None:
    stream = new_stream(digits)
    D = stream.D.copy()
    D[3] = 0
    D[3, 0] = 1.0  # this pixel is always 0
    learned, _ = learn_joint(replace(stream, D=D), digits[:200])
    assert learned.n_replaced == 1
    assert not learned.C[3].any()
    assert not np.allclose(learned.D[3], D[3])


def test_sparse_rows_and_threads_give_the_same_stream(digits: Any) -> None:
    results = []
    for X, n_threads in ((digits, 1), (digits, 2), (scipy.sparse.csr_array(digits), 1)):
        stream = new_stream(digits)
        for start in (0, 300):
            stream, _ = learn_online(
                stream,
                X[start : start + 300],
                JOINT,
                batch_size=100,
                half_life=None,
                n_threads=n_threads,
                keep_gram=False,
            )
        results.append(stream)
    assert_array_equal(results[0].C, results[1].C)
    assert_allclose(results[2].C, results[0].C, atol=1e-6)


def test_final_step_lowers_the_energy_of_its_rows(digits: Any) -> None:
    stream = new_stream(digits)
    for start in range(0, 600, 100):
        stream, _ = learn_joint(stream, digits[start : start + 100])
    fitted, rows, trained = final_training(stream, digits, JOINT, n_threads=1)
    before, after = (
        energy(digits, rows.U, state.D, state.C, 0.1, 0.7)
        + 0.7 / M * trained.factor.ridge * np.sum(state.C**2)
        for state in (stream, fitted)
    )
    assert after < before
    assert trained.optimality["encoder"] < 1e-10


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cholesky_solution_is_that_of_the_factor(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 8)).astype(dtype)
    UtX = rng.standard_normal((5, 50)) @ X.astype(float)
    XtX = X.T.astype(float) @ X
    factor = factor_gram(XtX, np.dtype(dtype)).with_ridge(0.3)
    cholesky = CholeskyFactor.of(XtX, 0.3, np.dtype(dtype))
    assert_allclose(cholesky.solve(UtX), encoder_step(UtX, factor))
    X[:, 3], X[:, 5] = 0, X[:, 4]  # singular, and without a ridge
    UtX, XtX = rng.standard_normal((5, 50)) @ X.astype(float), X.T.astype(float) @ X
    expected = encoder_step(UtX, factor_gram(XtX, np.dtype(dtype)))
    found = CholeskyFactor.of(XtX, 0.0, np.dtype(dtype)).solve(UtX)
    assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())
