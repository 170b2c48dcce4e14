"""Training samples with weights and missing entries, after validation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from lincode.core.types import Array, Rows
from lincode.estimators.array_api import to_numpy
from lincode.estimators.user_warnings import warn_user
from lincode.estimators.validation import (
    check_finite,
    check_not_masked,
    check_rows,
    check_scale,
)
from lincode.exceptions import InvalidInputError
from lincode.rows.memory import scan_rows
from lincode.rows.missing import fill_missing, scan_observed
from lincode.rows.protocol import RowLengths


@dataclass(frozen=True)
class Samples:
    """Samples that have a positive weight and at least one observed entry."""

    X: Rows
    """The samples; missing entries are NaN"""
    lengths: RowLengths
    weights: Array | None = None
    means: Array | None = None
    """The means of the observed entries of each feature; None if no entry is missing"""
    unobserved: NDArray[np.intp] | None = None
    """The features of which no entry is observed, if entries are missing"""

    @property
    def has_missing(self) -> bool:
        """Whether entries are missing."""
        return self.means is not None

    def take(self, rows: Any) -> Samples:
        """Return some of the samples. The lengths and means remain those of all samples."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, X=self.X[rows], weights=weights)

    def filled(self) -> tuple[Rows, NDArray[np.bool_] | None]:
        """Return a copy of X with a prediction of missing entries, and which entries are missing.

        Without missing entries this is X itself and None.
        """
        if self.means is None:
            return self.X, None
        missing = np.isnan(self.X)
        X = np.array(self.X, order="C")
        fill_missing(X, missing, self.means, self.weights)
        return X, missing


def check_samples(
    estimator: BaseEstimator | None,
    X: Any,
    sample_weight: Any = None,
    *,
    reset: bool,
    allow_unobserved: bool = False,
    warn: bool = True,
) -> Samples:
    """Return validated samples without those of weight 0 or without an observed entry.

    NaN means that an entry is missing. Infinite entries are not accepted. A feature of which no
    entry is observed is an error, unless ``allow_unobserved`` is true. ``warn`` says whether to
    warn about samples without an observed entry.
    """
    X = check_rows(estimator, X, reset=reset, check_finite=False)
    weights = None if sample_weight is None else check_sample_weight(sample_weight, X.shape[0])
    if weights is not None and not weights.all():
        X, weights = X[weights > 0], weights[weights > 0]
    largest, lengths = scan_rows(X, weights)
    if math.isfinite(lengths.mean):
        check_scale(X, largest)
        return Samples(X, lengths, weights)
    check_infinity(estimator, X)
    if scipy.sparse.issparse(X) or not np.isnan(X).any():  # the squares overflow
        check_scale(X, largest)
    observed = scan_observed(X, weights)
    check_scale(X, observed.largest)
    unobserved = np.flatnonzero(observed.counts == 0)
    if unobserved.size and not allow_unobserved:
        raise InvalidInputError(
            "every feature must have at least one observed entry, but all entries of the"
            f" {_features(estimator, unobserved)} are NaN; remove such features."
        )
    if observed.empty.any():
        if observed.empty.all():
            raise InvalidInputError("all entries of X are NaN; at least one must be observed.")
        if warn:
            warn_empty(estimator, int(observed.empty.sum()))
        kept = ~observed.empty
        X, weights = X[kept], None if weights is None else weights[kept]
    return Samples(X, observed.lengths, weights, observed.means, unobserved)


def check_infinity(estimator: BaseEstimator | None, X: Rows) -> None:
    """Check that X contains no infinity, and no NaN if it is sparse."""
    if scipy.sparse.issparse(X) and np.isnan(X.data).any():
        raise InvalidInputError(
            "a sparse X must not contain NaN; missing entries need a dense X, because most entries"
            " of a sparse matrix are observed zeros. Use X.toarray()."
        )
    check_finite(estimator, X, allow_nan=True)


def warn_empty(estimator: BaseEstimator | None, n: int) -> None:
    """Warn that samples have no observed entry."""
    name = "SCNN" if estimator is None else type(estimator).__name__
    have = "1 sample has" if n == 1 else f"{n} samples have"
    warn_user(
        f"{name}: {have} no observed entry. Training ignores such samples, and their codes are"
        " zero."
    )


def check_sample_weight(sample_weight: Any, n_samples: int) -> Array:
    """Return the weights of samples as an array of float64; a number means equal weights."""
    check_not_masked("sample_weight", sample_weight)
    try:
        weights = np.array(to_numpy(sample_weight), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"sample_weight must contain one number per sample: {error}"
        ) from error
    if weights.ndim == 0:
        weights = np.full(n_samples, float(weights))
    if weights.shape != (n_samples,):
        raise InvalidInputError(
            f"sample_weight must have shape (n_samples,) = ({n_samples},), got {weights.shape};"
            " sample_weight must be a 1D array or a number."
        )
    if not np.isfinite(weights).all() or weights.min() < 0 or not math.isfinite(weights.sum()):
        raise InvalidInputError(
            "sample_weight must be finite and not negative, but it contains values such as"
            f" {weights[~(weights >= 0) | ~np.isfinite(weights)][:1]}."
        )
    if not weights.any():
        raise InvalidInputError(
            "at least one sample_weight must be positive, but all are zero; remove sample_weight,"
            " or give the samples to be learned a positive weight."
        )
    return weights


def _features(estimator: BaseEstimator | None, columns: NDArray[np.intp]) -> str:
    """Return the names or indices of at most five features."""
    names = getattr(estimator, "feature_names_in_", None)
    words = [repr(str(names[k])) if names is not None else str(k) for k in columns[:5]]
    more = ", …" if len(columns) > 5 else ""
    return f"feature{'s' if len(columns) > 1 else ''} {', '.join(words)}{more}"
