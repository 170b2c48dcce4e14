"""Validation of parameters and data. Errors say what is expected, what was given, what to do."""

from __future__ import annotations

import math
import numbers
import os
import re
import reprlib
import sys
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite, check_array, check_random_state
from sklearn.utils.validation import validate_data

from lincode.core.types import Array, Rows, canonical_rows
from lincode.estimators.array_api import to_numpy
from lincode.exceptions import InvalidInputError
from lincode.rows.chunks import is_lazy
from lincode.rows.memory import scan_rows
from lincode.rows.protocol import RowLengths

FLOAT_DTYPES = [np.float64, np.float32]
"""These dtypes are kept; all others are converted to the first."""
ALPHA_SCALES = ("max", "mean")
"""What alpha may be relative to: the longest row or the mean row length."""
POWERS = {2: "squares", 3: "cubes"}
NOT_MATRICES = (str, bytes, numbers.Number, os.PathLike, Mapping, Set)
"""Objects that NumPy would convert to a scalar of some kind, or not at all."""
RESCALE_ADVICE = (
    "Divide X, and alpha if it is a number, by {0}: the codes are divided by the same number and"
    " nothing else changes."
)


def check_number(
    name: str,
    value: Any,
    at_least: float,
    *,
    integer: bool = False,
    or_none: bool = False,
    or_infinity: bool = False,
) -> None:
    """Check that a parameter is a finite number of at least ``at_least``.

    ``or_none`` and ``or_infinity`` allow None and infinity as well.
    """
    if value is None and or_none:
        return
    kind: type[Any] = numbers.Integral if integer else numbers.Real
    must = f"{'an integer' if integer else 'a finite number'} of at least {at_least}"
    others = [word for word, allowed in (("None", or_none), ("inf", or_infinity)) if allowed]
    must = f"{name} must be {' or '.join([', '.join(others), must] if others else [must])}"
    if not isinstance(value, kind) or isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{must}, got {value!r} of type {type(value).__name__}.")
    if isinstance(value, np.generic):
        value = value.item()  # float32 cannot be compared with the largest float64
    if or_infinity and value == math.inf:
        return
    if not at_least <= value <= (sys.maxsize if integer else sys.float_info.max):
        raise InvalidInputError(f"{must}, got {value!r}.")


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Check that a parameter is one of some strings."""
    if not isinstance(value, str) or value not in choices:
        words = ", ".join(repr(choice) for choice in choices)
        raise InvalidInputError(f"{name} must be one of {words}, got {value!r}.")


def check_flag(name: str, value: object) -> None:
    """Check that a parameter is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{name} must be True or False, got {value!r}.")


def check_verbose(value: object) -> None:
    """Check that verbose is a bool or an integer of at least 0."""
    if not isinstance(value, bool | np.bool_):
        check_number("verbose", value, 0, integer=True)


def check_callback(value: object) -> None:
    """Check that callback is None or callable."""
    if value is not None and not callable(value):
        raise InvalidInputError(f"callback must be None or callable, got {value!r}.")


def check_n_jobs(n_jobs: object) -> None:
    """Check that n_jobs is None or an integer other than 0."""
    integer = isinstance(n_jobs, numbers.Integral) and not isinstance(n_jobs, bool | np.bool_)
    if n_jobs is not None and (not integer or n_jobs == 0):
        raise InvalidInputError(f"n_jobs must be None or an integer other than 0, got {n_jobs!r}.")


def parse_alpha(alpha: Any) -> tuple[float, str | None]:
    """Return alpha as a number, or as a factor and the scale that it is relative to.

    Examples
    --------
    >>> from lincode.estimators.validation import parse_alpha
    >>> parse_alpha("0.05*max")
    (0.05, 'max')
    >>> parse_alpha(0.1)
    (0.1, None)
    """
    if not isinstance(alpha, str):
        check_number("alpha", alpha, 0)
        return float(alpha), None
    match = re.fullmatch(r"\s*(?:([^*]+)\*)?\s*(\w+)\s*", alpha)
    scale = match[2] if match else ""
    try:
        factor = float(match[1] or 1) if match else math.nan
    except ValueError:
        factor = math.nan
    if scale not in ALPHA_SCALES or not 0 <= factor < math.inf:
        examples = " or ".join(f"'0.1*{word}'" for word in ALPHA_SCALES)
        raise InvalidInputError(
            f"alpha must be a finite number of at least 0 or a string such as {examples}, got"
            f" {alpha!r}."
        )
    return factor, scale


