"""Random rows of a stream of blocks, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from lincode.core.types import Rows


def stack(blocks: Sequence[Rows]) -> Rows:
    """Return blocks of rows as one array, or as a CSR matrix if they are sparse."""
    if len(blocks) == 1:
        return blocks[0]
    if scipy.sparse.issparse(blocks[0]):
        return scipy.sparse.vstack(blocks, format="csr")
    return np.concatenate(blocks)


class ShuffleBuffer:
    """Rows that wait to be taken in random order.

    ``take`` returns a random sample of the rows that are waiting. The rows that remain mix with
    those that are added later. Memory for ``capacity`` rows is allocated once. ``rng`` may be
    replaced at any time.
    """

    def __init__(self, capacity: int, rng: np.random.RandomState | None = None) -> None:
        self.capacity, self.n = capacity, 0
        self.rng = np.random.RandomState(0) if rng is None else rng
        self.rows: Rows = None

    def add(self, block: Rows) -> None:
        """Add the rows of a block, which are copied."""
        if scipy.sparse.issparse(block):
            self.rows = stack([block] if self.rows is None else [self.rows, block])
            self.n = self.rows.shape[0]
            return
        n = self.n + len(block)
        if self.rows is None or n > len(self.rows):
            larger = np.empty((max(n, self.capacity), block.shape[1]), block.dtype)
            if self.rows is not None:
                larger[: self.n] = self.rows[: self.n]
            self.rows = larger
        self.rows[self.n : n] = block
        self.n = n

    def take(self, k: int) -> Rows:
        """Remove k random rows and return them."""
        order = self.rng.permutation(self.n)
        taken, self.n = order[:k], self.n - k
        batch = self.rows[taken]
        if scipy.sparse.issparse(batch):
            self.rows = self.rows[np.sort(order[k:])] if self.n else None
            return batch
        # The rows at the end that were not taken move to the places of those that were.
        kept = order[k:]
        self.rows[taken[taken < self.n]] = self.rows[kept[kept >= self.n]]
        return batch


class RowSample:
    """A uniform random sample of at most n rows of a stream of blocks.

    Every row has a random key, and the rows with the n smallest keys are the sample. It does not
    depend on how the rows are divided into blocks.
    """

    def __init__(self, n: int, rng: np.random.RandomState) -> None:
        self.n, self.rng, self.limit = n, rng, np.inf
        self.keys: list[NDArray[np.float64]] = []
        self.blocks: list[Rows] = []
        self.n_waiting = 0

    def add(self, block: Rows) -> None:
        """Consider the rows of one more block."""
        keys = self.rng.random_sample(block.shape[0])
        chosen = np.flatnonzero(keys < self.limit)
        if not len(chosen):
            return
        self.keys.append(keys[chosen])
        self.blocks.append(block[chosen])
        self.n_waiting += len(chosen)
        if self.n_waiting >= 2 * self.n:
            self._shrink()

    def result(self) -> Rows:
        """Return the sample, in the order of the stream."""
        self._shrink()
        return self.blocks[0]

    def _shrink(self) -> None:
        keys, rows = np.concatenate(self.keys), stack(self.blocks)
        if len(keys) > self.n:
            smallest = np.sort(np.argsort(keys, kind="stable")[: self.n])
            keys, rows = keys[smallest], rows[smallest]
            self.limit = float(keys.max())
        self.keys, self.blocks, self.n_waiting = [keys], [rows], len(keys)
