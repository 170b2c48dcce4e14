"""Save and load fitted estimators as safetensors files. Loading never runs code from the file.

The JSON header of the file (``tensor_file.py``) contains the class, the parameters and all fitted
attributes that are not arrays.
"""

from __future__ import annotations

import datetime
import os
import platform
import sys
import warnings
from typing import Any

import numpy as np
import sklearn
from sklearn.utils.validation import check_is_fitted

from lincode.estimators.cv import SCNNCV
from lincode.exceptions import ModelFileError
from lincode.model_contents import MODEL_CLASSES, pack, unpack
from lincode.tensor_file import FileKind

FORMAT = 2
"""Version of the format. It increases when the stored attributes or their meaning change."""
OLDEST_FORMAT = 2
"""The oldest format that can be read. Files of format 1 have no calibration of the encoder."""
MODEL_FILE = FileKind(
    key="lincode",
    name="model file",
    writer="lincode.save",
    advice="save the model again",
    error=ModelFileError,
)


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Save a fitted estimator to one file, which :func:`lincode.load` reads.

    The file is a `safetensors <https://huggingface.co/docs/safetensors>`_ file with a JSON header
    and contains no code. It is written completely or not at all: after an error or Ctrl-C, a file
    that existed at ``path`` is unchanged.

    Parameters
    ----------
    model : SCNN, MiniBatchSCNN, SCNNCV, SAANN, ASCNN or Sparsenet
        A fitted estimator. For an SCNNCV, its ``best_estimator_`` is saved, which is an SCNN. Of a
        ``lincode.dask.SCNN``, the local copy is saved. A
        MiniBatchSCNN is saved with its training state, so that ``partial_fit`` continues after
        loading.
    path : path
        The file to write. Its name may have any suffix.

    Notes
    -----
    Parameters that are not numbers, strings or arrays (a callback, a RandomState) cannot be
    stored. A warning reports them, and the loaded estimator has their default values. The
    configuration that ``set_output`` sets is not stored either.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_digits
    >>> import lincode
    >>> X = load_digits().data / 16
    >>> scnn = lincode.SCNN(20, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lincode.save(scnn, Path(folder, "digits.safetensors"))
    ...     loaded = lincode.load(Path(folder, "digits.safetensors"))
    >>> bool((loaded.transform(X) == scnn.transform(X)).all())
    True
    """
    if type(model) is SCNNCV:
        check_is_fitted(model)
        model = model.best_estimator_
    if hasattr(model, "to_local"):  # trained on a cluster
        model = model.to_local()
    contents, tensors = pack(model)
    header = {"format": FORMAT, "versions": _versions(), "saved": _utc_time(), **contents}
    MODEL_FILE.write(path, header, tensors)
    if contents["left_out"]:
        warnings.warn(
            f"{type(model).__name__}: {', '.join(contents['left_out'])} cannot be stored in a"
            " file; the loaded estimator has the default value instead.",
            UserWarning,
            stacklevel=2,
        )


def load(path: str | os.PathLike[str]) -> Any:
    """Load an estimator from a file that :func:`lincode.save` wrote.

    The loaded estimator equals the saved one exactly, bit for bit. Loading never runs code from
    the file: only numbers and strings are read, and only classes of lincode are created. A file
    that is damaged, of another kind or of a later version raises an error.

    Parameters
    ----------
    path : path
        The file to read.

    Returns
    -------
    SCNN, MiniBatchSCNN, SAANN, ASCNN or Sparsenet
        The fitted estimator with the parameters it was saved with.

    Raises
    ------
    lincode.exceptions.ModelFileError
        If the file is not a valid model file.

    Examples
    --------
    See :func:`lincode.save`.
    """
    return describe(path)[0]


def describe(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """Load an estimator together with information about its file.

    Returns
    -------
    model : SCNN, MiniBatchSCNN, SAANN, ASCNN or Sparsenet
        The result of ``load``.
    about : dict
        "format", "saved" (the time in UTC), "versions" (of lincode and its dependencies when the
        file was written) and "left_out" (parameters that could not be stored).
    """
    name = os.fspath(path)
    header, tensors = MODEL_FILE.read(name)
    _check_header(name, header)
    try:
        model = unpack(header, tensors)
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise ModelFileError(f"{name} is damaged or of a later version: {error}") from error
    return model, {key: header.get(key) for key in ("format", "saved", "versions", "left_out")}


def _versions() -> dict[str, str]:
    return {
        # lincode/__init__.py imports this module, so it cannot be imported here.
        "lincode": str(sys.modules["lincode"].__version__),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }


def _utc_time() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _check_header(name: str, header: dict[str, Any]) -> None:
    """Check that this version of lincode knows the format and the class."""
    try:
        version, class_name = int(header["format"]), str(header["class"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"{name} is damaged: its header cannot be read ({error}).") from error
    if version < OLDEST_FORMAT:
        raise ModelFileError(
            f"{name} is a model file of format {version}, which an earlier version of lincode"
            f" wrote; this version reads formats from {OLDEST_FORMAT} on. Fit the model again and"
            " save it."
        )
    if version > FORMAT:
        raise ModelFileError(
            f"{name} is a model file of format {version}, but this version of lincode reads formats"
            f" up to {FORMAT}; upgrade lincode."
        )
    if class_name not in MODEL_CLASSES:
        raise ModelFileError(
            f"{name} contains a {class_name[:40]!r}, but this version of lincode knows only"
            f" {', '.join(MODEL_CLASSES)}; upgrade lincode if a later version wrote the file."
        )
