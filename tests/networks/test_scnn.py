"""The default training from inside: guards, revival, signs; and the paper's beside it."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lincode.core.encoder_step import factor_data
from lincode.core.energy import energy
from lincode.core.init import Start, start_from_data, start_of_the_paper
from lincode.networks._alternate import alternate
from lincode.networks.scnn import Momentum, SCNNTraining, Weights, fix_signs
from lincode.networks.scnn_paper import PaperTraining
from lincode.rows.memory import MemoryRows


def build(
    kind: type[SCNNTraining], X: Any, start: Start, weights: Weights, tol: float = 1e-4
) -> SCNNTraining:
    U = start.codes(X, weights.threshold, positive=weights.positive).copy()
    rows = MemoryRows(X, U, n_threads=1)
    return kind(rows, start.D, start.C, weights, factor_data(X), tol=tol)


@pytest.mark.parametrize("kind", [SCNNTraining, PaperTraining])
@pytest.mark.parametrize("start", [start_from_data, start_of_the_paper])
def test_every_step_lowers_the_energy_of_the_arrays(kind: Any, start: Any, digits: Any) -> None:
    """Not by the training's own account: computed from U, D and C as they stand."""
    X = digits[:150]
    training = build(kind, X, start(X, 10, np.random.RandomState(0)), Weights(0.1))
    last = energy(X, training.rows.U, training.D, training.C, 0.1)
    assert_allclose(training.energy(), last, rtol=1e-10)
    for _ in range(12):
        for step in training.steps():
            now = energy(X, training.rows.U, training.D, training.C, 0.1)
            assert now <= last * (1 + 1e-12), step
            assert_allclose(training.energy(), now, rtol=1e-9)
            last = now


def test_a_leap_too_far_is_taken_back(digits: Any) -> None:
    training = build(
        SCNNTraining, digits, start_from_data(digits, 15, np.random.RandomState(0)), Weights(0.1)
    )
    for _ in range(3):
        list(training.steps())
    reached, D, C = training.energy(), training.D, training.C
    rng = np.random.default_rng(0)
    training.momentum = Momentum(  # so that the leap goes in a wild direction
        D + rng.standard_normal(D.shape), C + rng.standard_normal(C.shape), age=100
    )
    assert not training.leap()
    assert training.D is D
    assert training.C is C
    assert training.momentum.age == 0
    assert training.energy() <= reached
    list(training.walk())
    assert training.energy() < reached


def test_a_leap_keeps_idle_atoms_in_the_balls(digits: Any) -> None:
    """No step touches an atom nobody uses but the leap itself."""
    start = start_from_data(digits, 8, np.random.RandomState(0))
    training = build(SCNNTraining, digits, start, Weights(0.1))
    list(training.walk())
    D, C = training.D.copy(), training.C.copy()
    D[3], C[3] = np.eye(64)[0], 0
    training.rows.U[:, 3] = 0
    training.D, training.C = D, C
    before = D.copy()
    before[3] *= 0.1
    training.momentum = Momentum(before, C, age=100)
    training.leap()
    assert (np.linalg.norm(training.D, axis=1) <= 1 + 1e-12).all()


def test_leaps_save_iterations(digits: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def iterations_to(target: float) -> tuple[int, float]:
        start = start_from_data(digits, 20, np.random.RandomState(0))
        training = build(SCNNTraining, digits, start, Weights(0.1))
        outcome = alternate(
            training, max_iter=300, tol=0.0, callback=lambda now: now.energy_per_sample <= target
        )
        return outcome.n_iter, outcome.energy_path[-1] / len(digits)

    start = start_from_data(digits, 20, np.random.RandomState(0))
    paper = build(PaperTraining, digits, start, Weights(0.1))
    target = alternate(paper, max_iter=50, tol=0.0).energy_path[-1] / len(digits)
    leaping, _ = iterations_to(target)
    monkeypatch.setattr(SCNNTraining, "leap", lambda self: False)
    walking, _ = iterations_to(target)
    assert leaping <= 0.6 * walking


def test_idle_atoms_are_pointed_at_the_worst_rows_at_no_cost(digits: Any) -> None:
    X = digits[:200]
    start = start_from_data(X, 6, np.random.RandomState(0))
    D = start.D.copy()
    D[[1, 4]] = 0  # no row can use these
    training = build(SCNNTraining, X, Start(D=D, C=start.C), Weights(0.05))
    list(training.steps())
    assert list(np.flatnonzero(training.stats.used == 0)) == [1, 4]
    before = training.energy()
    R = X - training.rows.U @ training.D
    worst = R[np.argsort(-np.linalg.norm(R, axis=1))[:2]]
    training.revive_atoms()
    assert training.n_revived == 2
    assert training.energy() == before
    assert_allclose(
        training.D[[1, 4]], worst / np.linalg.norm(worst, axis=1, keepdims=True), atol=1e-9
    )
    list(training.steps())
    assert (training.stats.used > 0).all()
    assert training.energy() < before


def test_no_atom_is_revived_where_no_row_would_use_it(digits: Any) -> None:
    X = digits[:50]
    D = np.zeros((3, 64))
    start = Start(D=D, C=np.zeros((3, 64)))
    longest = np.linalg.norm(X, axis=1).max()
    for lam, revived in ((1.001 * 3 / 64 * longest, 0), (0.999 * 3 / 64 * longest, 1)):
        training = build(SCNNTraining, X, start, Weights(lam))
        list(training.steps())
        training.revive_atoms()
        assert training.n_revived == revived


def test_signs_follow_the_largest_entry_and_change_no_energy(rng: np.random.Generator) -> None:
    X, U = rng.standard_normal((9, 5)), rng.standard_normal((9, 4))
    D, C = rng.standard_normal((4, 5)), rng.standard_normal((4, 5))
    D[3] = 0
    D2, C2 = fix_signs(D, C)
    largest = D2[np.arange(4), np.abs(D2).argmax(axis=1)]
    assert (largest >= 0).all()
    flip = np.where((D2 == D).all(axis=1), 1, -1)
    assert -1 in flip
    assert_allclose(energy(X, U * flip, D2, C2, 0.1), energy(X, U, D, C, 0.1))
    assert_allclose(fix_signs(-D, -C)[0], D2)


def test_the_paper_watches_the_reconstruction_of_the_whole_network(digits: Any) -> None:
    X = digits[:100]
    training = build(
        PaperTraining, X, start_of_the_paper(X, 8, np.random.RandomState(0)), Weights(0.1)
    )
    list(training.steps())
    expected = ((X - X @ training.C.T @ training.D) ** 2).sum() / 64
    assert_allclose(training.watched(training.energy()), expected, rtol=1e-9)
