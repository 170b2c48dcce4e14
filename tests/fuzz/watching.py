"""Calls of the library under watch: no hang, no undocumented warning, and only clear errors."""

from __future__ import annotations

import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sklearn
from sklearn.exceptions import NotFittedError

from lincode.exceptions import InvalidInputError
from tests.fuzz.cases import note_refusal

TIME_LIMIT = 60
"""Seconds of processor time after which a call counts as a hang; most take milliseconds."""
REFUSALS = (ValueError, TypeError, NotFittedError)
"""What a refusal may be. The errors of lincode are ValueErrors."""
DOCUMENTED_WARNINGS = (
    r"(SCNN|MiniBatchSCNN|SAANN|ASCNN|Sparsenet|SCNNCV|SparseCoder|sparse_encode): ",
    "the codes of .* did not reach the tolerance",
    "X does not have valid feature",
    "X has feature",
)
"""Warnings that a call may give. Every other warning is an error."""

FOREIGN_MODULES = r"sklearn\.(linear_model|metrics|model_selection)"
"""The classifiers, scores and folds of SCNNCV, whose warnings are those of scikit-learn."""


@contextmanager
def watched() -> Iterator[list[warnings.WarningMessage]]:
    """Stop hangs, turn every warning but the documented ones into an error, record the others."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"the call took more than {TIME_LIMIT} seconds of processor time")

    timer = hasattr(signal, "SIGPROF") and threading.current_thread() is threading.main_thread()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", module=FOREIGN_MODULES)
        for words in DOCUMENTED_WARNINGS:
            warnings.filterwarnings("always", message=words, category=UserWarning)
        before = signal.signal(signal.SIGPROF, stop) if timer else None
        if timer:
            signal.setitimer(signal.ITIMER_PROF, TIME_LIMIT)
        try:
            yield caught
        finally:
            if timer:
                signal.setitimer(signal.ITIMER_PROF, 0)
                signal.signal(signal.SIGPROF, before)


def check_refusal(error: BaseException, what: str) -> None:
    """The error is one of the documented ones, says a sentence, and was raised on purpose.

    A ValueError or TypeError is raised on purpose if it is one of lincode's own, or if a function
    of scikit-learn raised it, most likely in its validation.
    """
    last = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    deliberate = isinstance(error, InvalidInputError | NotFittedError)
    deliberate = deliberate or Path(sklearn.__file__).parent in last.parents
    kind = type(error).__name__
    assert deliberate, f"{what}: {kind} was not raised on purpose: {error}"
    assert len(str(error).split()) >= 5, f"{what}: {kind} must say a sentence, not {error}"


def attempt(call: Callable[[], Any], what: str) -> tuple[Any, bool]:
    """Return the result of the call and True, or None and False if it was refused."""
    try:
        with watched():
            return call(), True
    except REFUSALS as error:
        check_refusal(error, what)
        note_refusal(error)
        return None, False


def assert_refused(call: Callable[[], Any], what: str) -> None:
    """The call is refused."""
    _, accepted = attempt(call, what)
    assert not accepted, f"{what} must be refused"
