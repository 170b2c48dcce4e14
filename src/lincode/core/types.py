"""The two kinds of arrays that pass through the package."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.floating[Any]]
"""A dense array of float32 or float64."""

Rows: TypeAlias = Any
"""Samples: an ``Array`` or a scipy CSR matrix, used through products and row slices only."""
