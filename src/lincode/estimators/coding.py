"""The codes of samples: transform, block by block, with split signs or as a sparse matrix."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from lincode.core.coders import Coder, EnergyCoder
from lincode.core.encoder_step import encoder_output
from lincode.core.types import Array, Rows
from lincode.estimators.array_api import keeps_array_type
from lincode.estimators.calibration import CalibratedEncoder
from lincode.estimators.incomplete import (
    IncompleteCoder,
    Solver,
    exact_solver,
    restricted_solver,
)
from lincode.estimators.output import CodeOutput, DenseOutput, make_output
from lincode.estimators.parameters import GREEDY
from lincode.estimators.samples import check_infinity, warn_empty
from lincode.estimators.signs import SignSplitter
from lincode.estimators.sparse_encode import make_coder, unfinished_message, write_codes
from lincode.estimators.user_warnings import warn_user
from lincode.estimators.validation import check_rows, check_scale
from lincode.rows.chunks import ChunkedRows, is_lazy
from lincode.rows.memory import blocks, scan_rows
from lincode.rows.prefetch import prefetch
from lincode.rows.shuffling import stack
from lincode.rows.threads import blas_threads, matrix_threads, thread_count, threaded_map

MAX_TRANSFORM_STEPS = 20_000
"""The largest number of accelerated steps for codes computed by optimisation."""
MIN_BLOCK_ROWS = 512
"""The product of smaller blocks with the encoder is slower per row."""
MIN_BLOCK_PRODUCTS = 50_000_000
"""The number of multiplications for which a separate thread is faster."""
READ_BYTES = 32 * 2**20
"""The size of the blocks in which samples that are not in memory are read."""
BLOCK_ENTRIES = 1_000_000
"""The number of codes (rows times units) that stay in the cache until they are thresholded."""


class CodingTransformer(SignSplitter, CalibratedEncoder):
    """The computation of codes by the encoder or by optimisation, and their output."""

    @keeps_array_type
    def transform(self, X: Any) -> Any:
        """Compute the codes of X by the method that ``transform_algorithm`` names.

        Parameters
        ----------
        X : array-like, CSR matrix or lazily read array of shape (n_samples, n_features)
            The samples. A memory-mapped array of more than 1 GiB, and an object with ``shape``,
            ``dtype`` and slices of rows that is not in memory, such as a dataset of h5py, is read
            block by block.
            Missing entries are NaN, or masked in a masked array. "encoder" replaces them by a
            linear prediction from the observed ones. The other algorithms compute the codes of the
            observed entries, with alpha times the fraction of them.

        Returns
        -------
        array, or CSR array or matrix, of shape (n_samples, n_components)
            The codes. With ``split_sign=True`` there are 2 * n_components columns. With
            ``sparse_output=True`` the codes are compressed (CSR), block by block: a ``csr_array``
            if X is a sparse array, else a ``csr_matrix``. With scikit-learn's setting
            ``sparse_interface="sparray"`` it is always a ``csr_array``.
        """
        check_is_fitted(self)
        self._check_parameters()
        if is_lazy(X):
            return self._transform_chunks(ChunkedRows(X))
        return self._transform(X)

    def _transform(self, X: Any) -> Any:
        X = self._check_samples(X, self.transform_algorithm)
        m = len(self.encoder_)
        output = make_output(X, m, split=self.split_sign, sparse=self.sparse_output)
        self._write_codes(X, self.transform_algorithm, output, self.transform_alpha)
        return output.result()

    def _transform_chunks(self, X: ChunkedRows) -> Any:
        """Return the codes of samples that are read block by block."""
        with closing(prefetch(X.blocks(READ_BYTES))) as blocks:
            if self.sparse_output:
                return stack([self._transform(block) for _, block in blocks])
            n_columns = (2 if self.split_sign else 1) * len(self.encoder_)
            codes = np.empty((X.shape[0], n_columns), X.dtype)
            for rows, block in blocks:
                codes[rows] = self._transform(block)
        return codes

    def _unsplit_codes(self, X: Any) -> Array:
        self._check_parameters()
        X = self._check_samples(X, self.transform_algorithm)
        return self._codes(X, self.transform_algorithm, self.transform_alpha)

    def _check_samples(self, X: Any, algorithm: str) -> Rows:
        X = check_rows(self, X, reset=False, check_finite=False)
        if algorithm == "encoder":  # ``_encode`` finds entries that are not finite
            return X
        largest, lengths = scan_rows(X)
        if not np.isfinite(lengths.mean):
            check_infinity(self, X)
            if not issparse(X):
                largest = float(np.fmax.reduce(np.abs(X), axis=None, initial=0))  # ignores NaN
                self._warn_about_empty(X)
        check_scale(X, largest)
        return X

    def _warn_about_empty(self, X: Array) -> None:
        """Warn about samples without any observed entry."""
        n_empty = int(np.isnan(X).all(axis=1).sum())
        if n_empty:
            warn_empty(self, n_empty)

    def _codes(self, X: Rows, algorithm: str, lam: float | None = None) -> Array:
        """Return the codes of validated samples for alpha_ or ``lam``, without splitting signs."""
        output = DenseOutput(X.shape[0], len(self.encoder_), X.dtype)
        self._write_codes(X, algorithm, output, lam)
        return output.result()

    def _write_codes(self, X: Rows, algorithm: str, output: CodeOutput, lam: float | None) -> None:
        """Compute the codes of validated samples block by block."""
        if algorithm == "encoder":
            self._encode(X, output)
        else:
            self._solve(X, algorithm, float(self.alpha_ if lam is None else lam), output)

    def _encode(self, X: Rows, output: CodeOutput) -> None:
        """Write the codes of the encoder, and raise an error if X contains infinity.

        All outputs of the encoder for a sample with NaN or infinity are NaN or infinite. So the
        samples of a block are searched only if the first output of one of them is not finite. NaN
        means that an entry is missing: the outputs of such samples are computed again, with a
        prediction of the missing entries. An overflow of finite samples has the same result; the
        thresholds find it and raise an error.
        """
        C = self._used_encoder().astype(X.dtype, copy=False)
        thresholding = self._thresholding(self._checked_gains())

        is_missing = [False]

        def encode_block(rows: slice) -> None:
            with np.errstate(invalid="ignore", over="ignore"):
                Z = encoder_output(X[rows], C, out=output.buffer(rows))
            if not np.isfinite(Z[:, 0]).all():
                check_infinity(self, X[rows])
                incomplete = np.flatnonzero(np.isnan(X[rows]).any(axis=1))
                if incomplete.size:
                    is_missing[0] = True
                    Z[incomplete] = self._predicted(X[rows][incomplete])[0] @ C.T
            output.finish(rows, thresholding.apply(Z))

        blocks = encoder_blocks(X.shape[0], *C.shape)
        if len(blocks) > 1:
            threaded_map(encode_block, blocks, thread_count(self.n_jobs))
        elif self.n_jobs is None:  # one product, for which BLAS may use its own threads
            encode_block(blocks[0])
        else:
            with blas_threads(thread_count(self.n_jobs)):
                encode_block(blocks[0])
        if is_missing[0]:
            self._warn_about_empty(X)

    def _solve(self, X: Rows, algorithm: str, lam: float, output: CodeOutput) -> None:
        """Write the codes of the algorithms other than "encoder"."""
        n_threads = thread_count(self.n_jobs)
        with blas_threads(matrix_threads(len(self.components_), n_threads)):
            coder = self._coder(algorithm, lam, X.dtype)
            if not issparse(X):
                coder = IncompleteCoder(coder, self._incomplete_solver(algorithm, lam, X.dtype))
            n_unfinished = write_codes(X, coder, output, n_threads)
        if n_unfinished:
            message = unfinished_message(n_unfinished, X, f"transform_tol={self.transform_tol}")
            warn_user(f"{type(self).__name__}: {message}", ConvergenceWarning)

    def _coder(self, algorithm: str, lam: float, dtype: np.dtype[np.floating]) -> Coder:
        """Return what computes codes by an algorithm other than "encoder"."""
        if algorithm == "exact":
            weights = replace(self._weights(), lam=lam)
            D, C = (A.astype(np.float64) for A in (self.components_, self.encoder_))
            problem = weights.code_problem(D, C, dtype)
            encoder = self.encoder_.astype(dtype, copy=False)
            tol, max_iter = self.transform_tol, MAX_TRANSFORM_STEPS
            return EnergyCoder(problem, encoder, weights.thresholding, tol, max_iter)
        return self._dictionary_coder(
            np.ascontiguousarray(self.components_, dtype=dtype), algorithm, lam
        )

    def _incomplete_solver(
        self, algorithm: str, lam: float, dtype: np.dtype[np.floating]
    ) -> Solver:
        """Return what computes the codes of samples with missing entries."""
        D, C = (A.astype(np.float64) for A in (self.components_, self.encoder_))
        if algorithm == "exact":
            return exact_solver(
                D,
                C,
                lam,
                float(self.encoder_weight),
                positive=bool(self.positive_code),
                tol=self.transform_tol,
                max_iter=MAX_TRANSFORM_STEPS,
            )
        return restricted_solver(
            self.components_.astype(dtype),
            lambda atoms, fraction: self._dictionary_coder(atoms, algorithm, fraction * lam),
            unit=algorithm in GREEDY,
        )

    def _dictionary_coder(self, D: Array, algorithm: str, lam: float) -> Coder:
        """Return what computes the codes of the atoms D by an algorithm without the encoder."""
        m, p = self.components_.shape
        return make_coder(
            D,
            None,
            algorithm=algorithm,
            n_nonzero_coefs=self.n_nonzero_coefs_,
            alpha=lam * p / m,
            max_iter=MAX_TRANSFORM_STEPS,
            positive=bool(self.positive_code),
            tol=self.transform_tol if algorithm == "lasso" else 0.0,
            debias=bool(self.transform_debias),
        )


def encoder_blocks(N: int, m: int, p: int) -> list[slice]:
    """Return the blocks in which N rows are encoded.

    There are eight of them, or a multiple of eight if they would be too large, or 1, 2 or 4 if they
    would be too small, so that 2, 4 or 8 threads have the same number of blocks each. The blocks do
    not depend on the number of threads, so the codes do not either.
    """
    size = max(MIN_BLOCK_ROWS, BLOCK_ENTRIES // m)
    smallest = min(size, max(MIN_BLOCK_ROWS, MIN_BLOCK_PRODUCTS // (m * p)))
    n_blocks = 8 * max(1, N // (8 * size))
    while n_blocks > 1 and n_blocks * smallest > N:
        n_blocks //= 2
    return blocks(N, -(-N // n_blocks))
