"""Patches at random places of grey images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lincode.datasets.arguments import check_integer

# Luma of ITU-R BT.601, as in JPEG itself.
LUMA = np.array([0.299, 0.587, 0.114])

Name = TypeVar("Name")


def grey(rgb: ArrayLike) -> NDArray[np.float64]:
    """Red, green and blue bytes of shape (h, w, 3) to one channel in [0, 1]."""
    return np.asarray(np.asarray(rgb) @ LUMA / 255, dtype=np.float64)


def draw_patches(
    images: Sequence[Name],
    read: Callable[[Name], NDArray[np.float64]],
    n: int,
    size: int,
    random_state: Any,
) -> NDArray[np.float64]:
    """Draw n patches of size × size, each from a random place of a random image, of mean 0.

    Each row takes three numbers of the generator, so fewer patches with the same seed are the
    first of more, and any first k are a random sample of all images. ``read`` gives an image of
    shape (h, w); every image is read once, one is held at a time, and each must be usable whether
    a patch falls on it or not: whether there is an error does not depend on the seed.
    """
    n, size = check_integer("n", n, 1), check_integer("size", size, 1)
    draws = np.random.default_rng(random_state).random((n, 3))
    which = (draws[:, 0] * len(images)).astype(np.intp)
    X = np.empty((n, size * size))
    for i, name in enumerate(images):
        image = read(name)
        check_image(image, size, name)
        windows = np.lib.stride_tricks.sliding_window_view(image, (size, size))
        rows = np.flatnonzero(which == i)
        top, left = (draws[rows, 1:] * windows.shape[:2]).astype(np.intp).T
        X[rows] = windows[top, left].reshape(len(rows), size * size)
    X -= X.mean(axis=1, keepdims=True)
    return X


def check_image(image: NDArray[np.float64], size: int, name: object) -> None:
    """Refuse an image no patch fits into, and one that has nothing to learn from."""
    height, width = image.shape
    if min(height, width) < size:
        raise ValueError(
            f"{name} is {width} × {height}, too small for patches of {size} × {size}: pass a"
            " smaller size, or move it away."
        )
    if image.min() == image.max():
        raise ValueError(f"{name} is of one grey all over, so its patches are all zero: move it.")
