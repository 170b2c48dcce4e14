"""SCNN for several values of alpha."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lincode.core.energy import lam_max
from lincode.estimators.scnn import MAX_ITERATIONS, SCNN
from lincode.estimators.validation import LARGEST, check_seed, number
from lincode.exceptions import InvalidInputError
from lincode.training.alternation import choose_ridge_for, train_in_stages
from lincode.training.threads import blas_threads, matrix_threads, thread_count

RATIO_RANGE = (0.9, 0.003)
"""The ends of the default grid, as fractions of alpha_max."""


def scnn_path(
    X: Any,
    n_components: int | None = None,
    *,
    alphas: ArrayLike | None = None,
    n_alphas: int = 10,
    **parameters: Any,
) -> list[SCNN]:
    """Fit SCNN for several values of alpha, from the largest to the smallest.

    The networks minimise the energy and are not refined (``refine=False``).
    XᵀX is factored once, and each network starts from the dictionary, the encoder and the codes of
    the one before, on all samples. This is much faster than separate fits. An automatic
    ``encoder_ridge`` is chosen for the initial dictionary, as in a separate fit.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
        The training samples. Missing entries are NaN.
    n_components : int, default=None
        The number of units. None means the number of features.
    alphas : array-like of float, default=None
        The values of alpha. None means ``n_alphas`` values between 0.9 and 0.003 times
        ``SCNN.alpha_max(X)``, evenly spaced on a logarithmic scale.
    n_alphas : int, default=10
        The number of values if ``alphas`` is None.
    **parameters
        Other parameters of :class:`lincode.SCNN`, except for ``refine``, ``callback`` and
        ``warm_start``.

    Returns
    -------
    list of SCNN
        A fitted network for each alpha, in decreasing order. Its ``alpha`` is a number.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from lincode import scnn_path
    >>> X = load_digits().data[:300] / 16
    >>> path = scnn_path(X, n_components=16, alphas=[0.01, 0.1], random_state=0)
    >>> [scnn.alpha for scnn in path]
    [0.1, 0.01]
    """
    for name in {"alpha", "refine", "callback", "warm_start"} & set(parameters):
        raise InvalidInputError(
            f"{name} is not a parameter of scnn_path; got {parameters[name]!r}."
        )
    number(1, 10_000, integer=True).check("n_alphas", n_alphas)
    first = SCNN(n_components, refine=False, **parameters)
    first._check_parameters()
    rows, rng = first._rows(X), check_seed(first.random_state)
    p = rows.shape[1]
    m = first._n_units(p)
    if alphas is None:
        alphas = np.geomspace(*RATIO_RANGE, n_alphas) * lam_max(rows.row_lengths().longest, m, p)
    values = np.atleast_1d(np.asarray(alphas)).tolist()
    for alpha in values:
        number(0, LARGEST).check("alpha", alpha)
    path: list[SCNN] = []
    with blas_threads(matrix_threads(max(m, p), thread_count(first.n_jobs))):
        start = first._first_weights(rows, rng)
        D, C = start.D, start.C
        for alpha in sorted(values, reverse=True):
            scnn = SCNN(n_components, alpha=alpha, refine=False, **parameters)
            first._copy_features(scnn).alpha_ = float(alpha)
            weights = scnn._weights()
            if weights.ridge is None:
                weights = replace(weights, ridge=choose_ridge_for(rows, start.D, weights))
            max_iter = scnn.max_iter or MAX_ITERATIONS
            training, outcome = train_in_stages(
                rows, D, C, weights, sizes=[], rng=rng, tol=scnn.tol, max_iter=max_iter
            )
            scnn._set_result(training, outcome)
            scnn._warn_about_training(outcome)
            D, C = training.D, training.C
            path.append(scnn)
    return path
