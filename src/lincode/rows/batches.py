"""One batch of a stream: the earlier batches are represented by the sums of their statistics."""

from __future__ import annotations

from collections.abc import Callable

from lincode.core.encoder_step import EncoderFactor, factor_gram
from lincode.core.energy import CodeStats
from lincode.core.types import Array, Rows
from lincode.rows.memory import MemoryRows


class BatchRows(MemoryRows):
    """The rows of one batch. The statistics of earlier batches are added to every sum.

    Parameters
    ----------
    X : array or CSR matrix of shape (N, p)
        The rows of the batch.
    m : int
        The number of units.
    past : CodeStats or None
        The statistics of earlier batches.
    XtX : array of shape (p, p)
        The sum of XᵀX over earlier batches and this one.
    precision : dtype
        The least precise dtype of any batch.
    n_threads : int
        The number of threads.
    """

    def __init__(
        self,
        X: Rows,
        m: int,
        past: CodeStats | None,
        XtX: Array,
        *,
        precision: object,
        n_threads: int,
    ) -> None:
        super().__init__(X, m, n_threads=n_threads)
        self.past, self.XtX, self.precision = past, XtX, precision

    def _compute_factor(self) -> EncoderFactor:
        return factor_gram(self.XtX, self.precision)  # type: ignore[arg-type]

    def _sum(self, stats_of: Callable[[slice], CodeStats]) -> CodeStats:
        present = super()._sum(stats_of)
        return present if self.past is None else present + self.past