def check_not_masked(name: str, array: Any) -> None:
    """Check that an array has no masked entries, where entries cannot be missing."""
    if np.ma.is_masked(array):
        raise InvalidInputError(f"{name} must not have masked entries; replace them with numbers.")


def check_dictionary(init: object, m: int, p: int, names: tuple[str, ...]) -> Array:
    """Return the initial atoms as an array of float64. ``names`` are the other values of init."""
    check_not_masked("init", init)
    try:
        D = np.array(init, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"init must be {', '.join(map(repr, names))} or an array of numbers of shape"
            f" (n_components, n_features) = ({m}, {p}), got {reprlib.repr(init)}."
        ) from error
    if D.shape != (m, p):
        hint = " Rows are atoms; pass init.T if yours are columns." if D.shape == (p, m) else ""
        raise InvalidInputError(
            f"init must have shape (n_components, n_features) = ({m}, {p}), got {D.shape}.{hint}"
        )
    if not np.isfinite(D).all():
        raise InvalidInputError("init must be finite, but it contains NaN or infinity.")
    return D


def check_rows(
    estimator: BaseEstimator | None, X: Any, *, reset: bool, check_finite: bool = True
) -> Rows:
    """Return X as a dense or CSR matrix of float64 or float32, without a copy if possible.

    The estimator stores the number and names of the features (``reset``) or compares them with
    those of the training data. Without an estimator neither is done. Masked entries of a masked
    array become NaN.
    """
    if isinstance(X, np.ma.MaskedArray):
        X = _masked_to_nan(X)
    X = to_numpy(X)
    if not (reset or check_finite) and _is_valid(estimator, X):
        return X
    _check_container(X)
    _check_not_batches(X)
    accepted: dict[str, Any] = {
        "accept_sparse": "csr",
        "dtype": FLOAT_DTYPES,
        "ensure_all_finite": check_finite,
    }
    try:
        if estimator is None:
            return canonical_rows(check_array(X, input_name="X", **accepted))
        return canonical_rows(validate_data(estimator, X, reset=reset, **accepted))
    except (ValueError, TypeError, RuntimeError) as error:  # RuntimeError: tensors with gradients
        raise InvalidInputError(_explanation(str(error))) from error


def _explanation(message: str) -> str:
    """Return the message of an error of scikit-learn, in other words if it speaks of NumPy."""
    if "could not convert" in message:
        return (
            f"X must contain numbers, but some entries are text ({message}); encode or drop the"
            " columns that are not numeric."
        )
    if "inhomogeneous" in message or "array element with a sequence" in message:
        return (
            "X must have the same number of entries in every row, and each entry must be a number;"
            f" NumPy cannot convert X to a matrix ({message})."
        )
    if message.startswith(("float() argument", "Cannot cast", "must be real number")):
        return f"X must contain real numbers, but an entry cannot be converted ({message})."
    return message


def _masked_to_nan(X: Any) -> Any:
    """Return a masked array as an array of floats with NaN at the masked entries."""
    if not np.ma.is_masked(X) or X.dtype.kind not in "fiub":
        return X.data
    dtype = X.dtype if X.dtype in FLOAT_DTYPES else np.dtype(np.float64)
    return X.astype(dtype).filled(np.nan)


def _check_container(X: Any) -> None:
    """Raise an error if X is not a kind of matrix, or an empty or lazy data frame."""
    name = type(X).__name__
    if X is None or isinstance(X, NOT_MATRICES):
        load = isinstance(X, str | bytes | os.PathLike)
        raise InvalidInputError(
            "X must be a matrix of numbers with one sample per row, such as an array, a sparse"
            f" matrix, a data frame or a list of rows, got {name}"
            f"{'; load the file first' if load else ''}."
        )
    if hasattr(X, "collect") and not hasattr(X, "shape"):
        raise InvalidInputError(f"X must be in memory, got a {name}; use X.collect().")
    if is_lazy(X) and not hasattr(X, "__array__"):
        raise InvalidInputError(
            f"X must be in memory here, but {name} is an object that is read in parts; pass X[:],"
            " or use MiniBatchSCNN, whose fit reads parts."
        )
    dtypes = X.dtypes if hasattr(X, "columns") else [getattr(X, "dtype", None)]
    if any(map(_is_temporal, dtypes)):
        raise InvalidInputError(
            "X must contain numbers, but some entries are dates or time differences; encode or drop"
            " such columns."
        )
    if hasattr(X, "columns") and hasattr(X, "shape") and 0 in X.shape:
        raise InvalidInputError(
            "X must have at least one sample and one feature, got a data frame with"
            f" {X.shape[0]} rows and {X.shape[1]} columns."
        )


