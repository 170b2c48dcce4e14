"""Text for messages. Text from a file may contain characters that control a terminal."""

from __future__ import annotations


def printable(text: str, limit: int | None = None) -> str:
    r"""Return text in which every character is visible, with at most ``limit`` characters.

    Control characters, such as those that begin the escape sequences of a terminal, and characters
    that change the direction of writing are replaced by their escapes.

    Examples
    --------
    >>> from lincode.messages import printable
    >>> print(printable("red: \x1b[31m"))
    red: \x1b[31m
    >>> printable("a long name", 6)
    'a long…'
    """
    short = text if limit is None or len(text) <= limit else f"{text[:limit]}…"
    if short.isprintable():
        return short
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in short
    )
