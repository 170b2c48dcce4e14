"""SCNN on a Dask cluster."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

from lincode.core.arrays import canonical_rows, sample_indices
from lincode.core.energy import lam_max
from lincode.core.threshold import n_calibration_rows
from lincode.encoder.refinement import max_rows
from lincode.estimators import scnn as local
from lincode.estimators.validation import check_rows, check_scale
from lincode.exceptions import InvalidInputError, MissingDependencyError
from lincode.training.threads import thread_count

try:
    import dask
    import dask.array as da
    from distributed import get_client

    from lincode.training.dask_rows import Chunk, DaskRows, cluster_errors, results
except ModuleNotFoundError as error:
    raise MissingDependencyError(
        "lincode.dask needs Dask; install it with: pip install 'lincode[dask]'"
    ) from error

__all__ = ["SCNN"]

MIN_CHUNK_ROWS = 2048
"""If all blocks of an array have fewer rows, they are joined for training."""


class SCNN(local.SCNN):
    """:class:`lincode.SCNN` trained on a Dask cluster.

    The samples are a Dask array or data frame. With ``refine=False`` they stay on the workers, as
    do their codes: in each iteration the dictionary and the encoder are sent to the workers, and
    sums over the samples come back. With ``refine=True`` the workers check the samples. Then some
    of them, chosen at random, are copied to the client, which trains the network. They need a few
    hundred MiB if X is large.

    The result is that of :class:`lincode.SCNN` on the same samples, except for rounding, for any
    number of workers and chunks. If a worker is lost, Dask computes its samples again, and training
    continues. If the cluster cannot continue, ``fit`` raises
    :class:`lincode.exceptions.ClusterError`, and the estimator is unchanged.

    The parameters and attributes are those of :class:`lincode.SCNN`. ``n_jobs`` is the number of
    threads of the client; each task uses one thread of its worker. The client is the current one
    (``distributed.get_client()``), that is usually the one that was created last.

    Notes
    -----
    ``transform``, ``inverse_transform`` and ``reconstruct`` are lazy for Dask arrays and data
    frames. For other data they do the same as the methods of :class:`lincode.SCNN`. With
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

    def _rows(self, X: Any, *, reset: bool = True) -> DaskRows:
        """Return the validated samples as a row source."""
        if not is_collection(X):
            raise InvalidInputError(
                f"X must be a Dask array or data frame, got {type(X).__name__}; use lincode.SCNN"
                " for data in memory, or dask.array.from_array."
            )
        client, X = get_client(), check_collection(self, X, reset=reset)
        if max(X.chunks[0]) < MIN_CHUNK_ROWS:
            X = X.rechunk({0: MIN_CHUNK_ROWS})
        p, make = X.shape[1], dask.delayed(make_chunk)
        m = self._n_units(p)
        with cluster_errors(client):
            parts = [make(block, m, X.dtype) for block in X.to_delayed().ravel()]
            chunks = client.compute(parts, retries=2)
        rows = DaskRows(client, chunks, m, p, X.dtype, thread_count(self.n_jobs))
        for n, largest, end in zip(rows.sizes, rows.largest, rows.ends, strict=True):
            if not np.isfinite(largest):
                raise InvalidInputError(
                    f"X contains NaN or infinity in rows {end - n} to {end - 1}. Missing entries"
                    " are not supported on a cluster; use lincode.SCNN, or replace these values."
                )
        check_scale(rows, max(rows.largest))
        return rows

    def calibrate(self, X: Any, y: object = None, *, density: float | None = None) -> Any:
        """Do what :meth:`lincode.SCNN.calibrate` does; a sample is copied to the client."""
        check_is_fitted(self)
        if is_collection(X):
            rows, m = self._rows(X, reset=False), len(self.components_)
            n = max_rows(rows.shape[1]) if self.refine else n_calibration_rows(m)
            X = rows.take(sample_indices(rows.shape[0], n))
            if hasattr(self, "feature_names_in_"):
                import pandas as pd

                X = pd.DataFrame(X, columns=self.feature_names_in_)
        return super().calibrate(X, density=density)

    def alpha_max(self, X: Any) -> float:
        """Return the smallest alpha for which all codes are zero; see :class:`lincode.SCNN`."""
        if not is_collection(X):
            return super().alpha_max(X)
        self._check_parameters()
        rows = copy.copy(self)._rows(X)
        return lam_max(rows.row_lengths().longest, rows.m, rows.shape[1])

    def transform(self, X: Any) -> Any:
        """Do what :meth:`lincode.SCNN.transform` does, lazily for a Dask array or data frame."""
        if not is_collection(X):
            return super().transform(X)
        names, samples = self.get_feature_names_out(), check_collection(self, X, reset=False)
        return lazy_result("transform", self._worker_model(), X, samples, names)

    def reconstruct(self, X: Any) -> Any:
        """Do what :meth:`lincode.SCNN.reconstruct` does, lazily for a Dask array or data frame."""
        if not is_collection(X):
            return super().reconstruct(X)
        check_is_fitted(self)
        samples = check_collection(self, X, reset=False)
        return lazy_result("reconstruct", self._worker_model(), X, samples, self._input_names())

    def inverse_transform(self, X: Any) -> Any:
        """Do what :meth:`lincode.SCNN.inverse_transform` does, lazily for a Dask collection."""
        if not is_collection(X):
            return super().inverse_transform(X)
        model, codes = self._worker_model(), check_collection(None, X, reset=False)
        model.inverse_transform(np.zeros((1, codes.shape[1])))  # checks the number of columns
        return lazy_result("inverse_transform", model, X, codes, self._input_names())

    def score(self, X: Any, y: object = None) -> float:
        """Return the fraction of X that is reconstructed; see :class:`lincode.SCNN`."""
        if not is_collection(X):
            return super().score(X)
        model = dask.delayed(self._worker_model(), pure=True)
        X, client = check_collection(self, X, reset=False), get_client()
        parts = [dask.delayed(_score)(block, model) for block in X.to_delayed().ravel()]
        with cluster_errors(client):
            n, squares, explained = zip(
                *results(client, client.compute(parts, retries=2)), strict=True
            )
        if not sum(n):
            raise InvalidInputError("X has no rows; a minimum of 1 is required.")
        return float(sum(explained) / sum(squares)) if sum(squares) > 0 else 0.0

    def to_local(self) -> local.SCNN:
        """Return a copy as :class:`lincode.SCNN`, which needs no cluster."""
        check_is_fitted(self)
        model = local.SCNN(**self.get_params(deep=False))
        for name, value in vars(self).items():
            if name.endswith("_"):
                setattr(model, name, copy.deepcopy(value))
        return model

    def _worker_model(self) -> Any:
        """Return the estimator that is sent to the workers, where features have no names."""
        self._check_parameters()
        model = self.to_local()
        model.__dict__.pop("feature_names_in_", None)
        return model.set_params(
            n_jobs=1, verbose=0, callback=None, dict_init=None, random_state=None
        )

    def _input_names(self) -> Any:
        default = [f"x{i}" for i in range(self.n_features_in_)]
        return getattr(self, "feature_names_in_", default)


