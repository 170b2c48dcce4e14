"""What all displays have in common: axes, and the error if matplotlib is not installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lincode.exceptions import InvalidInputError, MissingDependencyError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POSITIVE, NEGATIVE, NEUTRAL = "#c0504d", "#4472a8", "#7f7f7f"
"""Colours of positive and negative values, as in the colour map of atoms, and of everything else"""


class Display:
    """A plot that can be repeated: its data, and ``ax_`` and ``figure_`` after ``plot``."""

    ax_: Axes
    figure_: Any

    def _set_axes(self, ax: Axes | None, size: tuple[float, float] | None = None) -> Axes:
        """Set and return the axes to plot into. If there are none, make a figure of a size."""
        if ax is None:
            check_matplotlib(type(self).__name__)
            from matplotlib import pyplot as plt

            ax = plt.subplots(figsize=size, layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure
        return ax


def check_vector(values: Any, name: str, *, min_size: int = 1) -> Any:
    """Return finite numbers as an array with one dimension, or raise."""
    try:
        vector = np.asarray(values, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"{name} must be numbers: {error}") from error
    if vector.ndim != 1 or vector.size < min_size:
        raise InvalidInputError(
            f"{name} must be an array with one dimension and at least {min_size} entries, got"
            f" shape {vector.shape}."
        )
    if not np.isfinite(vector).all():
        raise InvalidInputError(f"{name} must be finite, but contains NaN or infinity.")
    return vector


def check_matplotlib(name: str) -> None:
    """Raise an error that says how to install matplotlib if it is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"{name} needs matplotlib; install it with: pip install 'lincode[plot]'"
        ) from error
