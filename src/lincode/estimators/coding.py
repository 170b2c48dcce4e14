"""The codes of samples: transform, block by block, with split signs or as a sparse matrix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, vstack
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from lincode.core.code_step import Codes, code_step
from lincode.core.encoder_step import encode
from lincode.core.types import Array, Rows
from lincode.estimators.calibration import CalibratedEncoder
from lincode.estimators.user_warnings import warn_user
from lincode.estimators.validation import check_rows, check_scaled_rows
from lincode.rows.memory import chunks, code_blocks
from lincode.rows.threads import blas_threads, matrix_threads, ordered_map, thread_count

MAX_TRANSFORM_STEPS = 20_000
"""The largest number of accelerated steps for codes computed by optimisation."""


class SparseCoder(CalibratedEncoder):
    """The computation of codes by the encoder or by optimisation, and their output."""

    def transform(self, X: Any) -> Any:
        """Compute the codes of X by the method that ``transform_algorithm`` names.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        array or CSR matrix of shape (n_samples, n_components)
            The codes. With ``split_sign=True`` there are 2 * n_components columns. With
            ``sparse_output=True`` the result is a CSR matrix, which is built block by block.
        """
        check_is_fitted(self)
        self._check_parameters()
        X = self._check_samples(X, self.transform_algorithm)
        if not (self.split_sign or self.sparse_output):
            return self._codes(X, self.transform_algorithm)
        blocks = self._code_blocks(X, self.transform_algorithm)
        if self.sparse_output:
            sparse = [csr_matrix(_split(U) if self.split_sign else U) for _, U in blocks]
            return vstack(sparse, format="csr")
        out: Array = np.empty((X.shape[0], self._n_features_out), dtype=X.dtype)
        for rows, U in blocks:
            _split(U, out=out[rows])
        return out

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the codes.

        The names are ``scnn0``, ``scnn1``, …. With ``split_sign=True`` they are ``scnn0_pos``,
        ``scnn1_pos``, …, ``scnn0_neg``, ``scnn1_neg``, ….

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        array of str
        """
        names = super().get_feature_names_out(input_features)
        if not self.split_sign:
            return names
        units = names[: len(self.components_)]
        split = [f"{unit}_{sign}" for sign in ("pos", "neg") for unit in units]
        return np.array(split, dtype=object)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_) * (2 if self.split_sign else 1)

    def _merge_signs(self, U: Any) -> Any:
        m = len(self.components_)
        return U[:, :m] - U[:, m:] if self.split_sign else U

    def _unsplit_codes(self, X: Any) -> Array:
        self._check_parameters()
        X = self._check_samples(X, self.transform_algorithm)
        return self._codes(X, self.transform_algorithm)

    def _check_samples(self, X: Any, algorithm: str) -> Rows:
        if algorithm == "encoder":
            return check_rows(self, X, reset=False)
        return check_scaled_rows(self, X, reset=False)[0]

    def _codes(self, X: Rows, algorithm: str) -> Array:
        """Return the codes of validated samples, without splitting signs."""
        out: Array = np.empty((X.shape[0], len(self.encoder_)), dtype=X.dtype)
        for _ in self._code_blocks(X, algorithm, out=out):
            pass
        return out

    def _code_blocks(
        self, X: Rows, algorithm: str, out: Array | None = None
    ) -> Iterator[tuple[slice, Array]]:
        """Yield the codes of validated samples block by block; write them to ``out`` if given."""
        if algorithm == "encoder":
            return self._encoded_blocks(X, out)
        return self._solved_blocks(X, algorithm, out)

    def _encoded_blocks(self, X: Rows, out: Array | None) -> Iterator[tuple[slice, Array]]:
        C = self._used_encoder().astype(X.dtype, copy=False)
        thresholding = self._thresholding(self._checked_gains())

        def encode_block(rows: slice) -> tuple[slice, Array]:
            target = None if out is None else out[rows]
            return rows, encode(X[rows], C, thresholding, out=target)

        blocks = chunks(X.shape[0], len(C))
        if len(blocks) > 1:
            return ordered_map(encode_block, blocks, thread_count(self.n_jobs))
        if self.n_jobs is None:  # one product, for which BLAS may use its own threads
            return iter([encode_block(blocks[0])])
        with blas_threads(thread_count(self.n_jobs)):
            return iter([encode_block(blocks[0])])

    def _solved_blocks(
        self, X: Rows, algorithm: str, out: Array | None
    ) -> Iterator[tuple[slice, Array]]:
        n_threads = thread_count(self.n_jobs)
        weights = self._weights(eta=0.0 if algorithm == "lasso" else None)
        C = self.encoder_.astype(X.dtype, copy=False)
        with blas_threads(matrix_threads(len(C), n_threads)):
            D, C64 = (A.astype(np.float64) for A in (self.components_, self.encoder_))
            problem = weights.code_problem(D, C64, X.dtype)

        def solve_block(rows: slice) -> tuple[slice, Codes]:
            if problem.mu > 0:
                start = encode(X[rows], C, weights.thresholding)
            else:
                start = np.zeros((X[rows].shape[0], len(C)), dtype=X.dtype)
            tol, max_iter = self.transform_tol, MAX_TRANSFORM_STEPS
            codes = code_step(start, X[rows], problem, tol=tol, max_iter=max_iter)
            if out is not None:
                out[rows] = codes.U
            return rows, codes

        n_unfinished = 0
        for rows, codes in ordered_map(solve_block, code_blocks(X.shape[0], len(C)), n_threads):
            n_unfinished += codes.n_unfinished
            yield rows, codes.U
        if n_unfinished:
            warn_user(
                f"{type(self).__name__}: the codes of {n_unfinished} of {X.shape[0]} samples did"
                f" not reach transform_tol={self.transform_tol} within {MAX_TRANSFORM_STEPS}"
                " steps; increase transform_tol.",
                ConvergenceWarning,
            )


def _split(U: Array, out: Array | None = None) -> Array:
    """Return [max(U, 0), max(−U, 0)]. U is overwritten."""
    m = U.shape[1]
    out = np.empty((len(U), 2 * m), dtype=U.dtype) if out is None else out
    np.maximum(U, 0, out=out[:, :m])
    np.maximum(np.negative(U, out=U), 0, out=out[:, m:])
    return out
