"""Rows on the workers of a Dask cluster."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from distributed import Client, Future
from numpy.typing import NDArray

from lincode.core.arrays import Array, Rows
from lincode.core.code_step import CodeProblem
from lincode.core.encoder_step import (
    EncoderFactor,
    Thresholding,
    factor_gram,
    factor_transposed,
)
from lincode.core.energy import CodeStats
from lincode.exceptions import InvalidInputError
from lincode.rows import dask_chunks as tasks
from lincode.rows.dask_chunks import Recipe, Versions
from lincode.rows.dask_cluster import Chunks
from lincode.rows.memory import MAX_DIRECT_BYTES, MemoryRows, dense
from lincode.rows.protocol import RowLengths
from lincode.rows.required_memory import direct_factor_bytes


@dataclass(frozen=True)
class CodeState:
    """The codes of all rows at one time: the number of the version, and how to make it again."""

    version: int
    recipe: Future
    """The future of a ``Recipe``"""
    exact: bool
    """Whether the recipe makes the same codes again"""


class DaskRows:
    """The row source of chunks on a Dask cluster. The codes stay on the workers.

    The sums over rows are the same as those of other row sources, except for rounding, because
    their order depends on where the chunks are.

    Parameters
    ----------
    client : distributed.Client
        The client.
    chunks : list of Future
        The results of ``dask_chunks.make_chunk``, in the order of the rows. Empty chunks are
        dropped.
    m : int
        The number of units. The codes are zero at first.
    dtype : dtype
        The dtype of the rows.
    n_threads : int, default=1
        The number of threads of the client that process a ``subset``.
    """

    weights: None = None
    """Rows on a cluster have no weights"""
    missing: None = None
    """No entries are missing"""

    def __init__(
        self,
        client: Client,
        chunks: list[Future],
        m: int,
        dtype: np.dtype[np.floating],
        n_threads: int = 1,
    ) -> None:
        self.n_threads = n_threads
        self.chunks, self.m, self._dtype = Chunks(client, chunks), m, np.dtype(dtype)
        scans = self.chunks.each(tasks.scan, dict.fromkeys(range(len(chunks)), ()))
        kept = [i for i, scan in enumerate(scans) if scan.n]
        if not kept:
            raise InvalidInputError("X has no rows; a minimum of 1 is required.")
        self._p = scans[0].p
        if any(scan.p != self._p for scan in scans):
            raise InvalidInputError(
                "all blocks of X must have the same number of columns, got"
                f" {sorted({scan.p for scan in scans})}."
            )
        self.scans = [scans[i] for i in kept]
        self.chunks.keep(kept, [scan.n for scan in self.scans])
        self.ends = np.cumsum([scan.n for scan in self.scans])
        self.n_lost = 0
        """How often the codes of a chunk were computed anew because a worker was lost"""
        self._factor: EncoderFactor | None = None
        self._n_versions = 0
        self._kept = -1
        self._set_state(Recipe())

    def _set_state(self, recipe: Recipe) -> None:
        """Set the codes of all rows to those of a recipe, which is used when they are needed."""
        self._n_versions += 1
        future = self.chunks.broadcast(recipe)
        self.state = CodeState(self._n_versions, future, recipe.exact)

    def close(self) -> None:
        """Release the chunks with their codes, so that the workers forget them."""
        self.chunks.futures.clear()
        del self.state

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (N, p) of X."""
        return int(self.ends[-1]), self._p

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The dtype of X."""
        return self._dtype

    @property
    def has_missing(self) -> bool:
        """Missing entries are not supported on a cluster."""
        return False

    @property
    def largest(self) -> float:
        """The largest absolute value of X; NaN or infinite if X is not finite."""
        return float(np.max([scan.largest for scan in self.scans]))

    def row_lengths(self) -> RowLengths:
        """Return the length of the longest row and the mean length."""
        longest = np.max([scan.lengths.longest for scan in self.scans])
        total = sum(scan.n * scan.lengths.mean for scan in self.scans)
        return RowLengths(float(longest), float(total / self.shape[0]))

    def check_finite(self) -> None:
        """Raise an error that names the rows of the first chunk that is not finite."""
        for scan, end in zip(self.scans, self.ends, strict=True):
            if not np.isfinite(scan.largest):
                raise InvalidInputError(
                    f"X contains NaN or infinity in rows {end - scan.n} to {end - 1}. Missing"
                    " entries are not supported on a cluster; use lincode.SCNN, or replace these"
                    " values."
                )

    def factor(self) -> EncoderFactor:
        """Return the factorisation of XᵀX, which is computed once."""
        if self._factor is None:
            N, p = self.shape
            if direct_factor_bytes(N, p) > MAX_DIRECT_BYTES:
                raise InvalidInputError(
                    f"X has {p} features, which is too many for a cluster, because XᵀX is factored"
                    " in the client; use lincode.SCNN, or fewer features."
                )
            if p <= N:
                XtX = self.chunks.reduce(tasks.gram_of, lambda i: (), tasks.add_all)
                self._factor = factor_gram(XtX, self.dtype)
            else:
                Xt = np.array(dense(self.take(np.arange(N))).T, dtype=np.float64, order="F")
                self._factor = factor_transposed(Xt, self.dtype)
        return self._factor

    def take(self, indices: NDArray[np.intp]) -> Rows:
        """Return the rows with the given indices, in that order."""
        return self._take(tasks.take_rows, indices)

    def take_codes(self, indices: NDArray[np.intp]) -> Array:
        """Return the present codes of the rows with the given indices."""
        state = self.state
        return np.asarray(
            self._take(tasks.take_codes, indices, Versions(state.version), state.recipe)
        )

    def _take(self, task: Any, indices: NDArray[np.intp], *arguments: Any) -> Rows:
        """Gather some rows from their chunks."""
        indices = np.asarray(indices, dtype=np.intp)
        chunk = np.searchsorted(self.ends, indices, side="right")
        starts = self.ends - [scan.n for scan in self.scans]
        order = np.argsort(chunk, kind="stable")
        # Without indices, the first chunk provides zero rows of the right kind.
        needed = {
            int(i): (indices[chunk == i] - starts[i], *arguments) for i in np.unique(chunk)
        } or {0: (indices, *arguments)}
        parts = self.chunks.each(task, needed)
        sparse = any(map(scipy.sparse.issparse, parts))
        rows = scipy.sparse.vstack(parts, "csr") if sparse else np.concatenate(parts)
        return rows[np.argsort(order)]

    def subset(self, indices: NDArray[np.intp]) -> MemoryRows:
        """Return a row source in the client of the rows with the given indices."""
        return MemoryRows(self.take(indices), self.m, n_threads=self.n_threads)

    def set_codes(self, C: Array, thresholding: Thresholding) -> None:
        """Set the codes to those of the encoder C."""
        self._set_state(Recipe(C, thresholding) if C.any() else Recipe())

    def save_codes(self) -> CodeState:
        """Return the present state of the codes; the workers keep the codes of one such state."""
        self._kept = self.state.version
        return self.state

    def restore_codes(self, saved: object) -> None:
        """Set the codes to those of a state that ``save_codes`` returned."""
        assert isinstance(saved, CodeState)
        self.state = saved

    def stats(self) -> CodeStats:
        """Return the statistics of the present codes."""
        state = self.state
        result = self.chunks.reduce(
            tasks.stats_of, lambda i: (Versions(state.version), state.recipe), tasks.add_all
        )
        return result.stats  # type: ignore[no-any-return]

    def update_codes(self, problem: CodeProblem, *, tol: float, max_iter: int) -> CodeStats:
        """Do the U step for all rows and return the statistics of the new codes."""
        before, kept = self.state, self._kept
        self._set_state(Recipe(problem=problem))
        versions = Versions(before.version, self.state.version, kept)
        recipe = before.recipe if before.exact else None
        arguments = versions, recipe, self.state.recipe, tol, max_iter
        try:
            result = self.chunks.reduce(tasks.update_codes, lambda i: arguments, tasks.add_all)
        except BaseException:
            self.state = before
            raise
        self.n_lost += result.n_lost
        return result.stats  # type: ignore[no-any-return]

    def update_missing(self, D: Array, C: Array, eta: float) -> CodeStats:
        """Return the statistics of the present codes, because no entries are missing."""
        return self.stats()

    def code_residual(self, problem: CodeProblem) -> float:
        """Return the largest optimality residual of the present codes."""
        final = self.chunks.broadcast(Recipe(problem=problem))
        arguments = Versions(self.state.version), self.state.recipe, final
        return float(
            self.chunks.reduce(tasks.residual_of, lambda i: arguments, tasks.largest_of_all)
        )

    def largest_residuals(self, D: Array, k: int) -> Array:
        """Return X − U D for the (at most) k rows where it is longest, the longest first."""
        state, D_future = self.state, self.chunks.broadcast(D)
        result = self.chunks.reduce(
            tasks.largest_residuals,
            lambda i: (i, Versions(state.version), state.recipe, D_future, k),
            partial(tasks.longest_of_all, k),
        )
        return np.asarray(result.R)
