"""Numbers as arguments."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    """An integer from 1."""
    return natural(text, 1)


def natural(text: str, least: int = 0) -> int:
    """An integer from 0, as large as seeds may be."""
    if not text.isdecimal() or not least <= int(text) < 2**32:
        raise argparse.ArgumentTypeError(f"must be an integer from {least}, got {text!r}")
    return int(text)
