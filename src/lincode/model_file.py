"""A learned network as one file: safetensors with a JSON header, and nothing that runs on load.

The header, in the file's metadata under "lincode", has the class, its parameters and whatever was
learned that is no array; the arrays are tensors. A checksum covers both, because a flipped bit in
a weight is still a weight.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import platform
import sys
import warnings
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.utils.validation import check_is_fitted

from lincode.estimators.cv import SCNNCV
from lincode.model_contents import KINDS, Kind, from_plain, restored, to_plain
from lincode.vectors.whole_file import whole_file

FORMAT = 1
"""Raised when files of the new kind cannot be read by older versions."""
PARAMETER = "parameter."
"""Before the name of a tensor that is a parameter and not learned."""


class ModelFileError(ValueError):
    """A file that is no model of lincode, or a damaged one, or one of a later version."""


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted network to one file, from which :func:`lincode.load` makes it again.

    The file is `safetensors <https://huggingface.co/docs/safetensors>`_ with a JSON header: it can
    be read by others, and nothing in it is code. It is written whole or not at all: after an error
    or Ctrl-C, the file that was there is still there.

    Parameters
    ----------
    model : SCNN, MiniBatchSCNN, SCNNCV, SAANN, ASCNN or Sparsenet
        Fitted. Of an SCNNCV the network it chose is saved, an SCNN. A MiniBatchSCNN is saved with
        the sums it learns from, so that ``partial_fit`` goes on where it was.
    path : path
        Of the file, with whatever ending you like.

    Notes
    -----
    Parameters that are neither numbers, text nor arrays (a callback, a RandomState) are not
    stored; a warning says so, and the loaded network has their default. What ``set_output`` has
    set is not stored either.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_digits
    >>> import lincode
    >>> X = load_digits().data / 16
    >>> scnn = lincode.SCNN(20, threshold="match", random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lincode.save(scnn, Path(folder, "digits.safetensors"))
    ...     again = lincode.load(Path(folder, "digits.safetensors"))
    >>> bool((again.transform(X) == scnn.transform(X)).all())
    True
    """
    from safetensors.numpy import save as to_bytes  # only who has a file to write needs it

    if type(model) is SCNNCV:
        check_is_fitted(model)
        model = model.best_estimator_
    header, tensors = _packed(model)
    text = json.dumps(header, allow_nan=False)
    data = to_bytes(tensors, metadata={"lincode": text, "sha256": _checksum(text, tensors)})
    with whole_file(path) as file:
        file.write(data)
    if header["left_out"]:
        warnings.warn(
            f"{type(model).__name__}: {', '.join(header['left_out'])} cannot be stored in a file;"
            " the network that is loaded has the default instead.",
            UserWarning,
            stacklevel=2,
        )


def load(path: str | os.PathLike[str]) -> Any:
    """The network in a file that :func:`lincode.save` wrote, equal to the saved one to the bit.

    No file can make it run code: the classes it makes are those of lincode, and all it reads are
    numbers and text. A file that is damaged, of another kind or of a later version is refused.

    Parameters
    ----------
    path : path

    Returns
    -------
    SCNN, MiniBatchSCNN, SAANN, ASCNN or Sparsenet
        Fitted, with the parameters it was saved with.

    Examples
    --------
    See :func:`lincode.save`.
    """
    header, tensors = _read(path)
    return _built(os.fspath(path), header, tensors)


