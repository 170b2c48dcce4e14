"""Validation of parameters and data. Errors say what is expected, what was given, what to do."""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import validate_data

from lincode.core.arrays import (
    Array,
    RowLengths,
    Rows,
    canonical_rows,
    dense,
    dense_blocks,
    is_lazy,
    scan_rows,
)
from lincode.core.missing import (
    ObservedSums,
    SecondMoments,
    estimate_moments,
    fill_rows,
    moment_rows,
    observed_lengths,
)
from lincode.exceptions import InvalidInputError

Method = TypeVar("Method", bound=Callable[..., Any])
FLOAT_DTYPES = [np.float64, np.float32]
"""These dtypes are kept; all others are converted to the first."""
LARGEST = float(np.finfo(np.float64).max) ** 0.5
"""The largest parameter of the energy, so that its square can be represented."""
RESCALE_ADVICE = (
    "Divide X, and alpha if it is a number, by {0}: the codes are divided by the same number and"
    " nothing else changes."
)
PACKAGES = ("lincode", "sklearn", "joblib")
"""Warnings point to the first caller outside of these packages."""


# Parameters


@dataclass(frozen=True)
class Constraint:
    """What a parameter may be: a test, and the words for a message."""

    accepts: Callable[[Any], bool]
    must: str

    def check(self, name: str, value: Any) -> None:
        """Raise an error if the value is not accepted."""
        if not self.accepts(value):
            shown = f"{value!r:.200} of type {type(value).__name__}"
            raise InvalidInputError(f"{name} must be {self.must}, got {shown}.")


def number(low: float, high: float = sys.float_info.max, *, integer: bool = False) -> Constraint:
    """Accept numbers, or integers, between ``low`` and ``high``."""
    kind: Any = numbers.Integral if integer else numbers.Real
    limit = "" if high >= sys.float_info.max else f" and at most {high if integer else float(high)}"

    def accepts(value: Any) -> bool:
        if not isinstance(value, kind) or isinstance(value, bool | np.bool_):
            return False
        return bool(low <= (value.item() if isinstance(value, np.generic) else value) <= high)

    words = "an integer" if integer else "a number" if math.isinf(high) else "a finite number"
    return Constraint(accepts, f"{words} of at least {low}{limit}")


def fraction() -> Constraint:
    """Accept floats above 0 and at most 1."""

    def accepts(value: Any) -> bool:
        return isinstance(value, float | np.floating) and bool(0 < value <= 1)

    return Constraint(accepts, "a float above 0 and at most 1.0")


def choice(*words: Any) -> Constraint:
    """Accept some strings, or None."""

    def accepts(value: Any) -> bool:
        return (value is None or isinstance(value, str)) and value in words

    listed = ", ".join(repr(word) for word in words)
    return Constraint(accepts, f"one of {listed}" if len(words) > 1 else listed)


def either(*constraints: Constraint) -> Constraint:
    """Accept what one of several constraints accepts."""
    return Constraint(
        lambda value: any(constraint.accepts(value) for constraint in constraints),
        " or ".join(constraint.must for constraint in constraints),
    )


FLAG = Constraint(lambda value: isinstance(value, bool | np.bool_), "True or False")
VERBOSE = either(FLAG, number(0, integer=True))
CALLBACK = Constraint(lambda value: value is None or callable(value), "None or callable")
N_JOBS = Constraint(
    lambda value: (
        value is None
        or (isinstance(value, numbers.Integral) and not isinstance(value, bool) and value != 0)
    ),
    "None or an integer other than 0",
)


def check_parameters(values: Mapping[str, Any], constraints: Mapping[str, Constraint]) -> None:
    """Check each parameter that has a constraint."""
    for name, constraint in constraints.items():
        constraint.check(name, values[name])


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


def check_matrix(name: str, array: Any, shape: tuple[int, int] | None, dtype: Any) -> Array:
    """Return a finite dense matrix of numbers, such as a dictionary."""
    if np.ma.is_masked(array):
        raise InvalidInputError(f"{name} must not have masked entries; replace them with numbers.")
    try:
        matrix: Array = check_array(array, dtype=dtype, input_name=name, order="C")
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidInputError(f"{name}: {error}") from error
    if shape is not None and matrix.shape != shape:
        hint = f"; rows are atoms: pass {name}.T if yours are columns" * (matrix.T.shape == shape)
        raise InvalidInputError(f"{name} must have shape {shape}, got {matrix.shape}{hint}.")
    return matrix


