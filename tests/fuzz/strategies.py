"""Random data, containers and parameters for the estimators.

Every example is a small frozen record (``Rows``, ``Network``) from which the arrays are built. A
failing example is therefore printed as one line that can be pasted into ``@example``, and shrinking
a few integers and words is fast.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse
from hypothesis import strategies as st

from lincode import SCNN, scnn_path

# --- The public names, old and new -----------------------------------------------------------

_PARAMETERS = SCNN().get_params()
RENAMED = "transform_algorithm" in _PARAMETERS
ALGORITHM = "transform_algorithm" if RENAMED else "transform_method"
LASSO = "lasso" if RENAMED else "relearn"
ALGORITHMS = ("encoder", "exact", LASSO)
PAPER_THRESHOLD = "alpha" if RENAMED else None
_PATH_PARAMETERS = inspect.signature(scnn_path).parameters
ALPHA_RATIOS = "alpha_ratios" if "alpha_ratios" in _PATH_PARAMETERS else "shares"


def n_steps(model: Any) -> int:
    """Return the number of batches a MiniBatchSCNN has learned."""
    return int(model.n_steps_ if hasattr(model, "n_steps_") else model.n_batches_)


def fitted_alpha(model: Any) -> float:
    """Return the number that ``alpha`` stands for in a fitted model."""
    return float(model.alpha_ if hasattr(model, "alpha_") else model.alpha)


# --- Data ------------------------------------------------------------------------------------


def _gaussian(rng: np.random.Generator, n: int, p: int) -> Any:
    return rng.standard_normal((n, p))


def _one_hot(rng: np.random.Generator, n: int, p: int) -> Any:
    return np.eye(p)[rng.integers(0, p, n)]


def _low_rank(rng: np.random.Generator, n: int, p: int) -> Any:
    rank = max(1, min(n, p) // 2)
    return rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p))


def _duplicated_rows(rng: np.random.Generator, n: int, p: int) -> Any:
    return rng.standard_normal((n, p))[rng.integers(0, max(1, n // 3), n)]


def _row_scales(rng: np.random.Generator, n: int, p: int) -> Any:
    return rng.standard_normal((n, p)) * 10.0 ** rng.integers(-6, 7, (n, 1))


def _column_scales(rng: np.random.Generator, n: int, p: int) -> Any:
    return rng.standard_normal((n, p)) * 10.0 ** rng.integers(-6, 7, (1, p))


def _outlier_row(rng: np.random.Generator, n: int, p: int) -> Any:
    X = rng.standard_normal((n, p))
    X[-1] *= 10.0 ** rng.integers(4, 7)
    return X


def _unit_rows(rng: np.random.Generator, n: int, p: int) -> Any:
    X = rng.standard_normal((n, p))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def _zero_rows_and_columns(rng: np.random.Generator, n: int, p: int) -> Any:
    return rng.standard_normal((n, p)) * (rng.random((n, 1)) < 0.6) * (rng.random((1, p)) < 0.6)


KINDS: dict[str, Callable[[np.random.Generator, int, int], Any]] = {
    "gaussian": _gaussian,
    "one_hot": _one_hot,
    "rank_one": lambda rng, n, p: np.outer(rng.standard_normal(n), rng.standard_normal(p)),
    "low_rank": _low_rank,
    "constant_rows": lambda rng, n, p: np.repeat(rng.standard_normal((n, 1)), p, axis=1),
    "duplicated_rows": _duplicated_rows,
    "row_scales": _row_scales,
    "column_scales": _column_scales,
    "outlier_row": _outlier_row,
    "zeros": lambda rng, n, p: np.zeros((n, p)),
    "zero_rows_and_columns": _zero_rows_and_columns,
    "sparse_counts": lambda rng, n, p: rng.poisson(0.15, (n, p)).astype(np.float64),
    "integers": lambda rng, n, p: rng.integers(-5, 6, (n, p)).astype(np.float64),
    "booleans": lambda rng, n, p: (rng.random((n, p)) < 0.4).astype(np.float64),
    "positive": lambda rng, n, p: rng.random((n, p)),
    "uncentred": lambda rng, n, p: 1 + 1e-4 * rng.standard_normal((n, p)),
    "unit_rows": _unit_rows,
}
INTEGER_KINDS = ("one_hot", "sparse_counts", "integers", "booleans", "zeros")
DTYPES = ("float64", "float32", "float16", "int8", "int64", "uint8", "bool")


def _strided(X: Any) -> Any:
    return np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]


def _read_only(X: Any) -> Any:
    X = X.copy()
    X.flags.writeable = False
    return X


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
    X = _sparse_input(X)
    if X.dtype.kind != "f":
        X = X.astype(np.float64)
    n, p = X.shape
    parts = np.stack([0.25 * X, 0.75 * X], axis=2).ravel()
    columns = np.tile(np.repeat(np.arange(p), 2), n)
    return scipy.sparse.csr_array((parts, columns, np.arange(n + 1) * 2 * p), (n, p))


CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "array": lambda X: X,
    "fortran": np.asfortranarray,
    "strided": _strided,
    "reversed": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "read_only": _read_only,
    "csr_matrix": lambda X: scipy.sparse.csr_matrix(_sparse_input(X)),
    "csr_array": lambda X: scipy.sparse.csr_array(_sparse_input(X)),
    "csc_matrix": lambda X: scipy.sparse.csc_matrix(_sparse_input(X)),
    "unsorted_csr": _unsorted_csr,
    "duplicated_csr": _duplicated_csr,
    "list": lambda X: X.tolist(),
    "pandas": lambda X: pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])]),
    "polars": lambda X: pl.DataFrame(X, schema=[f"x{i}" for i in range(X.shape[1])]),
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

    def array(self) -> Any:
        """X as a dense array of ``dtype``."""
        X = KINDS[self.kind](np.random.default_rng(self.seed), self.n, self.p)
        if self.dtype == "bool":
            return X > 0
        if self.dtype.startswith(("int", "uint")):
            limits = np.iinfo(self.dtype)
            return np.rint(np.clip(X, max(limits.min, -1e9), min(limits.max, 1e9))).astype(
                self.dtype
            )
        if self.dtype == "float16":
            return np.clip(X, -6e4, 6e4).astype(np.float16)
        return (X * 10.0**self.exponent).astype(self.dtype)

    def with_seed(self, further: int) -> Rows:
        """Other data of the same kind."""
        return replace(self, seed=self.seed + further)

    def build(self) -> Any:
        """X in its container."""
        return CONTAINERS[self.container](self.array())

    def reference(self) -> Any:
        """X as the float64 array that an estimator must see."""
        X = self.build()
        dense = X.toarray() if scipy.sparse.issparse(X) else np.asarray(X)
        return dense.astype(np.float64)

    def precision(self) -> Any:
        """The dtype of the codes: float32 for float32 input, otherwise float64.

        scikit-learn does not look into the dtypes of polars columns and asks for float64.
        """
        X = self.build()
        if isinstance(X, pl.DataFrame):
            return np.dtype(np.float64)
        dtype = X.dtype if hasattr(X, "dtype") else np.asarray(X).dtype
        return np.dtype(np.float32 if dtype == np.float32 else np.float64)


def sizes(largest: int) -> st.SearchStrategy[int]:
    """Mostly small numbers, with 1 among them."""
    return st.one_of(st.integers(1, min(8, largest)), st.integers(1, largest))


@st.composite
def shapes(draw: st.DrawFn, largest: int) -> tuple[int, int]:
    """Numbers of rows and columns: few of both, more columns, more rows, one row, one column."""
    few, many = st.integers(2, max(2, largest // 3)), st.integers(largest // 2, largest)
    any_size = sizes(largest)
    regimes = [(any_size, any_size), (few, many), (many, few), (st.just(1), any_size)]
    n, p = draw(st.sampled_from([*regimes, (any_size, st.just(1))]))
    return draw(n), draw(p)


EXPONENTS: dict[str, st.SearchStrategy[int]] = {
    "float64": st.one_of(st.just(0), st.integers(-6, 6), st.sampled_from([-100, 100])),
    "float32": st.one_of(st.just(0), st.integers(-5, 5)),
}
"""The documented range of the largest absolute value is about 1e-149 to 1e149 for float64 and 1e-14
to 1e14 for float32; the kinds with mixed scales already span 1e-6 to 1e7."""


@st.composite
def rows(draw: st.DrawFn, largest: int = 40, p: int | None = None) -> Rows:
    """Recipes of matrices of every kind, shape, dtype, scale and container."""
    kind = draw(st.sampled_from(list(KINDS)))
    floats = ("float64", "float64", "float32", "float16")
    dtype = draw(st.sampled_from(DTYPES if kind in INTEGER_KINDS else floats))
    n, columns = draw(shapes(largest))
    return Rows(
        kind=kind,
        n=n,
        p=columns if p is None else p,
        seed=draw(st.integers(0, 1000)),
        exponent=draw(EXPONENTS.get(dtype, st.just(0))),
        dtype=dtype,
        container=draw(st.one_of(st.just("array"), st.sampled_from(list(CONTAINERS)))),
    )


# --- Parameters ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Network:
    """The parameters of one estimator; ``alpha`` follows from the data."""

    n_components: int | None = None
    alpha_fraction: float = 0.1
    """alpha as a fraction of ``alpha_max``."""
    init: str = "data"
    """"data", "paper" or "array"."""
    parameters: dict[str, Any] = field(default_factory=dict)

    def build(self, cls: type[Any], X: Any, p: int) -> Any:
        """Return an estimator of class ``cls`` that is not fitted; X sets its alpha."""
        init: Any = self.init
        if init == "array":
            m = p if self.n_components is None else self.n_components
            init = np.random.default_rng(7).standard_normal((m, p))
        known = cls().get_params()
        given = {name: value for name, value in self.parameters.items() if name in known}
        model = cls(self.n_components, init=init, **given)
        return model.set_params(alpha=self.alpha_fraction * model.alpha_max(X))


FRACTIONS = [0.1, 0.01, 1e-3, 1e-7, 0.0, 0.5, 0.99, 1.0, 2.0]
ENCODER_WEIGHTS = [1.0, 0.1, 0.0, 10.0, 1e3]

_common: dict[str, st.SearchStrategy[Any]] = {
    "encoder_weight": st.sampled_from(ENCODER_WEIGHTS),
    "threshold": st.sampled_from([PAPER_THRESHOLD, "match", 0.0, 0.01]),
    ALGORITHM: st.sampled_from(ALGORITHMS),
    "transform_tol": st.sampled_from([1e-6, 1e-3, 1e-9]),
    "sparse_output": st.booleans(),
    "n_jobs": st.sampled_from([1, 2]),
    "random_state": st.integers(0, 100),
    "tol": st.sampled_from([1e-4, 0.0, 1e-2]),
}


@st.composite
def networks(
    draw: st.DrawFn, inits: tuple[str, ...] = ("data", "paper", "array"), **more: Any
) -> Network:
    """Parameters of an estimator; ``more`` replaces or adds strategies by name."""
    parameters = draw(st.fixed_dictionaries({**_common, **more}))
    sign = draw(st.sampled_from(["any", "split", "positive"]))
    parameters.update(split_sign=sign == "split", positive_code=sign == "positive")
    # From 64 units on, codes of sparse rows have a solver of their own.
    m = draw(st.one_of(st.none(), sizes(40), st.integers(64, 80)))
    return Network(
        n_components=m,
        alpha_fraction=draw(st.sampled_from(FRACTIONS)),
        init=draw(st.sampled_from(inits)),
        parameters=parameters,
    )


def scnn_networks() -> st.SearchStrategy[Network]:
    """Parameters of SCNN with the default solver."""
    return networks(max_iter=st.integers(1, 15))


def paper_networks() -> st.SearchStrategy[Network]:
    """Parameters of SCNN with the slow reference solver, made small."""
    few = networks(
        max_iter=st.integers(1, 3), solver=st.just("paper"), tol=st.sampled_from([1e-2, 1e-4])
    )
    return st.builds(lambda network, m: replace(network, n_components=m), few, st.integers(1, 6))


def minibatch_networks() -> st.SearchStrategy[Network]:
    """Parameters of MiniBatchSCNN."""
    return networks(
        inits=("data", "array"),
        max_iter=st.integers(1, 2),
        batch_size=st.sampled_from([7, 50, 1]),
        half_life=st.sampled_from([None, 1.0, 20.0, float("inf")]),
        max_no_improvement=st.sampled_from([None, 1, 3]),
    )


@st.composite
def batches(draw: st.DrawFn) -> list[Rows]:
    """One to four batches with the same features, of different sizes, kinds and dtypes."""
    first = draw(rows(largest=30))
    later = draw(st.lists(rows(largest=30, p=first.p), max_size=3))
    # A stream has one alpha, which must suit all batches: their scales stay within 1e3.
    if abs(first.exponent) > 6:
        return [first] + [replace(b, dtype="float64", exponent=first.exponent) for b in later]
    low, high = first.exponent - 3, first.exponent + 3
    return [first] + [replace(b, exponent=min(max(b.exponent, low), high)) for b in later]


DIFFICULT_KINDS = (
    "one_hot",
    "uncentred",
    "outlier_row",
    "row_scales",
    "column_scales",
    "rank_one",
    "duplicated_rows",
    "constant_rows",
    "sparse_counts",
    "booleans",
    "zero_rows_and_columns",
)


@st.composite
def difficult_cases(draw: st.DrawFn, largest: int = 40) -> tuple[Rows, Network]:
    """Degenerate data with parameters near the defaults: the arithmetic is what is tested."""
    n, p = draw(st.sampled_from([(1, 3), (3, 1), (1, 1)]))
    data = Rows(
        kind=draw(st.sampled_from(DIFFICULT_KINDS)),
        n=draw(st.integers(largest // (4 * n), largest // n)),
        p=draw(st.integers(largest // (4 * p), largest // p)),
        seed=draw(st.integers(0, 1000)),
        dtype=draw(st.sampled_from(["float64", "float64", "float32"])),
    )
    parameters = {
        "encoder_weight": draw(st.sampled_from([1.0, 1.0, 0.0, 0.1, 10.0])),
        "positive_code": draw(st.sampled_from([False, False, True])),
        "random_state": draw(st.integers(0, 100)),
        "max_iter": 20,
        "n_jobs": 1,
    }
    m = draw(st.one_of(st.none(), st.integers(2, 12)))
    return data, Network(m, draw(st.sampled_from(FRACTIONS[:5])), parameters=parameters)
