"""The command line: ``lincode fit``, ``encode``, ``decode``, ``info``, ``data`` and ``reproduce``.

Each command is one function of its arguments that returns an exit code. What all of them share is
here: errors that are meant for the user are one sentence, everything else keeps its traceback.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import lincode
from lincode.cli import data, info, reproduce, vectors

REFUSED, INTERRUPTED, PIPE_CLOSED = 2, 130, 141
"""Exit codes: bad input, Ctrl-C (128 + SIGINT), nobody reads on (128 + SIGPIPE)."""
SENTENCES = (ValueError, TypeError, ArithmeticError, ImportError, OSError)
"""What lincode and scikit-learn raise to tell the user something."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, default=None
        The arguments after the program's name. None means those of this process.

    Returns
    -------
    int
        0 if all went well; 2 for bad input, which a line on stderr explains; 130 after Ctrl-C.
    """
    args = _parser().parse_args(argv)
    try:
        with _plain_warnings():
            code = int(args.func(args))
            sys.stdout.flush()
    except KeyboardInterrupt:
        _say("interrupted.")
        return INTERRUPTED
    except BrokenPipeError:  # as in lincode info model | head -1
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except MemoryError as error:
        _say(f"the memory does not suffice: {error}. fit --minibatch holds a part of npy data.")
        return REFUSED
    except SENTENCES as error:
        if not _on_purpose(error):
            raise
        _say(_sentence(error))
        return REFUSED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lincode",
        description="Sparse codes at the price of one matrix product.",
        epilog="lincode COMMAND --help says what a command takes.",
    )
    parser.add_argument("--version", action="version", version=f"lincode {lincode.__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for commands in (vectors, info, data, reproduce):
        commands.add(subparsers)
    return parser


def _say(text: str) -> None:
    print(f"lincode: {text}", file=sys.stderr, flush=True)


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        named = f": {error.filename}" if error.filename else ""
        return f"{error.strerror}{named}."
    return " ".join(str(error).split())


def _on_purpose(error: BaseException) -> bool:
    """Whether an error is a sentence for the user, and not a bug that happens to be of its type.

    A sentence comes from a ``raise`` of ours or of scikit-learn's checks, or from the operating
    system about a file.
    """
    if isinstance(error, OSError) and error.strerror:
        return True
    frame, _ = list(traceback.walk_tb(error.__traceback__))[-1]
    (last,) = traceback.extract_tb(error.__traceback__)[-1:]
    room = str(frame.f_globals.get("__name__", "")).split(".")[0]
    return room in ("lincode", "sklearn") and (last.line or "").startswith("raise")


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings as lines, each said once; they are about the data, not about a line of Python."""
    said = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        text = " ".join(str(message).split())
        if text not in said:
            said.add(text)
            _say(f"warning: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield
