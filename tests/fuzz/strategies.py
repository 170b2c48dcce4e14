"""Strategies for data and parameters of the estimators.

Every example is a small frozen record (``Rows``, ``Network``) from which the arrays are built. A
failing example is therefore printed as one line that can be pasted into ``@example``, and shrinking
a few integers and words is fast.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lincode import SCNN, scnn_path
from tests.fuzz.data import CONTAINERS, DTYPES, INTEGER_KINDS, KINDS, Rows

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
    "transform_tol": st.sampled_from([1e-6, 1e-3]),
    "sparse_output": st.booleans(),
    "n_jobs": st.sampled_from([1, 2]),
    "random_state": st.integers(0, 100),
    "tol": st.sampled_from([1e-4, 0.0, 1e-2]),
}

# Parameters that only newer versions have.
_optional: dict[str, st.SearchStrategy[Any]] = {
    "encoder_ridge": st.sampled_from(["auto", 0.0, 0.1]),
    "threshold_mode": st.sampled_from(["hard", "soft", "top_k"]),
    "fit_gains": st.booleans(),
    "fit_decoder": st.booleans(),
    "refine_max_iter": st.sampled_from([0, 0, 2]),
}
_common |= {name: values for name, values in _optional.items() if name in _PARAMETERS}


@st.composite
def networks(
    draw: st.DrawFn, /, inits: tuple[str, ...] = ("data", "paper", "array"), **more: Any
) -> Network:
    """Parameters of an estimator; ``more`` replaces or adds strategies by name."""
    parameters = draw(st.fixed_dictionaries({**_common, **more}))
    sign = draw(st.sampled_from(["any", "split", "positive"]))
    parameters.update(split_sign=sign == "split", positive_code=sign == "positive")
    if parameters.get("refine_max_iter"):  # other thresholds are refused
        parameters["threshold"] = "match"
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
