"""Vectors as a grid of tiles: small images, lines, or lists of the features with large entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lincode.exceptions import InvalidInputError
from lincode.inspection import top_features
from lincode.inspection.checks import check_names
from lincode.plotting.base import NEGATIVE, NEUTRAL, POSITIVE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE_TILE, NAME_TILE = (60, 100), (100, 130)
"""The height and width of tiles that are not images"""
N_NAMES = 6
"""The number of features in a tile with names"""
MIN_FONT, MAX_FONT = 4.0, 9.0

Shape = tuple[int, ...]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TileStyle:
    """How a vector is drawn.

    ``shape`` is that of an image, (height, width) or (height, width, 3), or (n_features,) for lines
    and names. ``names`` are those of the features; if there are any, vectors with the shape
    (n_features,) are drawn as lists of names.
    """

    shape: Shape
    names: Any = None

    @classmethod
    def of(cls, image_shape: Any, n_features: int, feature_names: Any = None) -> TileStyle:
        """Check the shape, or guess it if it is None."""
        if feature_names is not None:
            feature_names = check_names(feature_names, n_features)
        if image_shape is None and feature_names is None:
            return cls(_guessed_shape(n_features))
        return cls(_checked_shape(image_shape or (n_features,), n_features), feature_names)

    @property
    def is_image(self) -> bool:
        """Whether vectors are drawn as images."""
        return len(self.shape) > 1

    @property
    def size(self) -> tuple[int, int]:
        """The height and the width of a tile."""
        if self.is_image:
            return self.shape[0], self.shape[1]
        return LINE_TILE if self.names is None else NAME_TILE


def _guessed_shape(n_features: int) -> Shape:
    """Return the shape of square grey images, of square RGB images, or of lines."""
    for channels in (1, 3):
        side = round((n_features / channels) ** 0.5)
        if side > 1 and side * side * channels == n_features:
            return (side, side) if channels == 1 else (side, side, 3)
    return (n_features,)


def _checked_shape(shape: Any, n_features: int) -> Shape:
    try:
        sizes = tuple(int(size) for size in shape)
        is_valid = sizes == tuple(shape) and min(sizes) > 0
    except (TypeError, ValueError):
        is_valid = False
    if is_valid:
        is_valid = len(sizes) in (1, 2) or (len(sizes) == 3 and sizes[2] == 3)
    if not is_valid or np.prod(sizes) != n_features:
        raise InvalidInputError(
            "image_shape must be (height, width), (height, width, 3) for colours, or (n_features,)"
            f" for lines, with the product n_features = {n_features}, got {shape!r}."
        )
    return sizes


@dataclass(frozen=True)
class Grid:
    """Where the tiles of a grid are, in the coordinates of the axes.

    There is a wider gap before the columns in ``separated``, and space for a caption above each
    tile if ``captions`` is true.
    """

    n_rows: int
    n_columns: int
    height: int
    width: int
    separated: frozenset[int] = frozenset()
    captions: bool = False

    @property
    def gap(self) -> int:
        """The distance between tiles."""
        return max(1, round(0.1 * min(self.height, self.width)))

    @property
    def caption_height(self) -> int:
        """The height of the space above a tile."""
        return -(-self.height // 4) if self.captions else 0

    def corner(self, k: int) -> tuple[int, int]:
        """Return the top and the left of tile k."""
        row, column = divmod(k, self.n_columns)
        wide = self.gap * sum(column >= start for start in self.separated)
        top = row * (self.height + self.gap + self.caption_height) + self.caption_height
        return top, column * (self.width + self.gap) + wide

    @property
    def shape(self) -> tuple[int, int]:
        """The height and the width of the whole grid."""
        top, left = self.corner(self.n_rows * self.n_columns - 1)
        return top + self.height, left + self.width

    def figure_size(self, tile: float) -> tuple[float, float]:
        """Return the size of a figure in inches in which a tile has about the given width."""
        height, width = self.shape
        inches = min(max(tile * width / self.width, 3.0), 12.0)
        return inches, min(max(inches * height / width, 1.0), 14.0)


def make_grid(
    n: int, style: TileStyle, n_columns: int | None, *, group: int = 1, captions: bool = False
) -> Grid:
    """Return a grid of n tiles in groups, with a wider gap between the columns of groups.

    ``n_columns`` is the number of groups per row. If it is None, the grid is about square.
    """
    height, width = style.size
    n_groups = -(-n // group)
    if n_columns is None:
        n_columns = min(max(1, round((n_groups * height / (width * group)) ** 0.5)), n_groups)
    elif isinstance(n_columns, bool) or int(n_columns) != n_columns or n_columns < 1:
        raise InvalidInputError(f"n_columns must be None or at least 1, got {n_columns!r}.")
    separated = range(group, group * int(n_columns), group) if group > 1 else ()
    n_rows = -(-n_groups // int(n_columns))
    return Grid(n_rows, group * int(n_columns), height, width, frozenset(separated), captions)


def scales_of(vectors: Sequence[Floats | None], *, common: bool = False) -> list[float]:
    """Return the largest absolute value of each vector, or of all of them, for all of them."""
    scales = [0.0 if v is None else float(np.abs(v).max()) for v in vectors]
    return [(max(scales) if common else scale) or 1.0 for scale in scales]


def draw_tiles(
    ax: Axes,
    vectors: Sequence[Floats | None],
    grid: Grid,
    style: TileStyle,
    *,
    scales: Sequence[float] | None = None,
    captions: Sequence[str] = (),
    cmap: Any = None,
) -> None:
    """Draw vectors, each divided by its scale, row by row. None means an empty tile."""
    scales = scales_of(vectors) if scales is None else scales
    is_signed = any(v is not None and (v < 0).any() for v in vectors)
    if style.is_image:
        _draw_images(ax, vectors, grid, style.shape, scales, cmap, is_signed=is_signed)
    elif style.names is None:
        _draw_lines(ax, vectors, grid, scales)
    else:
        for k, vector in enumerate(vectors):
            if vector is not None:
                _draw_names(ax, vector / scales[k], grid, k, style.names)
    height, width = grid.shape
    ax.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
    ax.set_axis_off()
    size = _font_size(ax, grid, max((len(text) for text in captions), default=1))
    for k, text in enumerate(captions):
        top, left = grid.corner(k)
        x = left + (grid.width - 1) / 2
        ax.text(x, top - 0.6, text, ha="center", va="bottom", fontsize=size)


def label_rows(ax: Axes, grid: Grid, labels: Sequence[str]) -> None:
    """Write a label to the left of each row of tiles."""
    for row, label in enumerate(labels):
        top, _ = grid.corner(row * grid.n_columns)
        y = top + (grid.height - 1) / 2
        ax.text(-grid.gap - 0.5, y, label, ha="right", va="center", fontsize=MAX_FONT)


def _draw_images(
    ax: Axes,
    vectors: Sequence[Floats | None],
    grid: Grid,
    shape: Shape,
    scales: Sequence[float],
    cmap: Any,
    *,
    is_signed: bool,
) -> None:
    """Draw one large image that contains all tiles. Colours are 0.5 where a signed vector is 0."""
    picture = np.full((*grid.shape, *shape[2:]), 1.0 if len(shape) == 3 else np.nan)
    for k, vector in enumerate(vectors):
        if vector is None:
            continue
        image = vector.reshape(shape) / scales[k]
        if len(shape) == 3:
            image = np.clip((image + 1) / 2 if is_signed else image, 0, 1)
        top, left = grid.corner(k)
        picture[top : top + grid.height, left : left + grid.width] = image
    cmap = cmap or ("RdBu_r" if is_signed else "Greys")
    lowest = -1 if is_signed else 0
    ax.imshow(picture, cmap=cmap, vmin=lowest, vmax=1, interpolation="nearest")


def _draw_lines(
    ax: Axes, vectors: Sequence[Floats | None], grid: Grid, scales: Sequence[float]
) -> None:
    """Draw vectors as lines. All tiles show the same range, from the lowest value to 1."""
    scaled = [None if v is None else v / scale for v, scale in zip(vectors, scales, strict=True)]
    lowest = min([0.0, *(float(v.min()) for v in scaled if v is not None)])
    unit = grid.height / (1 - lowest)
    for k, vector in enumerate(scaled):
        if vector is None:
            continue
        top, left = grid.corner(k)
        right = left + grid.width
        ax.plot([left, right], [top + unit, top + unit], color="0.8", linewidth=0.6)
        x = np.linspace(left, right, len(vector))
        ax.plot(x, top + unit * (1 - vector), color=NEGATIVE, linewidth=0.9)


def _draw_names(ax: Axes, vector: Floats, grid: Grid, k: int, names: Any) -> None:
    """List the features with the largest entries, with a bar for each of them."""
    top, left = grid.corner(k)
    table = top_features(vector[None], N_NAMES, feature_names=names)
    height = grid.height / N_NAMES
    size = _font_size(ax, grid, max((len(str(name)) for name in table.name), default=1))
    for rank, name, value in zip(table.rank, table.name, table.value, strict=True):
        y = top + (rank + 0.5) * height
        colour = POSITIVE if value > 0 else NEGATIVE
        ax.barh(y, abs(value) * grid.width, 0.85 * height, left, color=colour, alpha=0.35)
        ax.text(left + 2, y, str(name), va="center", fontsize=size, clip_on=True)
    ax.plot([left, left], [top, top + grid.height], color=NEUTRAL, linewidth=0.8)


def _font_size(ax: Axes, grid: Grid, n_characters: int) -> float:
    """Return a font size with which a text is about as wide as a tile, in points."""
    box = ax.get_window_extent()
    height, width = grid.shape
    scale = min(box.width / width, box.height / height) if ax.get_aspect() != "auto" else 0.0
    pixels = grid.width * (scale or box.width / width)
    points = 72 * pixels / ax.figure.dpi
    return float(np.clip(points / (0.6 * max(n_characters, 1)), MIN_FONT, MAX_FONT))
