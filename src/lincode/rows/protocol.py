"""What training needs from the rows of X, wherever they are stored.

A row source holds the rows of X and their codes U. The default solver never sees X itself:
everything goes through the methods below, and only small matrices are returned. To train on rows
in a new place, write one class with these methods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lincode.core.code_step import CodeProblem
from lincode.core.encoder_step import EncoderFactor, Thresholding
from lincode.core.energy import CodeStats
from lincode.core.types import Array, Rows


@dataclass(frozen=True)
class RowLengths:
    """The scale of the rows of X."""

    longest: float
    """max ‖X[n]‖"""
    mean: float
    """The mean of ‖X[n]‖"""


class RowSource(Protocol):
    """The rows of X, of shape (N, p), and their codes U, of shape (N, m)."""

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (N, p) of X."""

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The dtype of X, which is also that of the codes: float32 or float64."""

    @property
    def has_missing(self) -> bool:
        """Whether some entries of X are missing, so that ``update_missing`` must be called."""

    @property
    def weights(self) -> Array | None:
        """The weights of the rows; None means 1."""

    def row_lengths(self) -> RowLengths:
        """Return the length of the longest row and the mean length."""

    def factor(self) -> EncoderFactor:
        """Return the factorisation of XᵀX, which ``update_missing`` changes."""

    def take(self, indices: NDArray[np.intp]) -> Rows:
        """Return the rows with the given indices, in that order, as an array or CSR matrix."""

    def take_codes(self, indices: NDArray[np.intp]) -> Array:
        """Return the present codes of the rows with the given indices."""

    def subset(self, indices: NDArray[np.intp]) -> RowSource:
        """Return a row source of the rows with the given indices, in that order.

        Its codes are zero. It should hold its rows in memory, because it is small and is read many
        times.
        """

    def set_codes(self, C: Array, thresholding: Thresholding) -> None:
        """Set the codes to those of the encoder C."""

    def save_codes(self) -> object:
        """Return a copy of the present codes and missing entries for ``restore_codes``."""

    def restore_codes(self, saved: object) -> None:
        """Set the codes and the missing entries to those that ``save_codes`` returned."""

    def stats(self) -> CodeStats:
        """Return the statistics of the present codes."""

    def update_codes(self, problem: CodeProblem, *, tol: float, max_iter: int) -> CodeStats:
        """Do the U step for all rows and return the statistics of the new codes.

        The statistics must be summed in an order that does not depend on the number of threads
        or workers.
        """

    def update_missing(self, D: Array, C: Array, eta: float) -> CodeStats:
        """Do the X step for the missing entries and return the statistics of the present codes."""

    def code_residual(self, problem: CodeProblem) -> float:
        """Return the largest optimality residual of the present codes."""

    def largest_residuals(self, D: Array, k: int) -> Array:
        """Return X − U D for the (at most) k rows where it is longest, the longest first."""
