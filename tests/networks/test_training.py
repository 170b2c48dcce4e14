"""The training loop, with networks whose energies are given."""

from collections.abc import Iterator

import pytest
from lincode.networks.training import Iteration, Outcome, Reason, Training, train

from lincode.exceptions import EnergyIncreaseError, InvalidInputError


class Scripted:
    """A network whose energies are given."""

    n = 2
    monotone = True

    def __init__(self, energies: list[float], accurate_from: int = 0) -> None:
        self.energies, self.now, self.accurate_from = energies, 0, accurate_from
        self.finished = False

    def energy(self) -> float:
        return self.energies[self.now]

    def rounding(self) -> float:
        return 1e-9

    def monitored_error(self, energy: float) -> float:
        return energy

    def steps(self) -> Iterator[str]:
        self.now += 1
        yield "scripted"

    def final_steps(self) -> Iterator[str]:
        self.finished = True
        self.energies.append(self.energies[self.now] / 2)
        self.now = len(self.energies) - 1
        yield "final"

    def set_change(self, change: float) -> bool:
        return self.now >= self.accurate_from


def run(training: Training, max_iter: int = 10, tol: float = 0.01) -> Outcome:
    return train(training, max_iter=max_iter, tol=tol)


def test_training_stops_when_the_change_is_small_and_does_the_final_steps() -> None:
    network = Scripted([8.0, 4.0, 2.0, 1.999, 1.0])
    outcome = run(network)
    assert outcome.reason is Reason.CONVERGED
    assert outcome.n_iter == 3
    assert outcome.energy_path == [8.0, 4.0, 2.0, 1.999 / 2]
    assert network.finished


def test_training_continues_while_the_steps_are_not_accurate() -> None:
    outcome = run(Scripted([8.0, 7.999, 7.998, 4.0, 3.999, 3.0], accurate_from=4))
    assert outcome.n_iter == 4


def test_training_stops_at_max_iter() -> None:
    outcome = run(Scripted([8.0, 4.0, 2.0, 1.0]), max_iter=2)
    assert (outcome.reason, outcome.n_iter) == (Reason.MAX_ITER, 2)


def test_increase_of_the_energy_is_an_error() -> None:
    with pytest.raises(
        EnergyIncreaseError, match=r"scripted step increased the energy from 4.0 to 5.0"
    ):
        run(Scripted([8.0, 4.0, 5.0]))


def test_increase_within_rounding_is_ignored() -> None:
    outcome = run(Scripted([8.0, 4.0, 4.0 + 1e-10, 4.0]))
    assert outcome.energy_path[:2] == [8.0, 4.0]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_energy_that_is_not_finite_is_an_error(value: float) -> None:
    with pytest.raises(InvalidInputError, match="scale X to moderate values"):
        run(Scripted([8.0, value]))


def test_training_stops_if_the_energy_is_zero() -> None:
    assert run(Scripted([0.0, 0.0, 0.0])).reason is Reason.CONVERGED


def test_callback_receives_every_iteration_and_can_stop() -> None:
    seen: list[Iteration] = []

    def stop_at_two(iteration: Iteration) -> bool:
        seen.append(iteration)
        return iteration.n_iter == 2

    network = Scripted([8.0, 4.0, 2.0, 1.0])
    outcome = train(network, max_iter=9, tol=0.0, callback=stop_at_two)
    assert outcome.reason is Reason.CALLBACK
    assert [(s.n_iter, s.max_iter, s.energy_per_sample, s.change) for s in seen] == [
        (1, 9, 2.0, 0.5),
        (2, 9, 1.0, 0.5),
    ]
    assert str(seen[0]).startswith("iteration 1/9  energy per sample 2  change 5.0e-01")


def test_energy_may_increase_if_training_is_not_monotone() -> None:
    training = Scripted([5.0, 3.0, 4.0, 1.0])
    training.monotone = False
    path = train(training, max_iter=3, tol=0.0).energy_path
    assert path == [5.0, 3.0, 4.0, 0.5]
    training = Scripted([5.0, float("nan")])
    training.monotone = False
    with pytest.raises(InvalidInputError, match="scale X to moderate values"):
        train(training, max_iter=3, tol=0.0)
