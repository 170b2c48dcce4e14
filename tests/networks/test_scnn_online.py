"""Online dictionary learning: the sums that are kept, the steps of a batch, and the encoder."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from lincode.core.dictionary_step import dictionary_objective, dictionary_residual
from lincode.core.encoder_step import encoder_residual, factor_gram
from lincode.core.energy import CodeStats, energy
from lincode.core.init import start_from_data
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
    assert online_batch_size(100) == 512
    assert online_batch_size(1000) == 1000


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_array])
def test_recent_rows_are_the_last_ones(digits: Any, convert: Any) -> None:
    recent = RecentRows(250)
    for start in range(0, 600, 100):
        recent.add(convert(digits[start : start + 100]))
    rows = recent.rows()
    assert_array_equal(rows.toarray() if scipy.sparse.issparse(rows) else rows, digits[300:])
