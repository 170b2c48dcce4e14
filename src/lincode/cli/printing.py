"""Print lines that contain text from files.

Such text may contain characters that control a terminal or that its encoding does not have.
"""

from __future__ import annotations

import sys

from lincode.messages import printable


def print_message(text: str) -> None:
    """Print a message as one line to stderr."""
    print(f"lincode: {printable(' '.join(text.split()))}", file=sys.stderr, flush=True)


def print_line(text: str) -> None:
    """Print one line to stdout."""
    encoding = sys.stdout.encoding or "utf-8"
    print(printable(text).encode(encoding, "backslashreplace").decode(encoding))
