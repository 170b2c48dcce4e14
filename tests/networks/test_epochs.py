"""Passes of mini-batches: the rate, the batches, and the pass that is kept."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lincode.networks._alternate import alternate
from lincode.networks._epochs import BestPassTraining, Pace, scale_of


class Scripted(BestPassTraining):
    """Energies by script; its weights are the number of passes."""

    def __init__(self, script: list[float], n: int = 10, batch_size: int = 4) -> None:
        pace = Pace(learning_rate=2.0, batch_size=batch_size, max_iter=len(script) - 1)
        super().__init__(np.ones((n, 3)), pace, np.random.RandomState(0))
        self.script, self.kept = script, -1
        self.met: list[Any] = []
        self.rates: list[float] = []

    @property
    def weights(self) -> int:
        return self.passes

    def restore(self, weights: int) -> None:
        self.kept = weights

    def learn(self, rows: Any, rate: float) -> None:
        self.met.append(rows)
        self.rates.append(rate)

    def energy_of(self, rows: slice) -> float:
        return self.script[self.passes if self.kept < 0 else self.kept]


@pytest.mark.parametrize("script", [[5.0, 3.0, 4.0, 3.5], [5.0, 7.0, 6.0], [5.0, 4.0, 3.0]])
def test_the_best_pass_is_kept(script: list[float]) -> None:
    training = Scripted(script)
    outcome = alternate(training, max_iter=len(script) - 1, tol=0.0)
    assert training.kept == int(np.argmin(script))
    assert outcome.energy_path[:-1] == script[:-1]
    assert outcome.energy_path[-1] == min(script)
    assert training.failed == (min(script[1:]) > 1.1 * script[0])


def test_every_row_is_met_once_a_pass_at_a_rate_that_falls_to_zero() -> None:
    training = Scripted([9.0, 8.0, 7.0], n=10, batch_size=4)
    alternate(training, max_iter=2, tol=0.0)
    assert [len(rows) for rows in training.met] == [4, 4, 2, 4, 4, 2]
    for one in (training.met[:3], training.met[3:]):
        assert sorted(np.concatenate(one)) == list(range(10))
    assert_allclose(training.rates, [2, 2, 2, 1, 1, 1])


def test_the_scale_of_data() -> None:
    assert_allclose(scale_of(np.array([[3.0, 4.0]])), np.sqrt(12.5))
    assert scale_of(np.zeros((2, 2))) == 1
