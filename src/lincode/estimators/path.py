"""SCNN for many λ at little more than the price of one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from lincode.core.encoder_step import factor_data
from lincode.core.types import Array
from lincode.estimators._checks import check_rows
from lincode.estimators.scnn import SCNN
from lincode.networks._alternate import Reason

SHARES = (0.9, 0.003)
"""The ends of the grid where none is given, as shares of alpha_max."""


def scnn_path(
    X: Any,
    n_components: int | None = None,
    *,
    alphas: ArrayLike | None = None,
    shares: ArrayLike | int = 10,
    **parameters: Any,
) -> list[SCNN]:
    """SCNN for each of several λ, each started from the one before.

    XᵀX is factored once, and the dictionary, the encoder and the codes of one λ are where the
    next begins, from the largest λ to the smallest.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
    n_components : int, default=None
        Number of units. None means the number of features.
    alphas : array-like of float, default=None
        The values of λ. None means that ``shares`` tells them.
    shares : int or array-like of float, default=10
        The values of λ as shares of ``SCNN.alpha_max(X)``, at or beyond which all codes are
        zero. A number of them means so many between 0.9 and 0.003, evenly spaced in
        their logarithm.
    **parameters
        Other parameters of :class:`lincode.SCNN`. A ``callback`` that asks to stop ends the
        path there.

    Returns
    -------
    list of SCNN
        A fitted one for each λ, in falling order of ``alpha``.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from lincode import scnn_path
    >>> X = load_digits().data[:300] / 16
    >>> path = scnn_path(X, n_components=16, shares=[0.01, 0.1], random_state=0)
    >>> sparsity = [float(1 - scnn.usage_.mean()) for scnn in path]
    >>> sparsity[0] > sparsity[1]
    True
    """
    if "alpha" in parameters:
        raise TypeError("scnn_path takes alphas or shares, not alpha.")
    first = SCNN(n_components, **parameters)
    data = check_rows(None, X, reset=False, scale=True)
    grid = alpha_grid(first.alpha_max(data), alphas, shares)
    start = first.set_params(alpha=float(grid[0]))._new_start(data)
    rows, D, C, factor = first._rows(data, start), start.D, start.C, factor_data(data)
    path = []
    for alpha in grid:
        scnn = SCNN(n_components, float(alpha), **parameters)
        scnn._check_parameters()
        validate_data(scnn, X, skip_check_array=True)
        trained, outcome = scnn._train(rows, D, C, factor)
        scnn._warn_of_training(outcome)
        D, C = trained.D, trained.C
        path.append(scnn)
        if outcome.reason is Reason.CALLBACK:
            break
    return path


def alpha_grid(most: float, alphas: ArrayLike | None, shares: ArrayLike | int) -> Array:
    """The values of λ, falling."""
    if alphas is not None:
        name, given = "alphas", np.asarray(alphas, dtype=np.float64)
    elif isinstance(shares, int | np.integer) and not isinstance(shares, bool):
        if shares < 1:
            raise ValueError(f"shares must be at least 1 value of alpha, got {shares}.")
        return np.geomspace(*SHARES, int(shares)) * most
    else:
        name, given = "shares", np.asarray(shares, dtype=np.float64)
    if given.ndim != 1 or not given.size or not (np.isfinite(given) & (given >= 0)).all():
        raise ValueError(
            f"{name} must be one or more finite numbers of at least 0 in a row, got"
            f" {alphas if alphas is not None else shares!r}."
        )
    return np.sort(given if alphas is not None else given * most)[::-1]
