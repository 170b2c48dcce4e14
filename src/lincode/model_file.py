"""Save and load fitted estimators and pipelines. Loading never runs code from the file.

The file of a single estimator is a safetensors file. Its JSON header (``tensor_file.py``) contains
the class, the parameters and all fitted attributes that are not arrays. Pipelines are saved by
skops (``pipeline_file.py``).
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
from lincode.exceptions import InvalidInputError, ModelFileError
from lincode.messages import printable
from lincode.model_contents import pack, unpack
from lincode.model_schema import MODEL_CLASSES
from lincode.pipeline_file import is_composite, is_pipeline_file, read_pipeline, write_pipeline
from lincode.schema import Text, shown
from lincode.tensor_file import UNREADABLE, FileKind

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
    """Save a fitted estimator or a whole pipeline to one file, which :func:`lincode.load` reads.

    The file of a single estimator is a `safetensors <https://huggingface.co/docs/safetensors>`_
    file with a JSON header. A pipeline is saved by `skops <https://skops.readthedocs.io>`_, an
    optional package. Both contain no code. The file is written completely or not at all: after an
    error or Ctrl-C, a file that existed at ``path`` is unchanged.

    Parameters
    ----------
    model : SCNN, MiniBatchSCNN, SCNNCV or a fitted estimator of \
            scikit-learn
        A fitted estimator. For an SCNNCV, its ``best_estimator_`` is saved, which is an SCNN. Of a
        ``lincode.dask.SCNN``, the local copy is saved. A
        MiniBatchSCNN is saved with its training state, so that ``partial_fit`` continues after
        loading. A Pipeline, a ColumnTransformer, a FeatureUnion or another estimator of
        scikit-learn is saved with all its steps, their feature names and their ``set_output``.
    path : path
        The file to write. Its name may have any suffix.

    Notes
    -----
    Parameters of a single estimator that are not numbers, strings or arrays (a callback, a
    RandomState) cannot be stored. A warning reports them, and the loaded estimator has their
    default values. The configuration that ``set_output`` sets, and ``checkpoint_path``, are not
    stored either. Names of features and parameters that are lists may take up to 8 MiB of text;
    larger initial atoms must be an array.

    A pipeline may contain estimators of scikit-learn and lincode, NumPy and SciPy arrays and the
    functions of NumPy and ``scipy.special``. Other types, such as a callback or a class of your
    own, raise an error that names them, and nothing is written.

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
    if is_composite(model):
        about = {"format": FORMAT, "versions": _versions(), "saved": _utc_time(), "left_out": []}
        write_pipeline(path, model, about)
        return
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
    """Load an estimator or a pipeline from a file that :func:`lincode.save` wrote.

    The loaded estimator equals the saved one exactly, bit for bit. Loading never runs code from
    the file: only numbers and strings are read, and only classes of lincode are created; for a
    pipeline, only those of lincode, scikit-learn, NumPy and SciPy. A file that contains other
    types, is damaged, of another kind or of a later version raises an error. So does a file that
    was forged such that its contents do not make sense: shapes, ranges and how the attributes
    belong together are checked (docs/reliability.md).

    Parameters
    ----------
    path : path
        The file to read.

    Returns
    -------
    SCNN, MiniBatchSCNN or an estimator of scikit-learn
        The fitted estimator with the parameters it was saved with.

    Raises
    ------
    lincode.exceptions.ModelFileError
        If the file is not a valid model file.
    lincode.exceptions.MissingDependencyError
        If the file contains a pipeline and skops is not installed.

    Warns
    -----
    sklearn.exceptions.InconsistentVersionWarning
        If a pipeline was saved with another version of scikit-learn, whose estimators may have
        other attributes.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_digits
    >>> import lincode
    >>> scnn = lincode.SCNN(n_components=20, random_state=0).fit(load_digits().data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lincode.save(scnn, Path(folder, "digits.safetensors"))
    ...     loaded = lincode.load(Path(folder, "digits.safetensors"))
    >>> loaded
    SCNN(n_components=20, random_state=0)
    """
    return describe(path)[0]


def describe(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """Load an estimator together with information about its file.

    Returns
    -------
    model : estimator
        The result of ``load``.
    about : dict
        "format", "saved" (the time in UTC), "versions" (of lincode and its dependencies when the
        file was written) and "left_out" (parameters that could not be stored).
    """
    name = os.fspath(path)
    if is_pipeline_file(name):
        pipeline, header = read_pipeline(name, FORMAT)
        try:
            return pipeline, _about(header)
        except InvalidInputError as error:
            raise ModelFileError(f"{name} is damaged: {error}") from error
    header, tensors = MODEL_FILE.read(name)
    _check_header(name, header)
    try:
        model = unpack(header, tensors)
        about = _about(header)
    except UNREADABLE as error:
        reason = printable(str(error), 500)
        raise ModelFileError(f"{name} is damaged or of a later version: {reason}") from error
    return model, about


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


def _about(header: dict[str, Any]) -> dict[str, Any]:
    """Return the information about a file from its header, after checking that it is text."""
    text, sizes = Text(), dict[str, int]()
    versions, left_out = header.get("versions", {}), header.get("left_out", [])
    text.check("saved", header.get("saved", ""), sizes)
    if type(versions) is not dict or type(left_out) is not list or len(versions) > 100:
        raise ModelFileError("versions must be a dict and left_out a list.")
    for entry in (*versions, *versions.values(), *left_out):
        text.check("an entry of versions or left_out", entry, sizes)
    return {key: header.get(key) for key in ("format", "saved", "versions", "left_out")}


def _check_header(name: str, header: dict[str, Any]) -> None:
    """Check that this version of lincode knows the format and the class."""
    version, class_name = header.get("format"), header.get("class")
    if type(version) is not int or type(class_name) is not str:
        raise ModelFileError(
            f"{name} is damaged: its header cannot be read (the format must be an integer and the"
            f" class a string, got {shown(version)} and {shown(class_name)})."
        )
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
