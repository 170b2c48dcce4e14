"""What ``transform`` returns, written block by block: dense codes, split signs or CSR codes."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array, csr_matrix, sparray
from sklearn import get_config

from lincode.core.types import Array, Rows
from lincode.rows.required_memory import check_codes_memory


class CodeOutput(Protocol):
    """Where the codes of blocks of rows are written. Several threads may do so at the same time.

    The codes of a block are computed in the array that ``buffer`` returns. Then ``finish`` is
    called with this array.
    """

    def buffer(self, rows: slice) -> Array:
        """Return an array of shape (n_rows, m) for the codes of a block, with any content."""

    def finish(self, rows: slice, U: Array) -> None:
        """Store the codes U of a block."""

    def result(self) -> Any:
        """Return the codes of all rows."""


class DenseOutput:
    """Codes as an array of shape (N, m)."""

    def __init__(self, N: int, m: int, dtype: np.dtype[np.floating]) -> None:
        self.codes: Array = np.empty((N, m), dtype)

    def buffer(self, rows: slice) -> Array:
        return self.codes[rows]

    def finish(self, rows: slice, U: Array) -> None:
        pass

    def result(self) -> Array:
        return self.codes


class SplitOutput:
    """Codes with split signs, as an array of shape (N, 2 m)."""

    def __init__(self, N: int, m: int, dtype: np.dtype[np.floating]) -> None:
        self.codes: Array = np.empty((N, 2 * m), dtype)
        self.buffers = Buffers(m, dtype)

    def buffer(self, rows: slice) -> Array:
        return self.buffers.take(rows)

    def finish(self, rows: slice, U: Array) -> None:
        from lincode.core.code_layout import split_signs  # imports Numba

        split_signs(U, self.codes[rows])
        self.buffers.give_back(U)

    def result(self) -> Array:
        return self.codes


class SparseOutput:
    """Codes as a CSR array or matrix of shape (N, m), or (N, 2 m) with split signs."""

    def __init__(
        self, N: int, m: int, dtype: np.dtype[np.floating], *, split: bool, container: type[Any]
    ) -> None:
        self.shape, self.split = (N, 2 * m if split else m), split
        self.container = container
        self.buffers = Buffers(m, dtype)
        self.parts: dict[int, Any] = {}

    def buffer(self, rows: slice) -> Array:
        return self.buffers.take(rows)

    def finish(self, rows: slice, U: Array) -> None:
        from lincode.core.code_layout import compress_rows  # imports Numba

        self.parts[rows.start] = compress_rows(U, split=self.split)
        self.buffers.give_back(U)

    def result(self) -> Any:
        parts = [self.parts[start] for start in sorted(self.parts)]
        counts, columns, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        starts = np.zeros(self.shape[0] + 1, dtype=np.int64)
        np.cumsum(counts, out=starts[1:])
        return self.container((values, columns, starts), shape=self.shape)


def make_output(X: Rows, m: int, *, split: bool, sparse: bool) -> CodeOutput:
    """Return where the codes of the rows of X with m units are written."""
    N = X.shape[0]
    if sparse:
        return SparseOutput(N, m, X.dtype, split=split, container=sparse_container(X))
    check_codes_memory(N, 2 * m if split else m, X.dtype)
    return (SplitOutput if split else DenseOutput)(N, m, X.dtype)


def sparse_container(X: Rows) -> type[Any]:
    """Return the class of sparse codes: ``csr_array`` or ``csr_matrix``.

    Sparse arrays have codes that are sparse arrays. For sparse matrices and dense samples,
    scikit-learn's setting ``sparse_interface`` decides, which exists since version 1.9 and whose
    default is "spmatrix".
    """
    prefers_arrays = get_config().get("sparse_interface") == "sparray"
    container: type[Any] = csr_matrix
    if prefers_arrays or isinstance(X, sparray):
        container = csr_array
    return container


class Buffers:
    """Arrays for the codes of one block, which are used again, because new memory is slow."""

    def __init__(self, m: int, dtype: np.dtype[np.floating]) -> None:
        self.m, self.dtype = m, dtype
        self.free: list[Array] = []

    def take(self, rows: slice) -> Array:
        """Return an array for some rows that nobody else uses."""
        n = rows.stop - rows.start
        try:
            buffer = self.free.pop()
        except IndexError:
            return np.empty((n, self.m), self.dtype)
        return buffer[:n] if len(buffer) >= n else np.empty((n, self.m), self.dtype)

    def give_back(self, buffer: Array) -> None:
        """Allow others to use an array of ``take``."""
        self.free.append(buffer)
