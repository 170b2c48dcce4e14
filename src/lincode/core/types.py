"""The two kinds of arrays that the package uses."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.floating[Any]]
"""A dense array of float32 or float64."""

Rows: TypeAlias = Any
"""Samples, one per row: an ``Array`` or a SciPy CSR matrix."""


def row_squares(X: Rows) -> Array:
    """Return ‖X[n]‖² of each row in float64."""
    if scipy.sparse.issparse(X):
        return np.asarray(X.astype(np.float64).power(2).sum(axis=1)).ravel()
    X = np.asarray(X, dtype=np.float64)
    return np.asarray(np.einsum("ij,ij->i", X, X))