def _is_temporal(dtype: Any) -> bool:
    """Return whether a dtype of NumPy, pandas or polars is one of dates or times."""
    if hasattr(dtype, "is_temporal"):
        return bool(dtype.is_temporal())
    return getattr(dtype, "kind", "") in ("m", "M")


def _check_not_batches(X: Any) -> None:
    """Raise an error if X is an iterator, a callable or a list of arrays instead of one array."""
    is_list = isinstance(X, list | tuple) and len(X) > 0 and getattr(X[0], "ndim", 0) == 2
    if is_list or isinstance(X, Iterator) or (callable(X) and not hasattr(X, "__array__")):
        raise InvalidInputError(
            f"X must be one array with one sample per row, got {type(X).__name__}"
            f"{' of arrays' if is_list else ''}; MiniBatchSCNN.fit_batches learns from an iterable"
            " of batches."
        )


def _is_valid(estimator: BaseEstimator | None, X: Any) -> bool:
    """Return whether scikit-learn's validation would return X as it is, apart from its values.

    For a single sample this validation takes longer than the code.
    """
    if not is_float_matrix(X):
        return False
    return estimator is None or (
        X.shape[1] == getattr(estimator, "n_features_in_", None)
        and not hasattr(estimator, "feature_names_in_")
    )


def is_float_matrix(X: Any) -> bool:
    """Return whether X is a plain array of two dimensions, float64 or float32, and not empty."""
    return type(X) is np.ndarray and X.dtype in FLOAT_DTYPES and X.ndim == 2 and X.size > 0


def check_finite(estimator: BaseEstimator | None, X: Rows, *, allow_nan: bool = False) -> None:
    """Check that X contains neither NaN (unless it is allowed) nor infinity."""
    name = None if estimator is None else type(estimator).__name__
    try:
        assert_all_finite(X, input_name="X", estimator_name=name, allow_nan=allow_nan)
    except ValueError as error:
        raise InvalidInputError(str(error)) from error


def check_scaled_rows(
    estimator: BaseEstimator | None,
    X: Any,
    *,
    reset: bool,
    advice: str = RESCALE_ADVICE,
    power: int = 2,
) -> tuple[Rows, RowLengths]:
    """Return X as ``check_rows`` does, and its row lengths.

    The entries must be finite and their squares (or another power) must be representable; otherwise
    the error ends with ``advice``. The rows are read once.
    """
    X = check_rows(estimator, X, reset=reset, check_finite=False)
    largest, lengths = scan_rows(X)
    if not math.isfinite(lengths.mean):
        check_finite(estimator, X)
    check_scale(X, largest, advice, power)
    return X, lengths


def check_scale(X: Rows, largest: float, advice: str = RESCALE_ADVICE, power: int = 2) -> None:
    """Check that powers of X, whose largest absolute value is given, are representable."""
    low, high = representable(X.dtype, power)
    if largest != 0 and not low <= largest <= high:
        raise InvalidInputError(
            f"the largest absolute value of X must be between {low:.0e} and {high:.0e}, because"
            f" {X.dtype} cannot represent the {POWERS[power]} of other values; got {largest:.3g}."
            f" {advice.format(f'{largest:.3g}')}"
        )


def largest_entry(X: Rows) -> float:
    """Return the largest absolute value of X, which is not finite if X is not."""
    values = X.data if issparse(X) else X
    # The maximum of NumPy is NaN if a value is.
    return float(np.maximum(values.max(), -values.min())) if values.size else 0.0


def representable(dtype: np.dtype[np.floating], power: int = 2) -> tuple[float, float]:
    """Return the range of the largest absolute value of data in which powers do not overflow.

    It leaves a factor of 1e10 (squares) or 1e9 (cubes) for the sums of such powers.
    """
    limits, room = np.finfo(dtype), 1e5 if power == 2 else 1e3
    return room * float(limits.tiny) ** (1 / power), float(limits.max) ** (1 / power) / room


def check_seed(random_state: Any) -> np.random.RandomState:
    """Return the random numbers that ``random_state`` means."""
    try:
        rng: np.random.RandomState = check_random_state(random_state)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            "random_state must be None, an integer between 0 and 4294967295 or a"
            f" numpy.random.RandomState, got {random_state!r}."
        ) from error
    return rng


@contextmanager
def unchanged_on_failure(estimator: BaseEstimator) -> Iterator[None]:
    """Restore the attributes of an estimator if ``fit`` fails."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
