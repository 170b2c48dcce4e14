"""The reconstruction error against the number of non-zeros."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from lincode.exceptions import InvalidInputError
from lincode.inspection.checks import check_network
from lincode.plotting.base import Display, check_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DENSITIES = (0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3)
"""The default fractions of non-zeros to which an encoder is calibrated."""
BLOCK_BYTES = 2**26
"""The size of the blocks of dense samples in which errors are computed."""


class ReconstructionDisplay(Display):
    """The reconstruction error against the mean number of non-zeros per sample.

    Use :meth:`from_estimator` for one network, and :meth:`from_path` for several ones.

    Parameters
    ----------
    nonzeros : array-like of shape (n_points,)
        The mean number of non-zeros per sample.
    errors : array-like of shape (n_points,)
        The root-mean-square errors of the reconstructions, over all entries.

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
    >>> from lincode.plotting import ReconstructionDisplay
    >>> X = load_digits().data / 16
    >>> scnn = SCNN(n_components=16, random_state=0).fit(X[:1500])
    >>> display = ReconstructionDisplay.from_estimator(scnn, X[1500:], densities=[0.1, 0.3])
    >>> bool(display.errors[0] > display.errors[1])
    True
    """

    def __init__(self, nonzeros: Any, errors: Any) -> None:
        self.nonzeros = nonzeros
        self.errors = errors

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        densities: ArrayLike | None = None,
        X_calibration: Any = None,
        label: str | None = None,
        ax: Axes | None = None,
    ) -> ReconstructionDisplay:
        """Plot the errors of a network for codes of different sparsity.

        A copy of an SCNN or MiniBatchSCNN with ``transform_algorithm="encoder"`` is calibrated to
        each density; its dictionary is not trained again. The estimator itself is not changed. For
        all other estimators there is one point, that of their codes.

        Parameters
        ----------
        estimator : fitted estimator
            A network, SCNNCV or SparseCoder.
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Samples, if possible others than those of the training. Missing entries (NaN) do not
            count.
        densities : array-like of float, default=None
            The fractions of non-zeros of the encoder's codes. None means seven values between 0.02
            and 0.3.
        X_calibration : array-like or CSR matrix of shape (any, n_features), default=None
            The samples of the calibration. None means X.
        label, ax
            See :meth:`plot`.

        Returns
        -------
        display : ReconstructionDisplay
        """
        check_matplotlib(cls.__name__)
        m = len(check_network(estimator))
        network = getattr(estimator, "best_estimator_", estimator)
        points = []
        if hasattr(network, "calibrate") and network.transform_algorithm == "encoder":
            given = np.atleast_1d(np.asarray(DENSITIES if densities is None else densities))
            sample = X if X_calibration is None else X_calibration
            for density in np.unique(np.maximum(given, 1 / m)):
                points.append(_point(_calibrated(network, sample, float(density)), X))
        else:
            if densities is not None:
                raise InvalidInputError(
                    "densities must be None for an estimator without an encoder that can be"
                    f" calibrated, got {densities!r}; use from_path with several estimators."
                )
            points.append(_point(estimator, X))
        return cls(*np.transpose(points)).plot(label=label, ax=ax)

    @classmethod
    def from_path(
        cls,
        estimators: Sequence[Any],
        X: Any,
        *,
        label: str | None = None,
        ax: Axes | None = None,
    ) -> ReconstructionDisplay:
        """Plot the errors of several networks, with one point for each of them.

        Parameters
        ----------
        estimators : sequence of fitted estimators
            For example the result of :func:`lincode.scnn_path`.
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Samples, if possible others than those of the training.
        label, ax
            See :meth:`plot`.

        Returns
        -------
        display : ReconstructionDisplay
        """
        check_matplotlib(cls.__name__)
        if not isinstance(estimators, Sequence) or not estimators:
            raise InvalidInputError(
                f"estimators must be a list of at least one fitted network, got {estimators!r:.40}."
            )
        for estimator in estimators:
            check_network(estimator)
        points = np.array([_point(estimator, X) for estimator in estimators])
        return cls(*points[np.argsort(points[:, 0], kind="stable")].T).plot(label=label, ax=ax)

    def plot(self, *, label: str | None = None, ax: Axes | None = None) -> ReconstructionDisplay:
        """Plot the errors.

        Parameters
        ----------
        label : str, default=None
            The name of the curve in a legend.
        ax : matplotlib Axes, default=None
            The axes to plot into. None means a new figure.

        Returns
        -------
        display : ReconstructionDisplay
        """
        ax = self._set_axes(ax, (6.4, 3.6))
        ax.plot(self.nonzeros, self.errors, marker="o", markersize=4, label=label)
        ax.set(xlabel="non-zeros per sample (mean)", ylabel="RMS error of the reconstruction")
        ax.set_ylim(0, None)
        ax.grid(visible=True, alpha=0.3)
        if label:
            ax.legend(frameon=False)
        return self


def _calibrated(network: Any, X: Any, density: float) -> Any:
    """Return a copy of a network whose encoder is calibrated to a density."""
    calibrated = copy.copy(network)
    calibrated.set_params(threshold="match", transform_n_nonzero_coefs=None)
    return calibrated.calibrate(X, density=density)


def _point(estimator: Any, X: Any) -> tuple[float, float]:
    """Return the mean number of non-zeros per sample and the RMS error."""
    X = X if hasattr(X, "shape") else np.asarray(X)
    n, p = X.shape
    n_rows = max(1, BLOCK_BYTES // (8 * p))
    n_nonzero = n_observed = 0
    total = 0.0
    for first in range(0, n, n_rows):
        rows = (X.iloc if hasattr(X, "iloc") else X)[first : first + n_rows]
        codes = estimator.transform(rows)
        codes = codes if issparse(codes) else np.asarray(codes)
        stored = codes.data if issparse(codes) else codes
        difference = _dense(rows) - estimator.inverse_transform(codes)
        observed = ~np.isnan(difference)
        n_nonzero += int(np.count_nonzero(stored))
        n_observed += int(observed.sum())
        total += float(np.sum(difference[observed] ** 2))
    return n_nonzero / n, float(np.sqrt(total / max(n_observed, 1)))


def _dense(rows: Any) -> Any:
    return rows.toarray() if issparse(rows) else np.asarray(rows, dtype=np.float64)
