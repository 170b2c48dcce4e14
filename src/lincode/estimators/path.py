"""SCNN for several values of alpha."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from lincode.core.energy import lam_max
from lincode.core.types import Array
from lincode.estimators.scnn import SCNN
from lincode.estimators.validation import check_scaled_rows
from lincode.exceptions import InvalidInputError
from lincode.networks.training import Reason
from lincode.rows.memory import MemoryRows
from lincode.rows.threads import blas_threads, matrix_threads, thread_count

RATIO_RANGE = (0.9, 0.003)
"""The ends of the default grid, as fractions of alpha_max."""


def scnn_path(
    X: Any,
    n_components: int | None = None,
    *,
    alphas: ArrayLike | None = None,
    alpha_ratios: ArrayLike | int = 10,
    **parameters: Any,
) -> list[SCNN]:
    """Fit SCNN for several values of alpha, from the largest to the smallest.

    XᵀX is factored once, and each network starts from the dictionary, the encoder and the codes of
    the one before. This is much faster than separate fits.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
        The training samples.
    n_components : int, default=None
        The number of units. None means the number of features.
    alphas : array-like of float, default=None
        The values of alpha. None means that ``alpha_ratios`` determines them.
    alpha_ratios : int or array-like of float, default=10
        The values of alpha as fractions of ``SCNN.alpha_max(X)``, the smallest alpha for which
        all codes are zero. An integer is a number of values between 0.9 and 0.003, evenly spaced
        on a logarithmic scale.
    **parameters
        Other parameters of :class:`lincode.SCNN`. If a ``callback`` requests a stop, the path
        ends there.

    Returns
    -------
    list of SCNN
        A fitted network for each alpha, in decreasing order of alpha.

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
    rows_X, lengths = check_scaled_rows(None, X, reset=False)
    m, p = first._n_units(rows_X.shape[1]), rows_X.shape[1]
    n_threads = thread_count(first.n_jobs)
    alphas = alpha_grid(lam_max(lengths.longest, m, p), alphas, alpha_ratios)
    path = []
    with blas_threads(matrix_threads(max(m, p), n_threads)):
        rows = MemoryRows(rows_X, m, n_threads=n_threads, lengths=lengths)
        first.alpha_ = float(alphas[0])
        start = first._start(rows, None)
        D, C = start.D, start.C
        for alpha in alphas:
            scnn = SCNN(n_components, float(alpha), **parameters)
            scnn.alpha_ = float(alpha)
            validate_data(scnn, X, skip_check_array=True)
            trained, outcome = scnn._train(rows, D, C)
            scnn._warn_about_training(outcome)
            D, C = trained.D, trained.C
            path.append(scnn)
            if outcome.reason is Reason.CALLBACK:
                break
    return path


def alpha_grid(alpha_max: float, alphas: ArrayLike | None, alpha_ratios: ArrayLike | int) -> Array:
    """Return the values of alpha in decreasing order."""
    name, given = ("alpha_ratios", alpha_ratios) if alphas is None else ("alphas", alphas)
    if alphas is None and isinstance(given, int | np.integer) and not isinstance(given, bool):
        if given < 1:
            raise InvalidInputError(f"alpha_ratios must be at least 1 value, got {given}.")
        return np.geomspace(*RATIO_RANGE, int(given)) * alpha_max
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.ndim != 1 or not values.size or not (np.isfinite(values) & (values >= 0)).all():
        raise InvalidInputError(
            f"{name} must be a sequence of finite numbers of at least 0, got {given!r}."
        )
    return np.sort(values * alpha_max if alphas is None else values)[::-1]
