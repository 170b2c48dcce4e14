"""The samples that use an atom most, and the features with its largest entries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.utils import Bunch

from lincode.exceptions import InvalidInputError
from lincode.inspection.checks import (
    Floats,
    check_indices,
    check_names,
    check_network,
    named_matrix,
)

SIGNS = ("both", "positive", "negative")


def top_samples(
    codes: Any,
    n_samples: int = 10,
    *,
    atoms: ArrayLike | int | None = None,
    sign: str = "both",
) -> Bunch:
    """Return the samples that use each atom most.

    Parameters
    ----------
    codes : array-like, data frame or CSR matrix of shape (n_samples, n_atoms)
        The codes, as returned by ``transform``. With ``split_sign=True`` each column counts as an
        atom of its own.
    n_samples : int, default=10
        The largest number of samples per atom. An atom that fewer samples use has fewer.
    atoms : int or array-like of int, default=None
        The atoms (columns of the codes). None means all of them.
    sign : {"both", "positive", "negative"}, default="both"
        Which coefficients count: those with the largest absolute values, or only positive or
        negative ones.

    Returns
    -------
    table : Bunch
        Arrays of equal length, with one entry for each atom and sample:

        - ``atom``: the column of the codes;
        - ``rank``: 0 for the sample that uses the atom most;
        - ``sample``: the row of the codes;
        - ``value``: the coefficient;
        - ``name``: the name of the column, if the codes are a data frame.

    Examples
    --------
    >>> from lincode.inspection import top_samples
    >>> table = top_samples([[0.0, 2.0], [1.0, 0.0], [0.0, -3.0]], 2)
    >>> table.atom, table.sample, table.value
    (array([0, 1, 1]), array([1, 2, 0]), array([ 1., -3.,  2.]))
    """
    U, names = named_matrix(codes, "codes")
    columns, ranks, rows, values = top_of_columns(U, n_samples, "n_samples", atoms, sign)
    table = Bunch(atom=columns, rank=ranks, sample=rows, value=values)
    if names is not None:
        table.name = names[columns]
    return table


def top_features(
    components: Any,
    n_features: int = 10,
    *,
    atoms: ArrayLike | int | None = None,
    sign: str = "both",
    feature_names: Any = None,
) -> Bunch:
    """Return the features with the largest entries of each atom, such as the words of a topic.

    Parameters
    ----------
    components : array-like of shape (n_atoms, n_features) or fitted estimator
        The atoms, one per row, or an estimator with ``components_``.
    n_features : int, default=10
        The largest number of features per atom. Entries that are zero are left out.
    atoms : int or array-like of int, default=None
        The atoms. None means all of them.
    sign : {"both", "positive", "negative"}, default="both"
        Which entries count: those with the largest absolute values, or only positive or negative
        ones.
    feature_names : array-like of shape (n_features,), default=None
        The names of the features. None means the ``feature_names_in_`` of an estimator, if it has
        any.

    Returns
    -------
    table : Bunch
        Arrays of equal length: ``atom``, ``rank`` (0 for the largest entry), ``feature`` (its
        number), ``value`` and, if the features have names, ``name``.

    Examples
    --------
    >>> from lincode.inspection import top_features
    >>> table = top_features([[0.6, 0.0, -0.8]], 2, feature_names=["sun", "sky", "sea"])
    >>> table.name, table.value
    (array(['sea', 'sun'], dtype='<U3'), array([-0.8,  0.6]))
    """
    if hasattr(components, "fit"):
        check_network(components)
        if feature_names is None:
            feature_names = getattr(components, "feature_names_in_", None)
        components = components.components_
    D, _ = named_matrix(components, "components")
    columns, ranks, rows, values = top_of_columns(D.T, n_features, "n_features", atoms, sign)
    table = Bunch(atom=columns, rank=ranks, feature=rows, value=values)
    if feature_names is not None:
        table.name = check_names(feature_names, D.shape[1])[rows]
    return table


def top_of_columns(
    M: Any, n: Any, name: str, columns: Any, sign: str
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp], Floats]:
    """Return columns, ranks, rows and values of the largest non-zero entries of each column."""
    if sign not in SIGNS:
        raise InvalidInputError(f"sign must be one of {SIGNS}, got {sign!r}.")
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise InvalidInputError(f"{name} must be an integer of at least 1, got {n!r}.")
    chosen = check_indices(columns, M.shape[1])
    if issparse(M):
        M = M.tocsc()
    found = [_top_of_column(M, int(column), int(n), sign) for column in chosen]
    counts = [len(rows) for rows, _ in found]
    return (
        np.repeat(chosen, counts),
        np.concatenate([np.arange(count) for count in counts]),
        np.concatenate([rows for rows, _ in found]),
        np.concatenate([values for _, values in found]),
    )


def _top_of_column(M: Any, column: int, n: int, sign: str) -> tuple[NDArray[np.intp], Floats]:
    """Return the rows and values of the largest entries of a column; equal ones by row."""
    if issparse(M):
        part = slice(M.indptr[column], M.indptr[column + 1])
        rows, values = M.indices[part].astype(np.intp), M.data[part]
    else:
        rows, values = np.arange(M.shape[0]), M[:, column]
    size = {"both": np.abs(values), "positive": values, "negative": -values}[sign]
    if np.count_nonzero(size > 0) > n:
        limit = np.partition(size, len(size) - n)[len(size) - n]
    else:
        limit = np.nextafter(0, 1)
    large = size >= limit
    rows, values, size = rows[large], values[large], size[large]
    order = np.lexsort((rows, -size))[:n]
    return rows[order], values[order]
