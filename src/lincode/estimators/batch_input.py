"""Training data that are not in memory: arrays read in chunks, and iterables of batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator

from lincode.core.types import Rows
from lincode.estimators.samples import check_infinity
from lincode.estimators.validation import check_finite, check_rows, check_scale
from lincode.exceptions import InvalidInputError
from lincode.rows.chunks import ChunkedRows
from lincode.rows.memory import scan_rows
from lincode.rows.prefetch import prefetch
from lincode.rows.protocol import RowLengths
from lincode.rows.shuffling import RowSample

MIN_SAMPLED_ROWS, SAMPLED_ROWS_PER_UNIT = 1000, 4
"""How many rows are sampled for the initial atoms."""
NAN_MESSAGE = (
    "missing entries (NaN) are not supported in data that are read in parts; call partial_fit for"
    " each part, or fit with an array in memory."
)
SAMPLED_BYTES = 128 * 2**20
"""The largest size of the sample on which the encoder is refined."""


def n_sampled_rows(m: int, row_bytes: int, *, refine: bool) -> int:
    """Return how many rows are kept in memory for the initial atoms and for the refinement."""
    n = max(MIN_SAMPLED_ROWS, SAMPLED_ROWS_PER_UNIT * m)
    return max(n, SAMPLED_BYTES // row_bytes) if refine else n


def scan_chunks(
    estimator: BaseEstimator, X: ChunkedRows, n_sample: int, rng: np.random.RandomState
) -> tuple[Rows, RowLengths]:
    """Read X once; check its values; return a random sample of its rows, and the row lengths."""
    sample = RowSample(n_sample, rng)
    largest, longest, total = 0.0, 0.0, 0.0
    check_rows(estimator, np.zeros((1, X.shape[1]), X.dtype), reset=True)
    with closing(prefetch(X.blocks())) as blocks:
        for rows, block in blocks:
            block_largest, lengths = scan_rows(block)
            if not math.isfinite(lengths.mean):
                _check_block(estimator, block, rows)
            largest, longest = max(block_largest, largest), max(lengths.longest, longest)
            total += lengths.mean * block.shape[0]
            sample.add(block)
    check_scale(X, largest)
    return sample.result(), RowLengths(longest, total / X.shape[0])


def _check_block(estimator: BaseEstimator, block: Rows, rows: slice) -> None:
    """Raise an error that says in which rows there is NaN or infinity, if there is any."""
    values = block.data if scipy.sparse.issparse(block) else block
    if np.isnan(values).any():
        raise InvalidInputError(
            f"{NAN_MESSAGE} There is NaN in rows {rows.start} to {rows.stop - 1} of X."
        )
    try:
        check_finite(estimator, block)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"rows {rows.start} to {rows.stop - 1} of X are not finite. {error}"
        ) from error


class BatchInput:
    """The batches of an iterable, in one or several passes, checked one by one.

    Parameters
    ----------
    estimator : estimator
        It stores the number and the names of the features of the first batch.
    batches : iterable, or callable that returns one
        An iterator can be used for one pass only.
    max_passes : int
        The largest number of passes.

    Attributes
    ----------
    n_passes : int
        The number of passes that were started.
    one_pass : bool
        Whether the batches can be iterated only once.
    n_batches : int
        The number of batches of the first pass, as far as it was read.
    n_rows : int
        The number of rows of these batches.
    sample : RowSample or None
        A sample of the rows, if ``start_sample`` was called.
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        batches: Iterable[Any] | Callable[[], Iterable[Any]],
        max_passes: int,
    ) -> None:
        if not callable(batches) and (
            not isinstance(batches, Iterable)
            or isinstance(batches, str | bytes)
            or getattr(batches, "ndim", 0) > 0  # an array, a sparse matrix or a data frame
            or bool(getattr(batches, "shape", ()))  # a data frame of polars
        ):
            raise InvalidInputError(
                "batches must be an iterable of arrays, or a callable that returns one, got"
                f" {type(batches).__name__}; use fit for a single array."
            )
        self.estimator, self.batches, self.max_passes = estimator, batches, max_passes
        self.one_pass = isinstance(batches, Iterator)
        self.n_passes = self.n_batches = self.n_rows = 0
        self.first: Rows = None
        self.sample: RowSample | None = None

    def start_sample(self, m: int, rng: np.random.RandomState) -> None:
        """Keep a random sample of the rows of the first pass, beginning with the first batch."""
        row_bytes = self.first.shape[1] * self.first.dtype.itemsize
        self.sample = RowSample(n_sampled_rows(m, row_bytes, refine=True), rng)
        self.sample.add(self.first)

    def max_batches(self) -> int | None:
        """Return the largest number of batches, or None before the first pass has ended."""
        return self.n_batches * self.max_passes if self.n_passes > 1 else None

    def rows_per_pass(self) -> float:
        """Return the number of rows of one pass, or infinity before the first pass has ended."""
        return self.n_rows if self.n_passes > 1 else math.inf

    def __iter__(self) -> Generator[tuple[Rows, RowLengths], None, None]:
        """Yield each batch with its row lengths."""
        for _ in range(1 if self.one_pass else self.max_passes):
            self.n_passes += 1
            n_batches = 0
            for batch in self._new_iterator():
                n_batches += 1
                X, lengths = self._checked(batch, n_batches)
                if self.n_passes == 1:
                    self.n_batches = n_batches
                    self.n_rows += X.shape[0]
                    self.first = X if n_batches == 1 else None
                    if self.sample is not None:
                        self.sample.add(X)
                yield X, lengths
            if n_batches == 0:
                raise InvalidInputError(self._no_batches())

    def _new_iterator(self) -> Iterator[Any]:
        batches = self.batches() if callable(self.batches) else self.batches
        try:
            return iter(batches)
        except TypeError as error:
            raise InvalidInputError(
                "batches must be a callable that returns an iterable of arrays, but it returned"
                f" {type(batches).__name__}."
            ) from error

    def _checked(self, batch: Any, number: int) -> tuple[Rows, RowLengths]:
        first = self.n_passes == 1 and number == 1
        try:
            X = check_rows(self.estimator, batch, reset=first, check_finite=False)
            largest, lengths = scan_rows(X)
            if not math.isfinite(lengths.mean):
                check_infinity(self.estimator, X)
                if not scipy.sparse.issparse(X) and np.isnan(X).any():
                    raise InvalidInputError(NAN_MESSAGE)
            check_scale(X, largest)
            return X, lengths
        except InvalidInputError as error:
            place = f"batch {number}" + (f" of pass {self.n_passes}" if self.n_passes > 1 else "")
            raise InvalidInputError(f"{place}: {error}") from error

    def _no_batches(self) -> str:
        if self.n_passes == 1:
            return "batches must contain at least one batch, but the iterable is empty."
        return (
            f"batches contained {self.n_batches} batches in the first pass and none in pass"
            f" {self.n_passes}; pass a callable that returns a new iterator each time, or set"
            " max_iter=1."
        )
