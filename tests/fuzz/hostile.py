"""Samples that may be invalid: every container, dtype, scale and kind of damage.

An input is described by ``Hostile``. Its ``reference`` is the float64 array that an estimator must
see, with NaN where an entry is missing, or None if every estimator must refuse the input.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse
from hypothesis import strategies as st

from tests.fuzz.data import CONTAINERS, KINDS, Rows
from tests.fuzz.strategies import shapes

# --- Damage ----------------------------------------------------------------------------------


def _entries(X: Any, *values: float) -> Any:
    """Replace single entries, the last one first."""
    X = X.copy()
    for k, value in enumerate(values):
        X[-1 - k % len(X), -1] = value
    return X


def _many_missing(X: Any) -> Any:
    return np.where(np.random.default_rng(0).random(X.shape) < 0.3, np.nan, X)


DAMAGE: dict[str, Callable[[Any], Any]] = {
    "none": lambda X: X,
    "one NaN": lambda X: _entries(X, np.nan),
    "many NaN": _many_missing,
    "a row of NaN": lambda X: np.where(np.arange(len(X))[:, None] == 0, np.nan, X),
    "a column of NaN": lambda X: np.where(np.arange(X.shape[1]) == 0, np.nan, X),
    "all NaN": lambda X: np.full(X.shape, np.nan),
    "infinity": lambda X: _entries(X, np.inf),
    "minus infinity and NaN": lambda X: _entries(X, -np.inf, np.nan),
    "one huge entry": lambda X: _entries(X, float(np.finfo(X.dtype).max)),
    "one tiny entry": lambda X: _entries(X, float(np.finfo(X.dtype).smallest_subnormal)),
    "negative zeros": lambda X: np.where(X == 0, -0.0, X),
    "one dimension": lambda X: X[0],
    "three dimensions": lambda X: X[None],
    "no rows": lambda X: X[:0],
    "no columns": lambda X: X[:, :0],
}
FATAL = (
    "infinity",
    "minus infinity and NaN",
    "all NaN",
    "one dimension",
    "three dimensions",
    "no rows",
    "no columns",
)
"""Damage that every estimator must refuse."""

# --- Containers ------------------------------------------------------------------------------


def _memory_mapped(X: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "X.npy")
        np.save(path, X)
        return np.load(path, mmap_mode="r")  # the mapping outlives the file


def _masked(X: Any) -> Any:
    mask = np.random.default_rng(1).random(X.shape) < 0.2
    return np.ma.masked_array(X, mask)


def _nullable(X: Any) -> Any:
    return pd.DataFrame(X, columns=_names(X)).convert_dtypes()


def _mixed_columns(X: Any) -> Any:
    """Columns of three dtypes."""
    dtypes = [np.float64, np.float32, np.float64]
    return pd.DataFrame({name: X[:, k].astype(dtypes[k % 3]) for k, name in enumerate(_names(X))})


def _names(X: Any) -> list[str]:
    return [f"x{i}" for i in range(X.shape[1])]


class _WithArray:
    """An object that NumPy can convert."""

    def __init__(self, X: Any) -> None:
        self.X = X

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.X, dtype=dtype)


VALID: dict[str, Callable[[Any], Any]] = {
    **CONTAINERS,
    "coo_matrix": lambda X: scipy.sparse.coo_matrix(X),
    "coo_array": lambda X: scipy.sparse.coo_array(X),
    "csc_array": lambda X: scipy.sparse.csc_array(X),
    "lil_matrix": lambda X: scipy.sparse.lil_matrix(X),
    "tuple": lambda X: tuple(map(tuple, X.tolist())),
    "list_of_rows": lambda X: list(X),
    "memory_mapped": _memory_mapped,
    "not_masked": lambda X: np.ma.masked_array(X),
    "object": lambda X: X.astype(object),
    "long_double": lambda X: X.astype(np.longdouble),
    "big_endian": lambda X: X.astype(X.dtype.newbyteorder(">")),
    "unaligned": lambda X: (
        np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(X.dtype).reshape(X.shape)
    ),
    "with_array": _WithArray,
    "nullable": _nullable,
    "mixed_columns": _mixed_columns,
    "masked": _masked,
}
"""Containers of arrays with two dimensions, which an estimator accepts if it accepts the values."""

INVALID: dict[str, Callable[[Any], Any]] = {
    "complex": lambda X: X + 1j,
    "complex_without_imaginary_part": lambda X: X + 0j,
    "text": lambda X: np.full(X.shape, "many"),
    "text_objects": lambda X: np.where(np.eye(*X.shape) > 0, "many", X.astype(object)),
    "bytes": lambda X: np.full(X.shape, b"1"),
    "dates": lambda X: np.full(X.shape, np.datetime64("2020-01-01")),
    "record": lambda X: np.zeros(len(X), dtype=[("a", "f8"), ("b", "f8")]),
    "ragged": lambda X: [[0.0] * (k + 1) for k in range(3)],
    "list_of_matrices": lambda X: [X, X],
    "generator": lambda X: (row for row in X),
    "iterator": lambda X: iter(X.tolist()),
    "set": lambda X: set(X.ravel().tolist()),
    "dict": lambda X: dict(enumerate(X.tolist())),
    "string": lambda X: "X.npy",
    "byte_string": lambda X: b"\x93NUMPY",
    "path": lambda X: Path("X.npy"),
    "none": lambda X: None,
    "number": lambda X: 3.0,
    "empty_list": lambda X: [],
    "empty_lists": lambda X: [[], []],
    "series": lambda X: pd.Series(X[:, 0]),
    "frame_with_text": lambda X: pd.DataFrame(X).assign(text="many"),
    "empty_frame": lambda X: pd.DataFrame(),
    "frame_without_rows": lambda X: pd.DataFrame(X, columns=_names(X)).iloc[:0],
    "mixed_names": lambda X: pd.DataFrame(X, columns=[*_names(X)[1:], 3]),
    "lazy_frame": lambda X: pl.DataFrame(X, schema=_names(X)).lazy(),
    "polars_with_text": lambda X: pl.DataFrame({"a": ["many"] * len(X)}),
    "empty_polars": lambda X: pl.DataFrame(),
    "sparse_complex": lambda X: scipy.sparse.csr_array(X + 1j),
    "class": lambda X: Rows,
    "function": lambda X: len,
    "nested_objects": lambda X: np.array([[[1], {2: 3}]], dtype=object),
    "array_of_none": lambda X: np.full(X.shape, None),
}
"""Inputs that every estimator must refuse. One row or one column of them may be valid."""
MAYBE_VALID = ("mixed_names", "array_of_none", "bytes")
"""scikit-learn may accept these as numbers, as missing entries, or with a warning."""


@dataclass(frozen=True)
class Hostile:
    """The recipe of one input."""

    rows: Rows = field(default_factory=Rows)
    damage: str = "none"
    container: str = "array"

    def array(self) -> Any:
        """Return the values before they are put into a container."""
        X = self.rows.array()
        if self.damage != "none":
            X = DAMAGE[self.damage](X if X.dtype.kind == "f" else X.astype(np.float64))
        return X

    def build(self) -> Any:
        if self.container in INVALID:
            return INVALID[self.container](self.rows.array())
        X = self.array()
        if X.ndim != 2 or not X.size:
            return X
        if X.dtype == np.float16:
            X = X.astype(np.float32)  # neither sparse arrays nor data frames have float16
        with np.errstate(over="ignore"):  # columns of float32
            return VALID[self.container](X)

    @property
    def refused_by_all(self) -> bool:
        """Whether every estimator must refuse the input."""
        if self.container in INVALID:
            return self.container not in MAYBE_VALID
        return self.damage in FATAL

    def reference(self) -> Any:
        """Return the float64 values, with NaN where an entry is missing."""
        X = self.build()
        if isinstance(X, np.ma.MaskedArray):
            return np.ma.filled(X.astype(np.float64), np.nan)
        if scipy.sparse.issparse(X):
            return X.toarray().astype(np.float64)
        if isinstance(X, pd.DataFrame):
            return X.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.asarray(X).astype(np.float64)


EXPONENTS = st.one_of(st.just(0), st.integers(-6, 6), st.integers(-40, 40), st.integers(-305, 305))


@st.composite
def hostile_inputs(draw: st.DrawFn, largest: int = 12) -> Hostile:
    """Mostly valid containers with any values, sometimes inputs that must be refused."""
    dtype = draw(st.sampled_from(["float64", "float64", "float32", "float16", "int64", "bool"]))
    n, p = draw(shapes(largest))
    exponent = draw(EXPONENTS)
    limit = {"float64": 295, "float32": 30}.get(dtype, 0)  # some kinds span 1e-6 to 1e7
    rows = Rows(
        kind=draw(st.sampled_from(list(KINDS))),
        n=n,
        p=p,
        seed=draw(st.integers(0, 100)),
        exponent=max(-limit, min(limit, exponent)),
        dtype=dtype,
    )
    if draw(st.integers(0, 5)) == 0:
        return Hostile(rows, container=draw(st.sampled_from(list(INVALID))))
    damage = draw(st.one_of(st.just("none"), st.sampled_from(list(DAMAGE))))
    return Hostile(rows, damage, draw(st.one_of(st.just("array"), st.sampled_from(list(VALID)))))
