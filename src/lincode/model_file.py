"""Save and load fitted estimators as safetensors files. Loading never runs code from the file.

The arrays are the tensors of the file. A JSON text in its metadata, under the key "lincode",
contains the class, the parameters and all other fitted attributes. A checksum covers both,
because a changed bit in an array cannot be detected otherwise.
"""

from __future__ import annotations

import datetime
import errno
import hashlib
import json
import os
import platform
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.utils.validation import check_is_fitted

from lincode.estimators.cv import SCNNCV
from lincode.exceptions import ModelFileError
from lincode.model_contents import MODEL_CLASSES, pack, unpack
from lincode.vectors import atomic_write

FORMAT = 2
"""Version of the format. It increases when the stored attributes or their meaning change."""
OLDEST_FORMAT = 2
"""The oldest format that can be read. Files of format 1 have no calibration of the encoder."""


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
    from safetensors.numpy import save as to_bytes  # Imported only when a file is written.

    if type(model) is SCNNCV:
        check_is_fitted(model)
        model = model.best_estimator_
    if hasattr(model, "to_local"):  # trained on a cluster
        model = model.to_local()
    contents, tensors = pack(model)
    header = {"format": FORMAT, "versions": _versions(), "saved": _utc_time(), **contents}
    text = json.dumps(header, allow_nan=False)
    data = to_bytes(tensors, metadata={"lincode": text, "sha256": _checksum(text, tensors)})
    with atomic_write(path) as file:
        file.write(data)
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
    header, tensors = _read(name)
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


def _checksum(text: str, tensors: dict[str, Any]) -> str:
    """Return the SHA-256 of the header and of all tensors with names, types and shapes."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _read(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the tensors of a model file whose checksum is correct."""
    from safetensors import SafetensorError, safe_open

    path = Path(name)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "expected a model file, got a folder", name)
    path.stat()  # Raises FileNotFoundError.
    if not path.is_file():
        raise ModelFileError(f"{name} must be a model file, but it is a device or a pipe.")
    try:
        with safe_open(name, framework="np") as file:
            metadata = file.metadata()
            header = _parse_header(name, metadata)
            keys = file.keys()
            if {file.get_slice(key).get_dtype() for key in keys} - {"F32", "F64"}:
                raise ModelFileError(f"{name} is damaged: an array has an unknown type.")
            tensors = {key: np.array(file.get_tensor(key)) for key in keys}
    except SafetensorError as error:
        raise ModelFileError(
            f"{name} is not a model file of lincode, or it is damaged or truncated ({error}). Use"
            " a file that lincode.save or `lincode fit` wrote, or save the model again."
        ) from error
    if _checksum(metadata["lincode"], tensors) != metadata.get("sha256"):
        raise ModelFileError(
            f"{name} is damaged: its contents do not match its checksum; save the model again."
        )
    return header, tensors


def _parse_header(name: str, metadata: Any) -> dict[str, Any]:
    """Return the header if this version of lincode knows its format and class."""
    if not metadata or "lincode" not in metadata:
        raise ModelFileError(f"{name} is a safetensors file, but lincode.save did not write it.")
    try:
        header: dict[str, Any] = json.loads(metadata["lincode"])
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
    return header
