"""Training on growing subsets: sizes, subsets, and that the last stage has all rows."""

from typing import Any

import numpy as np
import pytest
from lincode.networks.scnn import EnergyWeights, SCNNTraining
from lincode.networks.stages import stage_tol, subset_sizes, train_in_stages
from lincode.networks.training import Iteration, Outcome, Reason
from lincode.rows.memory import MemoryRows
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from lincode.core.dictionary import start_from_data

M = 12


class RecordingRows(MemoryRows):
    """Rows in memory that record which subsets were taken."""

    def __init__(self, X: Any, m: int) -> None:
        super().__init__(X, m, n_threads=1)
        self.subsets: list[NDArray[np.intp]] = []

    def subset(self, indices: NDArray[np.intp]) -> MemoryRows:
        self.subsets.append(indices)
        return super().subset(indices)


def run(
    rows: MemoryRows, sizes: list[int], weights: EnergyWeights | None = None, **options: Any
) -> tuple[SCNNTraining, Outcome]:
    start = start_from_data(rows.take, rows.shape, M, np.random.RandomState(0))
    return train_in_stages(
        rows,
        start.D,
        start.C,
        weights or EnergyWeights(0.1, ridge=0.1),
        sizes=sizes,
        rng=np.random.RandomState(1),
        tol=1e-4,
        **({"max_iter": 200} | options),
    )


def test_sizes_grow_by_a_factor_of_four_up_to_a_third_of_the_rows() -> None:
    assert subset_sizes(48_000, 784, 400) == [4000, 16_000]
    assert subset_sizes(47_999, 784, 400) == [4000]
    assert subset_sizes(10_000, 5, 2) == [1000]
    assert subset_sizes(9999, 5, 2) == []
    assert subset_sizes(600, 5, 50, first=10) == [10, 40, 160]


def test_subsets_have_at_most_a_gibibyte() -> None:
    assert subset_sizes(10**9, 784, 400) == [4000, 16_000, 64_000]


def test_tolerance_of_a_stage_decreases_with_its_size_and_is_at_least_tol() -> None:
    tolerances = [stage_tol(n, 100, 1e-4) for n in (100, 1000, 4000, 16_000, 10**6)]
    assert tolerances == sorted(tolerances, reverse=True)
    assert tolerances[-1] == 1e-4


def test_subsets_are_nested_and_have_the_given_sizes(digits: Any) -> None:
    rows = RecordingRows(digits, M)
    run(rows, [50, 200])
    first, second = rows.subsets
    assert (len(set(first)), len(set(second))) == (50, 200)
    assert set(first) < set(second)
    assert_array_equal(second, np.sort(second))


@pytest.mark.parametrize("eta", [1.0, 0.0])
@pytest.mark.parametrize("positive", [False, True])
def test_stages_end_at_the_energy_of_training_on_all_rows(
    digits: Any, eta: float, positive: bool
) -> None:
    weights = EnergyWeights(0.1, eta, positive, ridge=0.1)
    training, outcome = run(MemoryRows(digits, M, n_threads=1), [50, 200], weights)
    _, reference = run(MemoryRows(digits, M, n_threads=1), [], weights)
    assert training.n == len(digits)
    assert outcome.reason is Reason.CONVERGED
    assert (np.diff(outcome.energy_path) <= 0).all()
    assert_allclose(outcome.energy_path[-1], reference.energy_path[-1], rtol=0.01)


def test_last_stage_starts_near_the_minimum(digits: Any) -> None:
    """One iteration on all rows is enough to be close to what training on all rows reaches."""
    _, outcome = run(MemoryRows(digits, M, n_threads=1), [50, 200])
    _, reference = run(MemoryRows(digits, M, n_threads=1), [])
    assert outcome.energy_path[1] <= 1.02 * reference.energy_path[-1]
    assert reference.energy_path[1] > 1.05 * reference.energy_path[-1]


def test_callback_receives_the_iterations_of_all_stages(digits: Any) -> None:
    seen: list[Iteration] = []
    _, outcome = run(
        MemoryRows(digits, M, n_threads=1), [50, 200], callback=seen.append, max_iter=3
    )
    assert [(now.n_samples, now.n_iter) for now in seen] == [
        (n, k) for n in (50, 200, len(digits)) for k in (1, 2, 3)
    ]
    assert outcome.n_iter == 3
    seconds = [now.seconds for now in seen]
    assert seconds == sorted(seconds)


def test_stop_on_a_subset_is_followed_by_one_iteration_on_all_rows(digits: Any) -> None:
    seen: list[int] = []

    def stop(now: Iteration) -> bool:
        seen.append(now.n_samples)
        return len(seen) == 2

    training, outcome = run(MemoryRows(digits, M, n_threads=1), [50, 200], callback=stop)
    assert seen == [50, 50]
    assert (outcome.reason, outcome.n_iter, len(outcome.energy_path)) == (Reason.CALLBACK, 1, 2)
    assert training.n == training.stats.n == len(digits)


def test_ridge_is_the_same_in_all_stages_and_chosen_as_without_stages(digits: Any) -> None:
    """There are fewer rows than the ridge is chosen from, so the choice is that of all rows."""
    weights = EnergyWeights(0.1, ridge=None)
    training, _ = run(MemoryRows(digits, M, n_threads=1), [50], weights, max_iter=1)
    reference, _ = run(MemoryRows(digits, M, n_threads=1), [], weights, max_iter=1)
    assert training.ridge == reference.ridge


def test_replaced_atoms_of_all_stages_are_counted(digits: Any) -> None:
    rows = MemoryRows(digits, M, n_threads=1)
    start = start_from_data(rows.take, rows.shape, M, np.random.RandomState(0))
    start.D[:3] = 0  # they are replaced on the first subset
    training, _ = train_in_stages(
        rows,
        start.D,
        start.C,
        EnergyWeights(0.1),
        sizes=[100],
        rng=np.random.RandomState(1),
        tol=1e-4,
        max_iter=5,
    )
    assert training.n_replaced >= 3
