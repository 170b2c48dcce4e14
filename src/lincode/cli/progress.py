"""Telling how a fit goes: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lincode import Iteration

SECONDS_BETWEEN_LINES = 2.0
"""Least time between two plain lines, which stay where they are printed."""


@contextmanager
def progress(*, quiet: bool) -> Iterator[Callable[[Iteration], None] | None]:
    """A callback for ``fit`` that shows iterations on stderr; None if nothing is to be shown."""
    if quiet:
        yield None
        return
    if sys.stderr.isatty():
        try:
            from rich.console import Console
        except ImportError:
            pass
        else:
            with Console(stderr=True).status("starting") as line:
                yield lambda iteration: line.update(str(iteration))
            return
    yield _lines()


def _lines() -> Callable[[Iteration], None]:
    last = -SECONDS_BETWEEN_LINES

    def show(iteration: Iteration) -> None:
        nonlocal last
        if iteration.seconds - last >= SECONDS_BETWEEN_LINES:
            last = iteration.seconds
            print(iteration, file=sys.stderr, flush=True)

    return show