def describe(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """The network in a file, and what the file says about itself.

    Returns
    -------
    model : as ``load`` gives it
    about : dict
        "format", "saved" (when, in UTC), "versions" (of lincode and what it stood on), and
        "left_out": parameters that could not be stored.
    """
    header, tensors = _read(path)
    model = _built(os.fspath(path), header, tensors)
    return model, {k: header.get(k) for k in ("format", "saved", "versions", "left_out")}


def _kind_of(model: Any) -> Kind:
    kind = KINDS.get(type(model).__name__)
    if kind is None or type(model) is not kind.cls:
        raise TypeError(
            f"a model file holds one of {', '.join(KINDS)} (or the network an SCNNCV chose), got"
            f" {type(model).__name__}; save the network of a pipeline by itself: pipeline[-1]."
        )
    return kind


def _packed(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the tensors of a network that is fit to be saved."""
    kind = _kind_of(model)
    check_is_fitted(model)
    model._check_parameters()
    parameters, tensors, left_out = _parameters(model)
    tensors |= {name: np.asarray(attrgetter(name)(model)) for name in kind.arrays}
    values = {name: attrgetter(name)(model) for name in kind.values}
    kind.check(tensors, values)
    if hasattr(model, "feature_names_in_"):
        values["feature_names_in_"] = [str(name) for name in model.feature_names_in_]
    header = {
        "format": FORMAT,
        "class": type(model).__name__,
        "parameters": parameters,
        "values": {name: to_plain(value) for name, value in values.items()},
        # Arrays whose columns lie together are stored transposed: the same numbers in another
        # order of memory are not multiplied to the same bits.
        "transposed": sorted(name for name, A in tensors.items() if A.flags.fnc),
        "left_out": left_out,
        "versions": _versions(),
        "saved": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    # safetensors writes memory as it lies, in whatever order: rows must lie together.
    tensors = {k: np.ascontiguousarray(A.T if A.flags.fnc else A) for k, A in tensors.items()}
    return header, tensors


def _parameters(model: Any) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Parameters as JSON, as tensors, and the names of those that are neither."""
    plain, tensors, left_out = {}, {}, []
    for name, value in model.get_params(deep=False).items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "buif":
            wide = value.dtype not in (np.float32, np.float64)
            tensors[PARAMETER + name] = value.astype(np.float64) if wide else value
            continue
        try:
            plain[name] = to_plain(value)
        except TypeError:
            left_out.append(name)
    return plain, tensors, left_out


def _versions() -> dict[str, str]:
    return {
        "lincode": str(sys.modules["lincode"].__version__),  # the door, which imports this file
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }


def _checksum(text: str, tensors: dict[str, Any]) -> str:
    """Of the header and all tensors, with their names, types and shapes."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        A = tensors[name]
        digest.update(f"{name} {A.dtype.str} {A.shape}".encode())
        digest.update(np.ascontiguousarray(A).data)
    return digest.hexdigest()


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the tensors of a file that is ours and whole."""
    from safetensors import SafetensorError, safe_open

    name = os.fspath(path)
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no file {name}.")
    if Path(path).is_dir():
        raise IsADirectoryError(f"{name} is a folder, and must be a model file.")
    if not Path(path).is_file():
        raise ModelFileError(f"{name} is a device or a pipe, and must be a model file.")
    try:
        with safe_open(name, framework="np") as file:
            header, checksum = _header(name, file.metadata())
            keys = file.keys()
            if {file.get_slice(key).get_dtype() for key in keys} - {"F32", "F64"}:
                raise ModelFileError(f"{name} is damaged: it has weights of an unknown type.")
            tensors = {key: np.array(file.get_tensor(key)) for key in keys}
            text = file.metadata()["lincode"]
    except SafetensorError as error:
        raise ModelFileError(
            f"{name} is no model file of lincode, or is damaged or cut short ({error}): give a file"
            " that lincode.save or `lincode fit` wrote, or save the network again."
        ) from error
    if _checksum(text, tensors) != checksum:
        raise ModelFileError(
            f"{name} is damaged: its checksum is not that of its content; save the network again."
        )
    return header, tensors


def _header(name: str, metadata: Any) -> tuple[dict[str, Any], Any]:
    """The header, of a format and a class that are known."""
    if not metadata or "lincode" not in metadata:
        raise ModelFileError(f"{name} is a safetensors file, but not one that lincode.save wrote.")
    try:
        header = json.loads(metadata["lincode"])
        version, kind = int(header["format"]), str(header["class"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"{name} is damaged: its header cannot be read ({error}).") from error
    if version > FORMAT:
        raise ModelFileError(
            f"{name} is a model file of format {version}, and this lincode reads up to {FORMAT};"
            " upgrade lincode."
        )
    if kind not in KINDS:
        raise ModelFileError(
            f"{name} holds a {kind[:40]!r}, and this lincode knows {', '.join(KINDS)}; upgrade"
            " lincode if the file is of a later version."
        )
    return header, metadata.get("sha256")


def _built(name: str, header: dict[str, Any], tensors: dict[str, Any]) -> Any:
    """The network, once everything it needs is there and of the right kind."""
    kind = KINDS[header["class"]]
    try:
        for key in header["transposed"]:
            tensors[key] = tensors[key].T
        values = {key: from_plain(value) for key, value in header["values"].items()}
        parameters = {key: from_plain(value) for key, value in header["parameters"].items()}
        for key in [key for key in tensors if key.startswith(PARAMETER)]:
            parameters[key.removeprefix(PARAMETER)] = tensors.pop(key)
        _check_known(parameters, kind)
        names = values.pop("feature_names_in_", None)
        kind.check(tensors, values)
        model = kind.cls(**parameters)
        model._check_parameters()
        if names is not None:
            values["feature_names_in_"] = _names(names, values["n_features_in_"])
    except ModelFileError as error:
        raise ModelFileError(f"{name} {error}") from error
    except (
        ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError
    ) as error:  # fmt: skip
        raise ModelFileError(f"{name} is damaged: {error}") from error
    vars(model).update(restored(tensors | values))
    return model


def _check_known(parameters: Iterable[str], kind: Kind) -> None:
    unknown = sorted(set(parameters) - set(kind.cls().get_params()))
    if unknown:
        raise ModelFileError(
            f"has parameters that {kind.cls.__name__} does not have here: {', '.join(unknown)};"
            " upgrade lincode."
        )


def _names(names: Any, p: int) -> Any:
    if len(names) != p or not all(isinstance(name, str) for name in names):
        raise ValueError(f"feature_names_in_ must be {p} names.")
    return np.array(names, dtype=object)
