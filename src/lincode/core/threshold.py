"""From the output of the encoder to codes: soft threshold, hard threshold, or the largest entries.

The kernels are compiled by Numba and work in place, in one pass over the output of the encoder.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from lincode.core.arrays import Array, Rows
from lincode.core.compiler import compiled, inlined
from lincode.exceptions import InvalidInputError


def soft_threshold(
    Z: Array, t: float, *, positive: bool = False, out: Array | None = None
) -> Array:
    """Compute argmin_V  ½‖V − Z‖² + t‖V‖₁ for each entry (equation 13 of the paper).

    Parameters
    ----------
    Z : array of any shape
        The input.
    t : float
        The threshold, at least 0.
    positive : bool, default=False
        Whether to minimise over V ≥ 0 only.
    out : array of the same shape as Z, optional
        Where the result is written. It may be Z itself.

    Returns
    -------
    V : array of the same shape as Z
    """
    t = min(t, float(np.finfo(Z.dtype).max))
    if positive:
        V = np.subtract(Z, t, out=out)
        return np.maximum(V, 0, out=V)
    return np.subtract(Z, np.clip(Z, -t, t), out=out)


CALIBRATION_ROWS, CALIBRATION_ROWS_PER_UNIT = 10_000, 10
"""The encoder is calibrated on at most max(10,000, 10 m) rows."""
MAX_PASSES = 20
"""After this number of passes over a row, its k-th largest entry is found by quickselect."""


@dataclass(frozen=True)
class Thresholding:
    """How the output Z = X Cᵀ of the encoder is turned into codes."""

    mode: str = "soft"
    """"soft", "hard" or "top_k\""""
    threshold: float = 0.0
    """The threshold of the modes "soft" and "hard\""""
    k: int = 1
    """The number of non-zeros of the mode "top_k\""""
    positive: bool = False
    """Whether negative outputs become zero"""

    def apply(self, Z: Array) -> Array:
        """Replace the output Z of the encoder by the codes.

        - "soft": soft_threshold(Z, threshold);
        - "hard": Z where |Z| (with ``positive``, Z) exceeds the threshold;
        - "top_k": the k largest |Z| (with ``positive``, Z) of each row. Of equally large entries
          the first ones are kept.
        """
        largest = np.finfo(Z.dtype).max
        if self.mode == "top_k":
            n_overflows = _top_k(Z, min(self.k, Z.shape[1]), self.positive, largest)
        else:
            high = Z.dtype.type(min(self.threshold, float(largest)))
            low = Z.dtype.type(-np.inf) if self.positive else -high
            n_overflows = (_soft if self.mode == "soft" else _hard)(Z, low, high, largest)
        if n_overflows:
            raise InvalidInputError(
                f"the codes of some samples are too large for {Z.dtype}; divide X by a number, and"
                " the codes are divided by it too."
            )
        return Z

    def matched(self, Z: Array, density: float) -> Thresholding:
        """Return the rule with which outputs Z have the given density, if it has a threshold."""
        if self.mode == "top_k":
            return self
        return replace(self, threshold=matching_threshold(Z, density, positive=self.positive))


def encoder_output(X: Rows, C: Array, *, out: Array | None = None) -> Array:
    """Return Z = X Cᵀ as a C-contiguous array, which is ``out`` if it is given."""
    if not scipy.sparse.issparse(X):
        return np.matmul(X, C.T, out=out) if out is not None else np.ascontiguousarray(X @ C.T)
    Z = np.asarray(X @ C.T)
    if out is None:
        return np.ascontiguousarray(Z)
    out[...] = Z
    return out


def encode(X: Rows, C: Array, thresholding: Thresholding, *, out: Array | None = None) -> Array:
    """Return the encoder's codes of the rows of X: one product, then one pass over its result."""
    return thresholding.apply(encoder_output(X, C, out=out))


@dataclass(frozen=True)
class ThresholdCoder:
    """The soft threshold of X Dᵀ."""

    D: Array
    alpha: float
    positive: bool

    @property
    def n_units(self) -> int:
        return len(self.D)

    def write(self, U: Array, X: Rows, b: Array | None = None, start: Array | None = None) -> int:
        """Compute the codes of the rows. The start is not used."""
        Z = np.asarray(X @ self.D.T) if b is None else b
        soft_threshold(Z, self.alpha, positive=self.positive, out=U)
        return 0


def n_calibration_rows(m: int) -> int:
    """Return the largest number of rows from which an encoder with m units is calibrated."""
    return max(CALIBRATION_ROWS, CALIBRATION_ROWS_PER_UNIT * m)


def matching_threshold(Z: Array, density: float, *, positive: bool) -> float:
    """Return the threshold at which outputs Z of the encoder have the given density.

    Only outputs above the threshold give a code, so it is the largest output that gives none. If
    several outputs are equally large, the density that is closer to the given one is chosen.
    """
    magnitude = np.maximum(Z, 0) if positive else np.abs(Z)
    wanted = round(min(1.0, density) * magnitude.size)
    if wanted == magnitude.size:
        return 0.0
    rank = magnitude.size - wanted - 1
    threshold = np.partition(magnitude, rank, axis=None)[rank]
    n_above = np.count_nonzero(magnitude > threshold)
    n_at_least = np.count_nonzero(magnitude >= threshold)
    if n_at_least - wanted < wanted - n_above:
        threshold = magnitude[magnitude < threshold].max(initial=0.0)
    return float(threshold)


