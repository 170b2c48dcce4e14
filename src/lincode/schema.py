"""What the contents of a file must be: types, shapes, ranges, and how they belong together.

The checksum of a file shows that it is not damaged, but not that its contents make sense: anyone
can write a file with a correct checksum. Everything that is read from a model file or a checkpoint
is therefore compared with a field of this module.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Protocol

import numpy as np

from lincode.exceptions import InvalidInputError
from lincode.messages import printable

LARGEST = float(np.finfo(np.float64).max) ** 0.5
"""The largest absolute value of an entry, so that squares are representable."""
LARGEST_WEIGHT_POWER = 0.25
"""Weights are at most the largest number of their dtype to this power (1e77 or 4e9), so that their
products with samples, and the squares of these, are representable."""
UNDERFLOW = 1e-290
"""Sums of products below this may be zero although their factors are not."""
LENGTH_TOL = 1e-6
"""Atoms may be longer than 1 by rounding errors."""
GRAM_TOL = 1e-3
"""The relative rounding errors of sums over rows of float32."""
BLOCK_ROWS = 256
"""The number of rows of a matrix that are checked together."""


class Field(Protocol):
    """What one value must be."""

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        """Raise InvalidInputError unless the value is valid; ``sizes`` are those of letters."""


@dataclass(frozen=True)
class Number:
    """A finite number between ``low`` and ``high``, or an integer."""

    low: float = -math.inf
    high: float = math.inf
    integer: bool = False
    infinite: bool = False
    """Whether infinity is allowed as well"""

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        """See ``Field``."""
        kind = Integral if self.integer else Real
        if not isinstance(value, kind) or isinstance(value, bool | np.bool_):
            what = "an integer" if self.integer else "a number"
            raise InvalidInputError(f"{name} must be {what}, got {shown(value)}.")
        number: Any = value.item() if isinstance(value, np.generic) else value
        finite = self.infinite or -math.inf < number < math.inf
        if not finite or not self.low <= number <= self.high:  # no comparison with NaN is true
            raise InvalidInputError(f"{name} must be {self._range()}, got {shown(value)}.")

    def _range(self) -> str:
        if self.low == -math.inf and self.high == math.inf:
            return "finite"
        between = f"between {self.low:.4g} and {self.high:.4g}"
        return f"{between}, or infinity" if self.infinite else between


ENERGY = Number()
"""An energy, which rounding errors may make negative"""
MAGNITUDE = Number(0, LARGEST)
"""A threshold or a penalty"""
RIDGE = Number(0, float(np.finfo(np.float64).max) / 8)
"""A ridge, of which small multiples are representable"""
FRACTION = Number(0, 1 + LENGTH_TOL)
COUNT = Number(0, 2**63 - 1, integer=True)
POSITIVE_COUNT = Number(1, 2**63 - 1, integer=True)


@dataclass(frozen=True)
class Text:
    """A string that is one of some choices, or that has at most ``length`` characters."""

    choices: tuple[str, ...] = ()
    length: int = 200

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        """See ``Field``."""
        if type(value) is not str or len(value) > self.length:
            raise InvalidInputError(
                f"{name} must be a string of at most {self.length} characters, got {shown(value)}."
            )
        if self.choices and value not in self.choices:
            words = ", ".join(map(repr, self.choices))
            raise InvalidInputError(f"{name} must be one of {words}, got {shown(value)}.")


@dataclass(frozen=True)
class Flag:
    """True or False."""

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        """See ``Field``."""
        if type(value) is not bool:
            raise InvalidInputError(f"{name} must be True or False, got {shown(value)}.")


@dataclass(frozen=True)
class FloatType:
    """The dtype float32 or float64."""

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        """See ``Field``."""
        if not isinstance(value, np.dtype) or value not in (np.float32, np.float64):
            raise InvalidInputError(f"{name} must be float32 or float64, got {shown(value)}.")


@dataclass(frozen=True)
class NumberDict:
    """A dict with given keys, whose values are numbers."""

    keys: frozenset[str]
    values: Number

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        """See ``Field``."""
        if type(value) is not dict or set(value) != self.keys:
            words = ", ".join(sorted(self.keys))
            raise InvalidInputError(f"{name} must be a dict with {words}, got {shown(value)}.")
        for key, entry in value.items():
            self.values.check(f"{name}[{key!r}]", entry, sizes)


@dataclass(frozen=True)
class Floats:
    """A finite array of float32 or float64.

    ``shape`` has one letter per dimension. A letter that is in ``sizes`` stands for this size, any
    other letter for any size of at least 1.
    """

    shape: str
    low: float = -math.inf
    high: float = math.inf
    weights: bool = False
    """Whether the entries are multiplied by samples"""
    atoms: bool = False
    """Whether rows have a length of at most 1"""
    gram: bool = False
    """Whether it is the product of a matrix with its transpose"""
    empty: bool = False
    """Whether it may have no entries"""

    def check(self, name: str, value: Any, sizes: dict[str, int]) -> None:
        """See ``Field``."""
        if not isinstance(value, np.ndarray) or value.dtype not in (np.float32, np.float64):
            raise InvalidInputError(f"{name} must be an array of floats, got {shown(value)}.")
        expected = tuple(sizes.get(a, n) for a, n in zip(self.shape, value.shape, strict=False))
        is_empty = 0 in value.shape and not self.empty
        if value.ndim != len(self.shape) or value.shape != expected or is_empty:
            letters = ", ".join(self.shape)
            raise InvalidInputError(f"{name} must have shape ({letters}), got {value.shape}.")
        if not value.size:
            return
        low, high = float(value.min()), float(value.max())
        if not (math.isfinite(low) and math.isfinite(high)):
            raise InvalidInputError(f"{name} must be finite, but contains NaN or infinity.")
        if low < self.low or high > self.high:
            raise InvalidInputError(
                f"the entries of {name} must be between {self.low:g} and {self.high:g}, got"
                f" {low if low < self.low else high:g}."
            )
        self._check_matrix(name, value, max(-low, high))

    def _check_matrix(self, name: str, value: Any, largest: float) -> None:
        bound = weight_bound(value)
        if self.weights and largest > bound:
            raise InvalidInputError(
                f"the entries of {name} must be at most {bound:.0e}, got {largest:g}."
            )
        if self.atoms:
            check_atoms(name, value)
        if self.gram:
            check_gram(name, value)


def weight_bound(array: Any) -> float:
    """Return the largest weight for the dtype of an array."""
    largest: float = float(np.finfo(array.dtype).max)
    return float(largest**LARGEST_WEIGHT_POWER)


def check_products(names: str, *arrays: Any) -> None:
    """Check that the output of one layer multiplied by the next does not overflow.

    Their scales may be inverse: large weights of one layer belong to small weights of the other.
    """
    product = 1.0
    for array in arrays:
        product *= float(np.abs(array).max())
    if not product <= weight_bound(arrays[0]):
        raise InvalidInputError(
            f"the product of the largest entries of {names} must be at most"
            f" {weight_bound(arrays[0]):.0e}, got {product:g}."
        )


def check_atoms(name: str, D: Any) -> None:
    """Check that the rows of a dictionary have a length of at most 1, except for rounding."""
    # Entries beyond 1 are refused before their squares overflow.
    longest = float(np.abs(D).max())
    if longest <= 1 + LENGTH_TOL:
        longest = float(np.sqrt(np.einsum("jp,jp->j", D, D, dtype=np.float64).max()))
    if longest > 1 + LENGTH_TOL:
        raise InvalidInputError(
            f"the rows of {name} must have a length of at most 1, got {longest:g}."
        )


def check_gram(name: str, G: Any) -> None:
    """Check that a square matrix can be AᵀA: it is symmetric, and |G[i, j]|² ≤ G[i, i] G[j, j]."""
    squares = np.diag(G)
    if squares.min() < 0:
        raise InvalidInputError(
            f"the diagonal of {name} must not be negative, got {squares.min():g}."
        )
    roots = np.sqrt(squares.astype(np.float64) + UNDERFLOW)
    for start in range(0, len(G), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        bound = roots[rows, None] * roots
        if (np.abs(G[rows]) > (1 + GRAM_TOL) * bound).any():
            raise InvalidInputError(
                f"{name} must be a sum of products AᵀA, but an entry is larger than those of the"
                " diagonal allow."
            )
        if (np.abs(G[rows] - G[:, rows].T) > GRAM_TOL * bound).any():
            raise InvalidInputError(f"{name} must be symmetric.")


def check_names(
    values: dict[str, Any], fields: dict[str, Field], optional: dict[str, Field], what: str
) -> None:
    """Check that all fields are present, and no others but the optional ones."""
    missing = sorted(set(fields) - set(values))
    unknown = sorted(set(values) - set(fields) - set(optional))
    if missing or unknown:
        raise InvalidInputError(
            f"the attributes of {what} are not complete or not known: missing"
            f" {some_names(missing)}, unknown {some_names(unknown)}."
        )


def check_fields(
    values: dict[str, Any],
    fields: dict[str, Field],
    optional: dict[str, Field],
    sizes: dict[str, int],
    what: str,
) -> None:
    """Check that all fields and no others are present, and that each of them is valid."""
    check_names(values, fields, optional, what)
    for name, value in values.items():
        (fields.get(name) or optional[name]).check(name, value, sizes)


def check_equal(name: str, value: Any, other: str, expected: Any) -> None:
    """Check that two attributes agree."""
    if value != expected:
        raise InvalidInputError(
            f"{name} must be equal to {other}, {shown(expected)}, got {shown(value)}."
        )


def some_names(names: list[str]) -> str:
    """Return names for a message, as many as are useful."""
    words = [printable(name, 60) for name in names[:10]]
    return ", ".join([*words, "…"] if len(names) > 10 else words) or "none"


def shown(value: Any) -> str:
    """Return a value for a message: short, and without characters that control a terminal."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    if isinstance(value, int) and value.bit_length() > 200:  # Python refuses to print longer ones
        return "a longer integer"
    if isinstance(value, list | dict):
        return f"a {type(value).__name__} of length {len(value)}"
    return printable(repr(value), 60)
