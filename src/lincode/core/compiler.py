"""How the kernels are compiled. Numba is imported when the first of them is called."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import Any

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

_lock = Lock()
_waiting: list[Callable[..., Any]] = []
"""Inlined functions that Numba does not know yet."""


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function at its first call, and cache the machine code on disk if possible.

    This is for functions that Python calls. The functions that they call must be ``inlined``.
    """
    kernel: Callable[..., Any] | None = None

    @wraps(function)
    def call(*args: Any) -> Any:
        nonlocal kernel
        if kernel is None:
            with _lock:
                kernel = kernel or _compile(function)
        return kernel(*args)

    return call


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let compiled functions call a function, which becomes a part of each of them.

    Without this, the same seed would not give the same bits. A call that is not inlined can reach
    one of two copies of the function: the one in the machine code of the caller, or the one that
    was compiled separately. Both are correct, but they may add numbers in a different order. The
    copy that was loaded first is used, and this depends on whether the process compiled the caller
    or read it from the cache.
    """
    _waiting.append(function)
    return function


def _compile(function: Callable[..., Any]) -> Callable[..., Any]:
    import numba
    from numba.extending import register_jitable

    while _waiting:
        register_jitable(**INLINE_OPTIONS, **OPTIONS)(_waiting.pop())
    try:
        return numba.njit(cache=True, **OPTIONS)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # raised if no cache folder is writable
        return numba.njit(**OPTIONS)(function)  # type: ignore[no-any-return]
