"""Callbacks for the parameter ``callback`` of the estimators."""

from __future__ import annotations

import os
import time
import warnings

from lincode.exceptions import InvalidInputError
from lincode.io import import_skops, output_path, save
from lincode.training.loop import Iteration

__all__ = ["Checkpoint"]


class Checkpoint:
    """Save the estimator regularly while it is trained.

    After an interruption, load the file and continue: by ``fit`` with ``warm_start=True``, or by
    ``partial_fit``. A kill at any moment leaves the last complete file. If the file cannot be
    written, a warning is issued once, and training continues.

    Parameters
    ----------
    path : path
        The file to write, which :func:`lincode.load` reads.
    every : float, default=60
        The least number of seconds between two saves. 0 saves after each iteration.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_digits
    >>> import lincode
    >>> from lincode.callbacks import Checkpoint
    >>> X = load_digits().data / 16
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "digits.skops")
    ...     scnn = lincode.SCNN(20, random_state=0, callback=Checkpoint(path, every=0)).fit(X)
    ...     scnn = lincode.load(path).set_params(warm_start=True).fit(X)
    """

    def __init__(self, path: str | os.PathLike[str], every: float = 60.0) -> None:
        if not every >= 0:
            raise InvalidInputError(f"every must be a number of at least 0, got {every!r}.")
        import_skops()  # Report a missing package or folder before training.
        output_path(path)
        self.path = path
        self.every = every
        self._saved_at: float | None = None
        self._warned = False

    def __call__(self, iteration: Iteration) -> None:
        now = time.monotonic()
        if self._saved_at is None:
            self._saved_at = now - iteration.seconds
        if now - self._saved_at < self.every:
            return
        estimator = iteration.snapshot()
        try:
            save(estimator, self.path)
        except Exception as error:
            if not self._warned:
                self._warned = True
                warnings.warn(
                    f"the checkpoint {os.fspath(self.path)} cannot be written, and training"
                    f" continues without it: {error}",
                    UserWarning,
                    stacklevel=2,
                )
        self._saved_at = time.monotonic()
