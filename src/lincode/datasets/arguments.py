"""Arguments at the door, and packages only some loaders need."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from importlib import import_module
from typing import Any

SPLITS = ("train", "test")


def check_integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """``value`` as an int from ``low`` to ``high``."""
    wanted = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"
    try:
        # True is 1 to Python and surely a slip here.
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < low or (high is not None and number > high):
        raise ValueError(f"{name} must be {wanted}, got {value!r}.")
    return number


def check_choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """``value``, if it is one of ``choices``."""
    for choice in choices:
        if isinstance(value, str) and value == choice:
            return choice
    raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}.")


def need(module: str, package: str, purpose: str) -> Any:
    """Import an optional module, or say which package to install and what for."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{purpose} needs {package}: pip install {package}.") from error
