"""Pictures of what codes mean: samples behind atoms, parts of a sample, atoms of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import Bunch

from lincode.exceptions import InvalidInputError
from lincode.inspection import correlated_atoms, decompose, top_samples
from lincode.inspection.checks import (
    check_indices,
    check_network,
    codes_per_atom,
    splits_signs,
)
from lincode.plotting.base import Display, check_matplotlib
from lincode.plotting.codes import usage_of_codes
from lincode.plotting.tiles import TileStyle, draw_tiles, label_rows, make_grid, scales_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SPLIT_SIGNS = (
    "with split_sign=True the codes have two columns per atom, which this display shows together:"
    " the number is the row of components_, not the column of the codes as in top_samples"
)
"""Why a number that ``top_samples`` accepts may be too large."""


class TileRowsDisplay(Display):
    """Rows of tiles with a label each. Subclasses say what the rows are."""

    rows: Sequence[Sequence[Any]]
    labels: Sequence[str]
    captions: Sequence[Sequence[str]]
    image_shape: tuple[int, ...] | None
    feature_names: Any

    def _plot_rows(self, ax: Axes | None, cmap: Any, *, separated: tuple[int, ...] = ()) -> None:
        width = max(len(row) for row in self.rows)
        vectors, captions = [], []
        for row, texts in zip(self.rows, self.captions, strict=True):
            vectors += [np.asarray(v, dtype=np.float64) for v in row] + [None] * (width - len(row))
            captions += [*texts, *[""] * (width - len(texts))]
        n_features = len(self.rows[0][0])
        style = TileStyle.of(self.image_shape, n_features, self.feature_names)
        grid = make_grid(len(vectors), style, width, captions=True)
        grid = replace(grid, separated=frozenset(separated))
        ax = self._set_axes(ax, grid.figure_size(0.6 if style.is_image else 1.3))
        draw_tiles(ax, vectors, grid, style, captions=captions, cmap=cmap)
        label_rows(ax, grid, self.labels)


class TopSamplesDisplay(TileRowsDisplay):
    """Atoms, and to the right of each the samples that use it most.

    Use :meth:`from_estimator`. The numbers are in ``table``, the result of
    :func:`lincode.inspection.top_samples`.

    Parameters
    ----------
    atoms : array-like of shape (n_atoms, n_features)
        The atoms.
    samples : sequence of arrays of shape (any, n_features)
        The samples of each atom.
    table : Bunch
        The atoms, samples and coefficients.
    sample_labels : sequence of sequences of str, default=None
        A text above each sample, before its coefficient. None means the coefficient alone.
    image_shape, feature_names
        See :class:`AtomsDisplay`.

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
    >>> from lincode.plotting import TopSamplesDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> scnn = SCNN(n_components=16, random_state=0).fit(X / 16)
    >>> display = TopSamplesDisplay.from_estimator(scnn, X / 16, atoms=[3, 5], labels=y)
    >>> display.table.sample.shape
    (20,)
    """

    def __init__(
        self,
        atoms: Any,
        samples: Sequence[Any],
        table: Bunch,
        *,
        sample_labels: Sequence[Sequence[str]] | None = None,
        image_shape: tuple[int, ...] | None = None,
        feature_names: Any = None,
    ) -> None:
        self.atoms = atoms
        self.samples = samples
        self.table = table
        self.sample_labels = sample_labels
        self.image_shape = image_shape
        self.feature_names = feature_names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        atoms: Any = None,
        n_atoms: int = 8,
        n_samples: int = 10,
        sign: str = "both",
        labels: Any = None,
        image_shape: tuple[int, ...] | None = None,
        feature_names: Any = None,
        cmap: Any = None,
        ax: Axes | None = None,
    ) -> TopSamplesDisplay:
        """Plot atoms of a network and the samples that use them most.

        Parameters
        ----------
        estimator : fitted estimator
            A network, SCNNCV or SparseCoder.
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The samples.
        atoms : int or array-like of int, default=None
            The atoms (rows of ``components_``). None means the ``n_atoms`` that the samples use
            most often.
        n_atoms : int, default=8
            The number of atoms if ``atoms`` is None.
        n_samples, sign
            See :func:`lincode.inspection.top_samples`.
        labels : array-like of shape (n_samples,), default=None
            Labels or names of the samples, which are written above them before the coefficients,
            such as "3 (-1.8)". None means that only the coefficients are written.
        image_shape, feature_names
            See :class:`AtomsDisplay`.
        cmap, ax
            See :meth:`plot`.

        Returns
        -------
        display : TopSamplesDisplay
        """
        check_matplotlib(cls.__name__)
        D, feature_names = _atoms_and_names(estimator, image_shape, feature_names)
        U = codes_per_atom(estimator, X)
        names = None if labels is None else _checked_labels(labels, U.shape[0])
        if atoms is None:
            atoms = np.argsort(-usage_of_codes(U), kind="stable")[:n_atoms]
        indices = check_indices(atoms, len(D), SPLIT_SIGNS if splits_signs(estimator) else "")
        table = top_samples(U, n_samples, atoms=indices, sign=sign)
        used = [table.sample[table.atom == j] for j in indices]
        display = cls(
            D[indices],
            [_dense_rows(X, samples) for samples in used],
            table,
            sample_labels=None if names is None else [[str(t) for t in names[s]] for s in used],
            image_shape=image_shape,
            feature_names=feature_names,
        )
        display.labels = [f"atom {j}" for j in indices]
        return display.plot(cmap=cmap, ax=ax)

    def plot(self, *, cmap: Any = None, ax: Axes | None = None) -> TopSamplesDisplay:
        """Plot the atoms and samples. Each is divided by its largest absolute value.

        Parameters
        ----------
        cmap : str or matplotlib Colormap, default=None
            The colours of grey images; see :meth:`AtomsDisplay.plot`.
        ax : matplotlib Axes, default=None
            The axes to plot into. None means a new figure.

        Returns
        -------
        display : TopSamplesDisplay
        """
        self.rows = [[atom, *rows] for atom, rows in zip(self.atoms, self.samples, strict=True)]
        if not hasattr(self, "labels"):
            self.labels = [f"atom {j}" for j in dict.fromkeys(self.table.atom.tolist())]
        values = np.split(self.table.value, np.cumsum([len(rows) for rows in self.samples])[:-1])
        texts = [[f"{value:.2g}" for value in row] for row in values]
        if self.sample_labels is not None:
            texts = [
                [f"{label} ({value})" for label, value in zip(*row, strict=True)]
                for row in zip(self.sample_labels, texts, strict=True)
            ]
        self.captions = [["", *row] for row in texts]
        self._plot_rows(ax, cmap, separated=(1,))
        return self


class CorrelatedAtomsDisplay(TileRowsDisplay):
    """For each label, the atoms that are most correlated with it.

    Use :meth:`from_estimator`. The numbers are in ``table``, the result of
    :func:`lincode.inspection.correlated_atoms`.

    Parameters
    ----------
    atoms : array-like of shape (n_atoms, n_features)
        All atoms of the dictionary.
    table : Bunch
        The labels, atoms and correlations.
    image_shape, feature_names
        See :class:`AtomsDisplay`.

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
    >>> from lincode.plotting import CorrelatedAtomsDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> scnn = SCNN(n_components=32, random_state=0).fit(X / 16)
    >>> display = CorrelatedAtomsDisplay.from_estimator(scnn, X / 16, y, n_atoms=3)
    >>> display.table.label[:6]
    array([0, 0, 0, 1, 1, 1])
    """

    def __init__(
        self,
        atoms: Any,
        table: Bunch,
        *,
        image_shape: tuple[int, ...] | None = None,
        feature_names: Any = None,
    ) -> None:
        self.atoms = atoms
        self.table = table
        self.image_shape = image_shape
        self.feature_names = feature_names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        n_atoms: int = 6,
        sign: str = "positive",
        absolute: bool = False,
        numeric: bool | None = None,
        image_shape: tuple[int, ...] | None = None,
        feature_names: Any = None,
        cmap: Any = None,
        ax: Axes | None = None,
    ) -> CorrelatedAtomsDisplay:
        """Plot the atoms of a network that are most correlated with labels.

        Parameters
        ----------
        estimator : fitted estimator
            A network, SCNNCV or SparseCoder.
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The samples.
        y : array-like of shape (n_samples,)
            The labels.
        n_atoms, sign, absolute, numeric
            See :func:`lincode.inspection.correlated_atoms`.
        image_shape, feature_names
            See :class:`AtomsDisplay`.
        cmap, ax
            See :meth:`plot`.

        Returns
        -------
        display : CorrelatedAtomsDisplay
        """
        check_matplotlib(cls.__name__)
        D, feature_names = _atoms_and_names(estimator, image_shape, feature_names)
        codes = codes_per_atom(estimator, X)
        table = correlated_atoms(codes, y, n_atoms, sign=sign, absolute=absolute, numeric=numeric)
        display = cls(D, table, image_shape=image_shape, feature_names=feature_names)
        return display.plot(cmap=cmap, ax=ax)

    def plot(self, *, cmap: Any = None, ax: Axes | None = None) -> CorrelatedAtomsDisplay:
        """Plot one row for each label, with the number and the correlation above each atom.

        Parameters
        ----------
        cmap : str or matplotlib Colormap, default=None
            The colours of grey images; see :meth:`AtomsDisplay.plot`.
        ax : matplotlib Axes, default=None
            The axes to plot into. None means a new figure.

        Returns
        -------
        display : CorrelatedAtomsDisplay
        """
        table, D = self.table, np.asarray(self.atoms)
        names = list(dict.fromkeys(table.label.tolist()))
        if not names:
            raise InvalidInputError(
                "at least one atom must be correlated with a label, but none is; check y, or use"
                " sign='both'."
            )
        chosen = [table.label == name for name in names]
        self.labels = [str(name) for name in names]
        self.rows = [list(D[table.atom[entries]]) for entries in chosen]
        self.captions = [
            [
                f"{atom}: {value:.2f}"
                for atom, value in zip(table.atom[entries], table.correlation[entries], strict=True)
            ]
            for entries in chosen
        ]
        self._plot_rows(ax, cmap)
        return self


class DecompositionDisplay(Display):
    """A sample, its reconstruction, and the contributions that add up to it.

    Use :meth:`from_estimator`. The numbers are in ``parts``, the result of
    :func:`lincode.inspection.decompose`.

    Parameters
    ----------
    parts : Bunch
        The decomposition.
    n_parts : int, default=8
        The largest number of contributions. The others are added up and plotted as one.
    image_shape, feature_names
        See :class:`AtomsDisplay`.

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
    >>> from lincode.plotting import DecompositionDisplay
    >>> X = load_digits().data / 16
    >>> scnn = SCNN(n_components=32, random_state=0).fit(X)
    >>> display = DecompositionDisplay.from_estimator(scnn, X[0])
    >>> bool(abs(display.parts.fraction.sum() - 1) < 1e-9)
    True
    """

    def __init__(
        self,
        parts: Bunch,
        *,
        n_parts: int = 8,
        image_shape: tuple[int, ...] | None = None,
        feature_names: Any = None,
    ) -> None:
        self.parts = parts
        self.n_parts = n_parts
        self.image_shape = image_shape
        self.feature_names = feature_names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        sample: Any,
        *,
        n_parts: int = 8,
        image_shape: tuple[int, ...] | None = None,
        feature_names: Any = None,
        n_columns: int | None = None,
        cmap: Any = None,
        ax: Axes | None = None,
    ) -> DecompositionDisplay:
        """Plot the decomposition of a sample.

        Parameters
        ----------
        estimator : fitted estimator
            A network, SCNNCV or SparseCoder.
        sample : array-like or CSR matrix of shape (n_features,) or (1, n_features)
            The sample.
        n_parts, image_shape, feature_names
            See :class:`DecompositionDisplay`.
        n_columns, cmap, ax
            See :meth:`plot`.

        Returns
        -------
        display : DecompositionDisplay
        """
        check_matplotlib(cls.__name__)
        _, feature_names = _atoms_and_names(estimator, image_shape, feature_names)
        display = cls(
            decompose(estimator, sample),
            n_parts=n_parts,
            image_shape=image_shape,
            feature_names=feature_names,
        )
        return display.plot(n_columns=n_columns, cmap=cmap, ax=ax)

    def plot(
        self, *, n_columns: int | None = None, cmap: Any = None, ax: Axes | None = None
    ) -> DecompositionDisplay:
        """Plot the sample, its reconstruction and its parts.

        The sample and its reconstruction have the same scale. The parts have a scale of their own.

        Parameters
        ----------
        n_columns : int, default=None
            The number of tiles per row. None means 6, or all if there are fewer.
        cmap : str or matplotlib Colormap, default=None
            The colours of grey images; see :meth:`AtomsDisplay.plot`.
        ax : matplotlib Axes, default=None
            The axes to plot into. None means a new figure.

        Returns
        -------
        display : DecompositionDisplay
        """
        parts = self.parts
        x = parts.reconstruction + parts.residual
        vectors = [np.where(np.isnan(x), 0.0, x), parts.reconstruction]
        captions = ["sample", "reconstruction"]
        n = min(self.n_parts, len(parts.atom))
        vectors += list(parts.contribution[:n])
        captions += [
            f"{coefficient:.2g} × atom {atom}"
            for atom, coefficient in zip(parts.atom[:n], parts.coefficient[:n], strict=True)
        ]
        if n < len(parts.atom):
            vectors.append(parts.contribution[n:].sum(axis=0))
            captions.append(f"{len(parts.atom) - n} others")
        style = TileStyle.of(self.image_shape, len(x), self.feature_names)
        grid = make_grid(len(vectors), style, n_columns or min(6, len(vectors)), captions=True)
        ax = self._set_axes(ax, grid.figure_size(1.1 if style.is_image else 1.6))
        scales = [*scales_of(vectors[:2], common=True), *scales_of(vectors[2:], common=True)]
        draw_tiles(ax, vectors, grid, style, scales=scales, captions=captions, cmap=cmap)
        return self


def _checked_labels(labels: Any, n_samples: int) -> Any:
    """Return one label per sample as an array."""
    array = np.asarray(labels)
    if array.shape != (n_samples,):
        raise InvalidInputError(
            f"labels must have one label for each of {n_samples} samples, got shape {array.shape};"
            " give those of the samples X, or remove labels."
        )
    return array


def _atoms_and_names(estimator: Any, image_shape: Any, feature_names: Any) -> tuple[Any, Any]:
    """Return the atoms of an estimator, and the names of its features if they are to be shown."""
    D = np.asarray(check_network(estimator))
    if feature_names is None and image_shape is None:
        feature_names = getattr(estimator, "feature_names_in_", None)
    return D, feature_names


def _dense_rows(X: Any, rows: Any) -> Any:
    """Return some rows of X as a dense array, with 0 for missing entries."""
    chosen = (X.iloc if hasattr(X, "iloc") else X if hasattr(X, "shape") else np.asarray(X))[rows]
    dense = chosen.toarray() if issparse(chosen) else np.asarray(chosen, dtype=np.float64)
    return np.nan_to_num(dense)
