"""The loop: what it does with networks that behave, and with networks that do not."""

from collections.abc import Iterator

import pytest

from lincode.networks._alternate import (
    EnergyRoseError,
    Iteration,
    Outcome,
    Reason,
    Training,
    alternate,
)


class Scripted:
    """A network whose energy follows a script."""

    n = 2
    monotone = True

    def __init__(self, energies: list[float], solved_from: int = 0) -> None:
        self.energies, self.now, self.solved_from = energies, 0, solved_from
        self.closed = False

    def energy(self) -> float:
        return self.energies[self.now]

    def rounding(self) -> float:
        return 1e-9

    def watched(self, energy: float) -> float:
        return energy

    def steps(self) -> Iterator[str]:
        self.now += 1
        yield "scripted"

    def closing_steps(self) -> Iterator[str]:
        self.closed = True
        self.energies.append(self.energies[self.now] / 2)
        self.now = len(self.energies) - 1
        yield "closing"

    def note_change(self, change: float) -> bool:
        return self.now >= self.solved_from


def run(training: Training, max_iter: int = 10, tol: float = 0.01) -> Outcome:
    return alternate(training, max_iter=max_iter, tol=tol)


def test_stops_when_the_change_is_small_and_closes() -> None:
    network = Scripted([8.0, 4.0, 2.0, 1.999, 1.0])
    outcome = run(network)
    assert outcome.reason is Reason.CONVERGED
    assert outcome.n_iter == 3
    assert outcome.energy_path == [8.0, 4.0, 2.0, 1.999 / 2]
    assert network.closed


def test_a_small_change_does_not_count_while_steps_are_loose() -> None:
    outcome = run(Scripted([8.0, 7.999, 7.998, 4.0, 3.999, 3.0], solved_from=4))
    assert outcome.n_iter == 4


def test_max_iter_ends_it() -> None:
    outcome = run(Scripted([8.0, 4.0, 2.0, 1.0]), max_iter=2)
    assert (outcome.reason, outcome.n_iter) == (Reason.MAX_ITER, 2)


def test_an_energy_that_rises_raises() -> None:
    with pytest.raises(EnergyRoseError, match=r"scripted step raised the energy from 4.0 to 5.0"):
        run(Scripted([8.0, 4.0, 5.0]))


def test_a_rise_within_rounding_is_no_rise() -> None:
    outcome = run(Scripted([8.0, 4.0, 4.0 + 1e-10, 4.0]))
    assert outcome.energy_path[:2] == [8.0, 4.0]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_energy_that_is_not_finite_raises(value: float) -> None:
    with pytest.raises(FloatingPointError, match="moderate scale"):
        run(Scripted([8.0, value]))


def test_zero_energy_is_convergence() -> None:
    assert run(Scripted([0.0, 0.0, 0.0])).reason is Reason.CONVERGED


def test_the_callback_is_told_and_may_stop() -> None:
    seen: list[Iteration] = []

    def stop_at_two(iteration: Iteration) -> bool:
        seen.append(iteration)
        return iteration.n_iter == 2

    network = Scripted([8.0, 4.0, 2.0, 1.0])
    outcome = alternate(network, max_iter=9, tol=0.0, callback=stop_at_two)
    assert outcome.reason is Reason.CALLBACK
    assert [(s.n_iter, s.max_iter, s.energy_per_sample, s.change) for s in seen] == [
        (1, 9, 2.0, 0.5),
        (2, 9, 1.0, 0.5),
    ]
    assert str(seen[0]).startswith("iteration 1/9  energy per sample 2  change 5.0e-01")


def test_training_that_is_not_monotone_may_go_up() -> None:
    training = Scripted([5.0, 3.0, 4.0, 1.0])
    training.monotone = False
    path = alternate(training, max_iter=3, tol=0.0).energy_path
    assert path == [5.0, 3.0, 4.0, 0.5]
    training = Scripted([5.0, float("nan")])
    training.monotone = False
    with pytest.raises(FloatingPointError, match="moderate scale"):
        alternate(training, max_iter=3, tol=0.0)
