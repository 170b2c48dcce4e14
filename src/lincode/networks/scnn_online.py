"""Plain dictionary learning (η = 0) on a stream of batches, after Mairal et al. 2010.

A batch is learned by one U step and one sweep of the D step, from the statistics of all batches
with smaller weights for older rows. Without the encoder term nothing more is needed: the codes
depend on D only, and the energy of a batch before it is learned follows from its statistics. The
C step is done once, by ``final_training`` or ``batch_training``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lincode.core.code_step import CodeProblem
from lincode.core.dictionary_step import dictionary_residual, dictionary_step, dictionary_sweep
from lincode.core.encoder_step import choose_ridge, encoder_residual, encoder_step
from lincode.core.energy import CodeStats
from lincode.core.init import nonnegative_atoms
from lincode.core.stream_gram import StreamGram
from lincode.core.types import Array, Rows, row_squares
from lincode.exceptions import InvalidInputError
from lincode.networks.scnn import (
    MAX_CODE_STEPS,
    MAX_FINAL_SWEEPS,
    EnergyWeights,
    Momentum,
    Trained,
    replace_atoms,
)
from lincode.networks.scnn_minibatch import Stream, gram_after
from lincode.rows.batches import BatchRows
from lincode.rows.memory import MemoryRows

MIN_BATCH_SIZE = 512
"""A batch has this number of rows, or as many rows as units if that is more."""
FORGETTING = 12
"""The weight of a row is halved after a further fraction of 1/12 of the rows seen so far."""
CODE_TOL, FINAL_TOL = 3e-3, 1e-3
"""The tolerance of the codes of a batch, and of the codes for which the encoder is fitted."""


def online_batch_size(m: int) -> int:
    """Return the number of rows per batch for m units."""
    return max(MIN_BATCH_SIZE, m)


@dataclass(frozen=True)
class OnlineBatch:
    """A batch with its codes, and the statistics of earlier batches."""

    X: Rows
    U: Array
    past: CodeStats | None
    XtX: Array | StreamGram | None
    """The result of ``Stream.gram_before``, if it is kept"""


def learn_online(
    stream: Stream,
    X: Rows,
    weights: EnergyWeights,
    *,
    batch_size: int,
    half_life: float | None,
    n_threads: int,
    keep_gram: bool,
) -> tuple[Stream, OnlineBatch]:
    """Return the state after one more batch, and the last part of the batch.

    A batch of more than ``batch_size`` rows is learned in several parts, each of which has rows
    from the whole batch. The weight of a row is halved after ``half_life`` further rows. None means
    a twelfth of the rows seen so far, at least as many as there are units: the first dictionaries
    are forgotten quickly, and later ones average over more and more rows. XᵀX is summed if
    ``keep_gram``.
    """
    n_parts = -(-X.shape[0] // batch_size)
    learned, energy = stream, 0.0
    for k in range(n_parts):
        part = X[k::n_parts] if n_parts > 1 else X
        learned, last = _learn_part(learned, part, weights, half_life, n_threads, keep_gram)
        energy += part.shape[0] * learned.batch_energy
    learned = replace(learned, n_batches=stream.n_batches + 1, batch_energy=energy / X.shape[0])
    return learned, last


def _learn_part(
    stream: Stream,
    X: Rows,
    weights: EnergyWeights,
    half_life: float | None,
    n_threads: int,
    keep_gram: bool,
) -> tuple[Stream, OnlineBatch]:
    """Learn a part of a batch by one U step and one sweep of the D step."""
    n, m = X.shape[0], len(stream.D)
    D = stream.D
    if weights.positive_dict:
        D = nonnegative_atoms(D, signed=not weights.positive)
    if half_life is None:
        half_life = max(m, stream.n_seen / FORGETTING)
    decay = 0.5 ** (n / half_life)
    rows = MemoryRows(X, m, n_threads=n_threads)
    problem = _lasso(D, weights, rows)
    present = rows.update_codes(problem, tol=CODE_TOL, max_iter=MAX_CODE_STEPS)
    batch_energy = _lasso_energy(present, D, row_squares(X), weights.lam)
    if not np.isfinite(batch_energy):
        raise InvalidInputError(
            f"the energy is {batch_energy} after the codes step; scale X to moderate values, and"
            " choose alpha to match."
        )
    past = None if stream.stats is None else stream.stats.weighted(decay)
    stats = present if past is None else past + present
    D = dictionary_sweep(D, stats, positive=weights.positive_dict)
    # Atoms with a total weight below half a row count as unused.
    unused = np.flatnonzero(stats.used < 0.5)
    if unused.size:
        D, unused = replace_atoms(D, unused, rows, weights)
        stats, past = stats.without(unused), past and past.without(unused)
    before = stream.gram_before(X, decay) if keep_gram else None
    learned = stream.after_batch(
        X,
        D=D,
        stats=stats,
        XtX=None if before is None else gram_after(before, X, m),
        momentum=Momentum(D, stream.C),
        n_replaced=stream.n_replaced + len(unused),
        batch_energy=batch_energy / n,
    )
    return learned, OnlineBatch(X, rows.U, past, before)


def batch_training(
    stream: Stream, batch: OnlineBatch, weights: EnergyWeights, *, n_threads: int
) -> tuple[Stream, BatchRows, Trained]:
    """Fit the encoder to the sums over the stream, whose last batch is given."""
    assert batch.XtX is not None
    rows = BatchRows(
        batch.X,
        len(stream.D),
        batch.past,
        batch.XtX,
        precision=stream.precision,
        n_threads=n_threads,
    )
    rows.restore_codes(batch.U)
    assert stream.stats is not None
    fitted, trained = _fit_encoder(stream, rows, stream.stats, weights)
    return fitted, rows, trained


def final_training(
    stream: Stream, X: Rows, weights: EnergyWeights, *, n_threads: int
) -> tuple[Stream, BatchRows, Trained]:
    """Fit the encoder to the codes of a random sample X for the present dictionary.

    The sums over the stream are replaced by those of X, whose codes are newer, with the same
    weight. If X has at least this weight, the dictionary is also computed from them.
    """
    assert stream.stats is not None
    XtX = Stream(stream.D, stream.C).gram_before(X, 1.0)
    rows = BatchRows(X, len(stream.D), None, XtX, precision=stream.precision, n_threads=n_threads)
    problem = _lasso(stream.D, weights, rows)
    stats = rows.update_codes(problem, tol=FINAL_TOL, max_iter=MAX_CODE_STEPS)
    weight = stream.stats.n / X.shape[0]
    if weight <= 1:
        D, _ = dictionary_step(
            stream.D,
            stats,
            tol=FINAL_TOL,
            max_sweeps=MAX_FINAL_SWEEPS,
            positive=weights.positive_dict,
        )
        stream = replace(stream, D=D)
    fitted, trained = _fit_encoder(stream, rows, stats, weights)
    XtX = gram_after(XtX, X, len(stream.D))
    XtX = XtX.weighted(weight) if isinstance(XtX, StreamGram) else weight * XtX
    return replace(fitted, stats=stats.weighted(weight), XtX=XtX), rows, trained


def _fit_encoder(
    stream: Stream, rows: BatchRows, stats: CodeStats, weights: EnergyWeights
) -> tuple[Stream, Trained]:
    """Do the C step for the given sums over rows, whose factor of XᵀX is that of ``rows``."""
    factor = rows.factor()
    ridge = stream.ridge if weights.ridge is None else weights.ridge
    if ridge is None:
        ridge = choose_ridge(stats.UtU, stats.UtX, stats.n, factor)
    factor = factor.with_ridge(ridge)
    D, C = stream.D, encoder_step(stats.UtX, factor)
    optimality = {
        "codes": stats.residual,
        "dictionary": dictionary_residual(D, stats, positive=weights.positive_dict),
        "encoder": encoder_residual(C, stats.UtU, stats.UtX, factor),
    }
    trained = Trained(D, C, optimality, stats, factor, ridge, stream.n_replaced)
    return replace(stream, C=C, momentum=Momentum(D, C), ridge=ridge), trained


def _lasso(D: Array, weights: EnergyWeights, rows: MemoryRows) -> CodeProblem:
    """Return the problem of the codes without the encoder."""
    return weights.code_problem(D, np.zeros_like(D), rows.dtype)


def _lasso_energy(stats: CodeStats, D: Array, squares: Array, lam: float) -> float:
    """Compute 1/p ‖X − U D‖² + 2λ/m ‖U‖₁ of rows with the given squared lengths."""
    m, p = D.shape
    total = float(np.sum(squares, dtype=np.float64))
    error = total - 2 * np.vdot(stats.UtX, D) + np.vdot(stats.UtU, D @ D.T)
    return float(max(error, 0.0) / p + 2 * lam / m * stats.l1)
