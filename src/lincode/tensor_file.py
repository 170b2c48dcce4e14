"""Safetensors files with a JSON header and a checksum. Reading them never runs code.

The arrays are the tensors of the file. A JSON text in its metadata, under a key that tells what
the file is, contains everything else. The checksum covers both, because a changed bit in an array
cannot be detected otherwise. Models and checkpoints are such files.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lincode.exceptions import InvalidInputError
from lincode.files import atomic_write
from lincode.messages import printable

SCALAR_TYPES = frozenset(np.dtype(code).name for code in "?bhiqBHIQefd")
"""Names of the NumPy scalar types that are stored together with their type."""
MAX_HEADER_BYTES = 8 * 2**20
"""Longer headers are neither written nor read. Reading them may take 30 times this memory."""
MAX_DEPTH = 20
"""The largest number of lists and dicts inside each other in a header."""
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What contents raise that are not those of lincode although the checksum is correct."""


@dataclass(frozen=True)
class FileKind:
    """A kind of tensor file."""

    key: str
    """The key of the header in the metadata of the file"""
    name: str
    """What messages call such a file"""
    writer: str
    """What writes such files"""
    advice: str
    """What to do if a file is damaged"""
    error: type[InvalidInputError]
    """The exception for files that cannot be read"""

    def write(
        self, path: str | os.PathLike[str], header: dict[str, Any], tensors: dict[str, Any]
    ) -> None:
        """Write C-contiguous arrays and a header for JSON, completely or not at all."""
        from safetensors.numpy import save as to_bytes  # Imported only when a file is written.

        text = json.dumps(header, allow_nan=False)
        data = to_bytes(tensors, metadata={self.key: text, "sha256": checksum(text, tensors)})
        if _header_bytes(data) > MAX_HEADER_BYTES:
            raise InvalidInputError(
                f"the text in a {self.name} must be at most {MAX_HEADER_BYTES} bytes long, got"
                f" {_header_bytes(data)}; if init is a list, set it to an array, and use shorter"
                " names of features."
            )
        with atomic_write(path) as file:
            file.write(data)

    def read(self, path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the header and the tensors of a file whose checksum is correct."""
        from safetensors import SafetensorError, safe_open

        name = os.fspath(path)
        if Path(name).is_dir():
            raise IsADirectoryError(errno.EISDIR, f"expected a {self.name}, got a folder", name)
        Path(name).stat()  # Raises FileNotFoundError.
        if not Path(name).is_file():
            raise self.error(f"{name} must be a {self.name}, but it is a device or a pipe.")
        with open(name, "rb") as file:
            n_bytes = _header_bytes(file.read(8))
        if MAX_HEADER_BYTES < n_bytes < Path(name).stat().st_size:
            raise self.error(
                f"{name} is not a {self.name} of lincode: its header must be at most"
                f" {MAX_HEADER_BYTES} bytes long, got {n_bytes}."
            )
        try:
            with safe_open(name, framework="np") as file:
                metadata = file.metadata()
                header = self._parse_header(name, metadata)
                keys = file.keys()
                if {file.get_slice(key).get_dtype() for key in keys} - {"F32", "F64"}:
                    raise self.error(f"{name} is damaged: an array has an unknown type.")
                tensors = {key: np.array(file.get_tensor(key)) for key in keys}
        except SafetensorError as error:
            reason = printable(str(error), 200)
            raise self.error(
                f"{name} is not a {self.name} of lincode, or it is damaged or truncated ({reason})."
                f" Use a file that {self.writer} wrote, or {self.advice}."
            ) from error
        if checksum(metadata[self.key], tensors) != metadata.get("sha256"):
            raise self.error(
                f"{name} is damaged: its contents do not match its checksum; {self.advice}."
            )
        return header, tensors

    def _parse_header(self, name: str, metadata: Any) -> dict[str, Any]:
        if not metadata or self.key not in metadata:
            raise self.error(f"{name} is a safetensors file, but {self.writer} did not write it.")
        try:
            header = json.loads(metadata[self.key])
            if not isinstance(header, dict):
                raise InvalidInputError(f"it must be a JSON object, got {type(header).__name__}")
            _check_depth(header)
        except (ValueError, RecursionError) as error:
            reason = printable(str(error), 200)
            raise self.error(f"{name} is damaged: its header cannot be read ({reason}).") from error
        return header


def _header_bytes(data: bytes) -> int:
    """Return the length of the header of a safetensors file, with which the file begins."""
    return int.from_bytes(data[:8], "little")


def _check_depth(value: Any) -> None:
    """Check that lists and dicts are not nested too deeply for recursive functions."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            entry
            for parent in level
            for entry in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(entry, dict | list)
        ]
    if level:
        raise InvalidInputError(f"its lists and objects are nested more than {MAX_DEPTH} deep")


