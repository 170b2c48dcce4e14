"""Files of whole pipelines, written and read by skops. Loading never runs code from the file.

A skops file is a zip archive with a JSON description of the objects and the arrays as npy files.
skops creates only objects whose classes it is told to trust: those of its own list (estimators of
scikit-learn, containers and numbers of Python, NumPy and SciPy) and ``TRUSTED``. lincode adds an
entry with a checksum and the versions to the archive, and checks the attributes of its own
estimators after loading.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import os
import zipfile
import zlib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from lincode.core.energy import CodeStats
from lincode.core.stream_gram import StreamGram
from lincode.estimators.cv import SCNNCV
from lincode.estimators.sparse_coder import SparseCoder
from lincode.exceptions import InvalidInputError, MissingDependencyError, ModelFileError
from lincode.files import atomic_write
from lincode.model_contents import forget_paths, is_own, pack
from lincode.model_schema import MODEL_CLASSES
from lincode.networks.scnn import Momentum
from lincode.networks.scnn_minibatch import Stream

ENTRY = "lincode.json"
"""The name of lincode's entry in the archive."""
ZIP_START = b"PK\x03\x04"
"""The first bytes of a zip archive. Files of single estimators start differently."""
STORED_CLASSES = (
    *(entry.cls for entry in MODEL_CLASSES.values()),
    SCNNCV,
    SparseCoder,
    # The training state of MiniBatchSCNN.
    Stream,
    CodeStats,
    Momentum,
    StreamGram,
)
DUMP_ERRORS = (TypeError, ValueError, AttributeError, RecursionError)
"""What skops raises for objects that it cannot store."""
ALWAYS_ALLOWED, EXPANSION = 10**9, 100
"""A file may expand to this many bytes, or to this many times its size."""
TRUSTED = [
    "numpy.dtype",
    "sklearn.compose._column_transformer._RemainderColsList",  # a list, in scikit-learn 1.6
    *(f"{cls.__module__}.{cls.__qualname__}" for cls in STORED_CLASSES),
]
"""What is created on loading in addition to the types that skops trusts. The modules of lincode's
classes are part of the format."""


def is_composite(model: Any) -> bool:
    """Return whether a model is saved by skops: an estimator without a format of its own."""
    return isinstance(model, BaseEstimator) and type(model).__name__ not in MODEL_CLASSES


def is_pipeline_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a file that exists is a zip archive."""
    if not Path(path).is_file():
        return False
    with open(path, "rb") as file:
        return file.read(len(ZIP_START)) == ZIP_START


def write_pipeline(path: str | os.PathLike[str], model: Any, about: dict[str, Any]) -> None:
    """Write a fitted estimator of scikit-learn and information about the file.

    Types that could not be loaded raise an error, and nothing is written.
    """
    skops_io = import_skops()
    check_is_fitted(model)
    name = type(model).__name__
    model = _without_local_parts(model, {})
    try:
        data = skops_io.dumps(model)
    except DUMP_ERRORS as error:
        raise InvalidInputError(
            f"the {name} cannot be saved, because skops cannot store {_not_storable(model)}"
            f" ({error}). Replace or remove this part."
        ) from error
    unknown = _unknown_types(data)
    if unknown:
        raise InvalidInputError(
            f"the {name} contains {', '.join(unknown)}, which lincode.load would refuse: it creates"
            " only types that skops trusts (most of scikit-learn, NumPy and SciPy) and those of"
            " lincode. Replace these parts (callback=None, the best_estimator_ of a search), or use"
            " skops.io.dump, and skops.io.load with the types that you trust."
        )
    buffer = io.BytesIO(data)
    with zipfile.ZipFile(buffer, "a") as archive:
        header = {
            **about,
            "versions": about["versions"] | {"skops": version("skops")},
            "sha256": _checksum(archive),
        }
        archive.writestr(ENTRY, json.dumps(header, allow_nan=False))
    with atomic_write(path) as file:
        file.write(buffer.getbuffer())


def read_pipeline(path: str | os.PathLike[str], newest_format: int) -> tuple[Any, dict[str, Any]]:
    """Return the estimator in a file of ``write_pipeline``, and the information about the file."""
    name = os.fspath(path)
    data = Path(path).read_bytes()
    about = _read_entry(name, data)
    if about["format"] > newest_format:
        raise ModelFileError(
            f"{name} is a model file of format {about['format']}, but this version of lincode reads"
            f" formats up to {newest_format}; upgrade lincode."
        )
    skops_io = import_skops()
    try:
        unknown = _unknown_types(data)
        if unknown:
            raise ModelFileError(
                f"{name} contains {', '.join(unknown)}, but lincode.load creates only types that"
                " skops trusts (most of scikit-learn, NumPy and SciPy) and those of lincode. If you"
                " trust these types, use skops.io.load(path, trusted=[...])."
            )
        model = skops_io.loads(data, trusted=TRUSTED)
        for _, part in _parts(model):
            _check_own(part)
    except ModelFileError:
        raise
    except (
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
        ImportError,
        OverflowError,
        RecursionError,
    ) as error:
        raise ModelFileError(
            f"{name} cannot be loaded by this version of lincode, scikit-learn and skops; it was"
            f" saved with {about['versions']} ({type(error).__name__}: {error})."
        ) from error
    return model, about


def _read_entry(name: str, data: bytes) -> dict[str, Any]:
    """Return lincode's entry of an archive whose checksum is correct."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if ENTRY not in archive.namelist():
                raise ModelFileError(
                    f"{name} is a zip archive, but lincode.save did not write it. Use skops.io.load"
                    " for other skops files."
                )
            _check_size(name, archive, len(data))
            about = json.loads(archive.read(ENTRY))
            checksum = _checksum(archive)
        if about["sha256"] != checksum:
            raise ModelFileError(
                f"{name} is damaged: its contents do not match its checksum; save the model again."
            )
        return {**about, "format": int(about["format"]), "versions": dict(about["versions"])}
    except ModelFileError:
        raise
    except (
        zipfile.BadZipFile,
        zlib.error,
        ValueError,
        TypeError,
        KeyError,
        EOFError,
        OSError,
        RuntimeError,  # an entry is marked as encrypted, or the JSON text is nested too deeply
        OverflowError,
    ) as error:
        raise ModelFileError(
            f"{name} is damaged or truncated ({error}); save the model again."
        ) from error


