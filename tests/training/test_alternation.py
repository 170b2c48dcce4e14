"""The training of SCNN: the steps, momentum, unused atoms, signs and growing subsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from lincode.core.dictionary import start_from_data
from lincode.core.energy import energy
from lincode.training.alternation import (
    EnergyWeights,
    Momentum,
    SCNNTraining,
    atom_signs,
    subset_sizes,
    train_in_stages,
)
from lincode.training.loop import Outcome, Reason, train
from lincode.training.rows import MemoryRows


def first_atoms(X: Any, m: int) -> Any:
    return start_from_data(lambda indices: X[indices], X.shape, m, np.random.RandomState(0)).D


def build(X: Any, D: Any, lam: float = 0.1, **weights: Any) -> Any:
    """Return a training that starts from D and a zero encoder."""
    rows = MemoryRows(X, len(D), n_threads=1)
    return SCNNTraining(rows, D, np.zeros_like(D), EnergyWeights(lam, **weights), tol=1e-4)


@pytest.mark.parametrize("eta", [1.0, 0.0])
@pytest.mark.parametrize("positive", [False, True])
def test_no_step_increases_the_energy(digits: Any, eta: float, positive: bool) -> None:
    """The energy is computed from U, D and C, independently of the training."""
    X = digits[:150]
    training = build(X, first_atoms(X, 10), eta=eta, positive=positive, positive_dict=positive)

    def value() -> float:
        return energy(X, training.rows.U, training.D, training.C, 0.1, eta)

    last = value()
    assert_allclose(training.energy(), last, rtol=1e-10)
    for _ in range(12):
        for step in training.steps():
            now = value()
            assert now <= last * (1 + 1e-12), step
            assert_allclose(training.energy(), now, rtol=1e-9)
            last = now


def test_joint_residual_is_that_of_the_final_network(digits: Any) -> None:
    """Compute it from the codes, D and C."""
    X = digits[:100]
    training = build(X, first_atoms(X, 8))
    train(training, max_iter=10, tol=0.0)
    U, D, C = training.rows.U, training.D, training.C
    b = X @ D.T / 64 + X @ C.T / 8
    G = U @ (D @ D.T / 64 + np.eye(8) / 8) - b
    tau = 0.1 / 8
    violation = np.where(U != 0, np.abs(G + tau * np.sign(U)), np.maximum(np.abs(G) - tau, 0))
    expected = (violation.max(axis=1) / np.abs(b).max(axis=1)).max()
    optimality = training.result().optimality
    assert_allclose(optimality["joint"], expected, rtol=1e-6)
    assert optimality["joint"] > 2 * optimality["codes"]


@pytest.mark.parametrize("eta", [1.0, 0.0])
def test_extrapolation_that_increases_the_energy_is_undone(digits: Any, eta: float) -> None:
    training = build(digits, first_atoms(digits, 15), eta=eta)
    for _ in range(3):
        list(training.steps())
    reached, D, C = training.energy(), training.D, training.C
    rng = np.random.default_rng(0)
    training.momentum = Momentum(  # a random direction
        D + rng.standard_normal(D.shape), C + rng.standard_normal(C.shape), age=100
    )
    assert not training.extrapolated_iteration()
    assert training.D is D
    assert training.C is C
    assert training.momentum.age == 0
    assert training.energy() <= reached
    list(training.plain_iteration())
    assert training.energy() < reached


def test_extrapolation_saves_iterations(digits: Any) -> None:
    X = digits[:300]
    training, plain = (build(X, first_atoms(X, 12)) for _ in range(2))
    for _ in range(30):
        list(plain.plain_iteration())
    for _ in range(18):
        list(training.steps())
    assert training.energy() < plain.energy()


def test_unused_atoms_are_replaced_by_the_largest_residuals(digits: Any) -> None:
    X = digits[:200]
    D = first_atoms(X, 6)
    D[[1, 4]] = 0  # no row can use these atoms
    training = build(X, D, lam=0.05)
    list(training.steps())
    assert list(np.flatnonzero(training.stats.used == 0)) == [1, 4]
    before = training.energy()
    R = X - training.rows.U @ training.D
    worst = R[np.argsort(-np.linalg.norm(R, axis=1))[:2]]
    training.replace_unused_atoms()
    assert training.n_replaced == 2
    assert training.energy() == before
    expected = worst / np.linalg.norm(worst, axis=1, keepdims=True)
    assert_allclose(training.D[[1, 4]], expected, atol=1e-9)
    list(training.steps())
    assert (training.stats.used > 0).all()
    assert training.energy() < before


def test_atoms_are_replaced_only_if_a_row_will_use_them(digits: Any) -> None:
    X = digits[:50]
    limit = 3 / 64 * np.linalg.norm(X, axis=1).max()
    for lam, n_replaced in ((1.001 * limit, 0), (0.999 * limit, 1)):
        training = build(X, np.zeros((3, 64)), lam)
        list(training.steps())
        training.replace_unused_atoms()
        assert training.n_replaced == n_replaced


def test_signs_follow_the_largest_entry(rng: np.random.Generator) -> None:
    D = rng.standard_normal((20, 5))
    D[3] = 0
    signed = atom_signs(D) * D
    assert (signed[np.arange(20), np.abs(D).argmax(axis=1)] >= 0).all()
    assert_array_equal(np.abs(signed), np.abs(D))
    assert_array_equal(atom_signs(-D) * -D, signed)
    assert set(atom_signs(D).ravel()) == {-1, 1}


# Growing subsets


class RecordingRows(MemoryRows):
    """Rows in memory that record which subsets were taken."""

    def __init__(self, X: Any, m: int) -> None:
        super().__init__(X, m, n_threads=1)
        self.subsets: list[NDArray[np.intp]] = []

    def subset(self, indices: NDArray[np.intp]) -> MemoryRows:
        self.subsets.append(indices)
        return super().subset(indices)


def run(
    X: Any, sizes: list[int], rows: MemoryRows | None = None, n_unused: int = 0, **weights: Any
) -> tuple[SCNNTraining, Outcome]:
    D = first_atoms(X, 12)
    D[:n_unused] = 0
    return train_in_stages(
        rows or MemoryRows(X, 12, n_threads=1),
        D,
        np.zeros_like(D),
        EnergyWeights(**{"lam": 0.1, "ridge": 0.1, **weights}),
        sizes=sizes,
        rng=np.random.RandomState(1),
        tol=1e-4,
        max_iter=200,
    )


def test_sizes_grow_by_a_factor_of_four_up_to_a_third_of_the_rows() -> None:
    assert subset_sizes(48_000, 784, 400) == [4000, 16_000]
    assert subset_sizes(47_999, 784, 400) == [4000]
    assert subset_sizes(10_000, 5, 2) == [1000]
    assert subset_sizes(9999, 5, 2) == []
    assert subset_sizes(10**9, 784, 400) == [4000, 16_000, 64_000]  # at most 1 GiB


def test_subsets_are_nested_and_have_the_given_sizes(digits: Any) -> None:
    rows = RecordingRows(digits, 12)
    run(digits, [50, 200], rows)
    first, second = rows.subsets
    assert (len(set(first)), len(set(second))) == (50, 200)
    assert set(first) < set(second)
    assert_array_equal(second, np.sort(second))


@pytest.mark.parametrize("eta", [1.0, 0.0])
def test_stages_end_at_the_energy_of_training_on_all_rows(digits: Any, eta: float) -> None:
    training, outcome = run(digits, [50, 200], eta=eta)
    _, reference = run(digits, [], eta=eta)
    assert training.n == len(digits)
    assert outcome.reason is Reason.CONVERGED
    assert (np.diff(outcome.energy_path) <= 0).all()
    assert_allclose(outcome.energy_path[-1], reference.energy_path[-1], rtol=0.01)
    if eta:  # the last stage starts near the minimum
        assert outcome.energy_path[1] <= 1.02 * reference.energy_path[-1]
        assert reference.energy_path[1] > 1.05 * reference.energy_path[-1]


def test_ridge_and_replaced_atoms_of_all_stages(digits: Any) -> None:
    """There are fewer rows than the ridge is chosen from, so the choice is that of all rows."""
    training, _ = run(digits, [100], n_unused=3, ridge=None)
    reference, _ = run(digits, [], n_unused=3, ridge=None)
    assert training.ridge == reference.ridge
    assert training.n_replaced >= 3