# Each entry is computed by conditional expressions, which the compiler turns into vector
# instructions. It does not do so for max and min, because of NaN.


@compiled
def _soft(Z: Any, low: Any, high: Any, largest: Any) -> Any:
    n, m = Z.shape
    zero, one = Z.dtype.type(0), Z.dtype.type(1)
    n_overflows = zero
    for i in range(n):
        row = Z[i]
        for j in range(m):
            z = row[j]
            clipped = z if z < high else high
            clipped = clipped if clipped > low else low
            row[j] = z - clipped
            n_overflows += zero if abs(z) <= largest else one  # one if it is NaN
    return n_overflows


@compiled
def _hard(Z: Any, low: Any, high: Any, largest: Any) -> Any:
    n, m = Z.shape
    zero, one = Z.dtype.type(0), Z.dtype.type(1)
    n_overflows = zero
    for i in range(n):
        row = Z[i]
        for j in range(m):
            z = row[j]
            n_overflows += zero if abs(z) <= largest else one
            row[j] = z if (z > high) | (z < low) else zero
    return n_overflows


@compiled
def _top_k(Z: Any, k: int, positive: bool, largest: Any) -> Any:
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
        n_overflows += _count_overflows(row, largest)
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
                row[j] = row[j] if magnitudes[j] > threshold else zero
        else:
            _keep_largest(row, k, magnitudes, work, low)
    return n_overflows


@inlined
def _count_overflows(row: Any, largest: Any) -> Any:
    """Return how many codes would be infinite or NaN, as a value of their type."""
    zero, one = row.dtype.type(0), row.dtype.type(1)
    count = zero
    for j in range(len(row)):
        count += zero if abs(row[j]) <= largest else one
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
def _keep_largest(row: Any, k: int, magnitudes: Any, work: Any, low: Any) -> None:
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
        row[j] = row[j] if keep else 0


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


class CompressedRows(NamedTuple):
    """The non-zeros of a block of codes, row by row."""

    counts: NDArray[np.int64]
    """The number of non-zeros of each row, shape (n,)"""
    columns: NDArray[np.int32]
    """The columns of the non-zeros, in increasing order in each row"""
    values: Array
    """The non-zeros"""


def split_signs(U: Array, out: Array) -> None:
    """Write [max(U, 0), max(−U, 0)] to ``out``, of shape (n, 2 m), for U of shape (n, m)."""
    _split(U, out)


def compress_rows(U: Array, *, split: bool) -> CompressedRows:
    """Return the non-zeros of U, or with ``split`` those of [max(U, 0), max(−U, 0)]."""
    counts = np.empty(len(U), dtype=np.int64)
    _count(U, counts)
    size = int(counts.sum())
    # ``_fill`` also writes to the last place, which is not part of the result.
    columns, values = np.empty(size + 1, dtype=np.int32), np.empty(size + 1, dtype=U.dtype)
    _fill(U, U.view(np.int32 if U.dtype == np.float32 else np.int64), columns, values)
    if split:
        _split_compressed(U.shape[1], counts, columns, values)
    return CompressedRows(counts, columns[:size], values[:size])


@compiled
def _split(U: Any, out: Any) -> None:
    n, m = U.shape
    zero = U.dtype.type(0)
    for i in range(n):
        # Two simple loops become vector instructions; one loop that writes twice does not.
        row, positive, negative = U[i], out[i, :m], out[i, m:]
        for j in range(m):
            positive[j] = row[j] if row[j] > zero else zero
        for j in range(m):
            negative[j] = -row[j] if row[j] < zero else zero


@compiled
def _count(U: Any, counts: Any) -> None:
    n, m = U.shape
    for i in range(n):
        row, count = U[i], 0
        for j in range(m):
            count += row[j] != 0
        counts[i] = count


@compiled
def _fill(U: Any, bits: Any, columns: Any, values: Any) -> None:
    """Write every entry; one that is zero is overwritten by the next. Branches would be slower.

    Sixteen zeros in a row are skipped. ``bits`` is the memory of U as integers.
    """
    n, m = U.shape
    k = 0
    for i in range(n):
        row, row_bits = U[i], bits[i]
        for block in range(m // 16):
            used = bits.dtype.type(0)
            for j in range(16):
                used |= row_bits[16 * block + j]
            if used != 0:
                for j in range(16 * block, 16 * block + 16):
                    columns[k] = j
                    values[k] = row[j]
                    k += row[j] != 0
        for j in range(m - m % 16, m):
            columns[k] = j
            values[k] = row[j]
            k += row[j] != 0


@compiled
def _split_compressed(m: int, counts: Any, columns: Any, values: Any) -> None:
    """Move the negative values of each row behind the positive ones, to the columns m, m + 1, …

    As in ``_fill``, a value is written to both places, and to the wrong one only temporarily.
    """
    negative_columns, negative_values = np.empty(m, columns.dtype), np.empty(m, values.dtype)
    start = 0
    for count in counts:
        n_positive, n_negative = 0, 0
        for k in range(start, start + count):
            column, value = columns[k], values[k]
            negative_columns[n_negative] = m + column
            negative_values[n_negative] = -value
            columns[start + n_positive] = column
            values[start + n_positive] = value
            n_negative += value < 0
            n_positive = k + 1 - start - n_negative
        for k in range(n_negative):
            columns[start + n_positive + k] = negative_columns[k]
            values[start + n_positive + k] = negative_values[k]
        start += count
