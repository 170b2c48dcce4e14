"""The training loop, with networks whose energies are given."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lincode.exceptions import EnergyIncreaseError, InvalidInputError
from lincode.training.loop import Outcome, Reason, train


class Scripted:
    """A network whose energies are given."""

    n = 2.0

    def __init__(self, energies: list[float], accurate_from: int, zero: float) -> None:
        self.energies, self.now, self.accurate_from = energies, 0, accurate_from
        self.zero = zero

    def energy(self) -> float:
        return self.energies[self.now]

    def zero_energy(self) -> float:
        return self.zero

    def rounding(self) -> float:
        return 1e-9

    def steps(self) -> Iterator[str]:
        self.now += 1
        yield "scripted"

    def final_steps(self) -> Iterator[str]:
        self.energies.append(self.energies[self.now] / 2)
        self.now = len(self.energies) - 1
        yield "final"

    def set_change(self, change: float) -> bool:
        return self.now >= self.accurate_from


def run(
    energies: list[float], max_iter: int = 10, accurate_from: int = 0, zero: float = 100.0
) -> Outcome:
    return train(Scripted(energies, accurate_from, zero), max_iter=max_iter, tol=0.01)


def test_training_stops_when_the_change_is_small_and_does_the_final_steps() -> None:
    outcome = run([8.0, 4.0, 2.0, 1.999, 1.0])
    assert outcome == Outcome([8.0, 4.0, 2.0, 1.999 / 2], 3, Reason.CONVERGED)


def test_decrease_is_relative_to_that_since_zero_codes_if_it_is_smaller() -> None:
    energies = [8.0, 7.95, 7.91, 7.90, 7.89, 7.889, 7.0]
    assert run(energies, zero=8.0).n_iter == 5
    assert run(energies).n_iter == 1


def test_training_does_not_stop_while_the_decrease_grows() -> None:
    outcome = run([8.0, 7.995, 7.98, 7.95, 7.94, 7.0], accurate_from=2)
    assert outcome.n_iter == 4


def test_training_continues_while_the_steps_are_not_accurate() -> None:
    outcome = run([8.0, 7.999, 7.998, 4.0, 3.999, 3.0], accurate_from=4)
    assert outcome.n_iter == 4


def test_training_stops_at_max_iter() -> None:
    outcome = run([8.0, 4.0, 2.0, 1.0], max_iter=2)
    assert (outcome.reason, outcome.n_iter) == (Reason.MAX_ITER, 2)


def test_training_stops_if_the_energy_is_zero() -> None:
    assert run([0.0, 0.0, 0.0]).reason is Reason.CONVERGED


def test_increase_of_the_energy_is_an_error() -> None:
    sentence = r"scripted step increased the energy from 4.0 to 5.0"
    with pytest.raises(EnergyIncreaseError, match=sentence):
        run([8.0, 4.0, 5.0])


def test_increase_within_rounding_is_ignored() -> None:
    assert run([8.0, 4.0, 4.0 + 1e-10, 4.0], max_iter=3).energy_path[:2] == [8.0, 4.0]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_energy_that_is_not_finite_is_an_error(value: float) -> None:
    with pytest.raises(InvalidInputError, match=f"{value} after the scripted step; scale X"):
        run([8.0, value])
