"""SCNN for several values of alpha."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from lincode.core.energy import lam_max
from lincode.core.types import LARGEST, Array
from lincode.estimators.parameters import resolve_alpha
from lincode.estimators.samples import check_samples
from lincode.estimators.scnn import SCNN
from lincode.estimators.user_warnings import warn_user
from lincode.estimators.validation import check_number, check_seed
from lincode.exceptions import InvalidInputError
from lincode.networks.training import Reason
from lincode.rows.memory import MemoryRows
from lincode.rows.protocol import RowLengths
from lincode.rows.threads import blas_threads, matrix_threads, thread_count

N_RATIOS, MAX_RATIOS = 10, 10_000
"""The number of values of the default grid, and the largest one."""
RATIO_RANGE = (0.9, 0.003)
"""The ends of the default grid, as fractions of alpha_max."""
KINDS = {
    "alphas": "finite numbers of at least 0 or strings such as '0.1*max' or '0.5*mean'",
    "alpha_ratios": "finite numbers of at least 0",
}
"""What the sequences may contain."""


def scnn_path(
    X: Any,
    n_components: int | None = None,
    *,
    alphas: ArrayLike | None = None,
    alpha_ratios: ArrayLike | int = N_RATIOS,
    sample_weight: Any = None,
    **parameters: Any,
) -> list[SCNN]:
    """Fit SCNN for several values of alpha, from the largest to the smallest.

    XᵀX is factored once, and each network starts from the dictionary, the encoder and the codes of
    the one before, on all samples. This is much faster than separate fits. An automatic
    ``encoder_ridge`` is chosen for the initial dictionary, as in a separate fit.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
        The training samples. Missing entries are NaN.
    n_components : int, default=None
        The number of units. None means the number of features.
    alphas : array-like of float or str, default=None
        The values of alpha, as numbers or relative to X, such as ``"0.1*max"`` and ``"mean"``. None
        means that ``alpha_ratios`` determines them.
    alpha_ratios : int or array-like of float, default=10
        The values of alpha as fractions of ``SCNN.alpha_max(X)``, the smallest alpha for which
        all codes are zero. An integer is a number of values between 0.9 and 0.003, evenly spaced
        on a logarithmic scale.
    sample_weight : array-like of shape (n_samples,), default=None
        The weights of the samples; see ``SCNN.fit``.
    **parameters
        Other parameters of :class:`lincode.SCNN`. If a ``callback`` requests a stop, the path
        ends there.

    Returns
    -------
    list of SCNN
        A fitted network for each alpha, in decreasing order. Its ``alpha`` is a number.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from lincode import scnn_path
    >>> X = load_digits().data[:300] / 16
    >>> path = scnn_path(X, n_components=16, alpha_ratios=[0.01, 0.1], random_state=0)
    >>> sparsity = [float(1 - scnn.usage_.mean()) for scnn in path]
    >>> sparsity[0] > sparsity[1]
    True
    """
    if "alpha" in parameters:
        raise InvalidInputError("scnn_path takes alphas or alpha_ratios instead of alpha.")
    first = SCNN(n_components, **parameters)
    first._check_parameters()
    samples = check_samples(None, X, sample_weight, reset=False)
    first._check_solver(samples)
    lengths, p = samples.lengths, samples.X.shape[1]
    m = first._n_units(p)
    n_threads = thread_count(first.n_jobs)
    values = alpha_grid(alphas, alpha_ratios, lengths, m=m, p=p)
    path = []
    with blas_threads(matrix_threads(max(m, p), n_threads)):
        rows_X, missing = samples.filled()
        rows = MemoryRows(
            rows_X,
            m,
            n_threads=n_threads,
            lengths=lengths,
            weights=samples.weights,
            missing=missing,
        )
        first.alpha_ = float(values[0])
        rng = check_seed(first.random_state)
        start = first._start(rows, None, rng)
        D, C = start.D, start.C
        for alpha in values:
            scnn = SCNN(n_components, float(alpha), **parameters)
            scnn.alpha_ = float(alpha)
            validate_data(scnn, X, skip_check_array=True)
            weights = scnn._path_weights(rows, start.D)
            trained, outcome = scnn._train(rows, D, C, [], rng, weights)
            scnn._warn_about_training(outcome)
            D, C = trained.D, trained.C
            path.append(scnn)
            if outcome.reason is Reason.CALLBACK:
                break
    for scnn in path:
        for message in scnn._refine(rows_X):
            warn_user(f"{message} This network has alpha={scnn.alpha_:.3g}.")
    return path


def alpha_grid(
    alphas: ArrayLike | None,
    alpha_ratios: ArrayLike | int,
    lengths: RowLengths,
    *,
    m: int,
    p: int,
) -> Array:
    """Return the values of alpha in decreasing order, for data with the given row lengths."""
    if alphas is not None:
        if not (isinstance(alpha_ratios, int) and alpha_ratios == N_RATIOS):
            raise InvalidInputError(
                "alphas and alpha_ratios exclude each other, because both are the values of alpha;"
                f" got alphas={alphas!r} and alpha_ratios={alpha_ratios!r}. Leave one of them out."
            )
        values = _converted("alphas", alphas, lambda alpha: resolve_alpha(alpha, lengths, m, p))
        return np.sort(values)[::-1]
    if isinstance(alpha_ratios, int | np.integer) and not isinstance(alpha_ratios, bool):
        if not 1 <= alpha_ratios <= MAX_RATIOS:
            raise InvalidInputError(
                f"alpha_ratios must be a number of values from 1 to {MAX_RATIOS} or a sequence, got"
                f" {reprlib.repr(alpha_ratios)}."
            )
        ratios: Array = np.geomspace(*RATIO_RANGE, int(alpha_ratios))
    else:
        ratios = _converted("alpha_ratios", alpha_ratios, _ratio)
    largest = lam_max(lengths.longest, m, p)
    if largest > 0 and ratios.max() > LARGEST / largest:
        raise InvalidInputError(
            f"alpha_ratios must be at most {LARGEST / largest:.0e} for these data, got"
            f" {ratios.max():g}; all codes are zero from the ratio 1 on."
        )
    return np.sort(ratios * largest)[::-1]


def _converted(name: str, given: Any, convert: Callable[[Any], float]) -> Array:
    """Return the converted entries of a sequence that is not empty."""
    must = f"{name} must be a sequence of {KINDS[name]}"
    try:
        entries = [] if isinstance(given, str | bytes) else list(given)
    except TypeError:
        entries = []
    if not entries:
        raise InvalidInputError(f"{must}, got {given!r}.")
    values = []
    for entry in entries:
        try:
            values.append(convert(entry))
        except InvalidInputError as error:
            raise InvalidInputError(f"{must}, got the entry {entry!r}.") from error
    return np.array(values)


def _ratio(ratio: Any) -> float:
    check_number("alpha_ratios", ratio, 0)
    return float(ratio)