def _check_size(name: str, archive: zipfile.ZipFile, n_bytes: int) -> None:
    """Raise an error if the entries are too large for the size of the file, or not unique."""
    entries = archive.infolist()
    limit = max(ALWAYS_ALLOWED, EXPANSION * n_bytes)
    expanded = sum(entry.file_size for entry in entries)
    if expanded > limit:
        raise ModelFileError(
            f"{name} has {n_bytes:,} bytes and must not expand to more than {limit:,}, but it needs"
            f" {expanded:,}; save the model again."
        )
    if len({entry.filename for entry in entries}) < len(entries):
        raise ModelFileError(f"{name} is damaged: it has two entries of the same name.")


def _checksum(archive: zipfile.ZipFile) -> str:
    """Return the SHA-256 of the names and contents of all entries but lincode's own."""
    digest = hashlib.sha256()
    for name in sorted(set(archive.namelist()) - {ENTRY}):
        content = archive.read(name)
        digest.update(f"{name} {len(content)} ".encode())
        digest.update(content)
    return digest.hexdigest()


def _unknown_types(data: bytes) -> list[str]:
    """Return the names of the types in a skops file that are not trusted."""
    types = import_skops().get_untrusted_types(data=data)
    return sorted(set(types) - set(TRUSTED))


def _parts(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield the model and everything in it, with the expression that leads there.

    These are the attributes of estimators, and the entries of lists, tuples, dicts and arrays of
    objects.
    """
    seen: set[int] = set()
    waiting = [("", model)]
    while waiting:
        path, value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        yield path, value
        if isinstance(value, BaseEstimator):
            waiting.extend((f"{path}.{name}", part) for name, part in vars(value).items())
        elif isinstance(value, dict):
            waiting.extend((f"{path}[{key!r}]", part) for key, part in value.items())
        elif isinstance(value, list | tuple) or _is_object_array(value):
            waiting.extend((f"{path}[{i}]", part) for i, part in enumerate(value))


def _without_local_parts(value: Any, copies: dict[int, Any]) -> Any:
    """Return a model without what belongs to this process: callbacks and paths of checkpoints.

    Estimators, lists, tuples and dicts are copied if something in them changes. ``copies`` are the
    results for the objects that were met already, by their identities.
    """
    if id(value) in copies:
        return copies[id(value)]
    changed = copies[id(value)] = value
    if isinstance(value, BaseEstimator):
        changed = copies[id(value)] = copy.copy(value)
        if hasattr(changed, "set_callbacks"):
            changed.set_callbacks()
        if is_own(changed):
            forget_paths(changed)
        for name, part in list(vars(changed).items()):
            vars(changed)[name] = _without_local_parts(part, copies)
    elif isinstance(value, dict):
        parts = {key: _without_local_parts(part, copies) for key, part in value.items()}
        if any(parts[key] is not value[key] for key in value):
            changed = copies[id(value)] = copy.copy(value)
            changed.update(parts)
    elif type(value) in (list, tuple):
        items = [_without_local_parts(part, copies) for part in value]
        if any(new is not old for new, old in zip(items, value, strict=True)):
            changed = copies[id(value)] = type(value)(items)
    return changed


def _is_object_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == object and value.ndim > 0


def _not_storable(model: Any) -> str:
    """Return the name and the type of a part that skops cannot store, and that has no parts."""
    dumps = import_skops().dumps
    for path, part in _parts(model):
        if isinstance(part, BaseEstimator | dict | list | tuple) or _is_object_array(part):
            continue
        try:
            dumps(part)
        except DUMP_ERRORS:
            return f"{path.removeprefix('.')} ({type(part).__module__}.{type(part).__qualname__})"
    return "one of its parts"


def _check_own(estimator: Any) -> None:
    """Check the attributes of an estimator of lincode as those in a file of a single estimator."""
    if is_own(estimator):
        forget_paths(estimator)
        if hasattr(estimator, "components_"):
            pack(estimator)
        else:
            estimator._check_parameters()
    elif isinstance(estimator, SparseCoder):
        estimator._check_parameters()


def import_skops() -> Any:
    """Return the module ``skops.io``, or raise MissingDependencyError."""
    try:
        import skops.io
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "files of pipelines need skops; install it with: pip install 'lincode[skops]'"
        ) from error
    return skops.io
