"""Where training starts: U, D and C before the first step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lincode.core.blocks import blocks, dense
from lincode.core.encoder_step import encode
from lincode.core.prox import project_unit_ball
from lincode.core.types import Array, Rows


@dataclass(frozen=True)
class Start:
    """D and C in float64; U in the dtype of the rows, or None for the encoder's own codes."""

    D: Array
    C: Array
    U: Array | None = None

    def codes(self, X: Rows, threshold: float, *, positive: bool) -> Array:
        """The codes training starts from: given, or what the encoder makes of X."""
        if self.U is not None:
            return np.maximum(self.U, 0) if positive else self.U
        if not self.C.any():
            return np.zeros((X.shape[0], len(self.C)), dtype=X.dtype)
        return encode(X, self.C.astype(X.dtype), threshold, positive=positive)


def start_from_data(X: Rows, m: int, rng: np.random.RandomState) -> Start:
    """Atoms are rows of X drawn without repetition and scaled to length 1; the encoder is 0.

    Where X has fewer than m rows that are not zero, random directions fill the rest.
    """
    N, p = X.shape
    order = rng.permutation(N)
    D = np.empty((0, p))
    for drawn in blocks(N, m):
        D = np.vstack([D, _unit_rows(dense(X[order[drawn]]).astype(np.float64))])[:m]
        if len(D) == m:
            break
    D = np.vstack([D, _unit_rows(rng.standard_normal((m - len(D), p)))])
    return Start(D=D, C=np.zeros_like(D))


def start_of_the_paper(X: Rows, m: int, rng: np.random.RandomState) -> Start:
    """Algorithm 1's: U, D and C uniform in [−1, 1], D brought into the unit balls."""
    N, p = X.shape
    U = rng.uniform(-1, 1, (N, m)).astype(X.dtype)
    D = project_unit_ball(rng.uniform(-1, 1, (m, p)))
    C = rng.uniform(-1, 1, (m, p))
    return Start(D=D, C=C, U=U)


def start_from_dictionary(D: Array) -> Start:
    """A given dictionary, its atoms brought into the unit balls; the encoder is 0."""
    D = project_unit_ball(np.array(D, dtype=np.float64))
    return Start(D=D, C=np.zeros_like(D))


def _unit_rows(A: Array) -> Array:
    """The rows of A that are not zero, scaled to length 1."""
    length = np.linalg.norm(A, axis=1, keepdims=True)
    return np.asarray(A[length[:, 0] > 0] / length[length > 0, None])
