"""The energy during training, and how close the result is to an optimum."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from lincode.inspection.checks import check_network
from lincode.plotting.base import NEUTRAL, Display, check_matplotlib, check_vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class EnergyDisplay(Display):
    """The energy during training, with the optimality residuals at its end.

    Use :meth:`from_estimator` for a fitted network, and the constructor for other energies.

    Parameters
    ----------
    energy_path : array-like of shape (n_iter + 1,)
        The energy per sample at the start and after each iteration.
    optimality : dict of str to float, default=None
        The relative optimality residual of each step at the end of training; 0 is optimal.
    stop_reason : str, default=None
        The reason why training stopped.
    unit : str, default="iteration"
        What is counted, for example "batch".

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes with the plot.
    figure_ : matplotlib Figure
        The figure that contains them.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from lincode import SCNN
    >>> from lincode.plotting import EnergyDisplay
    >>> scnn = SCNN(n_components=16, random_state=0).fit(load_digits().data / 16)
    >>> display = EnergyDisplay.from_estimator(scnn)
    >>> sorted(display.optimality)
    ['codes', 'dictionary', 'encoder', 'joint']
    """

    def __init__(
        self,
        energy_path: Any,
        *,
        optimality: dict[str, float] | None = None,
        stop_reason: str | None = None,
        unit: str = "iteration",
    ) -> None:
        self.energy_path = energy_path
        self.optimality = optimality
        self.stop_reason = stop_reason
        self.unit = unit

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        relative: bool | None = None,
        label: str | None = None,
        ax: Axes | None = None,
    ) -> EnergyDisplay:
        """Plot the energy of the training of a network.

        Parameters
        ----------
        estimator : fitted network or SCNNCV
            An estimator with ``energy_path_``. For SCNNCV it is the path of the final fit.
        relative, label, ax
            See :meth:`plot`. For MiniBatchSCNN, whose energy is measured on one batch after
            another, None means ``relative=False``.

        Returns
        -------
        display : EnergyDisplay
        """
        check_matplotlib(cls.__name__)
        path = check_network(estimator, "energy_path_")
        is_batch = hasattr(getattr(estimator, "best_estimator_", estimator), "n_steps_")
        display = cls(
            path,
            optimality=getattr(estimator, "optimality_", None),
            stop_reason=getattr(estimator, "stop_reason_", None),
            unit="batch" if is_batch else "iteration",
        )
        relative = not is_batch if relative is None else relative
        return display.plot(relative=relative, label=label, ax=ax)

    def plot(
        self, *, relative: bool = True, label: str | None = None, ax: Axes | None = None
    ) -> EnergyDisplay:
        """Plot the energy.

        Parameters
        ----------
        relative : bool, default=True
            Whether energy / lowest energy − 1 is plotted on a logarithmic scale, instead of the
            energy itself. The lowest energy is not defined on this scale and is left out. It is
            usually the last one, but the energy of MiniBatchSCNN and Sparsenet may increase again.
        label : str, default=None
            The name of the curve in a legend. With a label, the residuals are part of the legend.
        ax : matplotlib Axes, default=None
            The axes to plot into. None means a new figure.

        Returns
        -------
        display : EnergyDisplay
        """
        path = check_vector(self.energy_path, "energy_path")
        ax = self._set_axes(ax, (6.4, 3.6))
        residuals = [f"{step} {value:.0e}" for step, value in (self.optimality or {}).items()]
        if label and residuals:
            label = f"{label} ({', '.join(residuals)})"
        first = 1 if self.unit == "batch" else 0
        x = np.arange(first, first + len(path))
        marker = "." if len(path) < 60 else None
        if relative:
            lowest = path.min()
            values = path / lowest - 1 if lowest > 0 else path.copy()
            values[values <= 0] = np.nan  # A logarithmic scale cannot show these values.
            ax.semilogy(x, values, marker=marker, label=label)
        else:
            ax.plot(x, path, marker=marker, label=label)
        ax.set_xlabel(self.unit)
        ax.set_ylabel("energy / lowest energy − 1" if relative else "energy per sample")
        ax.grid(alpha=0.3)
        if label:
            ax.legend(frameon=False)
        else:
            reason = re.split("[:;,]", self.stop_reason or "")[0]
            lines = [reason, *(["optimality residuals:", *residuals] if residuals else [])]
            corner: dict[str, Any] = dict(transform=ax.transAxes, ha="right", va="top")
            ax.text(0.98, 0.96, "\n".join(lines), color=NEUTRAL, fontsize=9, **corner)
        return self
