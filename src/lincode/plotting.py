"""Displays of atoms, codes and training, and the samples and features behind atoms.

The displays work like those of scikit-learn: ``from_estimator`` plots and returns the display, and
``plot`` plots it again, for example into other axes. Both set the attributes ``ax_`` and
``figure_``. The displays need matplotlib: ``pip install 'lincode[plot]'``.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.utils import Bunch, check_array, gen_batches
from sklearn.utils.validation import check_is_fitted

from lincode.exceptions import InvalidInputError, MissingDependencyError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POSITIVE, NEGATIVE, NEUTRAL = "#c0504d", "#4472a8", "#7f7f7f"
DENSITIES = (0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3)
N_NAMES = 6  # The number of features in a list.
MAX_DETAILED = 20  # The default number of atoms if they are lines or lists of features.

Floats = NDArray[np.float64]


def describe_atoms(
    estimator: Any,
    X: Any,
    atoms: ArrayLike | None = None,
    *,
    n_samples: int = 10,
    n_features: int = 10,
    feature_names: Any = None,
) -> list[Bunch]:
    """Return the samples that use each atom most, and the features with its largest entries.

    Samples and features are ordered by absolute values, the largest first. Zeros are left out, so
    an atom that few samples use has fewer samples.

    Parameters
    ----------
    estimator : fitted estimator
        A network or SparseCoder.
    X : array-like or CSR matrix of shape (n_samples, n_features)
        The samples.
    atoms : array-like of int, default=None
        The atoms (rows of ``components_``). None means all of them.
    n_samples, n_features : int, default=10
        The largest numbers of samples and features per atom.
    feature_names : array-like of shape (n_features,), default=None
        The names of the features. None means ``feature_names_in_`` of the estimator, or the
        numbers of the features if there are no names.

    Returns
    -------
    descriptions : list of Bunch
        For each atom, its number ``atom`` and the arrays

        - ``samples``: the rows of X, and ``coefficients``: their coefficients;
        - ``features``: the names or numbers of features, and ``entries``: the entries of the atom.

    Examples
    --------
    >>> from lincode import SparseCoder
    >>> from lincode.plotting import describe_atoms
    >>> coder = SparseCoder([[0.6, 0.0, -0.8]], transform_n_nonzero_coefs=1)
    >>> (atom,) = describe_atoms(
    ...     coder, [[0.0, 1.0, 0.0], [0.6, 0.0, -0.8]], feature_names=["sun", "sky", "sea"]
    ... )
    >>> atom.samples, atom.coefficients
    (array([1]), array([1.]))
    >>> atom.features, atom.entries
    (array(['sea', 'sun'], dtype='<U3'), array([-0.8,  0.6]))
    """
    D = _components(estimator)
    names = _checked_names(estimator, feature_names, D.shape[1])
    names = np.arange(D.shape[1]) if names is None else names
    U = _codes_per_atom(estimator, X)
    U = U.tocsc() if issparse(U) else U
    found, chosen = [], np.atleast_1d(np.arange(len(D)) if atoms is None else np.asarray(atoms))
    if chosen.dtype.kind not in "iu" or not np.all((chosen >= 0) & (chosen < len(D))):
        raise InvalidInputError(f"atoms must be integers from 0 to {len(D) - 1}, got {atoms!r}.")
    for j in chosen:
        column = U[:, [j]].toarray().ravel() if issparse(U) else U[:, j]
        samples, features = _largest(column, n_samples), _largest(D[j], n_features)
        found.append(Bunch(atom=int(j), samples=samples, coefficients=column[samples]))
        found[-1].update(features=names[features], entries=D[j][features])
    return found


class _Display:
    """A plot that can be repeated: its data, and ``ax_`` and ``figure_`` after ``plot``."""

    ax_: Axes
    figure_: Any

    def _set_axes(self, ax: Axes | None, size: tuple[float, float] = (6.4, 3.6)) -> Axes:
        """Set and return the axes to plot into. If there are none, make a figure of a size."""
        if ax is None:
            try:
                from matplotlib import pyplot as plt
            except ImportError as error:
                raise MissingDependencyError(
                    f"{type(self).__name__} needs matplotlib; install it with:"
                    " pip install 'lincode[plot]'"
                ) from error
            ax = plt.subplots(figsize=size, layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure
        return ax


class AtomsDisplay(_Display):
    """Atoms as small images, as lines over the features, or as lists of features.

    Parameters
    ----------
    atoms : array-like of shape (n_atoms, n_features)
        The atoms, one per row.
    image_shape : tuple of int, default=None
        (height, width) of images, (height, width, 3) of colour images with the channels last, or
        (n_features,) for lines. None means square images, square colour images or lines,
        whichever suits ``n_features``, and lists of features if they have names.
    feature_names : array-like of shape (n_features,), default=None
        The names of the features. Without ``image_shape``, an atom is a list of the features with
        its largest entries, for example the words of a topic. Lines have the first and the last
        name below them.
    captions : sequence of str, default=()
        Texts above the atoms.
    title : str, default=""
        A text above the plot, for example what the captions mean.
    indices : array-like of int, default=None
        The numbers of the atoms in the dictionary. None means 0, 1, and so on.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from lincode import SCNN
    >>> from lincode.plotting import AtomsDisplay
    >>> scnn = SCNN(n_components=16, random_state=0).fit(load_digits().data / 16)
    >>> display = AtomsDisplay.from_estimator(scnn)
    >>> bool(scnn.usage_[display.indices[0]] == scnn.usage_.max())
    True
    """

    def __init__(
        self,
        atoms: Any,
        *,
        image_shape: tuple[int, ...] | None = None,
        feature_names: Any = None,
        captions: Sequence[str] = (),
        title: str = "",
        indices: Any = None,
    ) -> None:
        self.atoms = atoms
        self.image_shape = image_shape
        self.feature_names = feature_names
        self.captions = captions
        self.title = title
        self.indices = np.arange(len(atoms)) if indices is None else indices

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        sort_by: str | None = "usage",
        n_atoms: int | None = None,
        captions: bool = True,
        image_shape: tuple[int, ...] | None = None,
        feature_names: Any = None,
        n_columns: int | None = None,
        cmap: Any = None,
        ax: Axes | None = None,
    ) -> AtomsDisplay:
        """Plot the atoms of a fitted network.

        Parameters
        ----------
        estimator : fitted estimator
            A network, SparseCoder, or another estimator with ``components_``.
        sort_by : {"usage"} or None, default="usage"
            "usage" is the fraction of training samples that use an atom (``usage_``). None, or an
            estimator without ``usage_``, means the order of the dictionary.
        n_atoms : int, default=None
            The number of atoms. None means all atoms as images, and at most 20 in other forms.
        captions : bool, default=True
            Whether the number and the usage of an atom are written above it.
        image_shape, feature_names
            See :class:`AtomsDisplay`. ``feature_names_in_`` of the estimator are used if there is
            neither.
        n_columns, cmap, ax
            See :meth:`plot`.
        """
        D = _components(estimator)
        if sort_by not in ("usage", None):
            raise InvalidInputError(f"sort_by must be 'usage' or None, got {sort_by!r}.")
        if image_shape is None or len(image_shape) == 1:
            feature_names = _checked_names(estimator, feature_names, D.shape[1])
        if n_atoms is None and len(_tile_shape(image_shape, D.shape[1], feature_names)) == 1:
            n_atoms = MAX_DETAILED
        usage = getattr(estimator, "usage_", None)
        order = np.arange(len(D))
        if sort_by is not None and usage is not None:
            order = np.argsort(-usage, kind="stable")
        order = order[:n_atoms]
        texts = [str(j) if usage is None else f"{j}: {usage[j]:.0%}" for j in order]
        meaning = "atom" if usage is None else "atom: samples that use it"
        display = cls(
            D[order],
            image_shape=image_shape,
            feature_names=feature_names,
            captions=texts if captions else (),
            title=meaning if captions else "",
            indices=order,
        )
        return display.plot(n_columns=n_columns, cmap=cmap, ax=ax)

    def plot(
        self, *, n_columns: int | None = None, cmap: Any = None, ax: Axes | None = None
    ) -> AtomsDisplay:
        """Plot the atoms. Each of them is divided by its largest absolute value.

        Parameters
        ----------
        n_columns : int, default=None
            The number of atoms per row of the grid. None means a grid that is about square.
        cmap : str or matplotlib Colormap, default=None
            The colours of grey images. None means red for positive, blue for negative and white
            for zero, or grey values if no entry is negative.
        ax : matplotlib Axes, default=None
            The axes to plot into. None means a new figure.
        """
        D = check_array(self.atoms, dtype=np.float64, input_name="atoms")
        shape = _tile_shape(self.image_shape, D.shape[1], self.feature_names)
        is_image = len(shape) > 1
        height, width = shape[:2] if is_image else (3, 4)
        if n_columns is None:
            n_columns = max(1, round((len(D) * height / width) ** 0.5))
        grid = -(-len(D) // n_columns), n_columns
        tile = 1.7 if not is_image else 0.75 if len(self.captions) else 0.55  # inches
        inches = min(max(tile * n_columns, 3), 12)
        ratio = height / width * (1.3 if is_image and len(self.captions) else 1)
        size = inches, min(max(inches * grid[0] / n_columns * ratio, 1), 14)
        ax = self._set_axes(ax, size)
        ax.set_axis_off()
        ax.set_title(self.title, fontsize="medium")
        scale = np.abs(D).max(axis=1, keepdims=True)
        D = D / np.where(scale > 0, scale, 1)
        if is_image:
            _plot_images(ax, D.reshape(-1, *shape), grid, self.captions, cmap)
        else:
            is_list = self.image_shape is None and self.feature_names is not None
            _plot_details(ax, D, grid, self.captions, self.feature_names, is_list)
        return self


class CodesDisplay(_Display):
    """The values of codes, the number of non-zeros per sample, or the usage of the atoms.

    Parameters
    ----------
    codes : array-like or scipy sparse matrix of shape (n_samples, n_atoms)
        The codes. Columns of split signs count as atoms of their own.

    Examples
    --------
    >>> from lincode.plotting import CodesDisplay
    >>> display = CodesDisplay([[0.0, 2.0, 0.0], [1.0, -1.0, 0.0]]).plot(kind="usage")
    >>> display.ax_.get_ylabel()
    'fraction of samples that use it'
    """

    def __init__(self, codes: Any) -> None:
        self.codes = codes

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
        """Plot the codes of samples.

        Parameters
        ----------
        estimator : fitted estimator
            A network or SparseCoder.
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The samples. With ``split_sign=True`` the two parts of a coefficient are merged.
        kind, label, ax
            See :meth:`plot`.
        """
        return cls(_codes_per_atom(estimator, X)).plot(kind=kind, label=label, ax=ax)

    def plot(
        self, *, kind: str = "values", label: str | None = None, ax: Axes | None = None
    ) -> CodesDisplay:
        """Plot the codes.

        Parameters
        ----------
        kind : {"values", "nonzeros", "usage"}, default="values"
            "values" is the histogram of the coefficients that are not zero, with a logarithmic
            scale. "nonzeros" is that of the number of non-zeros per sample. "usage" is the
            fraction of samples that use each atom, from the most used atom to the least used one.
        label : str, default=None
            The name of the codes in the legend, to compare several in one plot.
        ax : matplotlib Axes, default=None
            The axes to plot into. None means a new figure.
        """
        if kind not in KINDS:
            raise InvalidInputError(f"kind must be one of {list(KINDS)}, got {kind!r}.")
        U = check_array(self.codes, accept_sparse="csr", input_name="codes")
        ax = self._set_axes(ax)
        ax.margins(y=0.25)  # space for the legend
        KINDS[kind](ax, U, "" if label is None else f"{label}: ")
        ax.legend(frameon=False, loc="upper right")
        return self


class EnergyDisplay(_Display):
    """The energy during training.

    Parameters
    ----------
    energy_path : array-like of shape (n_iter + 1,)
        The energy per sample at the start and after each iteration.
    note : str, default=""
        A text in the corner of the plot. ``from_estimator`` writes why training stopped, and the
        relative optimality residual of each step; 0 is optimal.
    unit : str, default="iteration"
        What is counted, for example "batch".

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from lincode import SCNN
    >>> from lincode.plotting import EnergyDisplay
    >>> scnn = SCNN(n_components=16, refine=False, random_state=0).fit(load_digits().data / 16)
    >>> display = EnergyDisplay.from_estimator(scnn)
    >>> display.note.splitlines()[0]
    'converged'
    """

    def __init__(self, energy_path: Any, *, note: str = "", unit: str = "iteration") -> None:
        self.energy_path = energy_path
        self.note = note
        self.unit = unit

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, label: str | None = None, ax: Axes | None = None
    ) -> EnergyDisplay:
        """Plot the energy of the training of a network.

        The energy of MiniBatchSCNN is measured on one batch after another, so that it may increase.
        It is plotted with ``relative=False``.

        Parameters
        ----------
        estimator : fitted network
            An estimator with ``energy_path_``.
        label, ax
            See :meth:`plot`.
        """
        _components(estimator)
        if not estimator.energy_path_.size:
            raise InvalidInputError(f"there is no energy, because {estimator.stop_reason_}.")
        is_batch = hasattr(estimator, "partial_fit")
        lines = re.split("[:;,]", getattr(estimator, "stop_reason_", ""))[:1]
        residuals = getattr(estimator, "optimality_", {})
        lines += ["optimality residuals:"] if residuals else []
        lines += [f"{step} {value:.0e}" for step, value in residuals.items()]
        unit = "batch" if is_batch else "iteration"
        display = cls(estimator.energy_path_, note="\n".join(lines), unit=unit)
        return display.plot(relative=not is_batch, label=label, ax=ax)

    def plot(
        self, *, relative: bool = True, label: str | None = None, ax: Axes | None = None
    ) -> EnergyDisplay:
        """Plot the energy.

        Parameters
        ----------
        relative : bool, default=True
            Whether energy / lowest energy − 1 is plotted on a logarithmic scale, instead of the
            energy itself. The lowest energy is not defined on this scale and is left out.
        label : str, default=None
            The name of the curve in a legend, which then replaces the note.
        ax : matplotlib Axes, default=None
            The axes to plot into. None means a new figure.
        """
        path = np.array(self.energy_path, dtype=np.float64)
        ax = self._set_axes(ax)
        if relative:
            path = path / path.min() - 1 if path.min() > 0 else path
            path[path <= 0] = np.nan  # A logarithmic scale cannot show these values.
            ax.set_yscale("log")
        ax.plot(path, marker="." if len(path) < 60 else None, label=label)
        ax.set_xlabel(self.unit)
        ax.set_ylabel("energy / lowest energy − 1" if relative else "energy per sample")
        ax.grid(alpha=0.3)
        if label:
            ax.legend(frameon=False)
        else:
            corner: dict[str, Any] = dict(transform=ax.transAxes, ha="right", va="top")
            ax.text(0.98, 0.96, self.note, color=NEUTRAL, **corner)
        return self


class ReconstructionDisplay(_Display):
    """The reconstruction error against the mean number of non-zeros per sample.

    Parameters
    ----------
    nonzeros : array-like of shape (n_points,)
        The mean number of non-zeros per sample.
    errors : array-like of shape (n_points,)
        The root-mean-square errors of the reconstructions, over all entries.

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
        densities: ArrayLike = DENSITIES,
        label: str | None = None,
        ax: Axes | None = None,
    ) -> ReconstructionDisplay:
        """Plot the errors of a network that is calibrated to different densities.

        Copies of the network are calibrated to X by ``calibrate``, which also refines them if
        ``refine=True``. The training is not repeated, and the estimator itself is not changed.

        Parameters
        ----------
        estimator : fitted estimator
            An SCNN or MiniBatchSCNN whose ``transform_algorithm`` is "encoder" or "projection".
            For other estimators, use :meth:`from_path`.
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Samples, if possible other than the training samples. NaN entries do not count.
        densities : array-like of float, default=seven values between 0.02 and 0.3
            The fractions of non-zeros of the codes. If the density of the estimator is an int,
            every code has this number of non-zeros.
        label, ax
            See :meth:`plot`.
        """
        m = len(_components(estimator))
        if getattr(estimator, "transform_algorithm", None) not in ("encoder", "projection"):
            raise InvalidInputError(
                "estimator must be a network with transform_algorithm='encoder' or 'projection',"
                f" got {type(estimator).__name__}; use from_path([estimator], X) for other codes."
            )
        chosen = np.maximum(densities, 1 / m)
        if isinstance(estimator.density, Integral):
            chosen = np.round(m * chosen).astype(int)
        values = np.unique(chosen).tolist()
        copies = [copy.copy(estimator).calibrate(X, density=density) for density in values]
        return cls.from_path(copies, X, label=label, ax=ax)

    @classmethod
    def from_path(
        cls, estimators: Sequence[Any], X: Any, *, label: str | None = None, ax: Axes | None = None
    ) -> ReconstructionDisplay:
        """Plot the errors of several networks, with one point for each of them.

        Parameters
        ----------
        estimators : sequence of fitted estimators
            For example the result of :func:`lincode.scnn_path`.
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Samples, if possible other than the training samples. NaN entries do not count.
        label, ax
            See :meth:`plot`.
        """
        points = np.array([_nonzeros_and_error(estimator, X) for estimator in estimators])
        return cls(*points[np.argsort(points[:, 0], kind="stable")].T).plot(label=label, ax=ax)

    def plot(self, *, label: str | None = None, ax: Axes | None = None) -> ReconstructionDisplay:
        """Plot the errors.

        Parameters
        ----------
        label : str, default=None
            The name of the curve in a legend.
        ax : matplotlib Axes, default=None
            The axes to plot into. None means a new figure.
        """
        ax = self._set_axes(ax)
        ax.plot(self.nonzeros, self.errors, marker="o", markersize=4, label=label)
        ax.set(xlabel="non-zeros per sample (mean)", ylabel="RMS error", ylim=(0, None))
        ax.grid(visible=True, alpha=0.3)
        if label:
            ax.legend(frameon=False)
        return self


