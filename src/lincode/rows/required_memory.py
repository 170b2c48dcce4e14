"""Estimates of the memory that training and codes need, and an error before it is exhausted.

The estimates depend on sizes only. They decide nothing but whether to refuse: which factor is used
is decided in ``memory.py`` by fixed limits, so that results do not depend on the machine.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from lincode.core.iterative_factor import UNITS_PER_BLOCK
from lincode.exceptions import InvalidInputError

MIN_CHECKED_BYTES = 2**28
"""Smaller requirements are not compared with the available memory."""
WEIGHT_ARRAYS = 14
"""The number of float64 arrays of shape (m, p) that exist at the same time in an iteration:
dictionary, encoder, their previous values, extrapolations, sums of the codes and work space."""
SOLVER_ARRAYS = 8
"""The number of float64 arrays of shape (p, UNITS_PER_BLOCK) of the iterative C step."""
SAVED_CODES = 2
"""The codes, and their copy while the ridge is chosen."""


def available_bytes() -> int | None:
    """Return the memory that can be used without swapping, or None if the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def direct_factor_bytes(N: int, p: int) -> int:
    """Return the memory that the direct factorisation of XᵀX needs."""
    return 3 * 8 * p * min(N, p)


def training_bytes(
    N: int, p: int, m: int, dtype: np.dtype[np.floating], *, iterative: bool, n_threads: int = 1
) -> dict[str, int]:
    """Return the memory that training needs in addition to X, by purpose."""
    blocks = min(n_threads, -(-m // UNITS_PER_BLOCK))
    solver = SOLVER_ARRAYS * 8 * p * min(m, UNITS_PER_BLOCK) * blocks
    return {
        "codes": SAVED_CODES * N * m * np.dtype(dtype).itemsize,
        "dictionary and encoder": WEIGHT_ARRAYS * 8 * m * p,
        "encoder step": solver if iterative else direct_factor_bytes(N, p),
    }


def check_training_memory(
    N: int, p: int, m: int, dtype: np.dtype[np.floating], *, iterative: bool, n_threads: int = 1
) -> None:
    """Raise an error if training needs more memory than there is."""
    needed = training_bytes(N, p, m, dtype, iterative=iterative, n_threads=n_threads)
    available = _exceeded(sum(needed.values()))
    if available is None:
        return
    parts = ", ".join(f"{name} {_gigabytes(size)}" for name, size in needed.items())
    largest = max(needed, key=lambda name: needed[name])
    advice = {
        "codes": "use MiniBatchSCNN, whose memory does not depend on the number of samples, fewer"
        " units, or float32",
        "dictionary and encoder": "use fewer units or fewer features",
        "encoder step": "use fewer features, or a CSR matrix if most entries are zero",
    }[largest]
    raise InvalidInputError(
        f"training on {N} samples with {p} features and {m} units needs"
        f" {_gigabytes(sum(needed.values()))} of memory in addition to X ({parts}), but"
        f" {_gigabytes(available)} are available; {advice}."
    )


def check_codes_memory(N: int, n_columns: int, dtype: np.dtype[np.floating]) -> None:
    """Raise an error if a dense array of codes needs more memory than there is."""
    needed = N * n_columns * np.dtype(dtype).itemsize
    available = _exceeded(needed)
    if available is not None:
        raise InvalidInputError(
            f"the codes of {N} samples with {n_columns} columns need {_gigabytes(needed)} of"
            f" memory, but {_gigabytes(available)} are available; set sparse_output=True, or"
            " transform fewer samples at a time."
        )


def _exceeded(needed: int) -> int | None:
    """Return the available memory if it is less than needed, otherwise None."""
    if needed < MIN_CHECKED_BYTES:
        return None
    available = available_bytes()
    return available if available is not None and needed > available else None


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
