"""The codes of samples, computed and stored block by block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array, csr_matrix, sparray
from sklearn import get_config

from lincode.core.arrays import Array, Rows, blocks
from lincode.core.greedy import GreedyCoder, MatchingProblem
from lincode.core.lasso import CodeProblem, Coder, LassoCoder
from lincode.core.projection import project_codes
from lincode.core.threshold import (
    ThresholdCoder,
    Thresholding,
    compress_rows,
    encoder_output,
    split_signs,
)
from lincode.training.rows import check_memory, code_blocks
from lincode.training.threads import thread_count, threaded_map

LASSO = ("lasso", "lasso_cd", "lasso_lars")
"""The names of the lasso; the last two are those of scikit-learn."""
DEFAULT_TOL = 1e-10
"""The relative optimality residual of lasso codes."""
MIN_PRODUCT_ROWS, MAX_PRODUCT_ENTRIES = 256, 2_000_000
"""The product of fewer samples with the dictionary is slower per sample. This number of samples is
not used if their codes have more entries."""
BLOCK_ENTRIES, MIN_BLOCK_ROWS = 1_000_000, 512
"""Many samples are divided into blocks of about this number of codes, which stay in the cache until
they are thresholded, but not of fewer samples, because the product is slower per sample then."""
MIN_THREAD_PRODUCTS, MIN_THREAD_ROWS = 16_000_000, 16
"""Few samples are divided if each block has at least so many multiplications and samples."""


class CodeOutput:
    """What ``transform`` returns: dense codes, codes with split signs, or CSR codes.

    The codes of a block are computed in the array that ``buffer`` returns. Then ``finish`` is
    called with this array. Several threads may do so at the same time.
    """

    def __init__(self, X: Rows, m: int, *, split: bool = False, sparse: bool = False) -> None:
        self.shape, self.dtype = (X.shape[0], 2 * m if split else m), X.dtype
        self.m, self.split, self.sparse = m, split, sparse
        self.container = csr_matrix
        # The setting exists since scikit-learn 1.9.
        if isinstance(X, sparray) or get_config().get("sparse_interface") == "sparray":
            self.container = csr_array
        self.free: list[Array] = []  # buffers are used again, because new memory is slow
        self.parts: dict[int, Any] = {}
        if not sparse:
            check_codes_memory(*self.shape, X.dtype)
            self.codes: Array = np.empty(self.shape, X.dtype)

    def buffer(self, rows: slice) -> Array:
        """Return an array of shape (n_rows, m) for the codes of a block, with any content."""
        if not self.split and not self.sparse:
            return self.codes[rows]
        n = rows.stop - rows.start
        try:  # other threads may take a buffer at the same time
            buffer = self.free.pop()
        except IndexError:
            buffer = np.empty((n, self.m), self.dtype)
        return buffer[:n] if len(buffer) >= n else np.empty((n, self.m), self.dtype)

    def finish(self, rows: slice, U: Array) -> None:
        """Store the codes U of a block."""
        if self.sparse:
            self.parts[rows.start] = compress_rows(U, split=self.split)
        elif self.split:
            split_signs(U, self.codes[rows])
        else:
            return
        self.free.append(U)

    def result(self) -> Any:
        """Return the codes of all rows."""
        if not self.sparse:
            return self.codes
        parts = [self.parts[start] for start in sorted(self.parts)]
        counts, columns, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        starts = np.zeros(self.shape[0] + 1, dtype=np.int64)
        np.cumsum(counts, out=starts[1:])
        return self.container((values, columns, starts), shape=self.shape)


def check_codes_memory(n: int, n_columns: int, dtype: Any) -> None:
    """Raise an error if dense codes need more memory than there is."""
    check_memory(
        n * n_columns * dtype.itemsize,
        f"the codes of {n} samples with {n_columns} columns",
        "set sparse_output=True, or transform fewer samples at a time",
    )


def encode_rows(
    X: Rows,
    C: Array,
    thresholding: Thresholding,
    output: CodeOutput,
    n_jobs: int | None,
    complete: Callable[[Rows, slice, Array], int],
    D: Array | None = None,
) -> int:
    """Write the codes of the encoder C, and return how many samples are empty.

    With a dictionary D, the values of the codes are those of least squares on their support.

    All outputs of the encoder for a sample with NaN or infinity are NaN or infinite. If the first
    output of a sample is not finite, ``complete(X, rows, Z)`` is called for its block. It corrects
    the outputs Z and returns the number of empty samples, or raises an error. An overflow of finite
    samples has the same result; the thresholds find it and raise an error.
    """
    gram = None if D is None else D @ D.T

    def encode_block(rows: slice) -> int:
        with np.errstate(invalid="ignore", over="ignore"):
            Z = encoder_output(X[rows], C, out=output.buffer(rows))
        n_empty = 0 if np.isfinite(Z[:, 0]).all() else complete(X, rows, Z)
        U = thresholding.apply(Z)
        if D is not None and gram is not None:
            project_codes(U, X[rows], D, gram, positive=thresholding.positive)
        output.finish(rows, U)
        return n_empty

    parts = encoder_blocks(X.shape[0], *C.shape)
    if n_jobs is None and len(parts) == 1:  # one product, for which BLAS may use its own threads
        return encode_block(parts[0])
    return sum(threaded_map(encode_block, parts, thread_count(n_jobs)))


def encoder_blocks(N: int, m: int, p: int) -> list[slice]:
    """Return the blocks in which N rows are encoded.

    There are eight of them, or a multiple of eight if they would be too large, or 1, 2 or 4 if they
    would be too small, so that 2, 4 or 8 threads have the same number of blocks each. The blocks do
    not depend on the number of threads, so the codes do not either.
    """
    size = max(MIN_BLOCK_ROWS, BLOCK_ENTRIES // m)
    smallest = min(size, max(MIN_THREAD_ROWS, MIN_THREAD_PRODUCTS // (m * p)))
    n_blocks = 8 * max(1, N // (8 * size))
    while n_blocks > 1 and n_blocks * smallest > N:
        n_blocks //= 2
    return blocks(N, -(-N // n_blocks))


def make_coder(
    D: Array,
    gram: Array | None = None,
    *,
    algorithm: str,
    n_nonzero_coefs: int | None,
    alpha: float | None,
    max_iter: int,
    positive: bool,
    tol: float | None,
    debias: bool,
) -> Coder:
    """Return what computes the codes of ``sparse_encode`` for validated parameters."""
    penalty = 1.0 if alpha is None else float(alpha)
    if algorithm == "threshold":
        return ThresholdCoder(D, penalty, positive)
    if algorithm in LASSO:
        problem = CodeProblem.lasso(D, penalty, gram=gram, positive=positive)
        return LassoCoder(problem, DEFAULT_TOL if tol is None else tol, max_iter, debias)
    m, p = D.shape
    if n_nonzero_coefs is None:
        n_nonzero_coefs = int(max(p / 10, 1)) if tol is None else m
    matching = MatchingProblem.of(D, gram)
    return GreedyCoder(matching, D, min(n_nonzero_coefs, p), tol or 0.0, algorithm == "ols")


def write_codes(
    X: Rows,
    coder: Coder,
    output: CodeOutput,
    n_threads: int,
    *,
    cov: Any = None,
    start: Any = None,
) -> int:
    """Write the codes of validated samples; return how many are not solved."""
    n, m = X.shape[0], coder.n_units
    n_rows = code_blocks(n, m)[0].stop
    parts = blocks(n, max(n_rows, min(MIN_PRODUCT_ROWS, MAX_PRODUCT_ENTRIES // m)))

    def solve_block(rows: slice) -> int:
        U = output.buffer(rows)
        b = None if cov is None else np.ascontiguousarray(cov[:, rows].T)
        unfinished = coder.write(U, X[rows], b, None if start is None else start[rows])
        output.finish(rows, U)
        return unfinished

    return sum(threaded_map(solve_block, parts, n_threads))


def unfinished_message(n_unfinished: int, X: Rows, increase: str) -> str:
    """Return the text of the warning about codes that are not solved."""
    return (
        f"the codes of {n_unfinished} of {X.shape[0]} samples did not reach the tolerance; increase"
        f" {increase}."
    )
