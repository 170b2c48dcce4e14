"""The command line interface: ``lincode fit``, ``encode``, ``decode`` and ``info``.

Errors in the input are printed as one line. All other errors are bugs and keep their traceback.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sklearn.exceptions import NotFittedError

from lincode.cli.arguments import build_parser
from lincode.exceptions import InvalidInputError, MissingDependencyError

INVALID_INPUT = 2
"""Exit code for errors in the input."""
INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT."""
CLOSED_PIPE = 141
"""Exit code when the reader of the output stops reading: 128 + SIGPIPE."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, default=None
        The arguments after the name of the program. None means the arguments of this process.

    Returns
    -------
    int
        The exit code: 0 for success, 2 for errors in the input, which are printed to stderr, 130
        after Ctrl-C, and 141 when the reader of the output stops reading.
    """
    args = build_parser().parse_args(argv)
    try:
        with _print_warnings():
            args.func(args)
            sys.stdout.flush()
    except KeyboardInterrupt:
        _print_message("interrupted.")
        return INTERRUPTED
    except BrokenPipeError:  # For example, `lincode info model | head -1`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except MemoryError as error:
        _print_message(f"not enough memory: {error}. lincode fit --minibatch learns from batches.")
        return INVALID_INPUT
    except (InvalidInputError, MissingDependencyError, NotFittedError) as error:
        _print_message(str(error))
        return INVALID_INPUT
    except OSError as error:
        if not error.strerror:
            raise
        file = f": {error.filename}" if error.filename else ""
        _print_message(f"{error.strerror}{file}.")
        return INVALID_INPUT
    return 0


def _print_message(text: str) -> None:
    """Print a message as one line to stderr."""
    print(f"lincode: {' '.join(text.split())}", file=sys.stderr, flush=True)


@contextmanager
def _print_warnings() -> Iterator[None]:
    """Print each warning once, as one line without a source location."""
    printed = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        text = str(message)
        if text not in printed:
            printed.add(text)
            _print_message(f"warning: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield
