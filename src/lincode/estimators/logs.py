"""Messages about progress, through the logger "lincode"."""

from __future__ import annotations

import logging
import sys
from typing import Any, TextIO

LOGGER = logging.getLogger("lincode")


class _PrintHandler(logging.StreamHandler[Any]):
    """Print messages to the present standard output, without a prefix."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:
        return sys.stdout


_PRINT = _PrintHandler()


def log_progress(message: str, verbose: int) -> None:
    """Log a message: with the level INFO if ``verbose`` is above 0, with DEBUG otherwise.

    If ``verbose`` is above 0 and nobody has configured logging, the message is printed. Logging is
    configured if the logger "lincode" has a handler or a level, or if the root logger has a handler
    and accepts the level INFO.
    """
    if not verbose:
        LOGGER.debug(message)
    elif LOGGER.handlers or LOGGER.level or (LOGGER.hasHandlers() and _accepts_info()):
        LOGGER.info(message)
    else:
        _PRINT.handle(LOGGER.makeRecord(LOGGER.name, logging.INFO, "", 0, message, (), None))


def is_logged(verbose: int) -> bool:
    """Return whether ``log_progress`` does anything with a message."""
    return bool(verbose) or LOGGER.isEnabledFor(logging.DEBUG)


def _accepts_info() -> bool:
    return LOGGER.isEnabledFor(logging.INFO)
