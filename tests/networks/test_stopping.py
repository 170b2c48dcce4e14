"""The stopping rule of training on batches."""

import numpy as np
from lincode.networks.stopping import BatchStopping


def n_batches(rule: BatchStopping, energies: list[float], scales: list[float] | None = None) -> int:
    """Return the number of batches of ten rows after which training stops."""
    for k, energy in enumerate(energies):
        if rule.add(10, energy, 1.0 if scales is None else scales[k]):
            return k + 1
    return -1


def test_training_stops_after_windows_without_improvement() -> None:
    energies = [9.0, 1.0, 0.9, 0.9, 0.8995, 0.9, 0.5]
    assert n_batches(BatchStopping(1e-2, 3, 1), energies) == 6
    assert n_batches(BatchStopping(1e-4, 3, 1), energies) == -1
    assert n_batches(BatchStopping(1e-2, None, 1), energies) == -1


def test_first_batch_does_not_count() -> None:
    assert n_batches(BatchStopping(1e-2, 1, 1), [0.1, 1.0, 0.5, 0.4]) == -1


def test_energies_are_averaged_over_windows() -> None:
    noise = [1.2, 0.8] * 20
    steady = [2.0, *(np.array(noise) * np.repeat(0.9 ** np.arange(20), 2))]
    assert n_batches(BatchStopping(1e-2, 2, 20), steady) == -1
    # The windows end after the batches 2, 4, 6 and 8. The first has the energy of one batch only.
    assert n_batches(BatchStopping(1e-2, 2, 20), [2.0, *noise]) == 8


def test_scale_of_a_batch_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    scales = list(rng.uniform(0.5, 2, 30))
    ratios = 0.9 ** np.arange(30)
    assert n_batches(BatchStopping(1e-2, 1, 1), list(ratios * scales), scales) == -1
    assert n_batches(BatchStopping(1e-2, 1, 1), list(0.5 * np.array(scales)), scales) == 3


def test_batches_of_zeros_stop_training() -> None:
    assert n_batches(BatchStopping(1e-2, 2, 1), [0.0] * 6, [0.0] * 6) == 4


def test_training_does_not_stop_before_enough_rows_or_passes() -> None:
    energies = [1.0] * 20
    assert n_batches(BatchStopping(1e-2, 2, 10), energies) == 4
    assert n_batches(BatchStopping(1e-2, 2, 10, min_rows=100, min_passes=3), energies) == 10
    rule = BatchStopping(1e-2, 2, 10, min_rows=100, min_passes=3)
    stops = [rule.add(10, 1.0, 1.0, 20) for _ in energies]
    assert stops.index(True) == 5  # after three passes of two batches


def test_window_is_not_longer_than_a_pass() -> None:
    rule = BatchStopping(1e-2, 1, 1000)
    assert [rule.add(10, 1.0, 1.0, 20) for _ in range(4)] == [False, False, False, True]
