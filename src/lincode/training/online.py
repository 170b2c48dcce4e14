"""SCNN on a stream of batches, after the online dictionary learning of Mairal et al. 2010.

A batch is learned by one U step, one sweep of the D step and one C step, from the statistics of all
batches with smaller weights for older rows. The energy of a batch before it is learned follows from
its statistics. Without the encoder term (η = 0) the codes depend on D only, and the C step is left
out: the encoder is fitted once, by ``OnlineTraining.finish``. This is also so for wide rows, for
which XᵀX would be too large.

One update for each of many small batches is much faster than several iterations on each of a few
large ones, because a small batch shows nearly as well as all rows in which direction D and C have
to change. With the encoder, 1024 rows per batch and faster forgetting than for η = 0 were best on
digits, patches, spectra and activations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse

from lincode.core.arrays import Array, Rows, gram, row_squares, sample_indices, stack
from lincode.core.dictionary import (
    dictionary_residual,
    dictionary_step,
    dictionary_sweep,
    nonnegative_atoms,
)
from lincode.core.energy import CodeStats
from lincode.core.lasso import CodeProblem
from lincode.core.missing import SecondMoments
from lincode.core.ridge import (
    CholeskyFactor,
    DirectFactor,
    EncoderFactor,
    choose_ridge,
    encoder_residual,
    encoder_step,
    factor_gram,
    mean_diagonal,
)
from lincode.core.threshold import (
    Thresholding,
    encoder_output,
    matching_threshold,
    n_calibration_rows,
)
from lincode.exceptions import InvalidInputError
from lincode.training.alternation import (
    MAX_CODE_STEPS,
    MAX_FINAL_SWEEPS,
    EnergyWeights,
    Trained,
    choose_ridge_for,
    n_ridge_rows,
    replace_atoms,
)
from lincode.training.rows import MemoryRows, is_wide_stream
from lincode.training.threads import matrix_threads, ordered_map

MIN_BATCH_SIZE, ENCODER_MIN_BATCH_SIZE = 512, 1024
"""A batch has this number of rows without and with the encoder term, or as many rows as units if
that is more."""
FORGETTING, ENCODER_FORGETTING = 12, 24
"""The weight of a row is halved after this fraction, 1/12 or 1/24, of the rows seen so far, but not
before as many rows as units: the first weights are forgotten quickly, and later ones average over
more and more rows."""
CODE_TOL, ENCODER_CODE_TOL = 3e-3, 1e-2
"""The tolerance of the codes of a batch, without and with the encoder term."""
FINAL_TOL = 1e-3
"""The tolerance of the codes for which the encoder is fitted at the end."""
MIN_START_DENSITY = 0.1
"""Codes of a lower density are computed from zero. With 400 to 1536 units this takes 0.5 to 0.8 of
the time from the codes of the encoder, and with 87 non-zeros of 400 units twice the time."""
THRESHOLD_ROWS = 1000
"""The number of rows from which the threshold of the initial codes is computed."""
REPEATS = 5
"""How often ``partial_fit`` repeats the updates of the first batch and of large batches, because it
sees a batch only once. Repeated updates by small batches would overfit."""
RECENT_ROWS = 2000
"""The number of rows of a stream that are kept, because a batch may be too small to calibrate."""
MAX_SMOOTHING, SMOOTHING_ROWS = 0.5, 5000
"""The weight of the newest batch in the smoothed energy is its number of rows divided by 5000, at
most 0.5, but at least that of the other batches."""
WINDOW_ROWS, ENCODER_WINDOW_ROWS = 20_000, 5000
"""The stopping rule averages the energy over this many rows, or over one pass."""
MIN_ROWS, MIN_PASSES = 120_000, 3
"""With the encoder, training does not stop before there were this many rows or passes."""


def online_batch_size(m: int, p: int, eta: float) -> int:
    """Return the number of rows per batch for m units and p features.

    With the encoder term it is at least p/2, because the C step costs about p³/3 per batch.
    """
    return max(ENCODER_MIN_BATCH_SIZE, m, p // 2) if eta > 0 else max(MIN_BATCH_SIZE, m)


@dataclass
class OnlineTraining:
    """The state of a network between two batches, and the update by one more batch."""

    D: Array
    C: Array
    weights: EnergyWeights
    batch_size: int
    """A larger batch is learned in parts of this size"""
    n_threads: int
    ridge: float | None = None
    """The ridge ρ relative to the mean eigenvalue of XᵀX"""
    eigenvalue_ratio: float = 1.0
    """The mean eigenvalue of XᵀX relative to the mean of its diagonal"""
    stats: CodeStats | None = None
    """The weighted statistics of all rows seen"""
    XtX: Array | None = None
    """The weighted XᵀX of all rows seen, if it is needed"""
    recent: RecentRows | None = None
    """The last rows, which ``finish`` needs"""
    n_batches: int = 0
    n_seen: int = 0
    n_replaced: int = 0
    energy: float = np.nan
    """The smoothed energy per row"""
    energy_path: list[float] = field(default_factory=list)
    """The energy per row of each batch before it was learned"""

    @property
    def uses_encoder(self) -> bool:
        """Whether the encoder is part of every update."""
        return self.weights.eta > 0 and not is_wide_stream(self.D.shape[1])

    def choose_ridge(self, X: Rows, N: float) -> None:
        """Choose an automatic ridge from some of the rows X, which represent N rows.

        The ridge is relative to the mean eigenvalue of XᵀX that is not zero. During training it is
        relative to the mean of the diagonal instead, because the eigenvalues are not computed.
        Their ratio is 1 if all rows of a sample are independent, because the rank is then unknown.
        """
        if not self.uses_encoder:
            return
        sample = sample_indices(X.shape[0], n_ridge_rows(X.shape[1]))
        X = X if len(sample) == X.shape[0] else X[sample]
        rows = MemoryRows(X, len(self.D), n_threads=self.n_threads)
        self.ridge = self.weights.ridge
        if self.ridge is None:
            self.ridge = choose_ridge_for(rows, self.D, self.weights, N)
        n, factor = X.shape[0], rows.factor()
        rank = len(factor.s2) if isinstance(factor, DirectFactor) else n
        if rank == 0 or (rank == n and n < N):
            return
        norms = factor.column_norms
        self.eigenvalue_ratio = (
            factor.mean_eigenvalue * np.count_nonzero(norms) / float(np.sum(norms**2))
        )

    def moments(self) -> SecondMoments:
        """Return second moments of the rows seen so far, from which missing entries follow."""
        if self.XtX is None:
            return SecondMoments.of_factor(self.D)
        return SecondMoments(self.XtX, is_factor=False)

    def scale(self) -> float:
        """Return the root mean square of the largest feature so far, or of the largest code."""
        if self.stats is None:
            return 0.0
        squares = self.stats.UtU if self.XtX is None else self.XtX
        return float(np.sqrt(squares.diagonal().max() / self.stats.n))

    def learn(
        self, X: Rows, penalties: Array | None = None, *, keep_gram: bool = False
    ) -> MemoryRows:
        """Learn one more batch, and return its last part with its codes.

        A batch of more than ``batch_size`` rows is learned in several parts, each of which has rows
        from the whole batch. ``penalties`` are factors of λ for each row. XᵀX is summed if
        ``keep_gram``, and always with the encoder term.
        """
        energy = 0.0
        for rows in self._parts(X, penalties):
            energy += self._learn_part(rows, keep_gram=keep_gram)
        self.n_batches += 1
        self._add_energy(energy / X.shape[0], X.shape[0])
        if self.recent is not None:
            self.recent = self.recent.with_batch(X, penalties)
        return rows

    def _parts(self, X: Rows, penalties: Array | None) -> Iterator[MemoryRows]:
        """Yield parts of at most ``batch_size`` rows, each with rows from the whole batch."""
        n_parts = -(-X.shape[0] // self.batch_size)
        for k in range(n_parts):
            part = X[k::n_parts] if n_parts > 1 else X
            factors = None if penalties is None else penalties[k::n_parts]
            yield MemoryRows(part, len(self.D), n_threads=self.n_threads, penalties=factors)

    def _learn_part(self, rows: MemoryRows, *, keep_gram: bool) -> float:
        """Do one U step, one sweep of the D step and, with the encoder, one C step.

        Returns the energy of the rows before they are learned.
        """
        weights, D, m = self.weights, self.D, len(self.D)
        if weights.positive_dict:
            D = nonnegative_atoms(D, signed=not weights.positive)
        eta = weights.eta if self.uses_encoder else 0.0
        forgotten = ENCODER_FORGETTING if eta > 0 else FORGETTING
        decay = 0.5 ** (rows.shape[0] / max(m, self.n_seen / forgotten))
        batch_XtX = batch_gram(rows.X) if eta > 0 or keep_gram else None
        present, energy = self._update_codes(rows, D, eta, batch_XtX)
        stats = present if self.stats is None else self.stats.weighted(decay) + present
        C, XtX = self.C, batch_XtX
        if XtX is not None and self.XtX is not None:
            XtX = XtX + decay * self.XtX
        sweep = partial(
            dictionary_sweep, D, stats, positive=weights.positive_dict, dtype=rows.dtype
        )
        if eta > 0:
            assert XtX is not None
            assert self.ridge is not None
            ridge = self.eigenvalue_ratio * self.ridge
            D, factor = self._in_parallel(sweep, partial(CholeskyFactor.of, XtX, ridge, rows.dtype))
            halves = (partial(factor.solve, half) for half in np.array_split(stats.UtX, 2))
            C = np.concatenate(self._in_parallel(*halves))
        else:
            D = sweep()
        # Atoms with a total weight below half a row count as unused.
        unused = np.flatnonzero(stats.used < 0.5)
        if unused.size:
            D, unused = replace_atoms(D, unused, rows, weights)
            stats = stats.without(unused)
        if eta > 0:
            C[unused] = 0
        self.D, self.C, self.stats, self.XtX = D, C, stats, XtX
        self.n_seen += rows.shape[0]
        self.n_replaced += len(unused)
        return energy

    def _update_codes(
        self, rows: MemoryRows, D: Array, eta: float, XtX: Array | None
    ) -> tuple[CodeStats, float]:
        """Do the U step; return the statistics of the codes and the energy of the rows.

        XtX is that of the rows if η > 0.
        """
        weights = replace(self.weights, eta=eta)
        C = self.C if eta > 0 else np.zeros_like(D)
        problem, _ = self._in_parallel(
            partial(weights.code_problem, D, C, rows.dtype),
            partial(self._set_initial_codes, rows, eta),
        )
        tol = ENCODER_CODE_TOL if eta > 0 else CODE_TOL
        present = rows.update_codes(problem, tol=tol, max_iter=MAX_CODE_STEPS)
        energy = _lasso_energy(present, D, problem, row_squares(rows.X))
        if eta > 0 and XtX is not None:
            energy += eta / len(D) * self._encoder_error(present, XtX)
        if not np.isfinite(energy):
            raise InvalidInputError(
                f"the energy is {energy} after the codes step; scale X to moderate values, and"
                " choose alpha to match."
            )
        return present, energy

    def _set_initial_codes(self, rows: MemoryRows, eta: float) -> None:
        """Set the codes to those of the encoder, with the density of the codes seen so far.

        If this density is low, they are zero: the active-set method adds units in less time than
        it replaces those that are not needed.
        """
        if eta == 0 or self.stats is None or not self.C.any():
            return  # the codes are zero
        density, positive = float(self.stats.used.mean()) / self.stats.n, self.weights.positive
        if density < MIN_START_DENSITY:
            return
        Z = encoder_output(rows.X, self.C.astype(rows.dtype))
        threshold = matching_threshold(Z[:THRESHOLD_ROWS], density, positive=positive)
        rows.U[...] = Thresholding("soft", threshold, positive=positive).apply(Z)

    def _in_parallel(self, *tasks: Callable[[], Any]) -> list[Any]:
        """Return the results of independent functions, which run in separate threads.

        Each uses one BLAS thread. If their matrices are large, they run one after the other with
        all BLAS threads.
        """
        if matrix_threads(max(self.D.shape), self.n_threads) > 1:
            return [task() for task in tasks]
        return list(ordered_map(lambda task: task(), tasks, self.n_threads))

    def _encoder_error(self, stats: CodeStats, XtX: Array) -> float:
        """Compute ‖U − X Cᵀ‖² + n ρ/N ‖C‖² of n rows, where ρ/N is that of the rows before."""
        squares = float(np.vdot(self.C @ XtX, self.C))
        error = float(np.trace(stats.UtU)) - 2 * float(np.vdot(stats.UtX, self.C)) + squares
        if self.stats is None or self.XtX is None:
            return max(error, 0.0)
        assert self.ridge is not None
        ridge = self.eigenvalue_ratio * self.ridge * mean_diagonal(self.XtX) / self.stats.n
        return max(error, 0.0) + stats.n * ridge * float(np.sum(self.C**2))

    def _add_energy(self, energy: float, n: int) -> None:
        """Add the energy per row of a batch of n rows to the energies."""
        smoothed = energy
        # The first batch is measured with an untrained network and does not enter the average.
        if self.n_batches > 2:
            weight = max(min(MAX_SMOOTHING, n / SMOOTHING_ROWS), 1 / (self.n_batches - 1))
            smoothed = self.energy + weight * (energy - self.energy)
        self.energy = float(smoothed)
        self.energy_path.append(float(energy))

    def copied(self) -> OnlineTraining:
        """Return a copy that further batches do not change."""
        return replace(self, energy_path=list(self.energy_path))

    def change(self) -> float:
        """Return the relative change of the energy between the last two batches."""
        if len(self.energy_path) < 2:
            return 1.0
        before, energy = self.energy_path[-2:]
        return abs(before - energy) / before if before > 0 else 1.0

    def finish(self) -> tuple[MemoryRows, Trained]:
        """Fit the encoder to the codes of the recent rows for the present dictionary and encoder.

        The sums over the stream are replaced by those of these rows, whose codes are newer, with
        the same weight. If the rows have at least this weight, the dictionary is also computed from
        them.
        """
        assert self.recent is not None
        X, penalties = self.recent.rows()
        assert self.stats is not None
        rows = MemoryRows(X, len(self.D), n_threads=self.n_threads, penalties=penalties)
        eta = self.weights.eta if self.uses_encoder else 0.0
        self._set_initial_codes(rows, eta)
        C = self.C if eta > 0 else np.zeros_like(self.C)
        problem = replace(self.weights, eta=eta).code_problem(self.D, C, rows.dtype)
        stats = rows.update_codes(problem, tol=FINAL_TOL, max_iter=MAX_CODE_STEPS)
        weight, positive = self.stats.n / X.shape[0], self.weights.positive_dict
        if weight <= 1:
            self.D, _ = dictionary_step(
                self.D, stats, tol=FINAL_TOL, max_sweeps=MAX_FINAL_SWEEPS, positive=positive
            )
        trained = self._fit_encoder(stats, rows.factor())
        if not is_wide_stream(X.shape[1]):
            self.XtX = weight * gram(rows.X)
        self.stats = stats.weighted(weight)
        return rows, trained

    def learn_and_finish(
        self, X: Rows, penalties: Array | None = None
    ) -> tuple[MemoryRows, Trained]:
        """Learn one more batch, and fit the encoder to the sums over the stream.

        If XᵀX would be too large, the encoder is fitted to the recent rows.
        """
        wide, n_seen = is_wide_stream(X.shape[1]), self.n_seen
        if self.recent is None:
            self.recent = RecentRows(n_calibration_rows(len(self.D)) if wide else RECENT_ROWS)
        rows = self.learn(X, penalties, keep_gram=not wide)
        repeats = REPEATS if n_seen == 0 or X.shape[0] >= self.batch_size else 1
        for _ in range(repeats - 1):
            for part in self._parts(X, penalties):
                self._learn_part(part, keep_gram=not wide)
                rows = part
        self.n_seen = n_seen + X.shape[0]
        if wide:
            return self.finish()
        assert self.stats is not None
        assert self.XtX is not None
        return rows, self._fit_encoder(self.stats, factor_gram(self.XtX, rows.dtype))

    def _fit_encoder(self, stats: CodeStats, factor: EncoderFactor) -> Trained:
        """Do the C step for the given sums over rows."""
        ridge = self.ridge if self.weights.ridge is None else self.weights.ridge
        if ridge is None:
            ridge = choose_ridge(stats.UtU, stats.UtX, stats.n, factor)
        factor = factor.with_ridge(ridge)
        self.C, self.ridge = encoder_step(stats.UtX, factor), ridge
        optimality = {
            "codes": stats.residual,
            "dictionary": dictionary_residual(self.D, stats, positive=self.weights.positive_dict),
            "encoder": encoder_residual(self.C, stats.UtU, stats.UtX, factor),
        }
        return Trained(self.D, self.C, optimality, stats, factor, ridge, self.n_replaced)


def batch_gram(X: Rows) -> Array:
    """Return XᵀX in float64. It has the precision of X, as UᵀX has."""
    product = X.T @ X
    return np.asarray(product.toarray() if issparse(product) else product, dtype=np.float64)


def _lasso_energy(stats: CodeStats, D: Array, problem: CodeProblem, squares: Array) -> float:
    """Compute 1/p ‖X − U D‖² + 2τ ‖U‖₁ of rows with the given squared lengths.

    D Dᵀ/p is the Hessian H of the problem without η/m on its diagonal.
    """
    p = D.shape[1]
    total = float(np.sum(squares, dtype=np.float64))
    quadratic = np.vdot(stats.UtU, problem.H) - problem.mu * np.trace(stats.UtU)
    error = (total - 2 * np.vdot(stats.UtX, D)) / p + quadratic
    return float(max(error, 0.0) + 2 * problem.tau * stats.l1)


@dataclass(frozen=True)
class RecentRows:
    """The last batches of a stream, with about ``limit`` rows, and their penalties."""

    limit: int
    batches: tuple[tuple[Rows, Array | None], ...] = ()

    def with_batch(self, X: Rows, penalties: Array | None = None) -> RecentRows:
        """Return the rows with one more batch, without the oldest ones that are not needed."""
        batches = (*self.batches, (X, penalties))
        while sum(X.shape[0] for X, _ in batches[1:]) >= self.limit:
            batches = batches[1:]
        return RecentRows(self.limit, batches)

    def rows(self) -> tuple[Rows, Array | None]:
        """Return the rows as one matrix, and their penalties."""
        X = stack([X for X, _ in self.batches])
        if all(penalties is None for _, penalties in self.batches):
            return X, None
        return X, np.concatenate([np.ones(X.shape[0]) if f is None else f for X, f in self.batches])


class BatchStopping:
    """The stopping rule of training on batches: the energy of new batches no longer decreases.

    The energy of a batch before it is learned is divided by the energy of zero codes, ‖X‖²/p. This
    ratio varies much less between batches than the energy. It is averaged over windows of batches,
    and training stops if the average has not decreased by the fraction ``tol`` for ``patience``
    windows. ``patience=None`` means that training never stops.
    """

    def __init__(self, tol: float, patience: int | None, N: int, eta: float) -> None:
        self.tol, self.patience = tol, patience
        self.window = min(ENCODER_WINDOW_ROWS if eta > 0 else WINDOW_ROWS, N)
        self.min_rows = min(MIN_ROWS, MIN_PASSES * N) if eta > 0 else 0
        self.n_seen, self.n_failures, self.best = 0, 0, np.inf
        self.n = self.energy = self.scale = 0.0

    def add(self, X: Rows, energy: float) -> bool:
        """Add a batch with the given mean energy per row; return whether training stops."""
        n, p = X.shape
        is_first = self.n_seen == 0
        self.n += n
        self.n_seen += n
        if is_first:  # it is measured with an untrained network, so only its rows count
            return False
        self.energy += n * energy
        self.scale += float(np.sum(row_squares(X))) / p
        if self.n < self.window:
            return False
        ratio = self.energy / self.scale if self.scale > 0 else 0.0
        improved = ratio < self.best * (1 - self.tol)
        self.n_failures = 0 if improved else self.n_failures + 1
        self.best = ratio if improved else self.best
        self.n = self.energy = self.scale = 0.0
        enough = self.n_seen >= self.min_rows
        return self.patience is not None and enough and self.n_failures >= self.patience
