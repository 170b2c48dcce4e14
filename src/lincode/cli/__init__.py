"""The command line interface: ``lincode fit``, ``encode``, ``decode`` and ``info``.

Errors in the input are printed as one line. All other errors are bugs and keep their traceback.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from sklearn.exceptions import NotFittedError

from lincode.cli import commands
from lincode.cli.arguments import build_parser
from lincode.cli.columns import exclude_message
from lincode.cli.printing import print_message
from lincode.exceptions import InvalidInputError, MissingDependencyError
from lincode.vectors.columns import ColumnError

INVALID_INPUT = 2
"""Exit code for errors in the input."""
INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT."""
CLOSED_PIPE = 141
"""Exit code when the reader of the output stops reading: 128 + SIGPIPE."""
TERMINATED = 143
"""Exit code after SIGTERM: 128 + SIGTERM."""


class TerminatedError(BaseException):
    """The process received SIGTERM. It is not an Exception, so that only ``main`` catches it."""


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
        after Ctrl-C, 141 when the reader of the output stops reading, and 143 after SIGTERM.
    """
    args = build_parser().parse_args(argv)
    try:
        with _print_warnings(), _raise_on_sigterm():
            args.func(args)
            sys.stdout.flush()
    except KeyboardInterrupt:
        print_message("interrupted.")
        return INTERRUPTED
    except TerminatedError:
        print_message("terminated.")
        return TERMINATED
    except BrokenPipeError:  # For example, `lincode info model | head -1`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except MemoryError as error:
        print_message(f"not enough memory: {error}. lincode fit --minibatch learns from batches.")
        return INVALID_INPUT
    except ColumnError as error:
        # The columns of a model cannot be excluded.
        is_fit = args.func is commands.fit
        print_message(exclude_message(error, args.exclude) if is_fit else f"{error.problem}.")
        return INVALID_INPUT
    except (InvalidInputError, MissingDependencyError, NotFittedError) as error:
        print_message(str(error))
        return INVALID_INPUT
    except OSError as error:
        if not error.strerror:
            raise
        file = f": {error.filename}" if error.filename else ""
        print_message(f"{error.strerror}{file}.")
        return INVALID_INPUT
    return 0


def run() -> NoReturn:
    """Run the command of this process and exit with its exit code."""
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    if code:
        # A thread of pyarrow may still wait for standard input. The shutdown of the interpreter
        # would wait for this thread, or abort. Everything is written and closed at this point.
        os._exit(code)
    sys.exit()


@contextmanager
def _raise_on_sigterm() -> Iterator[None]:
    """Raise TerminatedError on SIGTERM, so that temporary files are deleted."""
    if threading.current_thread() is not threading.main_thread():  # it cannot set handlers
        yield
        return

    received = False

    def stop(*_: object) -> None:
        nonlocal received
        received = True
        raise TerminatedError

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except TerminatedError:
        raise
    except BaseException as error:
        # pyarrow has a handler of its own, and libraries may replace the exception of ours.
        if received or type(error).__name__ == "ArrowCancelled":
            raise TerminatedError from error
        raise
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


@contextmanager
def _print_warnings() -> Iterator[None]:
    """Print each warning once, as one line without a source location."""
    printed = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        text = str(message)
        if text not in printed:
            printed.add(text)
            print_message(f"warning: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield
