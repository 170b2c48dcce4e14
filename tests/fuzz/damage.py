"""Damaged and forged files: changes of bytes, of JSON values and of arrays.

Every example is a short list of frozen records, each of which is one change. So a failing example
is printed as text that can be pasted into ``@example``.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

# --- Bytes -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ByteChange:
    """A change of the bytes of a file at a place between 0 (start) and 1 (end)."""

    kind: str
    place: float
    content: bytes

    def apply(self, data: bytes) -> bytes:
        at, n = int(self.place * len(data)), max(1, len(self.content))
        if self.kind == "replace":
            return data[:at] + self.content + data[at + len(self.content) :]
        if self.kind == "flip" and data:
            at = min(at, len(data) - 1)
            return data[:at] + bytes([data[at] ^ (1 << n % 8)]) + data[at + 1 :]
        if self.kind == "insert":
            return data[:at] + self.content + data[at:]
        if self.kind == "delete":
            return data[:at] + data[at + n :]
        if self.kind == "truncate":
            return data[:at]
        if self.kind == "repeat":
            return data[:at] + data[max(0, at - 8 * n) :]
        return data + self.content


def byte_changes() -> st.SearchStrategy[list[ByteChange]]:
    kinds = ("replace", "flip", "insert", "delete", "truncate", "repeat", "append")
    places = st.one_of(st.floats(0, 1), st.floats(0, 0.05))  # many formats begin with a header
    contents = st.one_of(
        st.binary(min_size=1, max_size=12),
        st.sampled_from([b"\0" * 8, b"\xff" * 8, b"9" * 8, b"\n", b'"', b",", b"{", b"]", b"("]),
    )
    change = st.builds(ByteChange, st.sampled_from(kinds), places, contents)
    return st.lists(change, min_size=1, max_size=4)


def apply_changes(data: bytes, changes: list[ByteChange]) -> bytes:
    for change in changes:
        data = change.apply(data)
    return data


# --- JSON values -----------------------------------------------------------------------------


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


VALUES: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 7, 10**6, 2**31, 2**63, -(2**63), 10**30, 10**400),
    *(0.0, -0.0, 0.5, -0.5, 1.5, 1e-300, 1e-20, 1e10, 1e77, 1e154, 1e300, 1e308, -1e308),
    *(float("nan"), float("inf"), float("-inf"), True, False, None),
    *("", "abc", "nan", "1", "hard", "soft", "top_k", "encoder", "exact", "lasso", "omp", "ols"),
    *(
        "match",
        "alpha",
        "auto",
        "paper",
        "data",
        "mean",
        "0.1*max",
        "float32",
        "\x1b[31mred\x1b[0m",
    ),
    *("\u202egnp.exe", "\ud800", "a" * 1000, "../../etc/passwd", "os.system", "SCNN"),
    *([], [1], [[1.0, 2.0], [3.0, 4.0]], ["a"], ["a"] * 6, [None], {}, {"a": 1}),
    *({"type": "float", "value": "inf"}, {"type": "float", "value": "nan"}),
    *({"type": "float", "value": "x"}, {"type": "float64", "value": 1e300}),
    *({"type": "int8", "value": 3}, {"type": "int8", "value": 300}, {"type": "bool", "value": 2}),
    *({"type": "dtype", "value": "int8"}, {"type": "dtype", "value": "float32"}),
    *({"type": "dtype", "value": "object"}, {"type": "object", "value": 1}, {"type": "dict"}),
    *({"type": "dict", "value": {"a": 1}}, {"type": [], "value": 1}, {"type": "array", "value": 1}),
    *(nested(15), nested(30), nested(900)),
)
"""What a value in a header is replaced by."""


@dataclass(frozen=True)
class ValueChange:
    """A change of one value of a JSON object; ``steps`` choose it, level by level."""

    kind: str
    steps: tuple[int, ...]
    value: int
    """The index in VALUES"""

    def apply(self, root: dict[str, Any]) -> None:
        parent, key = self._target(root)
        if isinstance(parent, list):
            if self.kind == "delete":
                del parent[key]
            else:
                parent[key] = copy.deepcopy(VALUES[self.value])
        elif self.kind == "delete":
            del parent[key]
        elif self.kind == "rename":
            parent[f"{key}x"] = parent.pop(key)
        elif self.kind == "add":
            parent["extra_"] = copy.deepcopy(VALUES[self.value])
        else:
            parent[key] = copy.deepcopy(VALUES[self.value])

    def _target(self, root: Any) -> tuple[Any, Any]:
        parent, key, value = root, next(iter(root)), root
        for step in self.steps:
            if not isinstance(value, dict | list) or not value:
                break
            parent = value
            keys = sorted(parent) if isinstance(parent, dict) else range(len(parent))
            key = keys[step % len(keys)]
            value = parent[key]
        return parent, key


def value_changes() -> st.SearchStrategy[ValueChange]:
    kinds = st.sampled_from(("set", "set", "set", "set", "delete", "rename", "add"))
    steps = st.lists(st.integers(0, 60), min_size=1, max_size=7).map(tuple)
    return st.builds(ValueChange, kinds, steps, st.integers(0, len(VALUES) - 1))


# --- Arrays ----------------------------------------------------------------------------------

NUMBERS = (0.0, 1.0, -1.0, 0.5, 1e-300, 1e-30, 1e5, 1e18, 1e38, 1e77, 1e154, 1e308, -1e308)
FACTORS = (0.0, -1.0, 1 + 1e-12, 1 + 1e-4, 2.0, 100.0, 1e-30, 1e30, 1e300)


@dataclass(frozen=True)
class ArrayChange:
    """A change of one array of a file."""

    kind: str
    array: int
    number: int
    place: int

    def apply(self, tensors: dict[str, Any]) -> None:
        if not tensors:
            return
        names = sorted(tensors)
        name = names[self.array % len(names)]
        array = np.array(tensors[name])
        with np.errstate(all="ignore"):
            changed = self._changed(array, tensors[names[self.place % len(names)]])
        if self.kind == "remove":
            del tensors[name]
        elif self.kind == "add":
            tensors[("more", "parameter.init", "parameter.alpha")[self.place % 3]] = array
        else:
            tensors[name] = np.ascontiguousarray(changed)

    def _changed(self, array: Any, other: Any) -> Any:
        number, factor = NUMBERS[self.number % len(NUMBERS)], FACTORS[self.number % len(FACTORS)]
        if self.kind == "entry" and array.size:
            special = np.array([*NUMBERS, np.nan, np.inf, -np.inf]).astype(array.dtype)
            array.reshape(-1)[self.place % array.size] = special[self.number % len(special)]
        elif self.kind == "fill":
            array[...] = np.float64(number).astype(array.dtype)
        elif self.kind == "scale":
            array = (factor * array).astype(array.dtype)
        elif self.kind == "dtype":
            kinds = (np.float16, np.float32, np.float64, np.int8, np.int64, np.uint8, np.bool_)
            array = array.astype(kinds[self.number % len(kinds)])
        elif self.kind == "shape":
            shapes = (
                array.T,
                array[:-1],
                array[:0],
                array.reshape(-1),
                array[None],
                array[..., :1],
            )
            array = shapes[self.number % len(shapes)] if array.ndim else array[None]
        elif self.kind == "swap":
            array = np.array(other)
        return array


def array_changes() -> st.SearchStrategy[ArrayChange]:
    kinds = ("entry", "entry", "fill", "scale", "scale", "dtype", "shape", "swap", "remove", "add")
    return st.builds(
        ArrayChange,
        st.sampled_from(kinds),
        st.integers(0, 30),
        st.integers(0, 30),
        st.integers(0, 10_000),
    )


def content_changes() -> st.SearchStrategy[list[ValueChange | ArrayChange]]:
    """One to three changes of the header or the arrays of a file."""
    change = st.one_of(value_changes(), array_changes())
    return st.lists(change, min_size=1, max_size=3)
