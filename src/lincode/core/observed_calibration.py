"""Calibration of the encoder on the observed entries of rows with missing entries.

The sums over observed entries only would need one matrix per row. Instead the missing entries are
replaced by their reconstruction S diag(g) D, and the gains or the decoder are fitted again. The
residuals of missing entries are then zero, so that the limit fits the observed entries only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lincode.core.calibration import CodedRows, fit_decoder, fit_gains
from lincode.core.types import Array

MAX_ROUNDS = 20
"""The largest number of times that missing entries are replaced and the fit is repeated."""
ROUND_TOL = 1e-3
"""The fit ends when gains or decoder change by at most this, relative to their size."""


@dataclass(frozen=True)
class ObservedRows:
    """Codes S of rows X of which some entries are missing."""

    S: Array
    X: Array
    missing: NDArray[np.bool_]
    weights: Array | None = None

    def coded(self, reconstruction: Array) -> CodedRows:
        """Return the sums in which missing entries are replaced by those of a reconstruction."""
        X = np.where(self.missing, reconstruction.astype(self.X.dtype), self.X)
        return CodedRows.of_codes(self.S, X, self.weights)

    def fit_gains(
        self, gains: Array, D: Array, prior: Array | None = None, weight: float = 0.0
    ) -> Array:
        """Return the gains of the observed entries, starting from some gains."""
        for _ in range(MAX_ROUNDS):
            previous, gains = gains, fit_gains(self.coded(self.S * gains @ D), D, prior, weight)
            if np.abs(gains - previous).max() <= ROUND_TOL * np.abs(gains).max():
                break
        return gains

    def fit_decoder(self, gains: Array, D: Array) -> Array:
        """Return the decoder of the observed entries."""
        decoder = D
        for _ in range(MAX_ROUNDS):
            coded = self.coded(self.S * gains @ decoder)
            previous, decoder = decoder, fit_decoder(coded, gains, D)
            if np.abs(decoder - previous).max() <= ROUND_TOL * np.abs(decoder).max():
                break
        return decoder

    def r2(self, gains: Array, D: Array) -> float:
        """Return the fraction of the observed entries that is reconstructed."""
        w = 1.0 if self.weights is None else self.weights[:, None]
        observed = np.where(self.missing, 0, w)
        total = float(np.sum(observed * np.square(self.X, dtype=np.float64)))
        error = float(np.sum(observed * (self.X - self.S * gains @ D) ** 2))
        return 1 - error / total if total > 0 else 0.0
