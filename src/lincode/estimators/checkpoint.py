"""Checkpoints: files from which ``fit`` continues after it was interrupted."""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from lincode.core.energy import CodeStats
from lincode.core.stream_gram import StreamGram
from lincode.core.types import Array, Rows
from lincode.estimators.validation import check_number
from lincode.exceptions import CheckpointError, InvalidInputError
from lincode.files import check_output_path
from lincode.networks.scnn import Momentum
from lincode.networks.scnn_minibatch import Stream
from lincode.networks.stages import Progress
from lincode.rows.memory import dense
from lincode.rows.protocol import RowLengths
from lincode.tensor_file import FileKind, pack_state, to_json, unpack_state

N_COMPARED_ROWS = 10
"""The number of rows that are compared to recognise other data."""
FORMAT = 1
"""Version of the format. It increases when the stored states change."""
CHECKPOINT_FILE = FileKind(
    key="lincode checkpoint",
    name="checkpoint",
    writer="fit with checkpoint_path",
    advice="delete it to start training again",
    error=CheckpointError,
)


@dataclass(frozen=True)
class BatchProgress:
    """The state of training on batches after a batch."""

    stream: Stream
    energy: float
    """The smoothed energy"""
    energy_path: Array
    rule: dict[str, Any]
    """The attributes of the stopping rule"""
    seed: int
    """The seed of the order of the samples"""

    @property
    def n_steps(self) -> int:
        """The number of batches that were learned."""
        return self.stream.n_batches


STATE_CLASSES: dict[str, type[Any]] = {
    cls.__name__: cls for cls in (BatchProgress, CodeStats, Momentum, Progress, Stream, StreamGram)
}
"""The dataclasses that a checkpoint may contain."""
OTHER_PARAMETERS = {
    "n_jobs",
    "verbose",
    "callback",
    "checkpoint_path",
    "checkpoint_every",
    "client",
}
"""Parameters that may change between the interruption and the continuation."""
UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
"""What a checkpoint raises whose checksum is right, but whose contents are not."""


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
        # The target of a symbolic link is written, and the temporary file is beside it.
        path = estimator.checkpoint_path
        self.path = None if path is None else _writable(path)
        self.every = float(estimator.checkpoint_every)
        self.identity: dict[str, Any] = {
            "class": _class_name(type(estimator)),
            "parameters": _describe_parameters(estimator),
            "data": {} if self.path is None else describe(),
        }
        self.saved_at = time.monotonic()

    def load(self) -> Any:
        """Return the state that was stored, or None if there is no checkpoint."""
        if self.path is None or not self.path.exists():
            return None
        header, tensors = CHECKPOINT_FILE.read(self.path)
        if header.get("format") != FORMAT:
            raise CheckpointError(
                f"{self.path} is a checkpoint of format {header.get('format')!r}, but this version"
                f" of lincode reads format {FORMAT}; delete it to start training again."
            )
        self._check_identity(header)
        try:
            return unpack_state(header["state"], STATE_CLASSES, tensors)
        except UNREADABLE as error:
            raise CheckpointError(
                f"{self.path} is damaged ({error}); delete it to start training again."
            ) from error

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
                    self._refuse(what + name, before.get(name), now.get(name))

    def _refuse(self, what: str, before: Any, now: Any) -> None:
        raise CheckpointError(
            f"{self.path} is a checkpoint of another training: {what} was {before!r} and is now"
            f" {now!r}. Use the same to continue, or another checkpoint_path to start again."
        )

    def save_if_due(self, state: Callable[[], Any]) -> None:
        """Replace the checkpoint if ``checkpoint_every`` seconds have passed since the last one.

        ``state`` returns the state to store.
        """
        if self.path is None or time.monotonic() - self.saved_at < self.every:
            return
        tensors: dict[str, Any] = {}
        packed = pack_state(state(), STATE_CLASSES, tensors)
        header = {"format": FORMAT, **self.identity, "state": packed}
        CHECKPOINT_FILE.write(self.path, header, tensors, temporary=self._temporary(self.path))
        self.saved_at = time.monotonic()

    def remove(self) -> None:
        """Delete the checkpoint, because training is complete."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
            self._temporary(self.path).unlink(missing_ok=True)

    @staticmethod
    def _temporary(path: Path) -> Path:
        """Return the file that is written before it replaces the checkpoint.

        It always has the same name, so that a killed process leaves at most one such file.
        """
        return path.with_name(f".{path.name}.part")


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


def _writable(path: str | os.PathLike[str]) -> Path:
    """Return the file that is written at ``path``, or raise an error if it cannot be written."""
    try:
        return check_output_path(path)
    except OSError as error:
        raise InvalidInputError(
            f"checkpoint_path must be a file that can be written, got {os.fspath(path)!r}: {error}."
        ) from error
