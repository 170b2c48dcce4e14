"""Training by mini-batches: the schedule, the optimisers, and the choice of the best pass."""

from typing import Any

import numpy as np
import pytest
from lincode.networks.epochs import (
    Adam,
    BestPassTraining,
    GradientDescent,
    Schedule,
    root_mean_square,
)
from lincode.networks.training import train
from numpy.testing import assert_allclose, assert_array_equal


class ScriptedTraining(BestPassTraining):
    """A training with given energies, whose weights are the number of passes."""

    def __init__(self, energies: list[float], n: int = 10, batch_size: int = 4) -> None:
        schedule = Schedule(learning_rate=2.0, batch_size=batch_size, max_iter=len(energies) - 1)
        super().__init__(np.ones((n, 3)), schedule, np.random.RandomState(0))
        self.energies, self.restored = energies, -1
        self.batches: list[Any] = []
        self.rates: list[float] = []

    @property
    def weights(self) -> int:
        return self.n_passes

    def restore(self, weights: int) -> None:
        self.restored = weights

    def update_weights(self, rows: Any, rate: float) -> None:
        self.batches.append(rows)
        self.rates.append(rate)

    def energy_of_rows(self, rows: slice) -> float:
        return self.energies[self.n_passes if self.restored < 0 else self.restored]


@pytest.mark.parametrize("energies", [[5.0, 3.0, 4.0, 3.5], [5.0, 7.0, 6.0], [5.0, 4.0, 3.0]])
def test_the_best_pass_is_kept(energies: list[float]) -> None:
    training = ScriptedTraining(energies)
    outcome = train(training, max_iter=len(energies) - 1, tol=0.0)
    assert training.restored == int(np.argmin(energies))
    assert outcome.energy_path[:-1] == energies[:-1]
    assert outcome.energy_path[-1] == min(energies)
    assert training.failed == (min(energies[1:]) > 1.1 * energies[0])


def test_each_pass_uses_every_row_once_and_the_rate_decreases_to_zero() -> None:
    training = ScriptedTraining([9.0, 8.0, 7.0], n=10, batch_size=4)
    train(training, max_iter=2, tol=0.0)
    assert [len(rows) for rows in training.batches] == [4, 4, 2, 4, 4, 2]
    for one_pass in (training.batches[:3], training.batches[3:]):
        assert sorted(np.concatenate(one_pass)) == list(range(10))
    assert_allclose(training.rates, [2, 2, 2, 1, 1, 1])
    assert training.schedule.rate(2) == 0


def test_root_mean_square() -> None:
    assert_allclose(root_mean_square(np.array([[3.0, 4.0]])), np.sqrt(12.5))
    assert root_mean_square(np.zeros((2, 2))) == 1


def test_adam_finds_the_minimum_for_gradients_of_any_scale() -> None:
    target = np.array([3.0, -2.0, 0.5])
    found = []
    for scale in (1e-12, 1.0, 1e12):
        adam = Adam(np.zeros(3))
        for step in range(2000):
            adam.step(scale * (adam.weights - target), 0.05 * (1 - step / 2000))
        found.append(adam.weights)
    assert_allclose(found[1], target, atol=1e-3)
    assert_allclose(found[0], found[1], rtol=1e-9)
    assert_allclose(found[2], found[1], rtol=1e-9)


def test_adam_does_not_change_weights_with_zero_gradient_or_its_input() -> None:
    start = np.ones(2)
    adam = Adam(start)
    adam.step(np.array([0.0, 1.0]), 0.1)
    assert_array_equal(start, 1)
    assert adam.weights[0] == 1
    assert_allclose(adam.weights[1], 0.9)


def test_adam_makes_no_large_step_where_float32_underflows() -> None:
    """A gradient whose square underflows must not lead to a very large step."""
    for size in 10.0 ** np.arange(-18, -41, -2):
        adam = Adam(np.zeros(1, dtype=np.float32))
        for _ in range(5):
            adam.step(np.full(1, size, dtype=np.float32), 1e-2)
        assert abs(adam.weights[0]) <= 0.2


def test_gradient_descent_subtracts_a_multiple_of_the_gradient() -> None:
    start = np.ones(2, np.float32)
    schedule = Schedule(learning_rate=1.0, batch_size=5, max_iter=1, solver="sgd")
    descent = schedule.optimizer(start, unit=2.0, n=5)
    assert isinstance(descent, GradientDescent)
    descent.step(np.array([0.0, 30.0]), 0.1)
    assert_array_equal(start, 1)
    assert_allclose(descent.weights, [1, 1 - 0.1 * 30 / (2 * 5)])
    assert descent.weights.dtype == np.float32
