"""Images of another size, by averaging over areas."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lincode.datasets.arguments import check_integer


def overlap(side: int, size: int) -> NDArray[np.float64]:
    """The matrix R with which R @ image @ Rᵀ is the image of ``side`` at ``size``.

    R[i, j] is the share of the i-th of ``size`` equal parts of a line that lies in the j-th of
    ``side`` parts, so that each new pixel is the mean of the image over its area.

    Parameters
    ----------
    side, size : int
        Side of the images as they are, and as they shall be: smaller or larger.

    Returns
    -------
    R : float64 array of shape (size, side)
        Its rows sum to 1.

    Examples
    --------
    >>> from lincode.datasets import overlap
    >>> overlap(4, 2)
    array([[0.5, 0.5, 0. , 0. ],
           [0. , 0. , 0.5, 0.5]])
    """
    side, size = check_integer("side", side, 1), check_integer("size", size, 1)
    # In units of 1 / (side · size) of the line all edges are integers, and the sums exact.
    left, right = np.arange(size)[:, None] * side, np.arange(1, size + 1)[:, None] * side
    pixel = np.arange(side) * size
    shared = np.minimum(right, pixel + size) - np.maximum(left, pixel)
    return np.asarray(np.clip(shared, 0, None) / side, dtype=np.float64)
