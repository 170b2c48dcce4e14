"""Training on batches: the sums that are kept, their weights, and agreement with SCNN."""

from typing import Any

import numpy as np
import pytest
from lincode.core.dictionary_step import dictionary_residual
from lincode.core.encoder_step import encoder_residual, factor_gram
from lincode.networks import scnn_minibatch
from lincode.networks.scnn import EnergyWeights, SCNNTraining
from lincode.networks.scnn_minibatch import Stream
from lincode.networks.training import train
from lincode.rows.memory import MemoryRows
from numpy.testing import assert_allclose

from lincode.core.dictionary import Start, start_from_data

WEIGHTS = EnergyWeights(0.1)


def data_start(X: Any, m: int = 12) -> Start:
    return start_from_data(lambda indices: X[indices], X.shape, m, np.random.RandomState(0))


def new_stream(X: Any) -> Stream:
    start = data_start(X)
    return Stream(D=start.D, C=start.C)


def learn(stream: Stream, *batches: Any, half_life: float = np.inf) -> Stream:
    for X in batches:
        stream, _ = stream.learn(X, WEIGHTS, half_life=half_life, n_threads=1)
    return stream


def test_first_batch_is_learned_like_scnn(digits: Any) -> None:
    stream = learn(new_stream(digits), digits)
    start = data_start(digits)
    rows = MemoryRows(digits, 12, n_threads=1)
    training = SCNNTraining(rows, start.D, start.C, WEIGHTS, tol=1e-3)
    training.update_codes(training.D, training.C, tol=scnn_minibatch.HELD_OUT_TOL)
    train(training, max_iter=30, tol=1e-3)
    assert_allclose(stream.D, training.D, atol=1e-9)
    assert_allclose(stream.C, training.C, atol=1e-9)


def test_every_row_has_the_same_weight_in_batches_of_any_size(digits: Any) -> None:
    stream = learn(new_stream(digits), digits[:20], digits[20:500], digits[500:])
    assert stream.stats is not None
    assert stream.stats.n == stream.n_seen == 600
    assert isinstance(stream.XtX, np.ndarray)
    assert_allclose(stream.XtX, digits.T @ digits)


def test_weight_of_a_row_is_halved_after_the_half_life(digits: Any) -> None:
    stream = learn(new_stream(digits), digits[:200], digits[200:300], half_life=100)
    assert stream.stats is not None
    assert_allclose(stream.stats.n, 200 / 2 + 100)
    assert isinstance(stream.XtX, np.ndarray)
    first, second = digits[:200], digits[200:300]
    assert_allclose(stream.XtX, first.T @ first / 2 + second.T @ second)


def test_dictionary_and_encoder_are_optimal_for_the_sums(digits: Any) -> None:
    stream = learn(new_stream(digits), digits[:250], digits[250:], half_life=400)
    assert stream.stats is not None
    assert isinstance(stream.XtX, np.ndarray)
    factor = factor_gram(stream.XtX, digits.dtype)
    assert dictionary_residual(stream.D, stream.stats) < 1e-3
    assert encoder_residual(stream.C, stream.stats.UtU, stream.stats.UtX, factor) < 1e-6


def test_batch_energy_is_computed_before_the_batch_is_learned(digits: Any) -> None:
    """The energy of new data is higher than that of the same data after they were learned."""
    seen = learn(new_stream(digits), digits[:300])
    rng = np.random.default_rng(0)
    other = np.abs(rng.standard_normal((200, 64)))
    before = learn(seen, other).batch_energy
    after = learn(seen, other, other).batch_energy
    assert after < 0.9 * before


@pytest.mark.parametrize("eta", [0.0, 1.0])
def test_momentum_is_carried_from_batch_to_batch(digits: Any, eta: float) -> None:
    stream = new_stream(digits)
    ages = []
    for X in (digits[:300], digits[300:], digits[:300]):
        stream, _ = stream.learn(X, EnergyWeights(0.1, eta), half_life=np.inf, n_threads=1)
        assert stream.momentum is not None
        ages.append(stream.momentum.age)
    assert ages[0] > 0
    assert max(ages[1:]) > ages[0]
