"""Data that scikit-learn brings along: small, and there without a download."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lincode.datasets.arguments import SPLITS, check_choice, check_integer, need
from lincode.datasets.patches import draw_patches, grey

PHOTOS = {"train": "china.jpg", "test": "flower.jpg"}


def load_digits_small() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """scikit-learn's 1797 digits of 8×8 in [−1, 1], and which they are.

    Returns
    -------
    X : float32 array of shape (1797, 64)
    y : int64 array of shape (1797,)

    Examples
    --------
    >>> from lincode.datasets import load_digits_small
    >>> X, y = load_digits_small()
    >>> X.shape, float(X.min()), float(X.max())
    ((1797, 64), -1.0, 1.0)
    """
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return (X / 8 - 1).astype(np.float32), y.astype(np.int64)


def load_photo_patches(
    n: int, size: int = 8, *, split: str = "train", random_state: Any = 0
) -> NDArray[np.float64]:
    """Patches of scikit-learn's two photographs, grey, each centred to mean 0.

    ``load_bsds_patches`` in small: one photograph, a temple, is for training and the other, a
    flower, for testing.

    Parameters
    ----------
    n : int
        How many patches.
    size : int, default=8
        Side of a patch.
    split : {"train", "test"}, default="train"
    random_state : int or numpy Generator, default=0
        The same seed gives the same patches, and the first k of n are those of ``n=k``.

    Returns
    -------
    X : float64 array of shape (n, size²)

    Examples
    --------
    >>> from lincode.datasets import load_photo_patches
    >>> X = load_photo_patches(500, size=6)
    >>> X.shape, bool(abs(X.mean(axis=1)).max() < 1e-12)
    ((500, 36), True)
    """
    check_choice("split", split, SPLITS)
    n, size = check_integer("n", n, 1), check_integer("size", size, 1)
    need("PIL.Image", "pillow", "Reading photographs")
    from sklearn.datasets import load_sample_image

    return draw_patches(
        [PHOTOS[split]], lambda name: grey(load_sample_image(name)), n, size, random_state
    )
