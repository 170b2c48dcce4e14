"""Refinement of the encoder: its block steps, when it ends, and what it returns."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from lincode.core import refinement
from lincode.core.encoder_step import Thresholding
from lincode.core.refinement import _encoder_change, refine_encoder


def problem(n: int = 400, p: int = 12, m: int = 20) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    D = rng.standard_normal((m, p))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    U = rng.standard_normal((n, m)) * (rng.random((n, m)) < 0.15)
    return U @ D + 0.05 * rng.standard_normal((n, p)), 0.5 * D, D


def held_out_error(X: Any, refined: Any) -> float:
    S = refined.thresholding.apply(np.ascontiguousarray(X @ refined.C.T))
    return float(np.mean((X - S @ refined.D) ** 2))


def test_change_of_the_encoder_solves_a_ridge_regression_for_each_unit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refinement, "CG_STEPS", 50)
    X, C, D = problem()
    S = Thresholding("hard", 0.5).apply(np.ascontiguousarray(X @ C.T))
    change = _encoder_change(X, S, D)
    targets = 0.5 * (X - S @ D) @ D.T
    for j in range(len(C)):
        rows = X[S[:, j] != 0]
        ridge = refinement.RIDGE * np.sum(rows**2) / X.shape[1]
        expected = np.linalg.solve(
            rows.T @ rows + ridge * np.eye(X.shape[1]), rows.T @ targets[S[:, j] != 0, j]
        )
        assert_allclose(change[j], expected, atol=1e-8)
    assert_allclose(_encoder_change(scipy.sparse.csr_matrix(X), S, D), change, atol=1e-10)


@pytest.mark.parametrize("mode", ["hard", "soft", "top_k"])
@pytest.mark.parametrize("scale", [1.0, 1e100])
def test_more_rounds_reconstruct_held_out_rows_better(mode: str, scale: float) -> None:
    X, C, D = problem(1200)
    train, test = scale * X[:1000], scale * X[1000:]
    rule = Thresholding(mode, k=3)
    errors = []
    for max_iter in (0, 3, 30):
        refined = refine_encoder(train, C / scale, scale * D, rule, 0.15, max_iter=max_iter)
        errors.append(held_out_error(test, refined) / scale**2)
        S = refined.thresholding.apply(np.ascontiguousarray(test @ refined.C.T))
        assert abs(np.mean(S != 0) - 0.15) < 0.04
        true_r2 = 1 - errors[-1] * test.size / np.sum((test / scale) ** 2)
        assert abs(refined.r2 - true_r2) < 0.1
    assert errors[0] > errors[1] >= errors[2]
    assert errors[2] < 0.9 * errors[0]


def test_round_that_does_not_help_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    X, C, D = problem()
    start = refine_encoder(X, C, D, Thresholding("hard"), 0.15, max_iter=0)
    monkeypatch.setattr(refinement, "ENCODER_STEP", -5.0)
    refined = refine_encoder(X, C, D, Thresholding("hard"), 0.15, max_iter=5)
    assert_allclose(refined.C, start.C)
    assert_allclose(refined.D, start.D)
    assert refined.r2 == start.r2


@pytest.mark.parametrize("n", [1, 2, 5, 30])
def test_few_rows(n: int) -> None:
    X, C, D = problem(n)
    refined = refine_encoder(X, C, D, Thresholding("hard"), 0.15, max_iter=3)
    for A in (refined.C, refined.D, refined.r2):
        assert np.isfinite(A).all()
    zero = refine_encoder(0 * X, C, D, Thresholding("hard"), 0.15, max_iter=3)
    assert np.isfinite(zero.C).all()


def test_gains_of_the_given_thresholding_are_ignored() -> None:
    X, C, D = problem()
    rule = Thresholding("hard")
    one = refine_encoder(X, C, D, rule, 0.15, max_iter=2)
    two = refine_encoder(X, C, D, replace(rule, gains=np.full(20, 7.0)), 0.15, max_iter=2)
    assert_allclose(one.C, two.C)
    assert two.thresholding.gains is None
