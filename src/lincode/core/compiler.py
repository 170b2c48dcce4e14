"""The options with which Numba compiles the kernels. This module imports Numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

OPTIONS: dict[str, Any] = {
    "nogil": True,
    "fastmath": {"reassoc", "contract", "nsz"},
    "error_model": "numpy",
}
"""Kernels release the interpreter lock. The order of summation is left to the compiler. A division
by zero gives infinity, as in NumPy, so that it needs no test."""


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function and cache the machine code on disk if there is a writable folder."""
    try:
        return numba.njit(cache=True, **OPTIONS)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # raised if no cache folder is writable
        return numba.njit(**OPTIONS)(function)  # type: ignore[no-any-return]
