"""Rows of one batch of a stream: all that came before them is the sum of its statistics."""

from __future__ import annotations

from collections.abc import Callable

from lincode.core.stats import CodeStats
from lincode.core.types import Array, Rows
from lincode.rows.memory import MemoryRows


class BatchRows(MemoryRows):
    """The rows at hand and their codes; every sum has the statistics of the past added."""

    def __init__(self, X: Rows, U: Array, past: CodeStats | None, *, n_threads: int) -> None:
        super().__init__(X, U, n_threads=n_threads)
        self.past = past

    def _sum(self, stats_of: Callable[[slice], CodeStats]) -> CodeStats:
        present = super()._sum(stats_of)
        return present if self.past is None else present + self.past