def is_collection(X: Any) -> bool:
    """Return whether X is a Dask array or data frame."""
    return isinstance(X, da.Array) or (dask.is_dask_collection(X) and hasattr(X, "columns"))


def check_collection(estimator: Any, X: Any, *, reset: bool) -> da.Array:
    """Check a collection without computing it; return it as an array of float32 or float64.

    The estimator stores the number and names of the features (``reset``) or compares them with
    those of the training data. Without an estimator neither is done.
    """
    is_array = isinstance(X, da.Array)
    dtypes = [X.dtype] if is_array else list(X.dtypes)
    wrong = [dtype for dtype in dtypes if getattr(dtype, "kind", "O") not in "biuf"]
    if wrong:
        raise InvalidInputError(
            f"X must contain numbers, but it has the dtype {wrong[0]}; convert or drop these"
            " columns."
        )
    dtype = np.float32 if all(dtype == np.float32 for dtype in dtypes) else np.float64
    if not is_array:
        import pandas as pd

        example = pd.DataFrame(np.zeros((1, len(X.columns))), columns=X.columns)
        check_rows(estimator, example, reset=reset)
        return X.astype(dtype).to_dask_array()
    if X.ndim != 2 or X.numblocks[1] != 1 or np.isnan(X.shape[1]):
        raise InvalidInputError(
            "X must have two dimensions, and each block must contain all features; got chunks of"
            f" shape {X.chunksize} for shape {X.shape}. Use X.rechunk({{1: -1}}), or"
            " X.compute_chunk_sizes() if the number of features is not known."
        )
    check_rows(estimator, np.zeros((1, X.shape[1])), reset=reset)
    return X.astype(dtype)


def make_chunk(block: Any, m: int, dtype: Any) -> Chunk:
    """Return the chunk of a block, which is an array or a sparse matrix."""
    if scipy.sparse.issparse(block):
        return Chunk(canonical_rows(scipy.sparse.csr_matrix(block, dtype=dtype)), m)
    return Chunk(np.ascontiguousarray(block, dtype=dtype), m)


def lazy_result(method: str, model: Any, X: Any, samples: da.Array, names: Any) -> Any:
    """Apply a method of a fitted local estimator to each block; return a collection as X."""
    future, n, dtype = dask.delayed(model, pure=True), len(names), samples.dtype
    is_sparse = method == "transform" and model.sparse_output
    if isinstance(X, da.Array):
        empty: Any = np.empty((0, n), dtype)
        empty = scipy.sparse.csr_matrix(empty) if is_sparse else empty
        chunks = (X.chunks[0], (n,))
        return samples.map_blocks(_apply, future, method, empty, chunks=chunks, meta=empty)
    if is_sparse:
        raise InvalidInputError(
            "sparse_output=True requires a Dask array; use X.to_dask_array(lengths=True), or"
            " sparse_output=False."
        )
    import dask.dataframe as dd
    import pandas as pd

    empty = pd.DataFrame(np.empty((0, n), dtype), columns=list(names))
    parts = [dask.delayed(_apply)(part, future, method, empty) for part in X.to_delayed()]
    divisions = X.divisions if X.known_divisions else None
    return dd.from_delayed(parts, meta=empty, divisions=divisions)


def _apply(block: Any, model: Any, method: str, empty: Any) -> Any:
    """Apply the method to one block, which may have no rows."""
    if not hasattr(empty, "columns"):
        return getattr(model, method)(block) if block.shape[0] else empty
    X = block.to_numpy(dtype=empty.dtypes.iloc[0], na_value=np.nan)
    values = getattr(model, method)(X) if len(X) else np.empty((0, len(empty.columns)), X.dtype)
    return type(empty)(values, index=block.index, columns=empty.columns)


def _score(block: Any, model: Any) -> tuple[int, float, float]:
    """Return the number of rows of a block, ‖X‖², and how much of it is reconstructed."""
    if not block.shape[0]:
        return 0, 0.0, 0.0
    squares, fraction = model._score_part(block)
    return block.shape[0], squares, squares * fraction
