"""Save and load estimators with skops, and write files completely or not at all."""

from __future__ import annotations

import copy
import os
import secrets
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from lincode.core.energy import CodeStats
from lincode.core.threshold import Thresholding
from lincode.encoder.calibration import Network
from lincode.encoder.refinement import Directions, SparseGradients
from lincode.estimators.minibatch import MiniBatchSCNN
from lincode.estimators.scnn import SCNN
from lincode.estimators.sparse_encode import SparseCoder
from lincode.exceptions import InvalidInputError, MissingDependencyError
from lincode.index import SparseIndex
from lincode.training.alternation import EnergyWeights
from lincode.training.online import OnlineTraining, RecentRows

ESTIMATORS = (SCNN, MiniBatchSCNN, SparseCoder, SparseIndex)
STATE = (
    OnlineTraining,
    RecentRows,
    CodeStats,
    EnergyWeights,
    SparseGradients,
    Directions,
    Network,
    Thresholding,
)
"""The types of the state with which ``partial_fit`` continues."""
FUNCTIONS = ("numpy.pad", "numpy.delete")
"""The functions in pipelines of ``load_sae``."""


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Save an estimator, or a pipeline that contains one, to a file of skops.

    The file is written completely or not at all: after an error or a kill, a file that existed at
    ``path`` is unchanged. The state of a MiniBatchSCNN is saved too, so that ``partial_fit``
    continues after loading. Callbacks are not saved.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_digits
    >>> import lincode
    >>> X = load_digits().data / 16
    >>> scnn = lincode.SCNN(20, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lincode.save(scnn, Path(folder, "digits.skops"))
    ...     loaded = lincode.load(Path(folder, "digits.skops"))
    >>> bool((loaded.transform(X) == scnn.transform(X)).all())
    True
    """
    if hasattr(estimator, "to_local"):  # trained on a cluster
        estimator = estimator.to_local()
    if not hasattr(estimator, "get_params"):
        raise InvalidInputError(
            f"only an estimator or a pipeline can be saved, got {type(estimator).__name__}."
        )
    data = import_skops().dumps(_without_callbacks(estimator))
    with atomic_write(path) as file:
        file.write(data)


def load(path: str | os.PathLike[str], *, trusted: Sequence[str | type] = ()) -> Any:
    """Load an estimator or a pipeline from a file that :func:`lincode.save` wrote.

    Unlike a pickle, the file contains no code. Only types of lincode, types that skops trusts, such
    as most estimators of scikit-learn, and those of ``trusted`` are created.

    Examples
    --------
    >>> import lincode
    >>> model = lincode.load("model.skops")  # doctest: +SKIP
    >>> model = lincode.load("model.skops", trusted=["package.Transformer"])  # doctest: +SKIP
    """
    skops_io, types = import_skops(), [*ESTIMATORS, *STATE, *FUNCTIONS, *trusted]
    known = {t if isinstance(t, str) else f"{t.__module__}.{t.__qualname__}" for t in types}
    try:
        unknown = sorted(set(skops_io.get_untrusted_types(file=Path(path))) - known)
        if not unknown:
            return skops_io.load(Path(path), trusted=sorted(known))
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, AttributeError) as error:
        raise InvalidInputError(
            f"{path} must be a file that lincode.save wrote, but it cannot be read: {error}. It may"
            " be damaged or of another version; save the estimator again."
        ) from error
    raise InvalidInputError(
        f"{path} contains types that are not trusted: {', '.join(unknown)}. If you know where the"
        f" file is from and trust them, use lincode.load(path, trusted={unknown})."
    )


def import_skops() -> Any:
    """Return the module skops.io, or raise an error that says how to install it."""
    try:
        import skops.io
    except ImportError as error:
        message = "saving and loading need skops; install it with pip install 'lincode[skops]'."
        raise MissingDependencyError(message) from error
    return skops.io


def _without_callbacks(estimator: Any) -> Any:
    """Return a copy without callbacks, which are functions and belong to one training."""
    values = estimator.get_params()
    callbacks = [value for name, value in values.items() if name.split("__")[-1] == "callback"]
    nested = any("__" in name for name in values)
    # A shallow copy shares its steps with the original, whose parameters must not change.
    memo = {id(callback): None for callback in callbacks if callback is not None}
    copied = copy.deepcopy(estimator, memo) if nested else copy.copy(estimator)
    if not nested and "callback" in values:
        copied.set_params(callback=None)
    for part in (copied, *copied.get_params().values()):
        if hasattr(part, "set_callbacks"):
            part.set_callbacks()
    return copied


def output_path(path: str | os.PathLike[str]) -> Path:
    """Return the file to write, which is the target if ``path`` is a symbolic link."""
    target = Path(os.path.realpath(path))
    if target.is_dir() or not target.parent.is_dir():
        problem = "it is a folder" if target.is_dir() else "its folder does not exist"
        raise InvalidInputError(f"{path} must be a file that can be written, but {problem}.")
    return target


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a temporary file in the same folder, which replaces ``path`` when it is complete."""
    target = output_path(path)
    temporary = target.with_name(f".{target.name}-{secrets.token_hex(4)}.part")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
