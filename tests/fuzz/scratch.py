"""A folder for the files of the fuzzers."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

_held: list[tempfile.TemporaryDirectory[str]] = []


@functools.cache
def scratch_folder(name: str) -> Path:
    """Return a folder for the files of all examples, which this process deletes at its end.

    Hypothesis cannot create a folder for each example, and doing so would take longer than most
    examples.
    """
    holder = tempfile.TemporaryDirectory(prefix=f"lincode-{name}-")
    _held.append(holder)
    return Path(holder.name)
