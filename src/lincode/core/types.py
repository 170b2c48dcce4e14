"""Type aliases for the two kinds of arrays that the package uses."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.floating[Any]]
"""A dense array of float32 or float64."""

Rows: TypeAlias = Any
"""Samples, one per row: an ``Array`` or a SciPy CSR matrix."""
