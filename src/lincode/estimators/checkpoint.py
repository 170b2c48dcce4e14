"""Checkpoints: files from which ``fit`` continues after it was interrupted."""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from lincode.core.types import Rows
from lincode.estimators.logs import log_progress
from lincode.estimators.stored_state import STATE_CLASSES, check_state
from lincode.estimators.user_warnings import warn_user
from lincode.estimators.validation import check_number
from lincode.exceptions import CheckpointError, InvalidInputError
from lincode.files import check_output_path, remove_old_temporary_files
from lincode.messages import printable
from lincode.rows.memory import dense
from lincode.rows.protocol import RowLengths
from lincode.schema import shown
from lincode.tensor_file import UNREADABLE, FileKind, pack_state, to_json, unpack_state

N_COMPARED_ROWS = 10
"""The number of rows that are compared to recognise other data."""
FORMAT = 2
"""Version of the format. It increases when the stored states change."""
CHECKPOINT_FILE = FileKind(
    key="lincode checkpoint",
    name="checkpoint",
    writer="fit with checkpoint_path",
    advice="delete it to start training again",
    error=CheckpointError,
)


OTHER_PARAMETERS = {
    "n_jobs",
    "verbose",
    "callback",
    "checkpoint_path",
    "checkpoint_every",
    "client",
}
"""Parameters that may change between the interruption and the continuation."""
_kept: ContextVar[list[Checkpoint] | None] = ContextVar("kept", default=None)
"""The checkpoints of completed trainings that ``keep_checkpoints`` deletes later."""


@contextmanager
def keep_checkpoints() -> Iterator[None]:
    """Delete the checkpoints of trainings in this block at its end, not when training is complete.

    So a program can save a model before the state of its training is deleted. After an error in
    the block, for example if the model cannot be saved, the checkpoints remain.
    """
    kept: list[Checkpoint] = []
    token = _kept.set(kept)
    try:
        yield
    finally:
        _kept.reset(token)
    for checkpoint in kept:
        checkpoint.remove()


class Checkpoint:
    """The checkpoint of one call of ``fit``.

    Parameters
    ----------
    estimator : estimator
        The estimator that is fitted. It has the parameters ``checkpoint_path`` and
        ``checkpoint_every``. If the path is None, nothing is loaded or saved.
    describe : callable
        It returns a description of the training data, to recognise other data. It is called only if
        there is a path.
    """

    def __init__(self, estimator: BaseEstimator, describe: Callable[[], dict[str, Any]]) -> None:
        # The target of a symbolic link is written.
        path = estimator.checkpoint_path
        self.path = None if path is None else _writable(path)
        self.every = float(estimator.checkpoint_every)
        self.identity: dict[str, Any] = {
            "class": _class_name(type(estimator)),
            "parameters": _describe_parameters(estimator),
            "data": {} if self.path is None else describe(),
        }
        self.name, self.verbose = type(estimator).__name__, int(estimator.verbose)
        self.saved_at = time.monotonic()
        self.unsaved: Any = None
        self.failed = False
        """Whether the last attempt to save failed"""

    def load(self, cls: type[Any], m: int, p: int) -> Any:
        """Return the state that was stored, or None if there is no checkpoint.

        It must be a state of the class ``cls`` for m units and p features.
        """
        if self.path is None or not self.path.exists():
            return None
        header, tensors = CHECKPOINT_FILE.read(self.path)
        if header.get("format") != FORMAT:
            raise CheckpointError(
                f"{self.path} is a checkpoint of format {shown(header.get('format'))}, but this"
                f" version of lincode reads format {FORMAT}; {CHECKPOINT_FILE.advice}."
            )
        self._check_identity(header)
        try:
            state = unpack_state(header["state"], STATE_CLASSES, tensors)
            check_state(state, cls, m, p)
        except UNREADABLE as error:
            reason = printable(str(error), 500)
            raise CheckpointError(
                f"{self.path} is damaged ({reason}); delete it to start training again."
            ) from error
        path = printable(str(self.path))
        log_progress(f"[{self.name}] continuing from {path} after {state.done}", self.verbose)
        return state

    def _check_identity(self, header: dict[str, Any]) -> None:
        """Check that the checkpoint belongs to this estimator, these parameters and these data."""
        if header.get("class") != self.identity["class"]:
            self._refuse("the estimator", header.get("class"), self.identity["class"])
        for part, what in (("parameters", "the parameter "), ("data", "the training data: ")):
            before, now = header.get(part), self.identity[part]
            if not isinstance(before, dict):
                raise CheckpointError(f"{self.path} is damaged; {CHECKPOINT_FILE.advice}.")
            for name in [*now, *(set(before) - set(now))]:
                if not _agree(before.get(name), now.get(name)):
                    self._refuse(what + printable(name, 60), before.get(name), now.get(name))

    def _refuse(self, what: str, before: Any, now: Any) -> None:
        raise CheckpointError(
            f"{self.path} is a checkpoint of another training: {what} was {_shown(before)} and is"
            f" now {_shown(now)}. Use the same to continue, or another checkpoint_path to start"
            " again."
        )

    def save_if_due(self, state: Callable[[], Any]) -> None:
        """Replace the checkpoint if ``checkpoint_every`` seconds have passed since the last one.

        ``state`` returns the state to store, whose arrays later iterations do not overwrite.
        """
        if self.path is None:
            return
        self.unsaved = state()
        if time.monotonic() - self.saved_at >= self.every:
            self._save_or_warn(self.path)

    @contextmanager
    def saved_on_interrupt(self) -> Iterator[None]:
        """After an interruption in this block, save the state after the last complete iteration.

        Interruptions are Ctrl-C, ``sys.exit`` in a handler of a signal, and SIGTERM of a command.
        """
        try:
            yield
        except BaseException as error:
            interrupted = not isinstance(error, Exception)
            if interrupted and self.path is not None and self.unsaved is not None:
                self._save_or_warn(self.path)
            raise

    def _save_or_warn(self, path: Path) -> None:
        """Save the state. If this is not possible, training still goes on, or is interrupted."""
        self.saved_at = time.monotonic()
        try:
            self._save(path)
        except OSError as error:
            if not self.failed:
                warn_user(f"the checkpoint {path} could not be written: {error}.")
            self.failed = True

    def _save(self, path: Path) -> None:
        tensors: dict[str, Any] = {}
        packed = pack_state(self.unsaved, STATE_CLASSES, tensors)
        header = {"format": FORMAT, **self.identity, "state": packed}
        CHECKPOINT_FILE.write(path, header, tensors)
        self.unsaved, self.failed = None, False

    def remove(self) -> None:
        """Delete the checkpoint, because training is complete; see also ``keep_checkpoints``."""
        kept = _kept.get()
        if kept is not None:
            kept.append(self)
        elif self.path is not None:
            self.path.unlink(missing_ok=True)
            remove_old_temporary_files(self.path.parent)


