"""Refinement of the encoder and the dictionary by stochastic gradients, after training.

The encoder of SCNN is fitted to codes that an optimisation found. Refinement fits it to the task
that it is used for: with the codes S = T(X Cᵀ), where T keeps the largest outputs, it minimises

    ‖X − S D‖² + ν Σ_ij [S_ij ≠ 0] ‖C[j]‖²      over C and D,  ‖D[j]‖ = 1.

The second term is that of noise of variance ν on the input of the encoder, which keeps it from
overfitting. With the residuals R = X − S D, a batch of rows has the gradients

    C[j]: −Σ_i (R[i] · D[j]) X[i] + ν C[j],     D[j]: −Σ_i S_ij R[i],     i over rows with S_ij ≠ 0,

so that only X Cᵀ is a dense product, and a step costs little more than the codes of its batch. The
steps are those of Adam, which treats every coordinate alone. Therefore X, C and D are expressed in
the eigenvectors of XᵀX; in the coordinates of images the same steps would diverge. If there are
many features, only the leading directions of X are used, and C and D remain in their span. The
threshold follows the outputs, so that the codes keep their density. The result is an average over
the last steps, which has a smaller error than the network of the last step. When it no longer
improves, the steps become shorter and shorter. This reduces the error if there are many units; with
few units the average alone is as good. The paper does not have this step.

All of this is computed in float32, in an order that does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.utils.extmath import randomized_svd

from lincode.core.arrays import Array, Rows, blocks, gram, row_squares, sample_indices
from lincode.core.compiler import compiled
from lincode.core.threshold import compress_rows
from lincode.encoder.calibration import Network, explained_fraction

BATCH_ROWS = 512
"""The number of rows of a step. For the same number of rows, 600 steps of 512 rows had a smaller
error than 300 steps of 1024 rows on digits, patches, text and activations."""
RATE, WARM_UP_STEPS = 0.1, 50
"""The length of a step of one atom, and the number of steps over which it grows to this."""
FINAL_STEPS, EARLY_TOL = 1 / 4, 2
"""At the end, the length of the steps decreases linearly over this fraction of all steps, which
reduces the error more than further long steps. The tolerance is multiplied by the second number
before that."""
NOISE, MAX_NOISE = 3.0, 1e6
"""ν relative to the ridge of training; 1 and 10 had a larger error on most of seven kinds of data.
The largest ν relative to the mean square of rows; more would overflow in float32.
"""
DEFAULT_STEPS = 1200
"""By default there are at most this many steps, or as many as units, or one pass over the rows,
whichever is the most."""
CHECK_STEPS, TOL, PATIENCE = 100, 2e-3, 3
"""Held-out rows are measured after every 100 steps. The last steps begin if their error has not
decreased by this fraction for three times, and end if that happens again."""
FIRST_MOMENT, SECOND_MOMENT = 0.1, 0.001
"""The weights of a step in the moments of Adam."""
AVERAGE_WEIGHT, AVERAGED_STEPS = 0.01, 10
"""The smallest weight of a step in the average network. That of step s is 1/(1 + s/10) at first."""
THRESHOLD_WEIGHT, THRESHOLD_OUTPUTS = 0.1, 100_000
"""The weight of a batch in the threshold, and from how many outputs it is estimated."""
IDLE_ROWS, GROWTH, MIN_OUTPUT = 2000, 1.02, 0.1
"""The encoder of a unit that was not used for this many rows is multiplied by the second number in
every step, until the unit is used again. Its largest output must be at least the third number times
the mean code, because a unit that the rows do not reach would grow without limit. Restarts of
unused units had a larger error."""
MAX_ROTATED_FEATURES, N_DIRECTIONS, DIRECTION_ROWS = 2048, 1024, 20_000
"""With more features than the first number, only the second number of directions is used. They are
computed from at most this number of rows."""
MIN_EIGENVALUE, MIN_MISSED = 1e-10, 1e-6
"""Directions with a smaller eigenvalue of XᵀX, relative to the largest, are those of rounding. The
weights of a network, of length 1, may lose this part of their squares."""
MAX_ROW_BYTES = 2**28
"""The rows of the steps are kept in memory up to this size."""
ROW_BLOCKS, UNIT_BLOCKS, MIN_THREADED_PRODUCT = 4, 8, 2**24
"""The parts of a step that may run in separate threads, and how many multiplications the product of
a batch with the encoder must have for that. Smaller steps are slower with two threads."""


@dataclass(frozen=True)
class Directions:
    """The coordinates in which steps are made: Y = X V / scale, of about the length 1."""

    V: Array
    """Orthonormal directions, shape (p, r)"""
    scale: float

    @classmethod
    def of(cls, X: Rows, network: Network, XtX: Array | None = None) -> Directions:
        """Return the eigenvectors of XᵀX, or the leading ones if X has many features.

        XtX is that of earlier rows. Directions in which X is zero are left out, because steps in
        them would follow rounding errors, unless the network would lose a part of its weights.
        """
        X = X[sample_indices(X.shape[0], DIRECTION_ROWS)]
        N, p = X.shape
        if p <= MAX_ROTATED_FEATURES:
            s2, V = scipy.linalg.eigh(gram(X) if XtX is None else gram(X) + XtX)
            s2, V, n_max = s2[::-1], V[:, ::-1], p
        else:
            n_max = N_DIRECTIONS
            _, s, Vt = randomized_svd(X, min(N, n_max), n_iter=2, random_state=0)
            s2, V = s**2, Vt.T.astype(np.float64)
        V = V[:, s2 > MIN_EIGENVALUE * s2[0]]
        if V.shape[1] < n_max:
            Q = _missed_directions(np.vstack([network.C, network.D]), V)
            V = np.hstack([V, Q[:, : n_max - V.shape[1]]])
        scale = float(np.sqrt(np.mean(row_squares(X))))
        return cls(np.ascontiguousarray(V, dtype=np.float32), scale if scale > 0 else 1.0)

    def rotated(self, X: Rows) -> Array:
        """Return rows in these coordinates, in float32."""
        Y = np.asarray(X @ self.V.astype(X.dtype))
        return np.ascontiguousarray(Y / Y.dtype.type(self.scale), dtype=np.float32)


def _missed_directions(W: Array, V: Array) -> Array:
    """Return orthonormal directions of the rows of W that are orthogonal to V."""
    lengths = np.linalg.norm(W, axis=1, keepdims=True)
    W = W / np.where(lengths > 0, lengths, 1)
    W -= (W @ V) @ V.T
    is_tall = len(W) > W.shape[1]
    s2, E = scipy.linalg.eigh(W.T @ W if is_tall else W @ W.T)
    kept = np.flatnonzero(s2 > MIN_MISSED)[::-1]
    return E[:, kept] if is_tall else np.asarray(W.T @ (E[:, kept] / np.sqrt(s2[kept])))


@dataclass(frozen=True)
class HeldOutRows:
    """Rows that steps do not use. They measure a network, and determine its threshold."""

    Y: Array
    total: float
    """‖X‖² of the rows in the unit of Y; the directions may miss a part of it"""

    @classmethod
    def of(cls, X: Rows, directions: Directions) -> HeldOutRows:
        """Return the rows X in the coordinates of the steps."""
        return cls(directions.rotated(X), float(np.sum(row_squares(X))) / directions.scale**2)

    def measure(self, network: Network, density: float) -> tuple[float, Network]:
        """Return the fraction of the rows that a network reconstructs, with the new threshold."""
        Z = np.ascontiguousarray(self.Y @ network.C.T)
        network = replace(network, rule=network.rule.matched(Z, density))
        error = self.Y - network.rule.apply(Z) @ network.D
        explained = float(np.vdot(self.Y, self.Y)) - float(np.vdot(error, error))
        return explained / self.total if self.total > 0 else 0.0, network


@dataclass(frozen=True)
class Refined:
    """A refined network, and the fractions of held-out rows that it and the start reconstruct."""

    network: Network
    r2: float
    start_r2: float


@dataclass(frozen=True)
class Schedule:
    """How many steps are made. Held-out rows are measured after every ``CHECK_STEPS`` steps."""

    max_steps: int
    tol: float = TOL
    patience: int | None = PATIENCE
    """The last steps begin, and end, if the error of held-out rows has not decreased by the
    fraction ``tol`` for this number of times; None means that all steps are made"""

    @classmethod
    def of(cls, N: int, m: int) -> Schedule:
        """Return the default for N rows and m units."""
        return cls(max(DEFAULT_STEPS, m, N // BATCH_ROWS))


def refine(
    start: Network,
    gradients: SparseGradients,
    batches: Iterator[Array],
    held_out: Rows,
    schedule: Schedule,
    *,
    n_threads: int = 1,
    report: Callable[[int, int, Network, float], bool] = lambda *_: False,
) -> Refined:
    """Do steps by batches of rotated rows, and return the best network for held-out rows.

    This may be the start, of which the directions of the steps may have lost a part. After every
    check, ``report(n_steps, n_rows, best, best_r2)`` is called; if it returns true, this was the
    last step. BLAS must use one thread, because thresholds would magnify different rounding errors.
    """
    density, directions = gradients.density, gradients.directions
    held = HeldOutRows.of(held_out, directions)
    Z = np.ascontiguousarray(held_out @ start.C.T.astype(held_out.dtype))
    best = replace(start, rule=start.rule.matched(Z, density))
    best_r2 = start_r2 = explained_fraction(held_out, best.rule.apply(Z), start.D)
    level, n_failures, n_rows, last = 1 - start_r2, 0, 0, schedule.max_steps
    first_short = last - int(FINAL_STEPS * last)  # the first of the steps that become shorter
    with ThreadPoolExecutor(n_threads) as pool:
        for n_steps, Y in enumerate(islice(batches, last), start=1):
            length = min(1.0, (last - n_steps + 1) / max(last - first_short, 1))
            gradients.step(Y, pool.map if n_threads > 1 else map, length)
            n_rows += len(Y)
            if n_steps % CHECK_STEPS and n_steps < last:
                continue
            r2, network = held.measure(gradients.network(), density)
            if r2 > best_r2:
                best_r2, best = r2, gradients.in_features(network)
            if report(n_steps, n_rows, best, best_r2):
                break
            tol = schedule.tol * (1 if n_steps >= first_short else EARLY_TOL)
            n_failures = 0 if 1 - r2 < (1 - tol) * level else n_failures + 1
            level = min(level, 1 - r2)
            if n_failures == schedule.patience or n_steps == last:
                if n_steps >= first_short:
                    break
                first_short, n_failures = n_steps + 1, 0
                last = min(last, int(n_steps / (1 - FINAL_STEPS)))
    return Refined(best, best_r2, start_r2)


def max_rows(p: int) -> int:
    """Return how many rows with p features are kept in memory for the steps."""
    return MAX_ROW_BYTES // (4 * min(p, 8 * N_DIRECTIONS))  # wide rows are usually sparse


def shuffled_batches(
    X: Rows, directions: Directions, batch_rows: int = BATCH_ROWS
) -> Generator[Array, None, None]:
    """Yield batches of rotated rows in random order, without end."""
    N, rng = X.shape[0], np.random.RandomState(0)
    Y = np.empty((N, directions.V.shape[1]), np.float32)
    for rows in blocks(N, 8 * BATCH_ROWS):
        Y[rows] = directions.rotated(X[rows])
    while True:
        order = rng.permutation(N)
        for rows in blocks(N - N % batch_rows or N, batch_rows):
            yield Y[order[rows]]


class SparseGradients:
    """A network in refinement: the steps of Adam, their moments, and the average network.

    Parameters
    ----------
    start : Network
        The network before the first step.
    directions : Directions
        The coordinates of the steps.
    density : float
        The fraction of non-zeros of the codes, if the network has a threshold.
    noise : float
        The variance of the noise that the ridge of training is equivalent to.
    positive_dict : bool, default=False
        Whether the dictionary is constrained to D ≥ 0.
    """

    def __init__(
        self,
        start: Network,
        directions: Directions,
        density: float,
        noise: float,
        *,
        positive_dict: bool = False,
    ) -> None:
        self.directions, self.density, self.positive_dict = directions, density, positive_dict
        self.noise, self.n_steps = min(NOISE * noise / directions.scale**2, MAX_NOISE), 0
        C, D = (self._coordinates(A) for A in (start.C, start.D))
        rule = replace(start.rule, threshold=start.rule.threshold / directions.scale)
        self.rule, self.weights = rule, np.stack([C, D])
        self.means, self.squares = np.zeros_like(self.weights), np.zeros_like(self.weights)
        self.averages = self.weights.copy()
        self.idle_rows = np.zeros(len(C), np.int64)

    def _coordinates(self, A: Array) -> Array:
        V = self.directions.V.astype(np.float64)
        return np.ascontiguousarray(A @ V, dtype=np.float32)

    @property
    def average(self) -> Network:
        """The average network in the coordinates of the steps."""
        C, D = self.averages
        return Network(C, D, self.rule)

    def network(self) -> Network:
        """Return the average network, whose atoms are non-negative with ``positive_dict``."""
        if not self.positive_dict:
            return self.average
        V = self.directions.V
        return replace(self.average, D=np.maximum(self.average.D @ V.T, 0) @ V)

    def in_features(self, network: Network) -> Network:
        """Return a network in the coordinates of the data."""
        V = self.directions.V.astype(np.float64).T
        C, D = network.C @ V, network.D @ V
        if self.positive_dict:
            D = np.maximum(D, 0)
        rule = replace(network.rule, threshold=network.rule.threshold * self.directions.scale)
        return Network(C, D, rule)

    def step(self, Y: Array, run: Callable[..., Iterator[Any]] = map, length: float = 1.0) -> None:
        """Do one step by a batch of rows. ``run`` maps a function, possibly by threads.

        ``length`` is relative to the usual length of a step.
        """
        C, _ = self.weights
        n, m = len(Y), len(C)
        R, Z = np.empty_like(Y), np.empty((n, m), np.float32)
        n_row_blocks, n_unit_blocks = ROW_BLOCKS, UNIT_BLOCKS
        if Y.size * m < MIN_THREADED_PRODUCT:
            run, n_row_blocks, n_unit_blocks = map, 1, 1
        parts = blocks(n, -(-n // n_row_blocks))
        list(run(lambda rows: np.matmul(Y[rows], C.T, out=Z[rows]), parts))
        self._follow_outputs(Z)
        done = list(run(lambda rows: self._residuals(Y[rows], Z[rows], R[rows]), parts))
        counts, columns, values, back = (
            np.concatenate(arrays) for arrays in zip(*done, strict=True)
        )
        starts, used = np.zeros(m + 1, np.int64), np.bincount(columns, minlength=m)
        np.cumsum(used, out=starts[1:])
        # NumPy sorts integers of 16 bits several times as fast as longer ones.
        order = np.argsort(columns.astype(np.uint16 if m < 2**16 else np.int64), kind="stable")
        rows_of_units = np.repeat(np.arange(n), counts)[order]
        level = MIN_OUTPUT * float(np.abs(values).mean()) if len(values) else np.inf
        values, back = values[order] / np.float32(n), back[order] / np.float32(n)
        self.n_steps += 1
        rate = length * RATE / np.sqrt(Y.shape[1]) * min(1, self.n_steps / WARM_UP_STEPS)
        weight = max(AVERAGE_WEIGHT, 1 / (1 + self.n_steps / AVERAGED_STEPS))
        corrections = [1 - (1 - w) ** self.n_steps for w in (FIRST_MOMENT, SECOND_MOMENT)]
        sizes = np.array([rate, *corrections, self.noise / n, weight], np.float32)
        entries, moments = (starts, rows_of_units, values, back), (self.means, self.squares)
        arrays = (*entries, self.weights, *moments, self.averages, sizes)
        units = [(part.start, part.stop) for part in blocks(m, -(-m // n_unit_blocks))]
        list(run(lambda part: _update(Y, R, *arrays, *part), units))
        self.idle_rows = np.where(used > 0, 0, self.idle_rows + n)
        idle = np.flatnonzero(self.idle_rows > IDLE_ROWS)
        idle = idle[np.abs(Y @ C[idle].T).max(axis=0, initial=0) > level]
        C[idle] *= np.float32(GROWTH)
        if self.positive_dict:
            self._make_positive()

    def _follow_outputs(self, Z: Array) -> None:
        """Move the threshold towards that of the outputs Z."""
        sample = Z[: -(-THRESHOLD_OUTPUTS // Z.shape[1])]
        rule = self.rule.matched(sample, self.density)
        weight = THRESHOLD_WEIGHT if self.n_steps > 0 else 1.0
        threshold = self.rule.threshold + weight * (rule.threshold - self.rule.threshold)
        self.rule = replace(rule, threshold=threshold)

    def _residuals(self, Y: Array, Z: Array, R: Array) -> tuple[Any, Any, Array, Array]:
        """Compute R = Y − S D for some rows; return their codes S and the products R[i] · D[j]."""
        codes = compress_rows(self.rule.apply(Z), split=False)
        back = np.empty_like(codes.values)
        _residuals(Y, self.weights[1], codes.counts, codes.columns, codes.values, R, back)
        return *codes, back

    def _make_positive(self) -> None:
        """Replace the atoms by their positive parts, of length 1."""
        V = self.directions.V
        D = np.maximum(self.weights[1] @ V.T, 0)
        lengths = np.linalg.norm(D, axis=1, keepdims=True)
        self.weights[1] = np.where(lengths > 0, D / np.maximum(lengths, 1e-30), 0) @ V


@compiled
def _residuals(Y: Any, D: Any, counts: Any, columns: Any, values: Any, R: Any, back: Any) -> None:
    n, r = Y.shape
    first = 0
    for i in range(n):
        row, y = R[i], Y[i]
        for q in range(r):
            row[q] = y[q]
        last = first + counts[i]
        for k in range(first, last):
            atom, value = D[columns[k]], values[k]
            for q in range(r):
                row[q] -= value * atom[q]
        for k in range(first, last):
            atom, product = D[columns[k]], Y.dtype.type(0)
            for q in range(r):
                product += row[q] * atom[q]
            back[k] = product
        first = last


@compiled
def _update(
    Y: Any,
    R: Any,
    starts: Any,
    rows: Any,
    values: Any,
    back: Any,
    weights: Any,
    means: Any,
    squares: Any,
    averages: Any,
    sizes: Any,
    first: int,
    last: int,
) -> None:
    """Do the step of some units; then D[j] has length 1, and C[j] is multiplied by its length."""
    r = Y.shape[1]
    rate, correction1, correction2, noise, weight = sizes
    kind = Y.dtype.type
    a, b, tiny = kind(FIRST_MOMENT), kind(SECOND_MOMENT), kind(1e-8)
    gradients = np.empty((2, r), Y.dtype)
    for j in range(first, last):
        ridge = noise * (starts[j + 1] - starts[j])
        for q in range(r):
            gradients[0, q] = ridge * weights[0, j, q]
            gradients[1, q] = 0
        for k in range(starts[j], starts[j + 1]):
            y, residual, g, s = Y[rows[k]], R[rows[k]], back[k], values[k]
            for q in range(r):
                gradients[0, q] -= g * y[q]
                gradients[1, q] -= s * residual[q]
        length = kind(0)
        for w in range(2):
            gradient, mean, square, row = gradients[w], means[w, j], squares[w, j], weights[w, j]
            length = kind(0)
            for q in range(r):
                mean[q] += a * (gradient[q] - mean[q])
                square[q] += b * (gradient[q] * gradient[q] - square[q])
                row[q] -= rate * mean[q] / correction1 / (np.sqrt(square[q] / correction2) + tiny)
                length += row[q] * row[q]
        length = np.sqrt(length) if length > 0 else kind(1)
        for w in range(2):
            row, average = weights[w, j], averages[w, j]
            scale = length if w == 0 else kind(1) / length
            for q in range(r):
                row[q] *= scale
                average[q] += weight * (row[q] - average[q])