def unchanged_on_failure(method: Method) -> Method:
    """Make a method of an estimator restore all attributes if it fails."""

    @functools.wraps(method)
    def wrapper(self: BaseEstimator, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(self))
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return cast(Method, wrapper)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning for the line from which the library was called."""
    frame, stacklevel = inspect.currentframe(), 1
    while frame is not None and _package(frame.f_globals) in PACKAGES:
        frame, stacklevel = frame.f_back, stacklevel + 1
    warnings.warn(message, category, stacklevel=stacklevel if frame is not None else 2)


def _package(variables: dict[str, object]) -> str:
    return str(variables.get("__name__", "")).partition(".")[0]


# Data


def check_rows(
    estimator: BaseEstimator | None, X: Any, *, reset: bool, check_finite: bool = True
) -> Rows:
    """Return X as a dense or CSR matrix of float64 or float32, without a copy if possible.

    The estimator stores the number and names of the features (``reset``) or compares them with
    those of the training data. Without an estimator neither is done. Masked entries of a masked
    array become NaN.
    """
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(X.dtype if X.dtype in FLOAT_DTYPES else np.float64), np.nan)
    if not (reset or check_finite) and _is_valid(estimator, X):
        return X
    if is_lazy(X) and not hasattr(X, "__array__"):
        raise InvalidInputError(
            f"X must be in memory here, but {type(X).__name__} is an object that is read in parts;"
            " pass X[:], or use MiniBatchSCNN, whose fit reads parts."
        )
    if X is None or isinstance(X, str | bytes | os.PathLike | Mapping | Iterator):
        raise InvalidInputError(
            "X must be a matrix of numbers with one sample per row, such as an array, a sparse"
            f" matrix, a data frame or a list of rows, got {type(X).__name__}."
        )
    dtypes = X.dtypes if hasattr(X, "columns") else [getattr(X, "dtype", None)]
    if any(getattr(dtype, "kind", "") in ("m", "M") for dtype in dtypes):
        raise InvalidInputError("X must contain numbers, but some entries are dates; encode them.")
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
        text = "could not convert" in str(error)
        advice = "; X must contain numbers: encode or drop the other columns." if text else ""
        raise InvalidInputError(f"{error}{advice}") from error


def _is_valid(estimator: BaseEstimator | None, X: Any) -> bool:
    """Return whether scikit-learn's validation would return X as it is, apart from its values.

    For a single sample this validation takes longer than the code.
    """
    if type(X) is not np.ndarray or X.dtype not in FLOAT_DTYPES or X.ndim != 2 or not X.size:
        return False
    return estimator is None or (
        X.shape[1] == getattr(estimator, "n_features_in_", None)
        and not hasattr(estimator, "feature_names_in_")
    )


def check_finite(
    estimator: BaseEstimator | None,
    X: Rows,
    *,
    allow_nan: bool = False,
    first_row: int = 0,
    nan_advice: str = "replace it by a number",
) -> None:
    """Check that X contains neither NaN (unless it is allowed and X is dense) nor infinity.

    The message names the place of the first one. ``first_row`` is the number of the first row of X.
    """
    if allow_nan and scipy.sparse.issparse(X):
        allow_nan, nan_advice = False, "use X.toarray(), because a missing entry needs a dense X"
    for rows in dense_blocks(X):
        block = dense(X[rows])
        bad = np.isinf(block) if allow_nan else ~np.isfinite(block)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            what, advice = "infinity", "correct it"
            if np.isnan(block[row, column]):
                what, advice = "NaN", nan_advice
            names = getattr(estimator, "feature_names_in_", None)
            name = "" if names is None else f" ({names[column]})"
            raise InvalidInputError(
                f"Input X contains {what} in row {first_row + rows.start + row}, column"
                f" {column}{name}; {advice}."
            )


def check_scaled_rows(
    estimator: BaseEstimator | None, X: Any, *, reset: bool, advice: str = RESCALE_ADVICE
) -> Rows:
    """Return X as ``check_rows`` does. Its entries must be finite, and so must their squares."""
    X = check_rows(estimator, X, reset=reset, check_finite=False)
    largest = largest_entry(X)
    if not math.isfinite(largest):
        check_finite(estimator, X)
    check_scale(X.dtype, largest, advice)
    return X


def check_scale(dtype: Any, largest: float, advice: str = RESCALE_ADVICE) -> None:
    """Check that squares of X, whose largest absolute value is given, are representable."""
    low, high = representable(dtype)
    if largest != 0 and not low <= largest <= high:
        raise InvalidInputError(
            f"the largest absolute value of X must be between {low:.0e} and {high:.0e}, because"
            f" {dtype} cannot represent the squares of other values; got {largest:.3g}."
            f" {advice.format(f'{largest:.3g}')}"
        )


def representable(dtype: np.dtype[np.floating]) -> tuple[float, float]:
    """Return the range of the largest absolute value in which sums of squares do not overflow."""
    limits = np.finfo(dtype)
    return 1e5 * float(limits.tiny) ** 0.5, float(limits.max) ** 0.5 / 1e5


def largest_entry(X: Rows) -> float:
    """Return the largest absolute value of X, which is not finite if X is not."""
    values = X.data if scipy.sparse.issparse(X) else X
    # The maximum of NumPy is NaN if a value is.
    return float(np.maximum(values.max(), -values.min())) if values.size else 0.0


@dataclass(frozen=True)
class Samples:
    """Validated samples with at least one observed entry each."""

    X: Rows
    """The samples; missing entries are NaN"""
    lengths: RowLengths
    means: Array | None = None
    """The means of the observed entries of each feature; None if no entry is missing"""

    def filled(self, moments: SecondMoments | None = None) -> tuple[Rows, Array | None]:
        """Return X with a prediction of missing entries, and the penalties of the samples.

        The prediction uses second moments of other samples if they are given. Without missing
        entries this is X itself and None.
        """
        if self.means is None:
            return self.X, None
        if moments is None:
            moments = estimate_moments(self.X[moment_rows(*self.X.shape)], self.means)
        return fill_rows(self.X, moments)


def check_samples(
    estimator: BaseEstimator | None, X: Any, *, reset: bool, allow_unobserved: bool = False
) -> Samples:
    """Return validated samples, without those that have no observed entry.

    NaN means that an entry is missing. Infinite entries are not accepted. A feature of which no
    entry is observed is an error, unless ``allow_unobserved`` is true.
    """
    X = check_rows(estimator, X, reset=reset, check_finite=False)
    largest, lengths = scan_rows(X)
    if math.isfinite(lengths.mean):
        check_scale(X.dtype, largest)
        return Samples(X, lengths)
    check_finite(estimator, X, allow_nan=True)
    if scipy.sparse.issparse(X) or not np.isnan(X).any():  # the squares overflow
        check_scale(X.dtype, largest)
    empty = np.isnan(X).all(axis=1)
    X, observed = X[~empty], ObservedSums.of(X)
    check_observed(estimator, observed, int(empty.sum()), X.dtype, allow_unobserved)
    return Samples(X, observed_lengths(X, observed.mean_squares), observed.means)


def check_observed(
    estimator: BaseEstimator | None,
    observed: ObservedSums,
    n_empty: int,
    dtype: np.dtype[np.floating],
    allow_unobserved: bool = False,
) -> None:
    """Check the sums of samples with missing entries, of which ``n_empty`` have no other ones."""
    unobserved = np.flatnonzero(observed.counts == 0)
    if unobserved.size == observed.counts.size:
        raise InvalidInputError("all entries of X are NaN; at least one must be observed.")
    check_scale(dtype, observed.largest)
    if unobserved.size and not allow_unobserved:
        raise InvalidInputError(
            "every feature must have at least one observed entry, but all entries of the features"
            f" {unobserved[:5].tolist()} are NaN; remove such features."
        )
    if n_empty:
        warn_empty(estimator, n_empty)


def warn_empty(estimator: BaseEstimator | None, n: int) -> None:
    """Warn that samples have no observed entry."""
    name = "SCNN" if estimator is None else type(estimator).__name__
    warn_user(
        f"{name}: {n} samples have no observed entry. Training ignores such samples, and their"
        " codes are zero."
    )
