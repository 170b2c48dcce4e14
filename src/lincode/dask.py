"""SCNN on a Dask cluster."""

from __future__ import annotations

import copy
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from lincode.core.arrays import Rows
from lincode.core.calibration import n_calibration_rows
from lincode.core.energy import lam_max
from lincode.estimators import scnn as local
from lincode.estimators.calibration import REFINEMENT_SAMPLES, REFINEMENT_SAMPLES_PER_UNIT
from lincode.estimators.logs import log_progress
from lincode.estimators.parameters import DEFAULT_ALPHA, resolve_alpha
from lincode.estimators.user_warnings import warn_user
from lincode.estimators.validation import check_scale, check_seed, unchanged_on_failure
from lincode.exceptions import InvalidInputError, MissingDependencyError
from lincode.networks.training import Callback, Outcome
from lincode.rows.memory import sample_indices
from lincode.rows.threads import blas_threads, matrix_threads, thread_count

try:
    from distributed import Client

    from lincode.estimators.dask_collections import (
        check_collection,
        current_client,
        is_collection,
        lazy_result,
        make_rows,
        total_score,
    )
    from lincode.rows.dask import DaskRows
except ModuleNotFoundError as error:
    raise MissingDependencyError(
        "lincode.dask needs Dask; install it with: pip install 'lincode[dask]'"
    ) from error

__all__ = ["SCNN"]


