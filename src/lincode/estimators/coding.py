"""The codes of samples: transform, block by block, with split signs or as a sparse matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from lincode.core.code_step import code_step
from lincode.core.encoder_step import encode, encoder_output
from lincode.core.types import Array, Rows
from lincode.estimators.calibration import CalibratedEncoder
from lincode.estimators.output import CodeOutput, DenseOutput, make_output
from lincode.estimators.signs import SignSplitter
from lincode.estimators.user_warnings import warn_user
from lincode.estimators.validation import check_finite, check_rows, check_scaled_rows
from lincode.rows.memory import blocks, code_blocks
from lincode.rows.threads import blas_threads, matrix_threads, thread_count, threaded_map

MAX_TRANSFORM_STEPS = 20_000
"""The largest number of accelerated steps for codes computed by optimisation."""
MIN_BLOCK_ROWS = 512
"""The product of smaller blocks with the encoder is slower per row."""
MIN_BLOCK_PRODUCTS = 50_000_000
"""The number of multiplications for which a separate thread is faster."""
BLOCK_ENTRIES = 1_000_000
"""The number of codes (rows times units) that stay in the cache until they are thresholded."""


class CodingTransformer(SignSplitter, CalibratedEncoder):
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
        N, m = X.shape[0], len(self.encoder_)
        output = make_output(N, m, X.dtype, split=self.split_sign, sparse=self.sparse_output)
        self._write_codes(X, self.transform_algorithm, output)
        return output.result()

    def _unsplit_codes(self, X: Any) -> Array:
        self._check_parameters()
        X = self._check_samples(X, self.transform_algorithm)
        return self._codes(X, self.transform_algorithm)

    def _check_samples(self, X: Any, algorithm: str) -> Rows:
        if algorithm == "encoder":  # ``_encode`` finds entries that are not finite
            return check_rows(self, X, reset=False, check_finite=False)
        return check_scaled_rows(self, X, reset=False)[0]

    def _codes(self, X: Rows, algorithm: str) -> Array:
        """Return the codes of validated samples, without splitting signs."""
        output = DenseOutput(X.shape[0], len(self.encoder_), X.dtype)
        self._write_codes(X, algorithm, output)
        return output.result()

    def _write_codes(self, X: Rows, algorithm: str, output: CodeOutput) -> None:
        """Compute the codes of validated samples block by block."""
        if algorithm == "encoder":
            self._encode(X, output)
        else:
            self._solve(X, algorithm, output)

    def _encode(self, X: Rows, output: CodeOutput) -> None:
        """Write the codes of the encoder, and raise an error if X is not finite.

        All outputs of the encoder for a sample with NaN or infinity are NaN or infinite. So X is
        only searched if the first output of a sample is not finite. It can also be the result of
        an overflow, which is not an error.
        """
        C = self._used_encoder().astype(X.dtype, copy=False)
        thresholding = self._thresholding(self._checked_gains())

        def encode_block(rows: slice) -> None:
            with np.errstate(invalid="ignore"):
                Z = encoder_output(X[rows], C, out=output.buffer(rows))
            if not np.isfinite(Z[:, 0]).all():
                check_finite(self, X)
            output.finish(rows, thresholding.apply(Z))

        blocks = encoder_blocks(X.shape[0], *C.shape)
        if len(blocks) > 1:
            threaded_map(encode_block, blocks, thread_count(self.n_jobs))
        elif self.n_jobs is None:  # one product, for which BLAS may use its own threads
            encode_block(blocks[0])
        else:
            with blas_threads(thread_count(self.n_jobs)):
                encode_block(blocks[0])

    def _solve(self, X: Rows, algorithm: str, output: CodeOutput) -> None:
        """Write the codes that minimise the energy, or with "lasso" its terms without encoder."""
        n_threads = thread_count(self.n_jobs)
        weights = self._weights(eta=0.0 if algorithm == "lasso" else None)
        C = self.encoder_.astype(X.dtype, copy=False)
        with blas_threads(matrix_threads(len(C), n_threads)):
            D, C64 = (A.astype(np.float64) for A in (self.components_, self.encoder_))
            problem = weights.code_problem(D, C64, X.dtype)

        def solve_block(rows: slice) -> int:
            U = output.buffer(rows)
            if problem.mu > 0:
                encode(X[rows], C, weights.thresholding, out=U)
            else:
                U[...] = 0
            tol, max_iter = self.transform_tol, MAX_TRANSFORM_STEPS
            codes = code_step(U, X[rows], problem, tol=tol, max_iter=max_iter)
            U[...] = codes.U
            output.finish(rows, U)
            return codes.n_unfinished

        blocks = code_blocks(X.shape[0], len(C))
        n_unfinished = sum(threaded_map(solve_block, blocks, n_threads))
        if n_unfinished:
            warn_user(
                f"{type(self).__name__}: the codes of {n_unfinished} of {X.shape[0]} samples did"
                f" not reach transform_tol={self.transform_tol} within {MAX_TRANSFORM_STEPS}"
                " steps; increase transform_tol.",
                ConvergenceWarning,
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
