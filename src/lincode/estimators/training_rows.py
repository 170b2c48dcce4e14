"""The training samples of ``MiniBatchSCNN.fit``, in memory or not, and their batches."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from lincode.estimators.checkpoint import N_COMPARED_ROWS, describe_data
from lincode.estimators.samples import Samples
from lincode.rows.chunks import ChunkedRows, pass_generator
from lincode.rows.prefetch import prefetch


@dataclass(frozen=True)
class TrainingRows:
    """Training samples, and their batches in random order."""

    samples: Samples
    """All samples, or a random sample of them if they are not in memory"""
    chunked: ChunkedRows | None
    """All samples, if they are not in memory"""
    batch_size: int
    max_passes: int

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (N, p) of all samples."""
        shape = self.samples.X.shape if self.chunked is None else self.chunked.shape
        return int(shape[0]), int(shape[1])

    def max_batches(self) -> int:
        """Return the largest number of batches."""
        return self.max_passes * self._batches_per_pass()

    def rows_per_pass(self) -> float:
        """Return the number of samples of one pass."""
        return self.shape[0]

    def _batches_per_pass(self) -> int:
        return -(-self.shape[0] // self.batch_size)

    def batches(self, seed: int, first: int) -> Generator[Samples, None, None]:
        """Yield batches of nearly equal size, in a new random order in each pass.

        ``first`` is the number of the first batch. The order depends on ``seed``.
        """
        return self._from_memory(seed, first) if self.chunked is None else self._read(seed, first)

    def _from_memory(self, seed: int, first: int) -> Generator[Samples, None, None]:
        N, n = self.shape[0], self._batches_per_pass()
        for k in range(first // n, self.max_passes):
            order = pass_generator(seed, k).permutation(N)
            for rows in np.array_split(order, n)[max(first - k * n, 0) :]:
                yield self.samples.take(np.sort(rows))

    def _read(self, seed: int, first: int) -> Generator[Samples, None, None]:
        assert self.chunked is not None
        batches = self.chunked.shuffled_batches(self.batch_size, self.max_passes, seed, first)
        with closing(prefetch(batches)) as prefetched:
            for batch in prefetched:
                yield Samples(batch, self.samples.lengths)

    def describe(self) -> dict[str, Any]:
        """Return what identifies the samples in a checkpoint."""
        X, lengths = self.samples.X, self.samples.lengths
        head = X
        if self.chunked is not None:
            head = self.chunked.read(slice(0, min(self.shape[0], N_COMPARED_ROWS)))
        return describe_data(self.shape, X.dtype, lengths, head)
