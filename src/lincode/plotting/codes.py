"""How codes use the atoms: usage, values and numbers of non-zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

from lincode.exceptions import InvalidInputError
from lincode.inspection.checks import check_codes, check_network, codes_per_atom
from lincode.plotting.base import (
    NEGATIVE,
    NEUTRAL,
    POSITIVE,
    Display,
    check_matplotlib,
    check_vector,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = ("values", "nonzeros")


def usage_of_codes(codes: Any) -> Any:
    """Return the fraction of samples that use each atom."""
    return np.asarray((codes != 0).mean(axis=0)).ravel()


def mean_squares(codes: Any) -> Any:
    """Return the mean squared coefficient of each atom."""
    squares = codes.multiply(codes) if issparse(codes) else np.square(codes)
    return np.asarray(squares.mean(axis=0)).ravel()


class UsageDisplay(Display):
    """The fraction of samples that use each atom, from the most used atom to the least used one.

    Use :meth:`from_estimator` or :meth:`from_codes`.

    Parameters
    ----------
    usage : array-like of shape (n_atoms,)
        The fraction of samples that use each atom.
    negative_usage : array-like of shape (n_atoms,), default=None
        The fraction of samples that use each atom with a negative coefficient, if it is known.

    Attributes
    ----------
    order_ : array of shape (n_atoms,)
        The numbers of the atoms from the most used to the least used one.
    ax_ : matplotlib Axes
        The axes with the plot.
    figure_ : matplotlib Figure
        The figure that contains them.

    Examples
    --------
    >>> from lincode.plotting import UsageDisplay
    >>> display = UsageDisplay.from_codes([[0.0, 2.0], [1.0, -1.0]])
    >>> display.usage, display.order_
    (array([0.5, 1. ]), array([1, 0]))
    """

    def __init__(self, usage: Any, *, negative_usage: Any = None) -> None:
        self.usage = usage
        self.negative_usage = negative_usage

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, *, ax: Axes | None = None
    ) -> UsageDisplay:
        """Plot the usage of the atoms of a fitted network.

        Parameters
        ----------
        estimator : fitted estimator
            A network, SCNNCV or SparseCoder.
        X : array-like or CSR matrix of shape (n_samples, n_features), default=None
            Samples whose codes are counted. None means the training samples, as stored in
            ``usage_``.
        ax : matplotlib Axes, default=None
            The axes to plot into. None means a new figure.

        Returns
        -------
        display : UsageDisplay
        """
        check_matplotlib(cls.__name__)
        check_network(estimator)
        if X is not None:
            return cls.from_codes(codes_per_atom(estimator, X), ax=ax)
        if not hasattr(estimator, "usage_"):
            raise InvalidInputError(
                f"X must be given, because {type(estimator).__name__} has no usage_; got None."
            )
        return cls(estimator.usage_).plot(ax=ax)

    @classmethod
    def from_codes(cls, codes: Any, *, ax: Axes | None = None) -> UsageDisplay:
        """Plot the usage of the atoms in given codes.

        Parameters
        ----------
        codes : array-like or CSR matrix of shape (n_samples, n_atoms)
            The codes. Columns of split signs count as atoms of their own.
        ax : matplotlib Axes, default=None
            The axes to plot into. None means a new figure.

        Returns
        -------
        display : UsageDisplay
        """
        U = check_codes(codes)
        negative = np.asarray((U < 0).mean(axis=0)).ravel()
        return cls(usage_of_codes(U), negative_usage=negative).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> UsageDisplay:
        """Plot one bar for each atom.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            The axes to plot into. None means a new figure.

        Returns
        -------
        display : UsageDisplay
        """
        usage = check_vector(self.usage, "usage")
        negative = None
        if self.negative_usage is not None:
            negative = check_vector(self.negative_usage, "negative_usage")
            if len(negative) != len(usage):
                raise InvalidInputError(
                    "negative_usage must have one entry for each entry of usage,"
                    f" {len(usage)}, got {len(negative)}."
                )
        ax = self._set_axes(ax, (6.4, 3.6))
        self.order_ = order = np.argsort(-usage, kind="stable")
        edges, sorted_usage = np.arange(len(usage) + 1) - 0.5, usage[order]
        if negative is None or not negative.any():
            ax.stairs(sorted_usage, edges, fill=True, color=NEUTRAL)
        else:
            positive = sorted_usage - negative[order]
            options: dict[str, Any] = dict(edges=edges, fill=True)
            ax.stairs(positive, color=POSITIVE, label="positive coefficients", **options)
            options |= dict(baseline=positive, color=NEGATIVE)
            ax.stairs(sorted_usage, label="negative coefficients", **options)
        ax.axhline(usage.mean(), color="black", linewidth=0.9, linestyle="--")
        n_unused = int(np.sum(usage == 0))
        ax.plot([], [], "k--", linewidth=0.9, label=f"mean, {usage.mean():.1%}")
        if n_unused:
            ax.plot([], [], " ", label=f"{n_unused} of {len(usage)} atoms are not used")
        ax.set(xlabel="atom, sorted by usage", ylabel="fraction of samples that use it")
        ax.set(xlim=(-0.5, len(usage) - 0.5), ylim=(0, None))
        ax.legend(frameon=False)
        return self


class CodesDisplay(Display):
    """The histogram of the coefficients, or of the number of non-zeros per sample.

    Use :meth:`from_estimator` or :meth:`from_codes`.

    Parameters
    ----------
    values : array-like of shape (n_nonzeros,)
        The coefficients that are not zero.
    nonzeros : array-like of shape (n_samples,)
        The number of non-zeros of each sample.
    n_atoms : int
        The number of columns of the codes.

    Attributes
    ----------
    sparsity : float
        The fraction of coefficients that are zero.
    ax_ : matplotlib Axes
        The axes with the plot.
    figure_ : matplotlib Figure
        The figure that contains them.

    Examples
    --------
    >>> from lincode.plotting import CodesDisplay
    >>> display = CodesDisplay.from_codes([[0.0, 2.0, 0.0], [1.0, -1.0, 0.0]], kind="nonzeros")
    >>> display.sparsity, display.nonzeros
    (0.5, array([1, 2]))
    """

    def __init__(self, values: Any, nonzeros: Any, n_atoms: int) -> None:
        self.values = values
        self.nonzeros = nonzeros
        self.n_atoms = n_atoms

    @property
    def sparsity(self) -> float:
        """The fraction of coefficients that are zero."""
        return float(1 - np.mean(self.nonzeros) / self.n_atoms)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        kind: str = "values",
        label: str | None = None,
        ax: Axes | None = None,
    ) -> CodesDisplay:
        """Plot a histogram of the codes of samples.

        Parameters
        ----------
        estimator : fitted estimator
            A network, SCNNCV or SparseCoder.
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The samples. With ``split_sign=True`` the two parts of a coefficient are merged.
        kind, label, ax
            See :meth:`plot`.

        Returns
        -------
        display : CodesDisplay
        """
        check_matplotlib(cls.__name__)
        codes = codes_per_atom(estimator, X)
        return cls.from_codes(codes, kind=kind, label=label, ax=ax)

    @classmethod
    def from_codes(
        cls,
        codes: Any,
        *,
        kind: str = "values",
        label: str | None = None,
        ax: Axes | None = None,
    ) -> CodesDisplay:
        """Plot a histogram of given codes.

        Parameters
        ----------
        codes : array-like or CSR matrix of shape (n_samples, n_atoms)
            The codes.
        kind, label, ax
            See :meth:`plot`.

        Returns
        -------
        display : CodesDisplay
        """
        U = check_codes(codes)
        stored = U.data if issparse(U) else U.ravel()
        is_nonzero = U != 0
        counts = np.asarray(is_nonzero.sum(axis=1)).ravel().astype(int)
        display = cls(stored[stored != 0], counts, U.shape[1])
        return display.plot(kind=kind, label=label, ax=ax)

    def plot(
        self, *, kind: str = "values", label: str | None = None, ax: Axes | None = None
    ) -> CodesDisplay:
        """Plot the histogram.

        Parameters
        ----------
        kind : {"values", "nonzeros"}, default="values"
            "values" is the histogram of the coefficients that are not zero, with a logarithmic
            scale. "nonzeros" is that of the number of non-zeros per sample.
        label : str, default=None
            The name of the codes in the legend, to compare several in one plot.
        ax : matplotlib Axes, default=None
            The axes to plot into. None means a new figure.

        Returns
        -------
        display : CodesDisplay
        """
        if kind not in KINDS:
            raise InvalidInputError(f"kind must be one of {KINDS}, got {kind!r}.")
        values = check_vector(self.values, "values", min_size=0)
        counts = check_vector(self.nonzeros, "nonzeros")
        ax = self._set_axes(ax, (6.4, 3.6))
        name = "" if label is None else f"{label}: "
        if kind == "values":
            text = f"{name}{self.sparsity:.1%} zeros (not shown)"
            heights, edges = np.histogram(values, 100 if len(values) > 1000 else "auto")
            ax.stairs(heights, edges, fill=True, alpha=0.7, label=text)
            if values.size:
                ax.set_yscale("log")
                ax.set_ylim(bottom=0.5)
            ax.set(xlabel="coefficient", ylabel="number of coefficients")
        else:
            text = f"{name}{counts.mean():.1f} of {self.n_atoms} on average"
            width = max(1, -(-(counts.max() - counts.min() + 1) // 60))
            edges = np.arange(counts.min(), counts.max() + width + 1, width) - 0.5
            heights, _ = np.histogram(counts, edges)
            steps = ax.stairs(heights, edges, fill=True, alpha=0.7, label=text)
            ax.axvline(counts.mean(), color=steps.get_facecolor()[:3], linestyle="--")
            ax.set(xlabel="non-zeros per sample", ylabel="number of samples")
        ax.legend(frameon=False)
        return self