def describe_data(
    shape: tuple[int, int], dtype: np.dtype[np.floating], lengths: RowLengths, first: Rows
) -> dict[str, Any]:
    """Return what identifies the training data in a checkpoint.

    ``first`` are rows at the start of the data, at least ten of them if there are so many.
    """
    rows = np.ascontiguousarray(dense(first[:N_COMPARED_ROWS]), dtype=np.float64)
    return {
        "shape": list(shape),
        "dtype": np.dtype(dtype).name,
        "checksum of the first samples": hashlib.sha256(rows.tobytes()).hexdigest()[:16],
        "mean length of the samples": float(lengths.mean),
        "length of the longest sample": float(lengths.longest),
    }


def _describe_parameters(estimator: BaseEstimator) -> dict[str, Any]:
    """Return the parameters that training depends on, as values for JSON."""
    described = {}
    for name, value in estimator.get_params(deep=False).items():
        if name in OTHER_PARAMETERS:
            continue
        if isinstance(value, np.random.RandomState):
            value = "RandomState"
        elif isinstance(value, np.generic):  # for example from np.linspace
            value = value.item()
        try:
            described[name] = to_json(value)
        except InvalidInputError:
            array = np.ascontiguousarray(value, dtype=np.float64)
            digest = hashlib.sha256(array.tobytes()).hexdigest()[:16]
            described[name] = f"array of shape {array.shape} with checksum {digest}"
    return described


def check_checkpoint_parameters(path: Any, every: Any) -> None:
    """Check the parameters ``checkpoint_path`` and ``checkpoint_every``."""
    check_number("checkpoint_every", every, 0)
    if path is not None and not isinstance(path, str | os.PathLike):
        raise InvalidInputError(f"checkpoint_path must be None or a path, got {path!r}.")


def _class_name(cls: type[Any]) -> str:
    """Return a name that distinguishes lincode.SCNN and lincode.dask.SCNN."""
    return "dask.SCNN" if cls.__module__ == "lincode.dask" else cls.__name__


def _agree(before: Any, now: Any) -> bool:
    """Return whether two values are equal, except for rounding in sums over rows."""
    if isinstance(before, float) and isinstance(now, float):
        return math.isclose(before, now, rel_tol=1e-9)
    return bool(before == now)


def _shown(value: Any) -> str:
    """Return a value for a message, and a shape as a tuple."""
    if isinstance(value, list) and len(value) == 2 and all(isinstance(n, int) for n in value):
        return f"({shown(value[0])}, {shown(value[1])})"
    return shown(value)


def _writable(path: str | os.PathLike[str]) -> Path:
    """Return the file that is written at ``path``, or raise an error if it cannot be written."""
    try:
        return check_output_path(path)
    except OSError as error:
        raise InvalidInputError(
            f"checkpoint_path must be a file that can be written, got {os.fspath(path)!r}: {error}."
        ) from error
