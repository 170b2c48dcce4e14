"""The atoms of a dictionary, with the filters of the encoder beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lincode.exceptions import InvalidInputError
from lincode.inspection.checks import check_network, codes_per_atom, decoder_of
from lincode.plotting.base import Display, check_matplotlib
from lincode.plotting.codes import mean_squares, usage_of_codes
from lincode.plotting.tiles import TileStyle, draw_tiles, make_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SORT_BY = ("auto", "usage", "energy", None)
MAX_DETAILED = 20
"""The default number of atoms that are drawn as lines or names."""


class AtomsDisplay(Display):
    """Atoms as small images, as lines or as lists of features.

    Use :meth:`from_estimator` for a fitted network, and the constructor for other arrays.

    Parameters
    ----------
    atoms : array-like of shape (n_atoms, n_features)
        The atoms, one per row.
    filters : array-like of shape (n_atoms, n_features), default=None
        A filter for each atom, which is drawn to the right of it.
    image_shape : tuple of int, default=None
        (height, width) of images, (height, width, 3) of colour images with the channels last, or
        (n_features,) for lines. None means square images, square colour images or lines,
        whichever suits ``n_features``, and lists of features if they have names.
    feature_names : array-like of shape (n_features,), default=None
        The names of the features. Without ``image_shape``, an atom is drawn as a list of the
        features with its largest entries, for example the words of a topic.
    captions : sequence of str, default=()
        Texts above the atoms.
    indices : array-like of int, default=None
        The numbers of the atoms in the dictionary. None means 0, 1, and so on.

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
    >>> from lincode.plotting import AtomsDisplay
    >>> X = load_digits().data / 16
    >>> scnn = SCNN(n_components=16, random_state=0).fit(X)
    >>> display = AtomsDisplay.from_estimator(scnn, filters=True)
    >>> bool(scnn.usage_[display.indices[0]] == scnn.usage_.max())
    True
    """

    def __init__(
        self,
        atoms: Any,
        *,
        filters: Any = None,
        image_shape: tuple[int, ...] | None = None,
        feature_names: Any = None,
        captions: Any = (),
        indices: Any = None,
    ) -> None:
        self.atoms = atoms
        self.filters = filters
        self.image_shape = image_shape
        self.feature_names = feature_names
        self.captions = captions
        self.indices = indices

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        sort_by: str | None = "auto",
        n_atoms: int | None = None,
        filters: bool = False,
        captions: bool = False,
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
            A network, SCNNCV, SparseCoder, or another estimator with ``components_``.
        X : array-like or CSR matrix of shape (n_samples, n_features), default=None
            Samples by whose codes the atoms are sorted. None means the training samples, whose
            usage is stored in ``usage_``.
        sort_by : {"auto", "usage", "energy"} or None, default="auto"
            "usage" is the fraction of samples that use an atom. "energy" is the mean squared length
            of the contributions of an atom to reconstructions, and needs X. "auto" means "usage" if
            it is known, and None means the order of the dictionary.
        n_atoms : int, default=None
            The number of atoms. None means all atoms as images, and at most 20 in other forms.
        filters : bool, default=False
            Whether the filter of the encoder is drawn beside each atom.
        captions : bool, default=False
            Whether the number of an atom and the value by which it is sorted are written above it.
        image_shape, feature_names
            See :class:`AtomsDisplay`. ``feature_names_in_`` of the estimator are used if there is
            neither.
        n_columns, cmap, ax
            See :meth:`plot`.

        Returns
        -------
        display : AtomsDisplay
        """
        check_matplotlib(cls.__name__)
        D = np.asarray(check_network(estimator))
        if sort_by not in SORT_BY:
            raise InvalidInputError(f"sort_by must be one of {SORT_BY}, got {sort_by!r}.")
        if feature_names is None and image_shape is None:
            feature_names = getattr(estimator, "feature_names_in_", None)
        style = TileStyle.of(image_shape, D.shape[1], feature_names)
        values = _sorting_values(estimator, X, sort_by)
        order = np.arange(len(D)) if values is None else np.argsort(-values, kind="stable")
        order = order[: _n_shown(n_atoms, style)]
        texts = [str(j) if values is None else f"{j}: {values[j]:.2g}" for j in order]
        display = cls(
            D[order],
            filters=filters_of(estimator)[order] if filters else None,
            image_shape=image_shape,
            feature_names=feature_names,
            captions=texts if captions else (),
            indices=order,
        )
        return display.plot(n_columns=n_columns, cmap=cmap, ax=ax)

    def plot(
        self, *, n_columns: int | None = None, cmap: Any = None, ax: Axes | None = None
    ) -> AtomsDisplay:
        """Plot the atoms. Each atom and each filter is divided by its largest absolute value.

        Parameters
        ----------
        n_columns : int, default=None
            The number of atoms per row of the grid. None means a grid that is about square.
        cmap : str or matplotlib Colormap, default=None
            The colours of grey images. None means red for positive, blue for negative and white
            for zero, or grey values if no entry is negative.
        ax : matplotlib Axes, default=None
            The axes to plot into. None means a new figure.

        Returns
        -------
        display : AtomsDisplay
        """
        check_matplotlib(type(self).__name__)
        D = _as_atoms(self.atoms, "atoms")
        style = TileStyle.of(self.image_shape, D.shape[1], self.feature_names)
        if self.indices is None:
            self.indices = np.arange(len(D))
        vectors, captions, group = list(D), list(self.captions), 1
        if self.filters is not None:
            C = _as_atoms(self.filters, "filters")
            if C.shape != D.shape:
                raise InvalidInputError(
                    f"filters must have the shape of atoms, {D.shape}, got {C.shape}."
                )
            vectors = [vector for pair in zip(D, C, strict=True) for vector in pair]
            captions = [text for caption in captions for text in (caption, "filter")]
            group = 2
        grid = make_grid(len(vectors), style, n_columns, group=group, captions=bool(captions))
        ax = self._set_axes(ax, grid.figure_size(0.55 if style.is_image else 1.5))
        draw_tiles(ax, vectors, grid, style, captions=captions, cmap=cmap)
        return self


