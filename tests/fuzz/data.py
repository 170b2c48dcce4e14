"""Small matrices of many kinds, in every container the estimators accept.

A matrix is described by ``Rows``, a small frozen record from which it is built. A failing example
is therefore printed as one line that can be pasted into ``@example``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from hypothesis import strategies as st

Generator = np.random.Generator


def _low_rank(rng: Generator, n: int, p: int) -> Any:
    rank = max(1, min(n, p) // 2)
    return rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p))


def _outlier_row(rng: Generator, n: int, p: int) -> Any:
    X = rng.standard_normal((n, p))
    X[-1] *= 10.0 ** rng.integers(4, 7)
    return X


def _scales(rng: Generator, n: int, p: int, shape: tuple[int, int]) -> Any:
    return rng.standard_normal((n, p)) * 10.0 ** rng.integers(-6, 7, shape)


KINDS: dict[str, Callable[[Generator, int, int], Any]] = {
    "gaussian": lambda rng, n, p: rng.standard_normal((n, p)),
    "one_hot": lambda rng, n, p: np.eye(p)[rng.integers(0, p, n)],
    "rank_one": lambda rng, n, p: np.outer(rng.standard_normal(n), rng.standard_normal(p)),
    "low_rank": _low_rank,
    "constant_rows": lambda rng, n, p: np.repeat(rng.standard_normal((n, 1)), p, axis=1),
    "duplicated_rows": lambda rng, n, p: rng.standard_normal((n, p))[
        rng.integers(0, n // 3 + 1, n)
    ],
    "row_scales": lambda rng, n, p: _scales(rng, n, p, (n, 1)),
    "column_scales": lambda rng, n, p: _scales(rng, n, p, (1, p)),
    "outlier_row": _outlier_row,
    "zeros": lambda rng, n, p: np.zeros((n, p)),
    "zero_rows_and_columns": lambda rng, n, p: (
        rng.standard_normal((n, p)) * (rng.random((n, 1)) < 0.6) * (rng.random((1, p)) < 0.6)
    ),
    "sparse_counts": lambda rng, n, p: rng.poisson(0.15, (n, p)).astype(np.float64),
    "integers": lambda rng, n, p: rng.integers(-5, 6, (n, p)).astype(np.float64),
    "booleans": lambda rng, n, p: (rng.random((n, p)) < 0.4).astype(np.float64),
    "uncentred": lambda rng, n, p: 1 + 1e-4 * rng.standard_normal((n, p)),
}
INTEGER_KINDS = ("one_hot", "sparse_counts", "integers", "booleans", "zeros")
FLOATS = ("float64", "float64", "float32", "float16")
DTYPES = ("float64", "float32", "float16", "int8", "int64", "uint8", "bool")


def _sparse_input(X: Any) -> Any:
    """SciPy has no sparse arrays of float16."""
    return X.astype(np.float32) if X.dtype == np.float16 else X


def _unsorted_csr(X: Any) -> Any:
    """CSR with descending column indices and with zeros stored explicitly."""
    X = _sparse_input(X)
    n, p = X.shape
    columns = np.tile(np.arange(p)[::-1], n)
    return scipy.sparse.csr_matrix((X[:, ::-1].ravel(), columns, np.arange(n + 1) * p), (n, p))


def _duplicated_csr(X: Any) -> Any:
    """CSR that stores every entry as the sum of two parts, which SciPy allows."""
    X = _sparse_input(X) if X.dtype.kind == "f" else X.astype(np.float64)
    n, p = X.shape
    parts = np.stack([0.25 * X, 0.75 * X], axis=2).ravel()
    columns = np.tile(np.repeat(np.arange(p), 2), n)
    return scipy.sparse.csr_array((parts, columns, np.arange(n + 1) * 2 * p), (n, p))


CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "array": lambda X: X,
    "fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "reversed": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "csr_matrix": lambda X: scipy.sparse.csr_matrix(_sparse_input(X)),
    "csc_array": lambda X: scipy.sparse.csc_array(_sparse_input(X)),
    "unsorted_csr": _unsorted_csr,
    "duplicated_csr": _duplicated_csr,
    "list": lambda X: X.tolist(),
    "pandas": lambda X: pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])]),
}


@dataclass(frozen=True)
class Rows:
    """The recipe of one matrix X."""

    kind: str = "gaussian"
    n: int = 5
    p: int = 3
    seed: int = 0
    exponent: int = 0
    """X is multiplied by 10 to this power."""
    dtype: str = "float64"
    container: str = "array"
    missing: float = 0.0
    """The fraction of entries that are NaN; the container is then an array."""

    def array(self) -> Any:
        """X as a dense array of ``dtype``."""
        X = KINDS[self.kind](np.random.default_rng(self.seed), self.n, self.p)
        if self.dtype == "bool":
            return X > 0
        if self.dtype == "uint8":
            X = np.maximum(X, 0)
        if self.dtype == "float16":
            X = np.clip(X, -6e4, 6e4)
        return (X * 10.0**self.exponent).astype(self.dtype)

    def with_seed(self, further: int) -> Rows:
        """Other data of the same kind."""
        return replace(self, seed=self.seed + further)

    def build(self) -> Any:
        """X in its container. In the first row no entry is missing."""
        X = CONTAINERS[self.container](self.array())
        if not self.missing:
            return X
        X = self.reference().astype(self.precision())
        X[1:][np.random.default_rng(self.seed).random((self.n - 1, self.p)) < self.missing] = np.nan
        return X

    def reference(self) -> Any:
        """X as the float64 array that an estimator must see, without missing entries."""
        X = CONTAINERS[self.container](self.array())
        return (X.toarray() if scipy.sparse.issparse(X) else np.asarray(X)).astype(np.float64)

    def precision(self) -> Any:
        """The dtype of the codes: float32 for float32 input, otherwise float64."""
        X = CONTAINERS[self.container](self.array())
        dtype = X.dtype if hasattr(X, "dtype") else np.asarray(X).dtype
        return np.dtype(np.float32 if dtype == np.float32 else np.float64)


EXPONENTS: dict[str, st.SearchStrategy[int]] = {
    "float64": st.one_of(st.just(0), st.integers(-6, 6), st.sampled_from([-100, 100])),
    "float32": st.one_of(st.just(0), st.integers(-5, 5)),
}
"""The documented range of the largest absolute value is about 1e-149 to 1e149 for float64 and 1e-14
to 1e14 for float32; the kinds with mixed scales already span 1e-6 to 1e7."""


@st.composite
def rows(draw: st.DrawFn, largest: int = 40, p: int | None = None, missing: bool = False) -> Rows:
    """Recipes of matrices of every kind, shape, dtype, scale and container."""
    kind = draw(st.sampled_from(list(KINDS)))
    dtype = draw(st.sampled_from(DTYPES if kind in INTEGER_KINDS else FLOATS))
    few, many = st.integers(1, max(2, largest // 4)), st.integers(largest // 2, largest)
    size = st.one_of(few, many)
    return Rows(
        kind=kind,
        n=draw(size),
        p=draw(size) if p is None else p,
        seed=draw(st.integers(0, 1000)),
        exponent=draw(EXPONENTS.get(dtype, st.just(0))),
        dtype=dtype,
        container=draw(st.one_of(st.just("array"), st.sampled_from(list(CONTAINERS)))),
        missing=draw(st.sampled_from([0.1, 0.4, 0.8])) if missing else 0.0,
    )
