"""Refinement of the encoder: its block steps, when it ends, and what it returns."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from lincode.core.threshold import Thresholding
from lincode.encoder import refinement
from lincode.encoder.refinement import (
    _encoder_change,
    _Preconditioner,
    refine_encoder,
)


def problem(n: int = 400, p: int = 12, m: int = 20) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    D = rng.standard_normal((m, p))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    U = rng.standard_normal((n, m)) * (rng.random((n, m)) < 0.15)
    return U @ D + 0.05 * rng.standard_normal((n, p)), 0.5 * D, D


def held_out_error(X: Any, refined: Any) -> float:
    S = refined.thresholding.apply(np.ascontiguousarray(X @ refined.C.T))
    return float(np.mean((X - S @ refined.D) ** 2))


@pytest.mark.parametrize("preconditioned", [True, False])
def test_change_of_the_encoder_minimises_the_quadratic_objective(
    monkeypatch: pytest.MonkeyPatch, preconditioned: bool
) -> None:
    monkeypatch.setattr(refinement, "CG_STEPS", 300)
    if not preconditioned:
        monkeypatch.setattr(refinement, "MAX_PRECONDITIONED_FEATURES", 0)
    X, C, D = problem(p=6, m=8)
    S = Thresholding("hard", 0.5).apply(np.ascontiguousarray(X @ C.T))
    preconditioner = _Preconditioner.of(X)
    change = _encoder_change(X, S, D, preconditioner)
    # The least-squares problem, with one column per entry of C.
    M = S != 0
    columns = [np.outer(M[:, j] * X[:, k], D[j]).ravel() for j in range(8) for k in range(6)]
    A = np.stack(columns, axis=1)
    ridge = refinement.RIDGE * np.mean(X**2) * np.repeat(M.sum(axis=0), 6)
    expected = np.linalg.solve(A.T @ A + np.diag(ridge), A.T @ (X - S @ D).ravel())
    assert_allclose(change, expected.reshape(8, 6), atol=1e-8)
    sparse = scipy.sparse.csr_matrix(X)
    other = _encoder_change(sparse, S, D, _Preconditioner.of(sparse))
    assert_allclose(other, change, atol=1e-8)


@pytest.mark.parametrize("mode", ["hard", "soft", "top_k"])
@pytest.mark.parametrize("scale", [1.0, 1e100])
def test_more_rounds_reconstruct_held_out_rows_better(mode: str, scale: float) -> None:
    X, C, D = problem(1200)
    train, test = scale * X[:1000], scale * X[1000:]
    rule = Thresholding(mode, k=3)
    errors = []
    for max_iter in (0, 3, 30):
        refined = refine_encoder(train, C, D, rule, 0.15, max_iter=max_iter)
        errors.append(held_out_error(test, refined) / scale**2)
        S = refined.thresholding.apply(np.ascontiguousarray(test @ refined.C.T))
        assert abs(np.mean(S != 0) - 0.15) < 0.04
        true_r2 = 1 - errors[-1] * test.size / np.sum((test / scale) ** 2)
        assert abs(refined.r2 - true_r2) < 0.1
    assert errors[0] > errors[1] >= errors[2]
    assert errors[2] < 0.9 * errors[0]


@pytest.mark.parametrize("n", [1, 2, 5, 30])
def test_few_rows(n: int) -> None:
    X, C, D = problem(n)
    refined = refine_encoder(X, C, D, Thresholding("hard"), 0.15, max_iter=3)
    for A in (refined.C, refined.D, refined.r2):
        assert np.isfinite(A).all()
    zero = refine_encoder(0 * X, C, D, Thresholding("hard"), 0.15, max_iter=3)
    assert np.isfinite(zero.C).all()


@pytest.mark.parametrize("mode", ["hard", "soft", "top_k"])
def test_codes_have_the_units_of_the_rows(mode: str) -> None:
    X, C, D = problem()
    rule = Thresholding(mode, k=3)
    one = refine_encoder(X, C, D, rule, 0.15, max_iter=5)
    two = refine_encoder(1024 * X, C, D, rule, 0.15, max_iter=5)
    assert_allclose(two.C, one.C)
    assert_allclose(two.D, one.D)
    assert_allclose(two.thresholding.threshold, 1024 * one.thresholding.threshold)
    assert_allclose(two.r2, one.r2)


def test_lost_units_are_counted() -> None:
    X, C, D = problem()
    refined = refine_encoder(X, C, D, Thresholding("hard"), 0.15, max_iter=3)
    S = refined.thresholding.apply(np.ascontiguousarray(X @ refined.C.T))
    assert refined.n_lost == np.count_nonzero(~np.any(S != 0, axis=0)) == 0
    C[3] *= 1e-9  # this unit is not used before, so it cannot be lost
    D[3] = 0
    assert refine_encoder(X, C, D, Thresholding("hard"), 0.15, max_iter=1).n_lost == 0
