"""From the output of the encoder to codes: soft threshold, hard threshold, or the largest entries.

The kernels are compiled by Numba and work in place, in one pass over the output of the encoder.
This module imports Numba, so ``encoder_step.py`` imports it only when it is needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lincode.core.compiler import compiled
from lincode.core.types import Array


def apply_soft(Z: Array, threshold: float, gains: Array | None, *, positive: bool) -> Array:
    """Replace Z by gains * soft_threshold(Z, threshold)."""
    _soft(Z, Z.dtype.type(threshold), _gains(Z, gains), positive)
    return Z


def apply_hard(Z: Array, threshold: float, gains: Array | None, *, positive: bool) -> Array:
    """Replace Z by gains * Z where |Z| (with ``positive``, Z) exceeds the threshold, and by 0."""
    _hard(Z, Z.dtype.type(threshold), _gains(Z, gains), positive)
    return Z


def apply_top_k(Z: Array, k: int, gains: Array | None, *, positive: bool) -> Array:
    """Replace Z by gains * Z for the k largest |Z| (with ``positive``, Z) of each row, and by 0.

    Of equally large entries the first ones are kept.
    """
    _top_k(Z, min(k, Z.shape[1]), _gains(Z, gains), positive)
    return Z


def _gains(Z: Array, gains: Array | None) -> Array:
    m = Z.shape[1]
    return np.ones(m, Z.dtype) if gains is None else gains.astype(Z.dtype, copy=False)


@compiled
def _soft(Z: Any, threshold: Any, gains: Any, positive: bool) -> None:
    n, m = Z.shape
    zero = threshold * 0
    for i in range(n):
        row = Z[i]
        for j in range(m):
            z = row[j]
            shrunk = max(z - threshold, zero)
            if not positive:
                shrunk -= max(-z - threshold, zero)
            row[j] = gains[j] * shrunk


@compiled
def _hard(Z: Any, threshold: Any, gains: Any, positive: bool) -> None:
    n, m = Z.shape
    zero = threshold * 0
    for i in range(n):
        row = Z[i]
        for j in range(m):
            z = row[j]
            magnitude = z if positive else abs(z)
            row[j] = gains[j] * z if magnitude > threshold else zero


@compiled
def _top_k(Z: Any, k: int, gains: Any, positive: bool) -> None:
    n, m = Z.shape
    magnitude = np.empty(m, Z.dtype)
    work = np.empty(m, Z.dtype)
    for i in range(n):
        row = Z[i]
        for j in range(m):
            z = row[j] if positive else abs(row[j])
            magnitude[j] = z
            work[j] = z
        # Quickselect: afterwards work[m − k] is the k-th largest magnitude.
        low, high, target = 0, m - 1, m - k
        while low < high:
            pivot = work[(low + high) // 2]
            a, b = low, high
            while a <= b:
                while work[a] < pivot:
                    a += 1
                while work[b] > pivot:
                    b -= 1
                if a <= b:
                    work[a], work[b] = work[b], work[a]
                    a += 1
                    b -= 1
            if target <= b:
                high = b
            elif target >= a:
                low = a
            else:
                break
        cutoff = work[target]
        n_equal = k  # how many entries equal to the cutoff are kept
        for j in range(m):
            if magnitude[j] > cutoff:
                n_equal -= 1
        for j in range(m):
            if magnitude[j] > cutoff:
                keep = True
            elif magnitude[j] == cutoff and n_equal > 0:
                keep = True
                n_equal -= 1
            else:
                keep = False
            if keep and magnitude[j] > 0:
                row[j] = gains[j] * row[j]
            else:
                row[j] = 0
