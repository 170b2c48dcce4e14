"""Warnings that point to the line of the user's program."""

from __future__ import annotations

import inspect
import warnings

PACKAGES = ("lincode", "sklearn", "joblib")
"""Frames of these packages are skipped: scikit-learn wraps ``transform``, and pipelines call it."""


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning for the line from which the library was called."""
    frame, stacklevel = inspect.currentframe(), 1
    while frame is not None and _package(frame.f_globals) in PACKAGES:
        frame, stacklevel = frame.f_back, stacklevel + 1
    warnings.warn(message, category, stacklevel=stacklevel if frame is not None else 2)


def _package(variables: dict[str, object]) -> str:
    return str(variables.get("__name__", "")).partition(".")[0]
