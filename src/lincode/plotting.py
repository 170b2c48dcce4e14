"""Plots of learned atoms and of training. They need matplotlib: pip install 'lincode[plot]'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lincode.exceptions import InvalidInputError, MissingDependencyError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray


def plot_atoms(
    components: Any,
    shape: tuple[int, int] | None = None,
    *,
    n_columns: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot atoms or filters as a grid of small images.

    Each image is divided by its largest absolute value. Positive entries are red, negative entries
    are blue and zero is white.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features) or fitted network
        Atoms or filters, one per row, such as ``components_`` or ``encoder_``. For a network, its
        ``components_`` are plotted.
    shape : tuple of (height, width), default=None
        Size of one image in pixels. None means a square.
    n_columns : int, default=None
        Number of images per row of the grid. None means a grid that is about square.
    ax : matplotlib Axes, default=None
        Axes to plot into. None means a new figure.

    Returns
    -------
    ax : matplotlib Axes
        The axes with the plot.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from lincode.plotting import plot_atoms
    >>> ax = plot_atoms(load_digits().data[:20], n_columns=5)
    """
    D = np.asarray(_fitted_attribute(components, "components_"), dtype=np.float64)
    if D.ndim != 2 or not D.size:
        raise InvalidInputError(
            "components must be an array with two dimensions and at least one entry, got shape"
            f" {D.shape}."
        )
    if n_columns is not None and n_columns < 1:
        raise InvalidInputError(f"n_columns must be at least 1 or None, got {n_columns!r}.")
    height, width = _image_shape(shape, D.shape[1])
    grid = _image_grid(D, height, width, n_columns or int(np.ceil(len(D) ** 0.5)))
    ax = ax if ax is not None else _new_axes("plot_atoms")
    ax.imshow(grid, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
    ax.set_axis_off()
    return ax


def plot_energy(energy_path: Any, *, label: str | None = None, ax: Axes | None = None) -> Axes:
    """Plot the energy during training, relative to its lowest value, on a logarithmic scale.

    The plotted value is energy / lowest energy − 1. It is not defined on this scale at the lowest
    energy itself, which is left out. The curve decreases steeply before that point. This is
    usually the last iteration, but the energy of ``MiniBatchSCNN`` and ``Sparsenet`` may increase
    again after it.

    Parameters
    ----------
    energy_path : array-like of shape (n_iter + 1,) or fitted network
        Energies at the start and after each iteration, such as ``energy_path_``. For a network,
        its ``energy_path_`` is plotted.
    label : str, default=None
        Name of the curve in a legend.
    ax : matplotlib Axes, default=None
        Axes to plot into. None means a new figure.

    Returns
    -------
    ax : matplotlib Axes
        The axes with the plot.

    Examples
    --------
    >>> from lincode.plotting import plot_energy
    >>> ax = plot_energy([4.0, 3.0, 2.5, 2.4], label="example")
    """
    path = np.asarray(_fitted_attribute(energy_path, "energy_path_"), dtype=np.float64)
    if path.ndim != 1 or not path.size:
        raise InvalidInputError(
            "energy_path must be an array with one dimension and at least one entry, got shape"
            f" {path.shape}."
        )
    ax = ax if ax is not None else _new_axes("plot_energy")
    lowest = path.min()
    relative = path / lowest - 1 if lowest > 0 else path.copy()
    relative[relative <= 0] = np.nan  # A logarithmic scale cannot show these values.
    ax.semilogy(relative, label=label)
    ax.set_xlabel("iteration")
    ax.set_ylabel("energy / lowest energy − 1")
    ax.grid(alpha=0.3)
    return ax


def _image_shape(shape: tuple[int, int] | None, n_features: int) -> tuple[int, int]:
    """Return the height and the width of an image, or raise if they do not fit n_features."""
    if shape is None:
        side = round(n_features**0.5)
        if side * side != n_features:
            raise InvalidInputError(
                f"shape must be given, because n_features = {n_features} is not a square number;"
                " pass shape=(height, width) with height * width = n_features."
            )
        return side, side
    if len(shape) != 2 or min(shape) < 1 or shape[0] * shape[1] != n_features:
        raise InvalidInputError(
            "shape must be a height and a width whose product is n_features ="
            f" {n_features}, got {shape!r}."
        )
    return shape


def _image_grid(D: NDArray[np.float64], height: int, width: int, n_columns: int) -> Any:
    """Return one large image with a line of NaN between the images of the rows of D."""
    n_rows = -(-len(D) // n_columns)
    grid = np.full((n_rows * (height + 1) - 1, n_columns * (width + 1) - 1), np.nan)
    for j, atom in enumerate(D):
        top, left = j // n_columns * (height + 1), j % n_columns * (width + 1)
        image = atom.reshape(height, width) / (np.abs(atom).max() or 1.0)
        grid[top : top + height, left : left + width] = image
    return grid


def _fitted_attribute(estimator_or_array: Any, attribute: str) -> Any:
    """Return the attribute of a fitted estimator; return anything else unchanged."""
    if hasattr(estimator_or_array, "fit") and not hasattr(estimator_or_array, attribute):
        name = type(estimator_or_array).__name__
        raise InvalidInputError(
            f"{name} has no {attribute}: it must be fitted first. Call fit, or pass an array."
        )
    return getattr(estimator_or_array, attribute, estimator_or_array)


def _new_axes(function: str) -> Axes:
    """Return the axes of a new figure."""
    try:
        from matplotlib import pyplot as plt
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"{function} needs matplotlib; install it with: pip install 'lincode[plot]'"
        ) from error
    return plt.subplots(layout="constrained")[1]
