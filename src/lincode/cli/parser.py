"""The parser of command lines. Its errors are one line, as all other errors."""

from __future__ import annotations

import argparse
from typing import NoReturn

from lincode.messages import printable

MAX_MESSAGE = 1000
"""Longer messages, which contain long arguments, are cut."""


class CommandParser(argparse.ArgumentParser):
    """A parser that prints one line for an invalid command line, instead of its usage as well."""

    def error(self, message: str) -> NoReturn:
        """Print the message, and how to list the arguments, to stderr, and exit with 2."""
        line = printable(" ".join(message.split()), MAX_MESSAGE)
        self.exit(2, f"{self.prog}: {line}. Use {self.prog} --help to list the arguments.\n")
