"""Refinement of the network: its gradients, directions, when it ends, and what it returns."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from lincode.core.threshold import Thresholding
from lincode.encoder import refinement
from lincode.encoder.calibration import Network
from lincode.encoder.refinement import (
    FIRST_MOMENT,
    Directions,
    Refined,
    Schedule,
    SparseGradients,
    refine,
    shuffled_batches,
)

DENSITY = 0.15
HARD, TOP = Thresholding("hard"), Thresholding("top_k", k=3)


def problem(n: int = 400, p: int = 12, m: int = 20) -> tuple[Any, Any, Any]:
    """Rows of few atoms, a poor encoder and the atoms."""
    rng = np.random.default_rng(0)
    D = rng.standard_normal((m, p))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    U = rng.standard_normal((n, m)) * (rng.random((n, m)) < DENSITY)
    return U @ D + 0.05 * rng.standard_normal((n, p)), 0.5 * D, D


def start_of(X: Any, network: Network, noise: float = 0.0, **options: Any) -> SparseGradients:
    return SparseGradients(network, Directions.of(X, network), DENSITY, noise, **options)


def refined(
    X: Any, network: Network, held_out: Any, schedule: Schedule | None = None, **options: Any
) -> Refined:
    """Refine by default for 300 steps."""
    gradients = start_of(X, network, **options)
    batches = shuffled_batches(X, gradients.directions)
    return refine(network, gradients, batches, held_out, schedule or Schedule(300))


def fraction(X: Any, network: Network) -> float:
    S = network.rule.apply(np.ascontiguousarray(X @ network.C.T))
    return float(1 - np.sum((X - S @ network.D) ** 2) / np.sum(X**2))


def test_gradients_agree_with_finite_differences() -> None:
    """The first step stores them in the first moments. The support is fixed."""
    X, C, D = problem(60, 5, 8)
    gradients = start_of(X, Network(C, D, HARD), noise=0.02)
    Y = gradients.directions.rotated(X)
    start = gradients.weights.astype(np.float64)
    gradients.step(Y)
    support = np.abs(Y @ start[0].T) > gradients.rule.threshold
    assert 0 < support.mean() < 0.2

    def objective(weights: Any) -> float:
        C, D = weights
        error = np.sum((Y - (Y @ C.T * support) @ D) ** 2)
        noise = gradients.noise * np.sum(support.sum(axis=0) * np.sum(C**2, axis=1))
        return float(error + noise) / (2 * len(Y))

    expected = np.empty_like(start)
    for index in np.ndindex(start.shape):
        change = np.zeros_like(start)
        change[index] = 1e-5
        expected[index] = (objective(start + change) - objective(start - change)) / 2e-5
    found = gradients.means / FIRST_MOMENT
    assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("rule", [HARD, TOP])
@pytest.mark.parametrize("scale", [1.0, 1e100])
def test_held_out_rows_are_reconstructed_better(rule: Thresholding, scale: float) -> None:
    X, C, D = problem(1400)
    train, held_out, new = (scale * rows for rows in np.split(X, [1000, 1200]))
    result = refined(train, Network(C, D, rule), held_out)
    # The threshold is one of the outputs, which rounding may put on the other side of it.
    network, around = result.network, []
    for factor in (1 - 1e-5, 1 + 1e-5):
        shifted = replace(network.rule, threshold=factor * network.rule.threshold)
        around.append(fraction(held_out, replace(network, rule=shifted)))
    assert min(around) - 1e-5 <= result.r2 <= max(around) + 1e-5
    assert result.r2 > result.start_r2 + 0.05
    assert fraction(new, result.network) > result.start_r2 + 0.05
    assert_allclose(np.linalg.norm(result.network.D, axis=1), 1, atol=0.05)
    S = result.network.rule.apply(np.ascontiguousarray(new @ result.network.C.T))
    assert_allclose(np.mean(S != 0), DENSITY, rtol=0.15)


def test_network_that_becomes_worse_is_not_returned() -> None:
    """The steps use rows that have nothing in common with the held-out rows."""
    X, C, D = problem()
    good = refined(X, Network(C, D, HARD), X).network
    noise = np.random.default_rng(1).standard_normal(X.shape)
    result = refined(noise, good, X)
    assert result.r2 == result.start_r2
    assert_allclose(result.network.C, good.C, atol=1e-6)
    assert_allclose(result.network.D, good.D, atol=1e-6)
    assert_allclose(result.network.rule.threshold, good.rule.threshold, rtol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 5, 30])
def test_few_rows(n: int) -> None:
    X, C, D = problem(n)
    for rows in (X, 0 * X):
        result = refined(rows, Network(C, D, HARD), rows)
        assert result.r2 >= result.start_r2
        assert np.isfinite([result.network.C, result.network.D]).all()


@pytest.mark.parametrize(
    ("schedule", "checks"),
    [
        (Schedule(1000, tol=1.0), [100, 200, 300, 400]),
        (Schedule(1000, tol=1.0, patience=2), [100, 200, 266]),
        (Schedule(450, tol=1.0, patience=None), [100, 200, 300, 400, 450]),
        (Schedule(0), []),
    ],
)
def test_steps_end_without_improvement(schedule: Schedule, checks: list[int]) -> None:
    X, C, D = problem()
    network, found = Network(C, D, HARD), []
    gradients = start_of(X, network)
    batches = shuffled_batches(X, gradients.directions)

    def report(n_steps: int, *_: Any) -> bool:
        found.append(n_steps)
        return False

    refine(network, gradients, batches, X, schedule, report=report)
    assert found == checks
    assert gradients.n_steps == (checks[-1] if checks else 0)


def test_schedule_grows_with_rows_and_units() -> None:
    least = refinement.DEFAULT_STEPS
    assert Schedule.of(100, 8).max_steps == least
    assert Schedule.of(100, least + 100).max_steps == least + 100
    assert Schedule.of(512 * (least + 200), least + 100).max_steps == least + 200


def test_positive_dictionary() -> None:
    X, C, D = problem()
    X, network = np.abs(X), Network(np.abs(C), np.abs(D), HARD)
    result = refined(X, network, X, positive_dict=True)
    assert (result.network.D >= 0).all()
    assert result.r2 > result.start_r2
    assert (refined(X, network, X).network.D < 0).any()


def test_unit_without_positive_outputs_does_not_grow() -> None:
    """Units that are not used grow until they are, but with positive codes this one never is."""
    X, C, D = problem()
    X, C = np.abs(X), np.abs(C)
    C[0] *= -1
    gradients = start_of(X, Network(C, np.abs(D), Thresholding("hard", positive=True)))
    length = np.linalg.norm(gradients.weights[0, 0])
    for Y in islice(shuffled_batches(X, gradients.directions), 100):
        gradients.step(Y)
    assert_allclose(np.linalg.norm(gradients.weights[0, 0]), length, rtol=1e-3)


# Directions


@pytest.mark.parametrize("kind", ["all", "leading"])
def test_directions_are_those_of_the_rows_and_of_the_network(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a few rows would reduce the network to their span."""
    if kind == "leading":
        monkeypatch.setattr(refinement, "MAX_ROTATED_FEATURES", 0)
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((3, 20)), rng.standard_normal((2, 20))
    X[2], X[:, :5], W[:, :5] = X[0], 0, 0
    network = Network(W, W[::-1] + X[:2], HARD)
    for rows in (X, scipy.sparse.csr_array(X)):
        V = Directions.of(rows, network).V
        assert V.shape == (20, 4)  # two rows differ
        assert_allclose(V.T @ V, np.eye(4), atol=1e-6)
        for A in (X, network.C, network.D):
            assert_allclose(A @ V @ V.T, A, atol=1e-5)
    if kind == "all":
        past = rng.standard_normal((1, 20))
        V = Directions.of(X, network, past.T @ past).V
        assert V.shape == (20, 5)
        assert_allclose(past @ V @ V.T, past, atol=1e-5)


def test_leading_directions_miss_a_part_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refinement, "MAX_ROTATED_FEATURES", 0)
    monkeypatch.setattr(refinement, "N_DIRECTIONS", 6)
    X, C, D = problem(600)
    result = refined(X[:400], Network(C, D, HARD), X[400:])
    assert np.linalg.matrix_rank(result.network.C, tol=1e-4) == 6
    assert np.linalg.matrix_rank(result.network.D, tol=1e-4) == 6
    assert_allclose(result.r2, fraction(X[400:], result.network), atol=1e-5)
    assert result.r2 > result.start_r2


def test_every_row_is_used_once_per_pass() -> None:
    X, C, D = problem(50)
    directions = Directions.of(X, Network(C, D, HARD))
    batches = shuffled_batches(X, directions, 25)
    first, second, third, fourth = (next(batches) for _ in range(4))
    Y = directions.rotated(X)
    for one, two in ((first, second), (third, fourth)):
        assert_array_equal(np.sort(np.vstack([one, two]), axis=0), np.sort(Y, axis=0))
    assert not np.array_equal(first, third)