# What the displays need from estimators


def _components(estimator: Any) -> Floats:
    """Return the atoms of a fitted estimator."""
    if not hasattr(estimator, "components_"):
        check_is_fitted(estimator)
        raise InvalidInputError(
            f"estimator must be a fitted network with components_, got {type(estimator).__name__};"
            " of a pipeline pass the step, such as pipeline[-1], and of a search its"
            " best_estimator_."
        )
    return np.asarray(estimator.components_)


def _codes_per_atom(estimator: Any, X: Any) -> Any:
    """Return the codes of X as an array or CSR matrix, with one column per atom."""
    m = len(_components(estimator))
    U = estimator.transform(X)
    U = U if issparse(U) else np.asarray(U)
    return U[:, :m] - U[:, m:] if U.shape[1] == 2 * m else U


def _checked_names(estimator: Any, names: Any, n_features: int) -> Any:
    """Return the names of features as an array, or None if there are none."""
    names = getattr(estimator, "feature_names_in_", None) if names is None else np.asarray(names)
    if names is not None and names.shape != (n_features,):
        raise InvalidInputError(
            f"feature_names must have one name for each of {n_features} features, got shape"
            f" {names.shape}."
        )
    return names


def _largest(values: Floats, n: int) -> NDArray[np.intp]:
    """Return the indices of the n largest absolute values without zeros; of equal ones by index."""
    order = np.argsort(-np.abs(values), kind="stable")[:n]
    return np.asarray(order[values[order] != 0], dtype=np.intp)


