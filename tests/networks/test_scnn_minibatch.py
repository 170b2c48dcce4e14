"""The stream of batches: what is remembered, how much it counts, and that the steps are SCNN's."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lincode.core.encoder_step import factor_data, factor_gram
from lincode.core.init import start_from_data
from lincode.core.optimality import dictionary_residual, encoder_residual
from lincode.networks import scnn_minibatch
from lincode.networks._alternate import alternate
from lincode.networks.scnn import SCNNTraining, Weights
from lincode.networks.scnn_minibatch import Stream
from lincode.rows.batch import BatchRows
from lincode.rows.memory import MemoryRows

WEIGHTS = Weights(0.1)


def begin(X: Any, m: int = 12) -> Stream:
    start = start_from_data(X, m, np.random.RandomState(0))
    return Stream(D=start.D, C=start.C)


def learn(stream: Stream, *batches: Any, half_life: float = np.inf) -> Stream:
    for X in batches:
        stream = stream.after(X, WEIGHTS, half_life=half_life, n_threads=1)
    return stream


def test_the_first_batch_is_learned_as_scnn_learns(digits: Any) -> None:
    stream = learn(begin(digits), digits)
    start = start_from_data(digits, 12, np.random.RandomState(0))
    rows = MemoryRows(digits, np.zeros((len(digits), 12)), n_threads=1)
    training = SCNNTraining(rows, start.D, start.C, WEIGHTS, factor_data(digits), tol=1e-3)
    training.solve_codes(training.D, training.C, tol=scnn_minibatch.HELD_OUT_TOL)
    alternate(training, max_iter=30, tol=1e-3)
    assert_allclose(stream.D, training.D, atol=1e-9)
    assert_allclose(stream.C, training.C, atol=1e-9)


def test_batches_of_any_size_count_by_their_rows(digits: Any) -> None:
    stream = learn(begin(digits), digits[:20], digits[20:500], digits[500:])
    assert stream.stats is not None
    assert stream.stats.n == stream.n_seen == 600
    assert stream.XtX is not None
    assert_allclose(stream.XtX, digits.T @ digits)


def test_a_row_counts_half_after_the_half_life(digits: Any) -> None:
    stream = learn(begin(digits), digits[:200], digits[200:300], half_life=100)
    assert stream.stats is not None
    assert_allclose(stream.stats.n, 200 / 2 + 100)
    assert stream.XtX is not None
    first, second = digits[:200], digits[200:300]
    assert_allclose(stream.XtX, first.T @ first / 2 + second.T @ second)


def test_the_weights_are_optimal_for_all_that_is_remembered(digits: Any) -> None:
    stream = learn(begin(digits), digits[:250], digits[250:], half_life=400)
    assert stream.stats is not None
    assert stream.XtX is not None
    factor = factor_gram(stream.XtX, digits.dtype)
    assert dictionary_residual(stream.D, stream.stats) < 1e-3
    assert encoder_residual(stream.C, stream.stats, factor) < 1e-6


def test_a_batch_is_measured_before_it_is_learned(digits: Any) -> None:
    """Data the network has not seen cost more than the same data after they were learned."""
    seen = learn(begin(digits), digits[:300])
    rng = np.random.default_rng(0)
    other = np.abs(rng.standard_normal((200, 64)))
    before = learn(seen, other).batch_energy
    after = learn(seen, other, other).batch_energy
    assert after < 0.9 * before


def test_the_past_is_added_to_every_sum(digits: Any) -> None:
    U = np.abs(digits[:, :5])
    past = MemoryRows(digits[:100], U[:100], n_threads=1).stats()
    both = BatchRows(digits[100:], U[100:], past, n_threads=1).stats()
    assert_allclose(both.UtX, U.T @ digits)
    assert both.n == len(digits)
    half = past.weighted(0.5)
    assert_allclose([half.n, half.l1, half.used.sum()], [50, past.l1 / 2, past.used.sum() / 2])


@pytest.mark.parametrize("eta", [0.0, 1.0])
def test_momentum_goes_on_from_batch_to_batch(digits: Any, eta: float) -> None:
    stream = begin(digits)
    ages = []
    for X in (digits[:300], digits[300:], digits[:300]):
        stream = stream.after(X, Weights(0.1, eta), half_life=np.inf, n_threads=1)
        assert stream.momentum is not None
        ages.append(stream.momentum.age)
    assert ages[0] > 0
    assert max(ages[1:]) > ages[0]
