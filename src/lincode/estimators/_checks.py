"""Parameters and data at the door: what it must be, what it was, what to do."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from lincode.core.types import Array, Rows

FLOATS = [np.float64, np.float32]
"""Kept as they are; every other kind of number becomes the first."""


def check_number(
    name: str, value: Any, at_least: float, *, integer: bool = False, or_none: bool = False
) -> None:
    """A finite number of the right kind and size, or None where that is allowed."""
    if value is None and or_none:
        return
    kind: type[Any] = numbers.Integral if integer else numbers.Real
    must = f"{name} must be {'an integer' if integer else 'a finite number'} of at least {at_least}"
    if or_none:
        must += " or None"
    if not isinstance(value, kind) or isinstance(value, bool | np.bool_):
        raise TypeError(f"{must}, got {value!r} of type {type(value).__name__}.")
    if not at_least <= value <= (sys.maxsize if integer else sys.float_info.max):
        raise ValueError(f"{must}, got {value!r}.")


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """One of a few words."""
    if not isinstance(value, str) or value not in choices:
        words = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {words}, got {value!r}.")


def check_flag(name: str, value: object) -> None:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}.")


def check_dictionary(init: object, m: int, p: int) -> Array:
    """A start given as an array of atoms."""
    try:
        D = np.array(init, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"init must be 'data', 'paper' or an array of numbers of shape (n_components,"
            f" n_features) = ({m}, {p}), got {init!r}."
        ) from error
    if D.shape != (m, p):
        hint = " Rows are atoms: pass init.T if yours are columns." if D.shape == (p, m) else ""
        raise ValueError(
            f"init must have shape (n_components, n_features) = ({m}, {p}), got {D.shape}.{hint}"
        )
    if not np.isfinite(D).all():
        raise ValueError("init must be finite, but some of its entries are NaN or infinity.")
    return D


def check_n_jobs(n_jobs: object) -> None:
    """None or an integer but 0, as joblib understands it."""
    integer = isinstance(n_jobs, numbers.Integral) and not isinstance(n_jobs, bool | np.bool_)
    if n_jobs is not None and (not integer or n_jobs == 0):
        raise ValueError(f"n_jobs must be None or an integer but 0, got {n_jobs!r}.")


def check_rows(
    estimator: BaseEstimator | None,
    X: Any,
    *,
    reset: bool,
    scale: bool,
    remedy: str = "Divide X, and alpha with it, by {0}: the codes are divided by the same number"
    " and nothing else changes.",
) -> Rows:
    """X as float64 or float32, dense or CSR, copied only where it has to be converted.

    With ``scale``, also of a magnitude whose squares the precision can hold, or ``remedy`` is
    what the error says to do. The estimator
    remembers its features (``reset``) or compares them; without one, nobody does.
    """
    accepted: dict[str, Any] = {"accept_sparse": "csr", "dtype": FLOATS}
    try:
        if estimator is None:
            X = check_array(X, input_name="X", **accepted)
        else:
            X = validate_data(estimator, X, reset=reset, **accepted)
    except ValueError as error:
        if "could not convert" not in str(error):
            raise
        raise ValueError(
            f"X must hold numbers, but some of its entries are text ({error}); encode or drop"
            " the columns that are not numbers."
        ) from error
    if scale:
        _check_magnitude(X, remedy)
    return X


def _check_magnitude(X: Rows, remedy: str) -> None:
    values = X.data if scipy.sparse.issparse(X) else X
    if not values.size:
        return
    largest = max(float(values.max()), -float(values.min()))
    limits = np.finfo(X.dtype)
    low, high = 1e5 * float(limits.tiny) ** 0.5, 1e-5 * float(limits.max) ** 0.5
    if largest != 0 and not low <= largest <= high:
        raise ValueError(
            f"X must have its largest absolute value between {low:.0e} and {high:.0e}, or its"
            f" squares leave the range of {X.dtype}; got {largest:.3g}."
            f" {remedy.format(f'{largest:.3g}')}"
        )


@contextmanager
def unchanged_on_failure(estimator: BaseEstimator) -> Iterator[None]:
    """A fit that fails leaves the estimator as it found it."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