def _nonzeros_and_error(estimator: Any, X: Any) -> tuple[float, float]:
    """Return the mean number of non-zeros per sample and the RMS error.

    Reconstructions are dense, so they are computed for some of the samples at a time.
    """
    X = X if hasattr(X, "shape") else np.asarray(X)
    n, p = X.shape
    n_nonzero, n_observed, total = 0, 0, 0.0
    for batch in gen_batches(n, max(1, 2**23 // p)):
        rows = X.iloc[batch] if hasattr(X, "iloc") else X[batch]
        codes = estimator.transform(rows)
        dense = rows.toarray() if issparse(rows) else np.asarray(rows, dtype=np.float64)
        difference = dense - estimator.inverse_transform(codes)
        n_nonzero += int(codes.count_nonzero() if issparse(codes) else np.count_nonzero(codes))
        n_observed += int(np.count_nonzero(~np.isnan(difference)))
        total += float(np.nansum(difference**2))
    return n_nonzero / n, float(np.sqrt(total / max(n_observed, 1)))


# How atoms are plotted: a grid of tiles in one pair of axes


def _tile_shape(image_shape: Any, n_features: int, names: Any) -> tuple[int, ...]:
    """Return the shape of an image, or (n_features,) for lines and lists of features."""
    if image_shape is None and names is None:
        for channels in ((), (3,)):
            side = round((n_features / (3 if channels else 1)) ** 0.5)
            if side > 1 and side * side * (3 if channels else 1) == n_features:
                return (side, side, *channels)
    shape = (n_features,) if image_shape is None else tuple(image_shape)
    is_valid = len(shape) < 3 or (len(shape) == 3 and shape[2] == 3)
    if not is_valid or np.prod(shape) != n_features:
        raise InvalidInputError(
            "image_shape must be (height, width), (height, width, 3) for colours, or (n_features,)"
            f" for lines, with the product n_features = {n_features}, got {image_shape!r}."
        )
    return shape


def _plot_images(
    ax: Axes, images: Floats, grid: tuple[int, int], captions: Sequence[str], cmap: Any
) -> None:
    """Plot one picture that contains all images. Colours are 0.5 where a signed image is 0."""
    (n, height, width, *channels), (n_rows, n_columns) = images.shape, grid
    is_signed = bool((images < 0).any())
    if channels and is_signed:
        images = (images + 1) / 2
    gap = max(1, round(0.1 * min(height, width)))
    space = gap + (-(-height // 4) if captions else 0)  # above an image
    tiles = np.full(
        (n_rows * n_columns, space + height, width + gap, *channels), 1.0 if channels else np.nan
    )
    tiles[:n, space:, :width] = images
    picture = tiles.reshape(*grid, *tiles.shape[1:]).swapaxes(1, 2)
    picture = picture.reshape(n_rows * (space + height), -1, *channels)[gap:, :-gap]
    cmap = cmap or ("RdBu_r" if is_signed else "Greys")
    ax.imshow(picture, cmap=cmap, vmin=-1 if is_signed else 0, vmax=1, interpolation="nearest")
    box = ax.get_window_extent()
    points = 72 * min(box.width / picture.shape[1], box.height / picture.shape[0]) / ax.figure.dpi
    longest = max((len(text) for text in captions), default=1)
    font = np.clip(points * (width + gap) / (0.6 * longest), 4, 10)  # about as wide as an image
    for k, text in enumerate(captions):
        row, column = divmod(k, n_columns)
        x, y = column * (width + gap) + width / 2, row * (space + height) + space - gap
        ax.text(x - 0.5, y - 0.6, text, ha="center", va="bottom", fontsize=font)


def _plot_details(
    ax: Axes, D: Floats, grid: tuple[int, int], captions: Sequence[str], names: Any, is_list: bool
) -> None:
    """Plot each atom as a line, or as bars of the features with its largest entries."""
    (n_rows, n_columns), p = grid, D.shape[1]
    ends = np.array([0, p - 1])
    for k, atom in enumerate(D):
        row, column = divmod(k, n_columns)
        box = (column / n_columns, 1 - (row + 0.9) / n_rows, 0.92 / n_columns, 0.7 / n_rows)
        tile = ax.inset_axes(box)
        tile.set(xticks=[], yticks=[])
        tile.spines[:].set_visible(False)
        if not is_list:
            tile.axhline(0, color="0.8", linewidth=0.6)
            tile.plot(atom, color=NEGATIVE, linewidth=0.9)
            tile.set_ylim(min(0.0, D.min()) - 0.05, 1.05)
            if k + n_columns >= len(D):  # below the lowest tiles
                tile.set_xticks(ends, ends if names is None else np.asarray(names)[ends])
                first, last = tile.get_xticklabels()
                first.set_horizontalalignment("left")
                last.set_horizontalalignment("right")
        else:
            features = _largest(atom, N_NAMES)
            colours = [POSITIVE if atom[j] > 0 else NEGATIVE for j in features]
            tile.barh(np.arange(len(features)), np.abs(atom[features]), color=colours, alpha=0.35)
            tile.set(xlim=(0, 1), ylim=(N_NAMES - 0.5, -0.5))
            for rank, j in enumerate(features):
                tile.text(0.02, rank, str(names[j]), va="center", clip_on=True)
        if k < len(captions):
            tile.set_title(captions[k], fontsize="medium")


# How codes are plotted


def _plot_values(ax: Axes, U: Any, name: str) -> None:
    """Plot the histogram of the coefficients that are not zero."""
    stored = U.data if issparse(U) else U
    values = stored[stored != 0]
    text = f"{name}without {1 - values.size / np.prod(U.shape):.1%} zeros"
    heights, edges = np.histogram(values, 100 if len(values) > 1000 else "auto")
    ax.stairs(heights, edges, fill=True, alpha=0.7, label=text)
    if values.size:
        ax.set_yscale("log")
        ax.set_ylim(bottom=0.5, auto=None)
    ax.set(xlabel="coefficient", ylabel="number of coefficients")


def _plot_nonzeros(ax: Axes, U: Any, name: str) -> None:
    """Plot the histogram of the number of non-zeros per sample."""
    counts = np.asarray((U != 0).sum(axis=1)).ravel()
    width = max(1, -(-(counts.max() - counts.min() + 1) // 60))
    edges = np.arange(counts.min(), counts.max() + width + 1, width) - 0.5
    text = f"{name}{counts.mean():.1f} of {U.shape[1]} on average"
    steps = ax.stairs(np.histogram(counts, edges)[0], edges, fill=True, alpha=0.7, label=text)
    ax.axvline(counts.mean(), ymax=0.8, color=steps.get_facecolor()[:3], linestyle="--")
    ax.set(xlabel="non-zeros per sample", ylabel="number of samples")


def _plot_usage(ax: Axes, U: Any, name: str) -> None:
    """Plot one bar for each atom, with the fractions of positive and negative coefficients."""
    usage, negative = (np.asarray(M.mean(axis=0)).ravel() for M in (U != 0, U < 0))
    order = np.argsort(-usage, kind="stable")
    usage, positive = usage[order], (usage - negative)[order]
    edges = np.arange(len(usage) + 1) - 0.5
    if negative.any():
        options: dict[str, Any] = dict(edges=edges, fill=True)
        ax.stairs(positive, color=POSITIVE, label=f"{name}positive coefficients", **options)
        options |= dict(baseline=positive, color=NEGATIVE)
        ax.stairs(usage, label=f"{name}negative coefficients", **options)
    else:
        ax.stairs(usage, edges, fill=True, color=NEUTRAL)
    mean = f"{name}mean, {usage.mean():.1%}"
    ax.axhline(usage.mean(), color="black", linewidth=0.9, linestyle="--", label=mean)
    n_unused = int(np.sum(usage == 0))
    if n_unused:
        ax.plot([], [], " ", label=f"{n_unused} of {len(usage)} atoms are not used")
    ax.set(xlabel="rank of the atom by usage", ylabel="fraction of samples that use it")
    ax.set_xlim(-0.5, len(usage) - 0.5)


KINDS = {"values": _plot_values, "nonzeros": _plot_nonzeros, "usage": _plot_usage}
