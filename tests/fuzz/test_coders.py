"""sparse_encode and SparseCoder: codes of every algorithm for any dictionary, against oracles."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from lincode import SparseCoder, sparse_encode
from tests.fuzz.data import CONTAINERS, KINDS, Rows
from tests.fuzz.support import attempt, dense, fingerprint, fuzz, watched

pytestmark = pytest.mark.slow

ROUNDING = 200
"""Rounding errors are allowed this many eps times the sizes of the terms that are added."""


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
    given: tuple[str, ...] = ()
    """Which of gram, cov and init are passed"""

    def arguments(self) -> dict[str, Any]:
        X, D = self.X.reference(), self.D.reference()
        with np.errstate(over="ignore", invalid="ignore"):
            products = {"gram": D @ D.T, "cov": D @ X.T, "init": np.ones((len(X), len(D)))}
            largest = float(np.abs(products["cov"]).max())
        alpha = self.alpha_fraction * largest if np.isfinite(largest) else 1.0
        return {
            "algorithm": self.algorithm,
            "alpha": alpha,
            "n_nonzero_coefs": self.n_nonzero,
            "positive": self.positive,
            "debias": self.debias,
            "sparse_output": self.sparse_output,
            **{name: products[name] for name in self.given},
        }


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    p = draw(st.integers(1, 15))
    floats = st.sampled_from(["float64", "float64", "float32"])
    exponents = st.one_of(st.just(0), st.integers(-6, 6), st.sampled_from([-300, -140, 140, 300]))

    def matrix(largest: int, container: str) -> Rows:
        dtype = draw(floats)
        exponent = draw(exponents)
        return Rows(
            kind=draw(st.sampled_from(list(KINDS))),
            n=draw(st.integers(1, largest)),
            p=p,
            seed=draw(st.integers(0, 300)),
            dtype=dtype,
            exponent=max(-30, min(30, exponent)) if dtype == "float32" else exponent,
            container=container,
        )

    algorithm = draw(st.sampled_from(["lasso", "lasso", "omp", "ols", "threshold"]))
    return Task(
        matrix(10, draw(st.one_of(st.just("array"), st.sampled_from(list(CONTAINERS))))),
        matrix(40, "array"),
        algorithm,
        draw(st.sampled_from([0.1, 0.01, 0.5, 1.0, 1e-6, 0.0])),
        draw(st.sampled_from([None, 1, 3, 100])),
        positive=algorithm in ("lasso", "threshold") and draw(st.booleans()),
        debias=algorithm == "lasso" and draw(st.booleans()),
        sparse_output=draw(st.booleans()),
        given=tuple(draw(st.lists(st.sampled_from(["gram", "cov", "init"]), max_size=2))),
    )


def lasso_violations(X: Any, D: Any, U: Any, alpha: float, positive: bool) -> tuple[Any, Any]:
    """The largest violation of the optimality conditions of each row, and what rounding allows."""
    b = X @ D.T
    G = U @ D @ D.T - b
    at_zero = np.maximum(-G - alpha, 0) if positive else np.maximum(np.abs(G) - alpha, 0)
    violation = np.where(U == 0, at_zero, np.abs(G + alpha * np.sign(U))).max(axis=1)
    terms = (np.abs(U) @ np.abs(D) + np.abs(X)) @ np.abs(D).T
    lengths = np.hypot.reduce(U, axis=1)  # without squares, which may overflow
    return violation, terms.max(axis=1) + np.linalg.norm(D, 2) ** 2 * lengths


def check_greedy(X: Any, D: Any, U: Any, eps: float, k: int) -> None:
    """Greedy codes have at most k non-zeros, and their error is not above that of zero codes."""
    assert (np.count_nonzero(U, axis=1) <= k).all(), f"more than {k} non-zeros"
    error = np.linalg.norm(X - U @ D, axis=1)
    size = np.linalg.norm(np.abs(X) + np.abs(U) @ np.abs(D), axis=1)
    slack = ROUNDING * eps * size
    assert (error <= np.linalg.norm(X, axis=1) + slack).all(), "zero codes would be better"


def check_values(task: Task, U: Any, dtype: Any) -> None:
    X = task.X.reference().astype(dtype).astype(np.float64)
    D = task.D.reference().astype(dtype).astype(np.float64)
    eps, alpha = float(np.finfo(dtype).eps), task.arguments()["alpha"]
    if task.positive:
        assert (U >= 0).all(), "codes must not be negative"
    if task.algorithm == "threshold":
        Z = X @ D.T
        Z = np.maximum(Z, 0) if task.positive else Z
        expected = np.sign(Z) * np.maximum(np.abs(Z) - alpha, 0)
        slack = ROUNDING * eps * (np.abs(X) @ np.abs(D).T + alpha) + np.finfo(dtype).tiny
        assert (np.abs(U - expected) <= slack).all(), "a threshold code is wrong"
    elif task.algorithm == "lasso" and not task.debias:
        violation, terms = lasso_violations(X, D, U, alpha, task.positive)
        scale = np.abs(X @ D.T).max(axis=1)
        allowed = 1.01e-10 * scale + ROUNDING * eps * (terms + alpha)
        worst = int(np.argmax(violation - allowed))
        assert (violation <= allowed).all(), (
            f"row {worst} violates its optimality conditions by {violation[worst]:.3e}, allowed are"
            f" {allowed[worst]:.3e}"
        )
    elif task.algorithm in ("omp", "ols"):
        p = task.X.p
        k = max(p // 10, 1) if task.n_nonzero is None else min(task.n_nonzero, p)
        check_greedy(X, D, U, eps, k)


def encode(X: Any, D: Any, arguments: dict[str, Any]) -> tuple[Any, bool] | None:
    """Return dense codes, and whether all are solved; None if they are refused."""
    solved = True

    def call() -> Any:
        nonlocal solved
        with warnings.catch_warnings(record=True) as caught:
            warnings.filterwarnings("always", category=ConvergenceWarning)
            U = sparse_encode(X, D, **arguments)
        solved = not caught
        return U

    U, accepted = attempt(call, "sparse_encode")
    if not accepted:
        return None
    assert scipy.sparse.issparse(U) == arguments["sparse_output"], "sparse_output"
    return dense(U), solved


@given(tasks())
@fuzz(60, part=5)
def test_sparse_encode(task: Task) -> None:
    X, D, arguments = task.X.build(), task.D.build(), task.arguments()
    before = fingerprint(X), fingerprint(D)
    result = encode(X, D, arguments)
    assert (fingerprint(X), fingerprint(D)) == before, "the input must not be changed"
    if result is None:
        return
    codes, solved = result
    U, dtype = codes.astype(np.float64), task.X.precision()
    assert codes.shape == (task.X.n, task.D.n), f"codes have shape {codes.shape}"
    assert codes.dtype == dtype, f"codes must be {dtype}, got {codes.dtype}"
    assert np.isfinite(U).all(), "codes must be finite"
    if solved and not task.given:
        check_values(task, U, dtype)
    if set(task.given) <= {"init"} and task.algorithm != "lasso":
        others = {"n_jobs": 2, "sparse_output": not task.sparse_output, "init": None}
        again = encode(X, D, arguments | others)
        assert again is not None, "the same codes were refused with other options"
        assert np.array_equal(again[0], codes), "options of the output changed the codes"


@given(tasks())
@fuzz(20)
def test_sparse_coder(task: Task) -> None:
    """SparseCoder gives the codes of ``sparse_encode``."""
    X, D, arguments = task.X.build(), task.D.build(), replace(task, given=()).arguments()
    result = encode(X, D, arguments)
    if result is None:
        return
    coder = SparseCoder(
        D,
        transform_algorithm=arguments["algorithm"],
        transform_alpha=arguments["alpha"],
        transform_n_nonzero_coefs=arguments["n_nonzero_coefs"],
        positive_code=arguments["positive"],
        transform_debias=arguments["debias"],
    )
    with watched():
        codes = coder.fit(X).transform(X)
        split = coder.set_params(split_sign=not task.positive).transform(X)
    back, decoded = attempt(lambda: coder.inverse_transform(split), "inverse_transform")
    assert np.array_equal(codes, result[0]), "SparseCoder and sparse_encode must agree"
    m = task.D.n
    joined = split if task.positive else split[:, :m] - split[:, m:]
    assert np.array_equal(joined, codes), "split signs must not change the codes"
    if decoded:
        assert back.shape == (task.X.n, task.X.p), "reconstructions have the shape of X"
        assert np.isfinite(back).all(), "reconstructions are finite"