def checksum(text: str, tensors: dict[str, Any]) -> str:
    """Return the SHA-256 of the header and of all tensors with names, types and shapes."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def to_json(value: Any) -> Any:
    """Convert a value to one that JSON can represent; ``from_json`` restores value and type.

    Examples
    --------
    >>> import numpy as np
    >>> from lincode.tensor_file import from_json, to_json
    >>> to_json(np.float32(0.5))
    {'type': 'float32', 'value': 0.5}
    >>> from_json(to_json(float("inf")))
    inf
    """
    if isinstance(value, np.dtype) and value.name in SCALAR_TYPES:
        return {"type": "dtype", "value": value.name}
    if isinstance(value, np.generic) and value.dtype.name in SCALAR_TYPES:
        return {"type": value.dtype.name, "value": to_json(value.item())}
    if isinstance(value, float) and not math.isfinite(value):
        return {"type": "float", "value": repr(value)}
    if isinstance(value, list):
        return [to_json(entry) for entry in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"type": "dict", "value": {key: to_json(entry) for key, entry in value.items()}}
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise InvalidInputError(f"{value!r} must be a number, a string or a list or dict of these.")


def from_json(value: Any) -> Any:
    """Convert a result of ``to_json`` back."""
    if isinstance(value, list):
        return [from_json(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    kind, content = value["type"], value["value"]
    if kind == "dict":
        return {key: from_json(entry) for key, entry in content.items()}
    if kind == "float":
        return float(content)
    name = content if kind == "dtype" else kind
    if name not in SCALAR_TYPES:
        raise InvalidInputError(f"the type {str(name)[:40]!r} is not known.")
    return np.dtype(name) if kind == "dtype" else np.dtype(name).type(from_json(content))


def pack_state(value: Any, classes: dict[str, type[Any]], tensors: dict[str, Any]) -> Any:
    """Convert a state to a value for JSON; its arrays are added to ``tensors``.

    A state is an array of floats, a value that ``to_json`` accepts, a dataclass of ``classes``, or
    a list or dict of states. ``unpack_state`` restores it exactly.

    Examples
    --------
    >>> import numpy as np
    >>> from lincode.tensor_file import pack_state, unpack_state
    >>> tensors = {}
    >>> packed = pack_state({"a": np.ones(2), "b": [1, None]}, {}, tensors)
    >>> unpack_state(packed, {}, tensors)
    {'a': array([1., 1.]), 'b': [1, None]}
    """
    if isinstance(value, np.ndarray) and value.dtype in (np.float32, np.float64):
        name = str(len(tensors))
        # Matrix products depend on the memory order in the last bit, so it is restored too.
        tensors[name] = np.ascontiguousarray(value.T if value.flags.fnc else value)
        return {"type": "array", "value": name, "transposed": value.flags.fnc}
    if is_dataclass(value) and classes.get(type(value).__name__) is type(value):
        states = {field.name: getattr(value, field.name) for field in fields(value)}
        packed = {name: pack_state(state, classes, tensors) for name, state in states.items()}
        return {"type": "dataclass", "value": type(value).__name__, "fields": packed}
    if isinstance(value, list):
        return [pack_state(entry, classes, tensors) for entry in value]
    if isinstance(value, dict):
        packed = {key: pack_state(entry, classes, tensors) for key, entry in value.items()}
        return {"type": "dict", "value": packed}
    return to_json(value)


def unpack_state(packed: Any, classes: dict[str, type[Any]], tensors: dict[str, Any]) -> Any:
    """Convert a result of ``pack_state`` back. Only dataclasses of ``classes`` are created."""
    if isinstance(packed, list):
        return [unpack_state(entry, classes, tensors) for entry in packed]
    if not isinstance(packed, dict):
        return packed
    kind, content = packed["type"], packed["value"]
    if kind == "array":
        return tensors[content].T if packed["transposed"] else tensors[content]
    if kind == "dataclass":
        states = packed["fields"].items()
        values = {name: unpack_state(state, classes, tensors) for name, state in states}
        return classes[content](**values)
    if kind == "dict":
        return {key: unpack_state(entry, classes, tensors) for key, entry in content.items()}
    return from_json(packed)