def filters_of(estimator: Any) -> Any:
    """Return the encoder that ``transform`` uses."""
    if getattr(estimator, "refine_max_iter", 0) > 0 and hasattr(estimator, "refined_encoder_"):
        return np.asarray(estimator.refined_encoder_)
    return np.asarray(check_network(estimator, "encoder_"))


def _sorting_values(estimator: Any, X: Any, sort_by: str | None) -> Any:
    """Return the values by which the atoms of an estimator are sorted, or None."""
    if sort_by == "energy" and X is None:
        raise InvalidInputError("X must be given for sort_by='energy', got None.")
    if sort_by == "energy":
        lengths = np.sum(decoder_of(estimator) ** 2, axis=1)
        return mean_squares(codes_per_atom(estimator, X)) * lengths
    if sort_by is not None and X is not None:
        return usage_of_codes(codes_per_atom(estimator, X))
    if sort_by is None or (sort_by == "auto" and not hasattr(estimator, "usage_")):
        return None
    if not hasattr(estimator, "usage_"):
        raise InvalidInputError(
            f"X must be given for sort_by='usage', because {type(estimator).__name__} has no"
            " usage_; got None."
        )
    return np.asarray(estimator.usage_)


def _n_shown(n_atoms: Any, style: TileStyle) -> int | None:
    if n_atoms is None:
        return None if style.is_image else MAX_DETAILED
    if isinstance(n_atoms, bool) or int(n_atoms) != n_atoms or n_atoms < 1:
        raise InvalidInputError(f"n_atoms must be None or at least 1, got {n_atoms!r}.")
    return int(n_atoms)


def _as_atoms(values: Any, name: str) -> Any:
    D = np.asarray(values, dtype=np.float64)
    if D.ndim != 2 or not D.size:
        raise InvalidInputError(
            f"{name} must be an array with two dimensions and at least one entry, got shape"
            f" {D.shape}."
        )
    return D
