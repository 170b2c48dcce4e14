"""From the output of the encoder to codes: soft threshold, hard threshold, or the largest entries.

The kernels are compiled by Numba and work in place, in one pass over the output of the encoder.
This module imports Numba, so ``encoder_step.py`` imports it only when it is needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lincode.core.compiler import compiled, inlined
from lincode.core.types import Array
from lincode.exceptions import InvalidInputError

MAX_PASSES = 20
"""After this number of passes over a row, its k-th largest entry is found by quickselect."""


def apply_soft(Z: Array, threshold: float, gains: Array | None, *, positive: bool) -> Array:
    """Replace Z by gains * soft_threshold(Z, threshold)."""
    return _checked(Z, _soft(Z, *_limits(Z, threshold, positive), _gains(Z, gains), _largest(Z)))


def apply_hard(Z: Array, threshold: float, gains: Array | None, *, positive: bool) -> Array:
    """Replace Z by gains * Z where |Z| (with ``positive``, Z) exceeds the threshold, and by 0."""
    return _checked(Z, _hard(Z, *_limits(Z, threshold, positive), _gains(Z, gains), _largest(Z)))


def apply_top_k(Z: Array, k: int, gains: Array | None, *, positive: bool) -> Array:
    """Replace Z by gains * Z for the k largest |Z| (with ``positive``, Z) of each row, and by 0.

    Of equally large entries the first ones are kept.
    """
    return _checked(Z, _top_k(Z, min(k, Z.shape[1]), _gains(Z, gains), positive, _largest(Z)))


def _largest(Z: Array) -> Any:
    """Return the largest number of the precision."""
    return np.finfo(Z.dtype).max


def _checked(Z: Array, n_overflows: float) -> Array:
    """Return the codes, and raise an error if some outputs of the encoder were not finite."""
    if n_overflows:
        raise InvalidInputError(
            f"the codes of some samples are too large for {Z.dtype}; divide X by a number, and the"
            " codes are divided by it too."
        )
    return Z


def _limits(Z: Array, threshold: float, positive: bool) -> tuple[Any, Any]:
    """Return the interval in which codes are zero."""
    high = Z.dtype.type(threshold)
    return Z.dtype.type(-np.inf) if positive else -high, high


def _gains(Z: Array, gains: Array | None) -> Array:
    m = Z.shape[1]
    return np.ones(m, Z.dtype) if gains is None else gains.astype(Z.dtype, copy=False)


# Each entry is computed by conditional expressions, which the compiler turns into vector
# instructions. It does not do so for max and min, because of NaN.


@compiled
def _soft(Z: Any, low: Any, high: Any, gains: Any, largest: Any) -> Any:
    n, m = Z.shape
    zero, one = Z.dtype.type(0), Z.dtype.type(1)
    n_overflows = zero
    for i in range(n):
        row = Z[i]
        for j in range(m):
            z = row[j]
            clipped = z if z < high else high
            clipped = clipped if clipped > low else low
            row[j] = gains[j] * (z - clipped)
            n_overflows += zero if abs(gains[j] * z) <= largest else one
    return n_overflows


@compiled
def _hard(Z: Any, low: Any, high: Any, gains: Any, largest: Any) -> Any:
    n, m = Z.shape
    zero, one = Z.dtype.type(0), Z.dtype.type(1)
    n_overflows = zero
    for i in range(n):
        row = Z[i]
        for j in range(m):
            z = row[j]
            code = gains[j] * z
            n_overflows += zero if abs(code) <= largest else one  # one if it is NaN
            row[j] = code if (z > high) | (z < low) else zero
    return n_overflows


@compiled
def _top_k(Z: Any, k: int, gains: Any, positive: bool, largest: Any) -> Any:
    """Find a threshold for each row by bisection, such that k magnitudes exceed it.

    A pass that counts them costs less than one step of a selection algorithm, because it has no
    branches. The first guess is the threshold of the row before, relative to the sum of magnitudes.
    """
    n, m = Z.shape
    zero, half, wanted = Z.dtype.type(0), Z.dtype.type(0.5), Z.dtype.type(k)
    above, below = Z.dtype.type(1.15), Z.dtype.type(0.87)  # around the first guess
    magnitudes, work = np.empty(m, Z.dtype), np.empty(m, Z.dtype)
    ratio = half / wanted
    n_overflows = zero
    for i in range(n):
        row = Z[i]
        n_overflows += _count_overflows(row, gains, largest)
        total, count = _set_magnitudes(row, magnitudes, positive)
        threshold = zero
        exact = count <= wanted
        if not exact:
            low = zero
            high = total / wanted  # fewer than k magnitudes are above it
            threshold = total * ratio
            for n_passes in range(MAX_PASSES):
                count = _count_above(magnitudes, threshold)
                if count > wanted:
                    low = threshold
                    nearby = threshold * above
                elif count < wanted:
                    high = threshold
                    nearby = threshold * below
                else:
                    exact = True
                    ratio = threshold / total
                    break
                threshold = nearby if n_passes == 0 else low + half * (high - low)
        if exact:
            for j in range(m):
                row[j] = gains[j] * row[j] if magnitudes[j] > threshold else zero
        else:
            _keep_largest(row, k, gains, magnitudes, work, low)
    return n_overflows


@inlined
def _count_overflows(row: Any, gains: Any, largest: Any) -> Any:
    """Return how many codes would be infinite or NaN, as a value of their type."""
    zero, one = row.dtype.type(0), row.dtype.type(1)
    count = zero
    for j in range(len(row)):
        count += zero if abs(gains[j] * row[j]) <= largest else one
    return count


@inlined
def _set_magnitudes(row: Any, magnitudes: Any, positive: bool) -> Any:
    """Set magnitudes to |row|, or with ``positive`` to max(row, 0).

    The result is their sum, and how many are not zero.
    """
    zero, one = magnitudes.dtype.type(0), magnitudes.dtype.type(1)
    total, count = zero, zero
    for j in range(len(row)):
        z = row[j]
        magnitude = (z if z > zero else zero) if positive else abs(z)
        magnitudes[j] = magnitude
        total += magnitude
        count += one if magnitude > zero else zero
    return total, count


@inlined
def _count_above(values: Any, threshold: Any) -> Any:
    """Return how many values exceed the threshold, as a value of their type."""
    zero, one = values.dtype.type(0), values.dtype.type(1)
    count = zero
    for j in range(len(values)):
        count += one if values[j] > threshold else zero
    return count


@inlined
def _keep_largest(row: Any, k: int, gains: Any, magnitudes: Any, work: Any, low: Any) -> None:
    """Keep the k largest magnitudes, more than k of which exceed ``low``, by quickselect.

    This is needed if several magnitudes equal the k-th largest one, or are very close to it.
    """
    n_candidates = 0
    for magnitude in magnitudes:
        if magnitude > low:
            work[n_candidates] = magnitude
            n_candidates += 1
    cutoff = _select(work, n_candidates, n_candidates - k)
    n_equal = k  # how many entries equal to the cutoff are kept
    for magnitude in magnitudes:
        if magnitude > cutoff:
            n_equal -= 1
    for j in range(len(row)):
        keep = magnitudes[j] > cutoff
        if magnitudes[j] == cutoff and n_equal > 0:
            keep = True
            n_equal -= 1
        row[j] = gains[j] * row[j] if keep else 0


@inlined
def _select(values: Any, n: int, target: int) -> Any:
    """Return the entry of values[:n] that would be at ``target`` if they were sorted."""
    low, high = 0, n - 1
    while low < high:
        pivot = values[(low + high) // 2]
        a, b = low, high
        while a <= b:
            while values[a] < pivot:
                a += 1
            while values[b] > pivot:
                b -= 1
            if a <= b:
                values[a], values[b] = values[b], values[a]
                a += 1
                b -= 1
        if target <= b:
            high = b
        elif target >= a:
            low = a
        else:
            break
    return values[target]
