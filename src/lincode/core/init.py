"""Initial values of U, D and C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lincode.core.prox import project_unit_ball
from lincode.core.types import Array

MAX_ENTRY = 1e100
"""Atoms with a larger entry are divided by it first, because the squares of entries overflow."""


@dataclass(frozen=True)
class Start:
    """The initial D and C in float64, and optionally the initial codes U.

    If U is None, the codes start from those of the encoder, which are zero if C is zero.
    """

    D: Array
    C: Array
    U: Array | None = None


def start_from_data(
    take: Callable[[NDArray[np.intp]], Array],
    shape: tuple[int, int],
    m: int,
    rng: np.random.RandomState,
) -> Start:
    """Use random rows of X, normalised to length 1, as atoms. The encoder is zero.

    ``take(indices)`` returns rows of X as a dense array, and ``shape`` is the shape of X. If X
    has fewer than m rows that are not zero, the other atoms are random directions.
    """
    N, p = shape
    order = rng.permutation(N)
    D = np.empty((0, p))
    for first in range(0, N, m):
        D = np.vstack([D, _unit_rows(take(order[first : first + m]).astype(np.float64))])[:m]
        if len(D) == m:
            break
    D = np.vstack([D, _unit_rows(rng.standard_normal((m - len(D), p)))])
    return Start(D=D, C=np.zeros_like(D))


def paper_start(
    shape: tuple[int, int], m: int, rng: np.random.RandomState, dtype: np.dtype[np.floating]
) -> Start:
    """Start as in Algorithm 1: U, D and C uniform in [−1, 1], D projected onto the unit balls."""
    N, p = shape
    U = rng.uniform(-1, 1, (N, m)).astype(dtype)
    D = project_unit_ball(rng.uniform(-1, 1, (m, p)))
    C = rng.uniform(-1, 1, (m, p))
    return Start(D=D, C=C, U=U)


def start_from_dictionary(D: Array) -> Start:
    """Use given atoms, projected onto the unit balls. The encoder is zero."""
    D = np.array(D, dtype=np.float64)
    largest = np.abs(D).max(axis=1, keepdims=True)
    D = project_unit_ball(D / np.where(largest > MAX_ENTRY, largest, 1.0))
    return Start(D=D, C=np.zeros_like(D))


def _unit_rows(A: Array) -> Array:
    """Return the rows of A that are not zero, normalised to length 1."""
    norms = np.linalg.norm(A, axis=1, keepdims=True)
    return np.asarray(A[norms[:, 0] > 0] / norms[norms > 0, None])


def nonnegative_atoms(D: Array, *, signed: bool) -> Array:
    """Replace atoms with negative entries by non-negative atoms of length 1.

    They are the ``longer_parts`` of the atoms. Atoms without negative entries are unchanged.
    """
    parts = longer_parts(D, signed=signed)
    norms = np.linalg.norm(parts, axis=1, keepdims=True)
    unit = np.divide(parts, norms, out=np.zeros_like(parts), where=norms > 0)
    return np.where((D < 0).any(axis=1, keepdims=True), unit, D)


def longer_parts(D: Array, *, signed: bool) -> Array:
    """Return the positive part of each row, or the negative part if it is longer and ``signed``."""
    positive, negative = np.maximum(D, 0), np.maximum(-D, 0)
    if not signed:
        return positive
    longer = np.linalg.norm(negative, axis=1) > np.linalg.norm(positive, axis=1)
    return np.where(longer[:, None], negative, positive)
