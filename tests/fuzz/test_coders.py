"""sparse_encode: codes of every algorithm for any dictionary, against oracles."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from lincode import sparse_encode
from tests.fuzz.data import CONTAINERS, KINDS, Rows
from tests.fuzz.invariants import ROUNDING, eps_of
from tests.fuzz.support import attempt, dense, fingerprint, fuzz

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Task:
    """Samples, a dictionary and the options of ``sparse_encode``."""

    X: Rows
    D: Rows
    algorithm: str = "lasso"
    alpha_fraction: float = 0.1
    """alpha as a fraction of max|X Dᵀ|"""
    n_nonzero: int | None = None
    positive: bool = False
    debias: bool = False
    sparse_output: bool = False

    def arguments(self) -> dict[str, Any]:
        with np.errstate(over="ignore", invalid="ignore"):
            largest = float(np.abs(self.D.reference() @ self.X.reference().T).max())
        return {
            "algorithm": self.algorithm,
            "alpha": self.alpha_fraction * largest if np.isfinite(largest) else 1.0,
            "n_nonzero_coefs": self.n_nonzero,
            "positive": self.positive,
            "debias": self.debias,
            "sparse_output": self.sparse_output,
        }


@st.composite
def matrices(draw: st.DrawFn, largest: int, p: int, container: str) -> Rows:
    """Matrices with entries that may be too large or too small for squares."""
    dtype = draw(st.sampled_from(["float64", "float64", "float32"]))
    limits = [-30, -10, 10, 30] if dtype == "float32" else [-300, -140, 140, 300]
    return Rows(
        kind=draw(st.sampled_from(list(KINDS))),
        n=draw(st.integers(1, largest)),
        p=p,
        seed=draw(st.integers(0, 300)),
        dtype=dtype,
        exponent=draw(st.one_of(st.just(0), st.integers(-6, 6), st.sampled_from(limits))),
        container=container,
    )


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    p = draw(st.integers(1, 15))
    algorithm = draw(st.sampled_from(["lasso", "lasso", "omp", "ols", "threshold"]))
    container = draw(st.one_of(st.just("array"), st.sampled_from(list(CONTAINERS))))
    return Task(
        draw(matrices(10, p, container)),
        draw(matrices(40, p, "array")),
        algorithm,
        draw(st.sampled_from([0.1, 0.01, 0.5, 1.0, 1e-6, 0.0])),
        draw(st.sampled_from([None, 1, 3, 100])),
        positive=algorithm in ("lasso", "threshold") and draw(st.booleans()),
        debias=algorithm == "lasso" and draw(st.booleans()),
        sparse_output=draw(st.booleans()),
    )


def check_lasso(X: Any, D: Any, U: Any, alpha: float, positive: bool, eps: float) -> None:
    """Lasso codes satisfy their optimality conditions up to the tolerance and rounding."""
    b = X @ D.T
    G = U @ D @ D.T - b
    at_zero = np.maximum(-G - alpha, 0) if positive else np.maximum(np.abs(G) - alpha, 0)
    violation = np.where(U == 0, at_zero, np.abs(G + alpha * np.sign(U))).max(axis=1)
    terms = ((np.abs(U) @ np.abs(D) + np.abs(X)) @ np.abs(D).T).max(axis=1)
    terms += np.linalg.norm(D, 2) ** 2 * np.hypot.reduce(U, axis=1)  # squares may overflow
    allowed = 1.01e-10 * np.abs(b).max(axis=1) + ROUNDING * eps * (terms + alpha)
    assert (violation <= allowed).all(), f"violations {violation}, allowed are {allowed}"


def check_values(task: Task, U: Any, dtype: Any) -> None:
    X, D = (A.reference().astype(dtype).astype(np.float64) for A in (task.X, task.D))
    eps, alpha = eps_of(dtype), task.arguments()["alpha"]
    assert not task.positive or (U >= 0).all(), "codes must not be negative"
    if task.algorithm == "threshold":
        Z = np.maximum(X @ D.T, 0) if task.positive else X @ D.T
        expected = np.sign(Z) * np.maximum(np.abs(Z) - alpha, 0)
        slack = ROUNDING * eps * (np.abs(X) @ np.abs(D).T + alpha) + np.finfo(dtype).tiny
        assert (np.abs(U - expected) <= slack).all(), "a threshold code is wrong"
    elif task.algorithm == "lasso" and not task.debias:
        check_lasso(X, D, U, alpha, task.positive, eps)
    elif task.algorithm in ("omp", "ols"):
        p = task.X.p
        k = max(p // 10, 1) if task.n_nonzero is None else min(task.n_nonzero, p)
        assert (np.count_nonzero(U, axis=1) <= k).all(), f"more than {k} non-zeros"
        slack = ROUNDING * eps * np.linalg.norm(np.abs(X) + np.abs(U) @ np.abs(D), axis=1)
        error = np.linalg.norm(X - U @ D, axis=1)
        assert (error <= np.linalg.norm(X, axis=1) + slack).all(), "zero codes would be better"


@given(tasks())
# The squares of the codes overflow.
@example(
    Task(
        X=Rows("one_hot", n=1, exponent=140),
        D=Rows("column_scales", n=2, seed=1, exponent=-30, dtype="float32"),
        alpha_fraction=0.01,
    )
)
@example(Task(X=Rows("sparse_counts", n=1, p=8), D=Rows("uncentred", n=2, p=8, exponent=-140)))
@fuzz(80, part=5)
def test_sparse_encode(task: Task) -> None:
    X, D, arguments = task.X.build(), task.D.build(), task.arguments()
    before, solved = (fingerprint(X), fingerprint(D)), True

    def encode() -> Any:
        nonlocal solved
        with warnings.catch_warnings(record=True) as caught:
            warnings.filterwarnings("always", category=ConvergenceWarning)
            U = sparse_encode(X, D, **arguments)
        solved = not caught
        return U

    codes, accepted = attempt(encode, "sparse_encode")
    assert (fingerprint(X), fingerprint(D)) == before, "the input must not be changed"
    if not accepted:
        return
    U, dtype = dense(codes).astype(np.float64), task.X.precision()
    assert scipy.sparse.issparse(codes) == task.sparse_output, "sparse_output must be respected"
    assert (U.shape, codes.dtype) == ((task.X.n, task.D.n), dtype), f"{codes.shape} {codes.dtype}"
    assert np.isfinite(U).all(), "codes must be finite"
    if solved:
        check_values(task, U, dtype)
    others = {"n_jobs": 2, "sparse_output": not task.sparse_output}
    again, _ = attempt(lambda: sparse_encode(X, D, **arguments | others), "other options")
    assert np.array_equal(dense(again), dense(codes)), "options of the output changed the codes"
