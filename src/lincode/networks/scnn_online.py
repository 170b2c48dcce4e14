"""SCNN on a stream of small batches, after the online dictionary learning of Mairal et al. 2010.

A batch is learned by one U step, one sweep of the D step and one C step, from the statistics of all
batches with smaller weights for older rows. The energy of a batch before it is learned follows from
its statistics. Without the encoder term (η = 0) the codes depend on D only, and the C step is left
out: the encoder is fitted once, by ``final_training`` or ``batch_training``.

One iteration on many small batches is much faster than several iterations on each of a few large
ones (``scnn_minibatch.py``), because a small batch shows nearly as well as all rows in which
direction D and C have to change. With the encoder, 1024 rows per batch and faster forgetting than
for η = 0 were best on digits, patches, spectra and activations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse

from lincode.core.calibration import matching_threshold
from lincode.core.code_step import CodeProblem
from lincode.core.dictionary_step import dictionary_residual, dictionary_step, dictionary_sweep
from lincode.core.encoder_step import (
    CholeskyFactor,
    DirectFactor,
    Thresholding,
    choose_ridge,
    encoder_output,
    encoder_residual,
    encoder_step,
    mean_diagonal,
)
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
    choose_ridge_for,
    replace_atoms,
)
from lincode.networks.scnn_minibatch import Stream, gram_after
from lincode.rows.batches import BatchRows
from lincode.rows.memory import MemoryRows
from lincode.rows.threads import matrix_threads, ordered_map

MIN_BATCH_SIZE, ENCODER_MIN_BATCH_SIZE = 512, 1024
"""A batch has this number of rows without and with the encoder term, or as many rows as units if
that is more."""
FORGETTING, ENCODER_FORGETTING = 12, 24
"""The weight of a row is halved after this fraction, 1/12 or 1/24, of the rows seen so far."""
CODE_TOL, ENCODER_CODE_TOL = 3e-3, 1e-2
"""The tolerance of the codes of a batch, without and with the encoder term."""
FINAL_TOL = 1e-3
"""The tolerance of the codes for which the encoder is fitted at the end."""
THRESHOLD_ROWS = 1000
"""The number of rows from which the threshold of the initial codes is computed."""


def online_batch_size(m: int, p: int, eta: float) -> int:
    """Return the number of rows per batch for m units and p features.

    With the encoder term it is at least p/2, because the C step costs about p³/3 per batch.
    """
    return max(ENCODER_MIN_BATCH_SIZE, m, p // 2) if eta > 0 else max(MIN_BATCH_SIZE, m)


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
    a fraction of the rows seen so far, at least as many as there are units: the first weights are
    forgotten quickly, and later ones average over more and more rows. XᵀX is summed if
    ``keep_gram``, and always with the encoder term. The ridge is relative to the mean of the
    diagonal of XᵀX here (see ``with_ridge``).
    """
    n_parts = -(-X.shape[0] // batch_size)
    learned, energy = stream, 0.0
    keep_gram = keep_gram or weights.eta > 0
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
    """Learn a part of a batch by one U step, one sweep of the D step and, if η > 0, one C step."""
    n, m = X.shape[0], len(stream.D)
    D, eta = stream.D, weights.eta
    if weights.positive_dict:
        D = nonnegative_atoms(D, signed=not weights.positive)
    if half_life is None:
        half_life = max(m, stream.n_seen / (ENCODER_FORGETTING if eta > 0 else FORGETTING))
    decay = 0.5 ** (n / half_life)
    rows = MemoryRows(X, m, n_threads=n_threads)
    C = stream.C if eta > 0 else np.zeros_like(D)
    problem, Z_squared = _in_parallel(
        partial(weights.code_problem, D, C, rows.dtype),
        partial(_set_initial_codes, rows, stream, weights),
        size=max(D.shape),
        n_threads=n_threads,
    )
    tol = ENCODER_CODE_TOL if eta > 0 else CODE_TOL
    present = rows.update_codes(problem, tol=tol, max_iter=MAX_CODE_STEPS)
    batch_energy = _lasso_energy(present, D, problem, row_squares(X))
    if eta > 0:
        batch_energy += eta / m * _encoder_error(present, stream, Z_squared, weights)
    if not np.isfinite(batch_energy):
        raise InvalidInputError(
            f"the energy is {batch_energy} after the codes step; scale X to moderate values, and"
            " choose alpha to match."
        )
    past = None if stream.stats is None else stream.stats.weighted(decay)
    stats = present if past is None else past + present
    before: Array | StreamGram | None = None
    sweep = partial(dictionary_sweep, D, stats, positive=weights.positive_dict)
    C = stream.C
    if eta > 0:
        total = partial(_factored_gram, stream, X, _ridge_ratio(stream, weights), decay)
        D, (before, factor) = _in_parallel(sweep, total, size=max(D.shape), n_threads=n_threads)
        halves = (partial(factor.solve, half) for half in np.array_split(stats.UtX, 2))
        C = np.concatenate(_in_parallel(*halves, size=max(D.shape), n_threads=n_threads))
    else:
        D = sweep()
        before = stream.gram_before(X, decay) if keep_gram else None
    # Atoms with a total weight below half a row count as unused.
    unused = np.flatnonzero(stats.used < 0.5)
    if unused.size:
        D, unused = replace_atoms(D, unused, rows, weights)
        stats, past = stats.without(unused), past and past.without(unused)
    if eta > 0:
        C[unused] = 0
    XtX = None if before is None else gram_after(before, X, m)
    learned = stream.after_batch(
        X,
        D=D,
        C=C,
        stats=stats,
        XtX=XtX,
        momentum=Momentum(D, C),
        n_replaced=stream.n_replaced + len(unused),
        batch_energy=batch_energy / n,
    )
    return learned, OnlineBatch(X, rows.U, past, before)


def _set_initial_codes(rows: MemoryRows, stream: Stream, weights: EnergyWeights) -> float:
    """Set the codes to those of the encoder, with the density of the codes seen so far.

    Returns the squared norm of the encoder's outputs, ‖X Cᵀ‖².
    """
    if weights.eta == 0 or stream.stats is None or not stream.C.any():
        return 0.0  # the codes are zero
    Z = encoder_output(rows.X, stream.C.astype(rows.dtype))
    squared = float(np.sum(row_squares(Z), dtype=np.float64))
    density = float(stream.stats.used.mean()) / stream.stats.n
    threshold = matching_threshold(Z[:THRESHOLD_ROWS], density, positive=weights.positive)
    rows.restore_codes(Thresholding("soft", threshold, positive=weights.positive).apply(Z))
    return squared


def _in_parallel(*tasks: Callable[[], Any], size: int, n_threads: int) -> list[Any]:
    """Return the results of independent functions, which run in separate threads.

    Each uses one BLAS thread. If their matrices are large, they run one after the other with all
    BLAS threads.
    """
    if matrix_threads(size, n_threads) > 1:
        return [task() for task in tasks]
    return list(ordered_map(lambda task: task(), tasks, n_threads))


def _factored_gram(
    stream: Stream, X: Rows, ratio: float, decay: float
) -> tuple[Array, CholeskyFactor]:
    """Return XᵀX with the rows X, and its factor for the C step.

    XᵀX of a batch has the precision of X, as UᵀX has.
    """
    product = X.T @ X
    XtX = np.asarray(product.toarray() if issparse(product) else product, dtype=np.float64)
    if stream.XtX is not None:
        assert isinstance(stream.XtX, np.ndarray)
        XtX = XtX + decay * stream.XtX
    return XtX, CholeskyFactor.of(XtX, ratio, X.dtype)


def _ridge_ratio(stream: Stream, weights: EnergyWeights) -> float:
    """Return the ridge that is given or was chosen."""
    ridge = stream.ridge if weights.ridge is None else weights.ridge
    assert ridge is not None
    return ridge


def _encoder_error(
    stats: CodeStats, stream: Stream, Z_squared: float, weights: EnergyWeights
) -> float:
    """Compute ‖U − X Cᵀ‖² + n ρ/N ‖C‖² of n rows, where ρ/N is that of the rows seen before."""
    C = stream.C
    error = float(np.trace(stats.UtU)) - 2 * float(np.vdot(stats.UtX, C)) + Z_squared
    if stream.stats is None or stream.XtX is None:
        return max(error, 0.0)
    assert isinstance(stream.XtX, np.ndarray)
    ridge = _ridge_ratio(stream, weights) * mean_diagonal(stream.XtX) / stream.stats.n
    return max(error, 0.0) + stats.n * ridge * float(np.sum(C**2))


def with_ridge(
    stream: Stream, X: Rows, weights: EnergyWeights, N: float, *, n_threads: int
) -> tuple[Stream, float]:
    """Return the stream with a ridge that is chosen from a sample X of N rows, if none is given.

    The ridge is relative to the mean eigenvalue of XᵀX that is not zero. During training it is
    relative to the mean of the diagonal instead, because the eigenvalues are not computed. The
    second result is the ratio of the two means for X. It is 1 if all rows of a sample are
    independent, because the rank of XᵀX is then unknown.
    """
    n = X.shape[0]
    rows = MemoryRows(X, len(stream.D), n_threads=n_threads)
    if weights.ridge is None and stream.ridge is None:
        ridge = choose_ridge_for(rows, stream.D, weights, N if np.isfinite(N) else n)
        stream = replace(stream, ridge=ridge)
    factor = rows.factor()
    rank = len(factor.s2) if isinstance(factor, DirectFactor) else n
    if rank == 0 or (rank == n and n < N):
        return stream, 1.0
    norms = factor.column_norms
    return stream, factor.mean_eigenvalue * np.count_nonzero(norms) / float(np.sum(norms**2))


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
    """Fit the encoder to the codes of a random sample X for the present dictionary and encoder.

    The sums over the stream are replaced by those of X, whose codes are newer, with the same
    weight. If X has at least this weight, the dictionary is also computed from them.
    """
    assert stream.stats is not None
    XtX = Stream(stream.D, stream.C).gram_before(X, 1.0)
    rows = BatchRows(X, len(stream.D), None, XtX, precision=stream.precision, n_threads=n_threads)
    _set_initial_codes(rows, stream, weights)
    C = stream.C if weights.eta > 0 else np.zeros_like(stream.C)
    problem = weights.code_problem(stream.D, C, rows.dtype)
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


def _lasso_energy(stats: CodeStats, D: Array, problem: CodeProblem, squares: Array) -> float:
    """Compute 1/p ‖X − U D‖² + 2τ ‖U‖₁ of rows with the given squared lengths.

    D Dᵀ/p is the Hessian H of the problem without η/m on its diagonal.
    """
    p = D.shape[1]
    total = float(np.sum(squares, dtype=np.float64))
    quadratic = np.vdot(stats.UtU, problem.H) - problem.mu * np.trace(stats.UtU)
    error = (total - 2 * np.vdot(stats.UtX, D)) / p + quadratic
    return float(max(error, 0.0) + 2 * problem.tau * stats.l1)
