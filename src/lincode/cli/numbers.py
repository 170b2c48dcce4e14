"""Numbers as arguments: refused with the option's name and not a parameter's."""

from __future__ import annotations

import argparse
import math


def positive(text: str) -> int:
    """An integer from 1."""
    return natural(text, 1)


def natural(text: str, least: int = 0) -> int:
    """An integer from 0, as large as seeds may be."""
    if not text.isdecimal() or not least <= int(text) < 2**32:
        raise argparse.ArgumentTypeError(f"must be an integer from {least}, got {text!r}")
    return int(text)


def amount(text: str, also: str = "") -> float:
    """A finite number from 0; ``also`` tells what else might have been given."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number from 0{also}, got {text!r}")
    return value


def threads(text: str) -> int:
    """How many: not 0, and below it all cores but so many and one more."""
    if not text.removeprefix("-").isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be an integer but 0 (-1: all cores), got {text!r}")
    return int(text)