class SCNN(local.SCNN):
    """:class:`lincode.SCNN` trained on a Dask cluster.

    The samples are a Dask array or data frame and stay on the workers, as do their codes. In each
    iteration the dictionary and the encoder are sent to the workers, and sums over the samples
    come back. The result is that of :class:`lincode.SCNN` on the same samples, except for rounding,
    for any number of workers and chunks. If a worker is lost, Dask computes its samples again, and
    training continues.

    Parameters
    ----------
    n_components, alpha and all others
        See :class:`lincode.SCNN`. ``solver="paper"`` and ``init="paper"`` are not supported,
        nor are missing entries and sample weights.
        ``n_jobs`` is the number of threads of the client; each task uses one thread of its worker.
    client : distributed.Client, default=None
        The client of the cluster. None means the current client, that is usually the one that was
        created last. It is not stored when the estimator is pickled.

    Attributes
    ----------
    n_lost_chunks_ : int
        How often the codes of a chunk were computed anew during training because a worker was lost.
    components_, encoder_ and all others
        See :class:`lincode.SCNN`.

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
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     scnn = SCNN(n_components=32, random_state=0, client=client).fit(X)
    ...     codes = scnn.transform(X).compute()
    >>> codes.shape
    (1797, 32)
    >>> scnn.to_local()
    SCNN(n_components=32, random_state=0)
    """

    def __init__(
        self,
        n_components: int | None = None,
        alpha: float | str = DEFAULT_ALPHA,
        *,
        client: Client | None = None,
        encoder_weight: float = 1.0,
        encoder_ridge: float | str = "auto",
        threshold: float | str = "match",
        threshold_mode: str = "hard",
        transform_n_nonzero_coefs: int | None = None,
        fit_gains: bool = True,
        fit_decoder: bool = False,
        refine_max_iter: int = 0,
        transform_algorithm: str = "encoder",
        transform_alpha: float | None = None,
        transform_debias: bool = False,
        split_sign: bool = False,
        sparse_output: bool = False,
        positive_code: bool = False,
        positive_dict: bool = False,
        init: str | ArrayLike = "data",
        init_size: int | str | None = "auto",
        solver: str = "auto",
        max_iter: int | None = None,
        tol: float = 1e-4,
        transform_tol: float = 1e-6,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(
            n_components,
            alpha,
            encoder_weight=encoder_weight,
            encoder_ridge=encoder_ridge,
            threshold=threshold,
            threshold_mode=threshold_mode,
            transform_n_nonzero_coefs=transform_n_nonzero_coefs,
            fit_gains=fit_gains,
            fit_decoder=fit_decoder,
            refine_max_iter=refine_max_iter,
            transform_algorithm=transform_algorithm,
            transform_alpha=transform_alpha,
            transform_debias=transform_debias,
            split_sign=split_sign,
            sparse_output=sparse_output,
            positive_code=positive_code,
            positive_dict=positive_dict,
            init=init,
            init_size=init_size,
            solver=solver,
            max_iter=max_iter,
            tol=tol,
            transform_tol=transform_tol,
            n_jobs=n_jobs,
            random_state=random_state,
            warm_start=warm_start,
            verbose=verbose,
            callback=callback,
        )
        self.client = client

    def fit(self, X: Any, y: object = None, sample_weight: Any = None) -> SCNN:
        """Learn the dictionary and the encoder.

        Parameters
        ----------
        X : Dask array or data frame of shape (n_samples, n_features)
            The training samples. The blocks of an array may be dense or SciPy sparse matrices.
            Missing entries are not supported here.
        y : ignored
        sample_weight : None
            Weights are not supported on a cluster.

        Returns
        -------
        self
        """
        with unchanged_on_failure(self):
            self._check_parameters()
            if sample_weight is not None:
                raise InvalidInputError(
                    "sample_weight is not supported on a cluster; use lincode.SCNN."
                )
            with closing(self._rows(self, X, reset=True)) as rows:
                messages, outcome, sample, too_large = self._fit_rows(rows)
        for message in messages:
            warn_user(message)
        self._warn_about_training(outcome)
        self._warn_about_codes(sample, alpha_is_too_large=too_large)
        return self

    def _fit_rows(self, rows: Any) -> tuple[list[str], Outcome, Rows, bool]:
        """Train on a row source; return what the warnings after training need."""
        D = getattr(self, "components_", None) if self.warm_start else None
        p, lengths, n_threads = rows.shape[1], rows.row_lengths(), thread_count(self.n_jobs)
        m = self._n_units(p)
        self.alpha_ = resolve_alpha(self.alpha, lengths, m, p)
        too_large = self._warn_if_alpha_is_too_large(lengths, m, p, zero_encoder=D is None)
        with blas_threads(matrix_threads(max(m, p), n_threads)):
            rng = check_seed(self.random_state)
            start = self._start(rows, D, rng)
            log_progress(f"[SCNN] start: {rows.shape[0]} samples, {p} features", self.verbose)
            sizes = self._subset_sizes(rows.shape[0], start) if D is None else []
            train = partial(self._train, rows, start.D, start.C, sizes, rng)
            _, outcome = self._with_progress(
                lambda progress: train(progress=progress),
                max_iter=self._max_iter(),
                n_stages=len(sizes) + 1,
                tol=self.tol,
            )
        self.n_lost_chunks_ = rows.n_lost
        messages = self._refine(self._refinement_sample(rows))
        return messages, outcome, take_sample(rows, 1000), too_large

    def _rows(self, estimator: SCNN | None, X: Any, *, reset: bool) -> DaskRows:
        """Return the row source of X; the estimator stores or checks the features."""
        client = current_client(self.client)
        if not is_collection(X):
            raise InvalidInputError(
                f"X must be a Dask array or data frame, got {type(X).__name__}; use lincode.SCNN"
                " for data in memory, or dask.array.from_array."
            )
        dtype = check_collection(estimator, X, reset=reset)
        rows = make_rows(client, X, self._n_units(X.shape[1]), dtype, thread_count(self.n_jobs))
        if not np.isfinite(rows.row_lengths().mean):
            rows.check_finite()
        check_scale(rows, rows.largest)
        return rows

    def _refinement_sample(self, rows: DaskRows) -> Rows:
        """Return the samples on which the encoder is refined, or few if it is not."""
        limit = max(REFINEMENT_SAMPLES, REFINEMENT_SAMPLES_PER_UNIT * self._n_units(rows.shape[1]))
        return take_sample(rows, limit if self.refine_max_iter > 0 else 1)

    def calibrate(self, X: Any, y: object = None, *, density: float | None = None) -> Any:
        """Adapt the threshold, the gains and the decoder to X; see :class:`lincode.SCNN`.

        Parameters
        ----------
        X : Dask array or data frame, array-like or CSR matrix of shape (n_samples, n_features)
            The samples. Of a Dask collection, as many are copied to the client as are needed.
        y : ignored
        density : float, default=None
            The fraction of non-zeros that the encoder's codes should have.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        if is_collection(X):
            self._check_parameters()
            with closing(self._rows(self, X, reset=False)) as rows:
                X = self._refinement_sample(rows)
                n = n_calibration_rows(len(self.components_))
                if X.shape[0] < n:
                    X = take_sample(rows, n)
            X = self._with_names(X)
        return super().calibrate(X, density=density)

    def _with_names(self, X: Rows) -> Any:
        """Return rows of checked samples with the names of the features, if there are any."""
        if not hasattr(self, "feature_names_in_"):
            return X
        import pandas as pd

        return pd.DataFrame(X, columns=self.feature_names_in_)

    def alpha_max(self, X: Any) -> float:
        """Return the smallest alpha for which all codes are zero; see :class:`lincode.SCNN`.

        Parameters
        ----------
        X : Dask array or data frame, array-like or CSR matrix of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        float
        """
        if not is_collection(X):
            return super().alpha_max(X)
        self._check_parameters()
        with closing(self._rows(None, X, reset=False)) as rows:
            p = rows.shape[1]
            return lam_max(rows.row_lengths().longest, self._n_units(p), p)

    def transform(self, X: Any) -> Any:
        """Compute the codes of X by the method that ``transform_algorithm`` names.

        Parameters
        ----------
        X : Dask array or data frame, array-like or CSR matrix of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        Dask array or data frame, array or CSR matrix of shape (n_samples, n_features_out)
            The codes. They are lazy for a Dask array, whose chunks are kept, and for a data frame,
            whose partitions and index are kept. Otherwise see :class:`lincode.SCNN`.
        """
        if not is_collection(X):
            return super().transform(X)
        dtype, model = self._check_lazy(X)
        names = self.get_feature_names_out()
        return lazy_result("transform", model, X, dtype, names, sparse=self.sparse_output)

    def reconstruct(self, X: Any) -> Any:
        """Compute the codes of X and reconstruct X from them.

        Parameters
        ----------
        X : Dask array or data frame, array-like or CSR matrix of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        Dask array or data frame or array of shape (n_samples, n_features)
        """
        if not is_collection(X):
            return super().reconstruct(X)
        dtype, model = self._check_lazy(X)
        return lazy_result("reconstruct", model, X, dtype, self._input_names(), sparse=False)

    def inverse_transform(self, X: Any) -> Any:
        """Reconstruct samples from their codes.

        Parameters
        ----------
        X : Dask array or data frame, array-like or CSR matrix of shape (n_samples, n_features_out)
            Codes as returned by ``transform``.

        Returns
        -------
        Dask array or data frame or array of shape (n_samples, n_features)
        """
        if not is_collection(X):
            return super().inverse_transform(X)
        check_is_fitted(self)
        dtype = check_collection(None, X, reset=False)
        if X.shape[1] != self._n_features_out:
            raise InvalidInputError(
                f"codes must have {self._n_features_out} columns, as returned by transform with"
                f" split_sign={self.split_sign}, got {X.shape[1]}."
            )
        model = self._worker_model()
        return lazy_result("inverse_transform", model, X, dtype, self._input_names(), sparse=False)

    def score(self, X: Any, y: object = None) -> float:
        """Return the negative energy per sample of X; see :class:`lincode.SCNN`.

        Parameters
        ----------
        X : Dask array or data frame, array-like or CSR matrix of shape (n_samples, n_features)
            The samples.
        y : ignored

        Returns
        -------
        float
        """
        if not is_collection(X):
            return super().score(X)
        _, model = self._check_lazy(X)
        return total_score(current_client(self.client), model, X)

    def to_local(self) -> local.SCNN:
        """Return a copy as :class:`lincode.SCNN`, which needs no cluster.

        Returns
        -------
        lincode.SCNN
        """
        check_is_fitted(self)
        parameters = self.get_params(deep=False)
        del parameters["client"]
        model = local.SCNN(**parameters)
        own = {*parameters, "client", "n_lost_chunks_"}
        fitted = {name: value for name, value in vars(self).items() if name not in own}
        for name, value in fitted.items():
            setattr(model, name, copy.deepcopy(value))
        return model

    def _check_lazy(self, X: Any) -> tuple[np.dtype[Any], local.SCNN]:
        """Check X without computing it; return the dtype of results and the estimator to use."""
        check_is_fitted(self)
        self._check_parameters()
        if self.transform_algorithm == "encoder":
            self._check_calibration()
        return check_collection(self, X, reset=False), self._worker_model()

    def _worker_model(self) -> local.SCNN:
        """Return the estimator that is sent to the workers."""
        model = self.to_local()
        model.set_params(n_jobs=1, callback=None, verbose=0, init="data", random_state=None)
        return model

    def _input_names(self) -> Any:
        default = [f"x{i}" for i in range(self.n_features_in_)]
        return getattr(self, "feature_names_in_", default)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("solver", "init"):
            value = getattr(self, name)
            if isinstance(value, str) and value == "paper":
                raise InvalidInputError(
                    f"{name}='paper' is not supported on a cluster; use lincode.SCNN."
                )

    def __sklearn_clone__(self) -> SCNN:
        # The client cannot be copied.
        parameters = self.get_params(deep=False)
        client = parameters.pop("client")
        copies = {name: clone(value, safe=False) for name, value in parameters.items()}
        return SCNN(**copies, client=client)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return state | {"client": None}


def take_sample(rows: DaskRows, n: int) -> Rows:
    """Copy a random sample of at most n rows to the client."""
    return rows.take(sample_indices(rows.shape[0], n))
