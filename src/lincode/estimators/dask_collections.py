"""Dask arrays and data frames: validation, their blocks of rows, and lazy results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import dask
import dask.array as da
import numpy as np
import scipy.sparse
from distributed import Client, get_client
from sklearn.base import BaseEstimator

from lincode.estimators.validation import check_rows
from lincode.exceptions import InvalidInputError
from lincode.rows.dask import DaskRows
from lincode.rows.dask_chunks import make_chunk

MIN_CHUNK_ROWS = 2048
"""Consecutive blocks of an array with fewer rows are joined for training."""
NUMBERS = "biuf"
"""The kinds of dtypes that are converted to floating-point numbers."""


def current_client(client: Any) -> Client:
    """Return the client, or the current one for None."""
    if client is None:
        try:
            return get_client()
        except ValueError as error:
            raise InvalidInputError(
                "there is no Dask client; create one with distributed.Client(...), or pass client."
            ) from error
    if not isinstance(client, Client) or client.asynchronous:
        raise InvalidInputError(
            f"client must be None or a distributed.Client that is not asynchronous, got {client!r}."
        )
    return client


def is_collection(X: Any) -> bool:
    """Return whether X is a Dask array or data frame."""
    return isinstance(X, da.Array) or (dask.is_dask_collection(X) and hasattr(X, "columns"))


def check_collection(estimator: BaseEstimator | None, X: Any, *, reset: bool) -> np.dtype[Any]:
    """Check a Dask array or data frame without computing it; return the dtype to convert it to.

    The estimator stores the number and names of the features (``reset``) or compares them with
    those of the training data. Without an estimator neither is done.
    """
    if isinstance(X, da.Array):
        _check_array(X)
        dtype, example = X.dtype, np.zeros((1, X.shape[1]))
    else:
        import pandas as pd

        dtype = _frame_dtype(X)
        example = pd.DataFrame(np.zeros((1, len(X.columns))), columns=X.columns)
    check_rows(estimator, example, reset=reset)
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)


def _check_array(X: da.Array) -> None:
    if X.ndim != 2:
        raise InvalidInputError(
            f"X must have two dimensions (n_samples, n_features), got shape {X.shape}."
        )
    if X.dtype.kind not in NUMBERS:
        raise InvalidInputError(
            f"X must contain numbers, but its dtype is {X.dtype}; convert it with"
            " X.astype('float64')."
        )
    if len(X.chunks[1]) != 1:
        raise InvalidInputError(
            "each block of X must contain all features, but X has chunks of"
            f" {', '.join(map(str, X.chunks[1][:3]))}{', …' if len(X.chunks[1]) > 3 else ''}"
            " features; use X.rechunk({1: -1})."
        )
    if math.isnan(X.shape[1]):
        raise InvalidInputError(
            "X must have a known number of features; call X.compute_chunk_sizes() first."
        )


def _frame_dtype(X: Any) -> np.dtype[Any]:
    """Return the common dtype of the columns of a data frame."""
    wrong = [
        f"{name!r} ({dtype})"
        for name, dtype in X.dtypes.items()
        if getattr(dtype, "kind", "O") not in NUMBERS
    ]
    if wrong:
        raise InvalidInputError(
            f"all columns of X must contain numbers, but these do not: {', '.join(wrong[:5])};"
            " encode or drop them."
        )
    try:
        return np.result_type(*X.dtypes)
    except TypeError:  # the dtypes of pandas that are not those of NumPy
        return np.dtype(np.float64)


def make_rows(client: Client, X: Any, m: int, dtype: np.dtype[Any], n_threads: int = 1) -> DaskRows:
    """Return the row source of a checked collection. It starts to compute X."""
    make = dask.delayed(make_chunk)
    futures = client.compute([make(blocks, m, dtype) for blocks in _row_blocks(X)])
    return DaskRows(client, list(futures), m, dtype, n_threads)


def _row_blocks(X: Any) -> list[list[Any]]:
    """Return the blocks of X in groups of consecutive blocks with enough rows."""
    blocks = list(np.ravel(X.to_delayed()))
    if not isinstance(X, da.Array):
        return [[block] for block in blocks]
    if any(map(math.isnan, X.chunks[0])):
        raise InvalidInputError(
            "the chunks of X must have known numbers of samples; call X.compute_chunk_sizes()"
            " first."
        )
    groups: list[list[Any]] = []
    n_rows = MIN_CHUNK_ROWS
    for block, n in zip(blocks, X.chunks[0], strict=True):
        if n_rows >= MIN_CHUNK_ROWS:
            groups.append([])
            n_rows = 0
        groups[-1].append(block)
        n_rows += n
    return groups


def lazy_result(
    method: str, model: Any, X: Any, dtype: np.dtype[Any], names: Sequence[Any], *, sparse: bool
) -> Any:
    """Apply a method of a fitted local estimator to each block of a collection.

    Parameters
    ----------
    method : str
        The name of the method.
    model : estimator
        The estimator.
    X : Dask array or data frame
        The samples.
    dtype : dtype
        The dtype of the result.
    names : sequence
        The names of the columns of the result.
    sparse : bool
        Whether the result has CSR blocks.

    Returns
    -------
    Dask array or data frame, as X
    """
    future_model = dask.delayed(model, pure=True)
    n = len(names)
    if isinstance(X, da.Array):
        empty = scipy.sparse.csr_matrix((0, n), dtype=dtype) if sparse else np.empty((0, n), dtype)
        return X.map_blocks(
            _apply, future_model, method, empty, dtype=dtype, chunks=(X.chunks[0], (n,)), meta=empty
        )
    if sparse:
        raise InvalidInputError(
            "sparse_output=True requires a Dask array; use X.to_dask_array(lengths=True), or"
            " sparse_output=False."
        )
    import pandas as pd

    empty = pd.DataFrame(np.empty((0, n), dtype), columns=list(names))
    return X.map_partitions(_apply, future_model, method, empty, meta=empty)


def _apply(block: Any, model: Any, method: str, empty: Any) -> Any:
    """Apply the method to one block, which may have no rows."""
    if not hasattr(empty, "columns"):
        return getattr(model, method)(block) if block.shape[0] else empty
    values = getattr(model, method)(block) if len(block) else np.empty(empty.shape)
    return type(empty)(values, index=block.index, columns=empty.columns).astype(empty.dtypes)


def total_score(client: Client, model: Any, X: Any) -> float:
    """Return the score of a local estimator for all samples of a collection."""
    part, future_model = dask.delayed(_score), dask.delayed(model, pure=True)
    blocks = np.ravel(X.to_delayed())
    parts = client.gather(client.compute([part(block, future_model) for block in blocks]))
    n, total = (sum(values) for values in zip(*parts, strict=True))
    if not n:
        raise InvalidInputError("X has no rows; a minimum of 1 is required.")
    return float(total / n)


def _score(block: Any, model: Any) -> tuple[int, float]:
    n = block.shape[0]
    return n, n * model.score(block) if n else 0.0
