"""When training on batches stops: the energy of new batches no longer decreases."""

from __future__ import annotations

import numpy as np


class BatchStopping:
    """The stopping rule of training on batches.

    The energy of a batch before it is learned is divided by the energy of zero codes, ‖X‖²/p. This
    ratio varies much less between batches than the energy. It is averaged over windows of batches,
    and training stops if the average has not decreased by the fraction ``tol`` for ``patience``
    windows. A window is not longer than one pass over the data.

    Parameters
    ----------
    tol : float
        The smallest relative decrease that counts.
    patience : int or None
        The number of windows without such a decrease. None means that training never stops.
    window_rows : int
        The smallest number of rows of a window.
    min_rows, min_passes : int, default=0
        Training does not stop before it has seen this number of rows or of passes.
    """

    def __init__(
        self,
        tol: float,
        patience: int | None,
        window_rows: int,
        min_rows: int = 0,
        min_passes: int = 0,
    ) -> None:
        self.tol, self.patience, self.window_rows = tol, patience, window_rows
        self.min_rows, self.min_passes, self.n_seen = min_rows, min_passes, 0
        self.is_first, self.n_failures, self.best = True, 0, np.inf
        self.n = self.energy = self.scale = 0.0

    def add(self, n: int, energy: float, scale: float, rows_per_pass: float = np.inf) -> bool:
        """Add a batch of n rows with the given mean energies; return whether training stops."""
        self.n += n
        self.n_seen += n
        if self.is_first:  # it is measured with an untrained network, so only its rows count
            self.is_first = False
            return False
        self.energy += n * energy
        self.scale += n * scale
        if self.n < min(self.window_rows, rows_per_pass):
            return False
        ratio = self.energy / self.scale if self.scale > 0 else 0.0
        improved = ratio < self.best * (1 - self.tol)
        self.n_failures = 0 if improved else self.n_failures + 1
        self.best = ratio if improved else self.best
        self.n = self.energy = self.scale = 0.0
        in_passes = self.min_passes * rows_per_pass if self.min_passes else 0.0
        enough = self.n_seen >= min(self.min_rows, in_passes)
        return self.patience is not None and enough and self.n_failures >= self.patience
