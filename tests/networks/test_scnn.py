"""The training of SCNN: the energy after every step, momentum, unused atoms and signs."""

from typing import Any

import numpy as np
import pytest
from lincode.networks.scnn import EnergyWeights, Momentum, SCNNTraining, atom_signs
from lincode.networks.scnn_paper import PaperTraining
from lincode.networks.training import train
from lincode.rows.memory import MemoryRows
from numpy.testing import assert_allclose

from lincode.core.dictionary import Start, paper_start, start_from_data
from lincode.core.energy import energy


def data_start(X: Any, m: int) -> Start:
    return start_from_data(lambda indices: X[indices], X.shape, m, np.random.RandomState(0))


def random_start(X: Any, m: int) -> Start:
    return paper_start(X.shape, m, np.random.RandomState(0), X.dtype)


def build(
    kind: type[SCNNTraining], X: Any, start: Start, weights: EnergyWeights, tol: float = 1e-4
) -> Any:
    """Return a training whose rows are in memory."""
    rows = MemoryRows(X, len(start.D), n_threads=1)
    if start.U is None:
        rows.set_codes(start.C, weights.thresholding)
    else:
        rows.U[...] = start.U
    return kind(rows, start.D, start.C, weights, tol=tol)


@pytest.mark.parametrize("kind", [SCNNTraining, PaperTraining])
@pytest.mark.parametrize("start", [data_start, random_start])
def test_no_step_increases_the_energy(kind: Any, start: Any, digits: Any) -> None:
    """The energy is computed from U, D and C, independently of the training."""
    X = digits[:150]
    training = build(kind, X, start(X, 10), EnergyWeights(0.1))
    last = energy(X, training.rows.U, training.D, training.C, 0.1)
    assert_allclose(training.energy(), last, rtol=1e-10)
    for _ in range(12):
        for step in training.steps():
            now = energy(X, training.rows.U, training.D, training.C, 0.1)
            assert now <= last * (1 + 1e-12), step
            assert_allclose(training.energy(), now, rtol=1e-9)
            last = now


def test_extrapolation_that_increases_the_energy_is_undone(digits: Any) -> None:
    training = build(SCNNTraining, digits, data_start(digits, 15), EnergyWeights(0.1))
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


def test_extrapolation_keeps_unused_atoms_in_the_unit_balls(digits: Any) -> None:
    """Only the extrapolation changes an atom that no row uses."""
    start = data_start(digits, 8)
    training = build(SCNNTraining, digits, start, EnergyWeights(0.1))
    list(training.plain_iteration())
    D, C = training.D.copy(), training.C.copy()
    D[3], C[3] = np.eye(64)[0], 0
    training.rows.U[:, 3] = 0
    training.D, training.C = D, C
    before = D.copy()
    before[3] *= 0.1
    training.momentum = Momentum(before, C, age=100)
    training.extrapolated_iteration()
    assert (np.linalg.norm(training.D, axis=1) <= 1 + 1e-12).all()


def test_extrapolation_saves_iterations(digits: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def iterations_to(target: float) -> int:
        start = data_start(digits, 20)
        training = build(SCNNTraining, digits, start, EnergyWeights(0.1))
        outcome = train(
            training, max_iter=300, tol=0.0, callback=lambda now: now.energy_per_sample <= target
        )
        return outcome.n_iter

    start = data_start(digits, 20)
    paper = build(PaperTraining, digits, start, EnergyWeights(0.1))
    target = train(paper, max_iter=50, tol=0.0).energy_path[-1] / len(digits)
    with_extrapolation = iterations_to(target)
    monkeypatch.setattr(SCNNTraining, "extrapolated_iteration", lambda self: False)
    without = iterations_to(target)
    assert with_extrapolation <= 0.6 * without


def test_unused_atoms_are_replaced_by_the_largest_residuals(digits: Any) -> None:
    X = digits[:200]
    start = data_start(X, 6)
    D = start.D.copy()
    D[[1, 4]] = 0  # no row can use these atoms
    training = build(SCNNTraining, X, Start(D=D, C=start.C), EnergyWeights(0.05))
    list(training.steps())
    assert list(np.flatnonzero(training.stats.used == 0)) == [1, 4]
    before = training.energy()
    R = X - training.rows.U @ training.D
    worst = R[np.argsort(-np.linalg.norm(R, axis=1))[:2]]
    training.replace_unused_atoms()
    assert training.n_replaced == 2
    assert training.energy() == before
    assert_allclose(
        training.D[[1, 4]], worst / np.linalg.norm(worst, axis=1, keepdims=True), atol=1e-9
    )
    list(training.steps())
    assert (training.stats.used > 0).all()
    assert training.energy() < before


def test_atoms_are_replaced_only_if_a_row_will_use_them(digits: Any) -> None:
    X = digits[:50]
    D = np.zeros((3, 64))
    start = Start(D=D, C=np.zeros((3, 64)))
    longest = np.linalg.norm(X, axis=1).max()
    for lam, n_replaced in ((1.001 * 3 / 64 * longest, 0), (0.999 * 3 / 64 * longest, 1)):
        training = build(SCNNTraining, X, start, EnergyWeights(lam))
        list(training.steps())
        training.replace_unused_atoms()
        assert training.n_replaced == n_replaced


def test_signs_follow_the_largest_entry_and_keep_the_energy(rng: np.random.Generator) -> None:
    X, U = rng.standard_normal((9, 5)), rng.standard_normal((9, 4))
    D, C = rng.standard_normal((4, 5)), rng.standard_normal((4, 5))
    D[3] = 0
    D2, C2 = atom_signs(D) * D, atom_signs(D) * C
    largest = D2[np.arange(4), np.abs(D2).argmax(axis=1)]
    assert (largest >= 0).all()
    flip = np.where((D2 == D).all(axis=1), 1, -1)
    assert -1 in flip
    assert_allclose(energy(X, U * flip, D2, C2, 0.1), energy(X, U, D, C, 0.1))
    assert_allclose(atom_signs(-D) * -D, D2)


def test_solver_of_the_paper_monitors_the_reconstruction_error(digits: Any) -> None:
    X = digits[:100]
    training = build(PaperTraining, X, random_start(X, 8), EnergyWeights(0.1))
    list(training.steps())
    expected = ((X - X @ training.C.T @ training.D) ** 2).sum() / 64
    assert_allclose(training.monitored_error(training.energy()), expected, rtol=1e-9)
