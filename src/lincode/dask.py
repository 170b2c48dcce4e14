"""SCNN on a Dask cluster."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

from lincode.core.arrays import sample_indices
from lincode.core.threshold import n_calibration_rows
from lincode.encoder.refinement import max_rows
from lincode.estimators import scnn as local
from lincode.estimators.validation import check_observed, check_rows, check_scale, warn_empty
from lincode.exceptions import InvalidInputError, MissingDependencyError
from lincode.training.threads import thread_count

try:
    import dask
    import dask.array as da
    from distributed import Client, get_client, secede

    from lincode.training.dask_rows import DaskRows, cluster_errors, results
except ModuleNotFoundError as error:
    raise MissingDependencyError(
        "lincode.dask needs Dask; install it with: pip install 'lincode[dask]'"
    ) from error

__all__ = ["SCNN"]

MIN_CHUNK_ROWS = 2048
"""If all blocks of an array have fewer rows, they are joined for training."""


def is_collection(X: Any) -> bool:
    """Return whether X is a Dask array or data frame."""
    is_frame = dask.is_dask_collection(X) and type(X).__name__ == "DataFrame"
    return isinstance(X, da.Array) or is_frame


def frame(values: Any, columns: Any) -> Any:
    """Return the values as a data frame."""
    import pandas as pd

    return pd.DataFrame(values, columns=columns)


def current_client() -> Client:
    """Return the current client, or raise an error that says how to get one."""
    try:
        # In a task, leave the thread of the worker to other tasks; KeyError: this was done before.
        with suppress(ValueError, KeyError):
            secede()
        return get_client()
    except ValueError as error:
        raise InvalidInputError(
            "there is no Dask client; create one, for example client = distributed.Client()."
        ) from error


def check_collection(estimator: Any, X: Any, *, reset: bool) -> da.Array:
    """Check a collection without computing it; return it as an array of float32 or float64.

    The estimator stores the number and names of the features (``reset``) or compares them with
    those of the training data. Without an estimator neither is done.
    """
    is_array = isinstance(X, da.Array)
    dtypes = {"X": X.dtype} if is_array else dict(X.dtypes)
    for name, dtype in dtypes.items():
        if getattr(dtype, "kind", "O") not in "biuf":
            raise InvalidInputError(
                f"X must contain numbers, but {name} has the dtype {dtype}; convert it to float"
                " or drop it."
            )
    dtype = np.float32 if all(dtype == np.float32 for dtype in dtypes.values()) else np.float64
    if is_array and (X.ndim != 2 or X.numblocks[1] != 1 or np.isnan(X.shape[1])):
        raise InvalidInputError(
            "X must have two dimensions, and each block all features; got blocks of shape"
            f" {X.chunksize} for shape {X.shape}. Use X.rechunk({{1: -1}}), or"
            " X.compute_chunk_sizes() if the number of features is not known."
        )
    example: Any = np.zeros((1, X.shape[1]))
    example = example if is_array else frame(example, X.columns)
    check_rows(estimator, example, reset=reset)
    return X.astype(dtype) if is_array else X.astype(dtype).to_dask_array()


def _lazily(name: str) -> Any:
    """Return a method that is applied to each block of a Dask array or data frame."""

    def method(self: Any, X: Any) -> Any:
        if not is_collection(X):
            return getattr(local.SCNN, name)(self, X)
        check_is_fitted(self)
        samples = check_collection(None if name == "inverse_transform" else self, X, reset=False)
        model = self._worker_model()
        delayed = dask.delayed(model, pure=True)
        # One sample of zeros shows the columns and the type of the result, and what is wrong.
        empty = getattr(model, name)(np.zeros((1, samples.shape[1]), samples.dtype))[:0]
        if isinstance(X, da.Array):
            chunks = X.chunks[0], (empty.shape[1],)
            return samples.map_blocks(_apply, delayed, name, empty, chunks=chunks, meta=empty)
        if scipy.sparse.issparse(empty):
            raise InvalidInputError(
                "sparse_output=True requires a Dask array; use X.to_dask_array(lengths=True), or"
                " sparse_output=False."
            )
        names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(empty.shape[1])])
        names = self.get_feature_names_out() if name == "transform" else names
        empty = frame(empty, names)
        return X.map_partitions(_apply, delayed, name, empty, meta=empty)

    method.__name__ = name
    method.__doc__ = f"Do what :meth:`lincode.SCNN.{name}` does, lazily for a Dask collection."
    return method


class SCNN(local.SCNN, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """:class:`lincode.SCNN` trained on a Dask cluster.

    The samples are a Dask array or data frame. With ``refine=True`` the workers check them and
    predict missing entries. Then some of them, chosen at random, are copied to the client (in
    float32 and for up to 8192 features at most 256 MiB), which trains the network. With
    ``refine=False`` the samples and their codes stay on the workers: in each iteration the
    dictionary and the encoder are sent to the workers, and sums over the samples come back.

    The result is that of :class:`lincode.SCNN` on the same samples, except for rounding, for any
    number of workers and chunks. If a worker is lost, Dask computes its samples again, and training
    continues. If the cluster cannot continue, ``fit`` raises
    :class:`lincode.exceptions.ClusterError`, and the estimator is unchanged.

    The parameters and attributes are those of :class:`lincode.SCNN`. ``n_jobs`` is the number of
    threads of the client; each task uses one thread of its worker. The client is the current one
    (``distributed.get_client()``), usually the last one created.

    ``transform``, ``inverse_transform`` and ``reconstruct`` are lazy for Dask arrays and data
    frames; the codes of a data frame are a data frame, and ``set_output`` is not available. For
    other data they do the same as the methods of :class:`lincode.SCNN`. With
    ``sparse_output=True`` the blocks of the result are CSR matrices.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import load_digits
    >>> from lincode.dask import SCNN
    >>> X = da.from_array(load_digits().data / 16, chunks=(600, -1))
    >>> with Client(processes=False, dashboard_address=":0"):
    ...     scnn = SCNN(n_components=32, random_state=0).fit(X)
    ...     codes = scnn.transform(X).compute()
    >>> codes.shape
    (1797, 32)
    >>> scnn.to_local()
    SCNN(n_components=32, random_state=0)
    """

    def _rows(self, X: Any, *, reset: bool = True, fill: bool = True) -> DaskRows:
        """Return the validated samples as a row source, with predicted entries if ``fill``."""
        if not is_collection(X):
            raise InvalidInputError(
                f"X must be a Dask array or data frame, got {type(X).__name__}; use lincode.SCNN"
                " for data in memory, or dask.array.from_array."
            )
        X = check_collection(self, X, reset=reset)
        if max(X.chunks[0]) < MIN_CHUNK_ROWS:
            X = X.rechunk({0: MIN_CHUNK_ROWS})
        p, blocks, n_threads = X.shape[1], X.to_delayed().ravel(), thread_count(self.n_jobs)
        rows = DaskRows(current_client(), blocks, self._n_units(p), p, X.dtype, n_threads)
        for largest, (start, end) in zip(rows.largest, rows.spans, strict=True):
            if not np.isfinite(largest):
                raise InvalidInputError(
                    f"X contains infinity, or NaN in a sparse block, in rows {start} to"
                    f" {end - 1}; replace these values."
                )
        if rows.is_sparse and rows.is_incomplete:
            raise InvalidInputError(
                "X has both sparse blocks and dense blocks with NaN; make all blocks dense."
            )
        check_scale(X.dtype, max(rows.largest))
        if fill and rows.is_incomplete:
            observed = rows.observed_sums()
            check_observed(self, observed, rows.n_empty, X.dtype)
            rows.fill(observed)
        elif rows.n_empty:
            warn_empty(self, rows.n_empty)
        return rows

    def calibrate(self, X: Any, y: object = None, *, density: float | None = None) -> Any:
        """Do what :meth:`lincode.SCNN.calibrate` does; a sample is copied to the client."""
        check_is_fitted(self)
        if is_collection(X):
            self._check_parameters()
            rows = self._rows(X, reset=False, fill=False)
            (N, p), m = rows.shape, len(self.components_)
            X = rows.take(sample_indices(N, max_rows(p) if self.refine else n_calibration_rows(m)))
            if hasattr(self, "feature_names_in_"):
                X = frame(X, self.feature_names_in_)
        return super().calibrate(X, density=density)

    def _row_lengths(self, X: Any) -> Any:
        if not is_collection(X):
            return super()._row_lengths(X)
        rows = copy.copy(self)._rows(X)
        return rows.row_lengths(), rows.shape[1]

    def _score_parts(self, X: Any) -> list[tuple[float, float]]:
        if not is_collection(X):
            return super()._score_parts(X)
        model, client = dask.delayed(self._worker_model(), pure=True), current_client()
        blocks = check_collection(self, X, reset=False).to_delayed().ravel()
        with cluster_errors(client):
            score = dask.delayed(_apply, pure=False)
            tasks = [score(block, model, "_score_part", None) for block in blocks]
            parts = [part for part in results(client, client.compute(tasks, retries=2)) if part]
        if not parts:
            raise InvalidInputError("X has no rows; at least one is needed.")
        return parts

    transform = _lazily("transform")
    reconstruct = _lazily("reconstruct")
    inverse_transform = _lazily("inverse_transform")

    def to_local(self) -> local.SCNN:
        """Return a copy as :class:`lincode.SCNN`, which needs no cluster."""
        check_is_fitted(self)
        model = local.SCNN()
        for name, value in vars(self).items():
            setattr(model, name, copy.deepcopy(value) if name.endswith("_") else value)
        return model

    def _worker_model(self) -> local.SCNN:
        """Return the estimator for the workers, where features have no names."""
        self._check_parameters()
        model = self.to_local()
        if hasattr(model, "feature_names_in_"):
            del model.feature_names_in_
        model.set_params(n_jobs=1, verbose=0, callback=None, dict_init=None, random_state=None)
        return model


def _apply(block: Any, model: Any, method: str, empty: Any) -> Any:
    """Apply the method to one block, which may have no rows."""
    if not hasattr(empty, "columns"):
        return getattr(model, method)(block) if block.shape[0] else empty
    X = block.to_numpy(dtype=empty.dtypes.iloc[0], na_value=np.nan)
    values = getattr(model, method)(X) if len(X) else empty.to_numpy()
    return type(empty)(values, index=block.index, columns=empty.columns)
