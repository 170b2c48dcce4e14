"""Pictures of what was learned. matplotlib is imported when something is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_atoms(
    components: Any,
    shape: tuple[int, int] | None = None,
    *,
    n_columns: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Atoms or filters as small pictures in a grid, each scaled by its largest entry.

    Red is positive, blue negative, white zero.

    Parameters
    ----------
    components : array of shape (n_components, n_features) or fitted network
        ``components_`` or ``encoder_``; a network stands for its ``components_``.
    shape : (int, int), default=None
        Height and width of one picture. None means square.
    n_columns : int, default=None
        Pictures in a row. None means a grid about as wide as high.
    ax : matplotlib Axes, default=None
        Where to draw. None means a new figure.

    Returns
    -------
    matplotlib Axes
    """
    D = np.asarray(_learned(components, "components_"), dtype=np.float64)
    if D.ndim != 2:
        raise ValueError(f"components must have two dimensions, got shape {D.shape}.")
    m, p = D.shape
    side = round(p**0.5)
    height, width = shape or (side, side)
    if height * width != p:
        raise ValueError(
            f"shape must be a height and a width whose product is n_features = {p}, got"
            f" {shape or f'None, which means a square, and {p} is not one'}."
        )
    columns = n_columns or int(np.ceil(m**0.5))
    rows = -(-m // columns)
    mosaic = np.full((rows * (height + 1) - 1, columns * (width + 1) - 1), np.nan)
    for j, atom in enumerate(D):
        top, left = j // columns * (height + 1), j % columns * (width + 1)
        picture = atom.reshape(height, width) / (np.abs(atom).max() or 1.0)
        mosaic[top : top + height, left : left + width] = picture
    ax = ax if ax is not None else _new_axes()
    ax.imshow(mosaic, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
    ax.set_axis_off()
    return ax


def plot_energy(energy_path: Any, *, label: str | None = None, ax: Axes | None = None) -> Axes:
    """The energy above its lowest value against the iteration, on a logarithmic scale.

    A curve dives where it nears the value it is measured from: at its right end, unless the
    energy rises again on the way, as that of a stream or of Sparsenet may.

    Parameters
    ----------
    energy_path : array of shape (n_iter + 1,) or fitted network
        ``energy_path_``, or the network it belongs to.
    label : str, default=None
        The curve's name in a legend.
    ax : matplotlib Axes, default=None
        Where to draw. None means a new figure.

    Returns
    -------
    matplotlib Axes
    """
    path = np.asarray(_learned(energy_path, "energy_path_"), dtype=np.float64)
    ax = ax if ax is not None else _new_axes()
    lowest = path.min()
    above = path / lowest - 1 if lowest > 0 else path.copy()
    above[above <= 0] = np.nan  # has no place on this scale
    ax.semilogy(above, label=label)
    ax.set_xlabel("outer iteration")
    ax.set_ylabel("energy above its lowest value, relative")
    ax.grid(alpha=0.3)
    return ax


def _learned(thing: Any, attribute: str) -> Any:
    """An estimator's attribute, or the array itself."""
    if hasattr(thing, "fit") and not hasattr(thing, attribute):
        raise ValueError(
            f"{type(thing).__name__} has no {attribute}: it must be fitted first, or give an array."
        )
    return getattr(thing, attribute, thing)


def _new_axes() -> Axes:
    from matplotlib import pyplot as plt

    return plt.subplots(layout="constrained")[1]
