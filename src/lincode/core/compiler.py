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
INLINE_OPTIONS: dict[str, Any] = {
    "forceinline": True,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
"""Additional options of functions that only compiled functions call. Python cannot call them, which
saves compile time."""


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function and cache the machine code on disk if there is a writable folder.

    This is for functions that Python calls. The functions that they call must be ``inlined``.
    """
    try:
        return numba.njit(cache=True, **OPTIONS)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # raised if no cache folder is writable
        return numba.njit(**OPTIONS)(function)  # type: ignore[no-any-return]


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function as a part of every compiled function that calls it.

    Without this, the same seed would not give the same bits. A call that is not inlined can reach
    one of two copies of the function: the one in the machine code of the caller, or the one that
    was compiled separately. Both are correct, but they may add numbers in a different order. The
    copy that was loaded first is used, and this depends on whether the process compiled the caller
    or read it from the cache.
    """
    return numba.njit(**INLINE_OPTIONS, **OPTIONS)(function)  # type: ignore[no-any-return]
