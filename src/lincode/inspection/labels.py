"""The correlations of atoms with labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import Bunch

from lincode.exceptions import InvalidInputError
from lincode.inspection.checks import Floats, named_matrix
from lincode.inspection.ranking import top_of_columns

EPS = float(np.finfo(np.float64).eps)


def label_correlations(
    codes: Any, y: Any, *, absolute: bool = False, numeric: bool | None = None
) -> Bunch:
    """Return the correlation of each atom with each label.

    For classes, it is the correlation of the coefficients with the indicator of the class (1 for
    its samples, 0 for the others). For a numeric target, it is the correlation with the target.

    Parameters
    ----------
    codes : array-like, data frame or CSR matrix of shape (n_samples, n_atoms)
        The codes, as returned by ``transform``.
    y : array-like of shape (n_samples,)
        The labels.
    absolute : bool, default=False
        Whether the absolute values of the codes are correlated with the labels. This finds atoms
        that a class uses with both signs.
    numeric : bool, default=None
        Whether y is a numeric target instead of classes. None means that it is one if it has
        numbers with fractional parts.

    Returns
    -------
    result : Bunch
        - ``label``: array of shape (n_labels,), the classes in order. A numeric target is one
          label, "y";
        - ``correlation``: array of shape (n_labels, n_atoms), between −1 and 1. It is 0 for atoms
          whose coefficients are all equal, for example 0.

    Examples
    --------
    >>> from lincode.inspection import label_correlations
    >>> result = label_correlations([[1.0, 0.0], [1.0, 2.0], [0.0, 1.0]], ["a", "a", "b"])
    >>> result.label
    array(['a', 'b'], dtype='<U1')
    >>> result.correlation.round(2)
    array([[ 1.,  0.],
           [-1.,  0.]])
    """
    U, _ = named_matrix(codes, "codes")
    if absolute:
        U = abs(U)
    labels, Y = _label_columns(y, U.shape[0], numeric)
    return Bunch(label=labels, correlation=_correlations(U, Y))


def correlated_atoms(
    codes: Any,
    y: Any,
    n_atoms: int = 10,
    *,
    sign: str = "positive",
    absolute: bool = False,
    numeric: bool | None = None,
) -> Bunch:
    """Return the atoms that are most correlated with each label.

    Parameters
    ----------
    codes : array-like, data frame or CSR matrix of shape (n_samples, n_atoms)
        The codes, as returned by ``transform``.
    y : array-like of shape (n_samples,)
        The labels.
    n_atoms : int, default=10
        The largest number of atoms per label.
    sign : {"positive", "negative", "both"}, default="positive"
        Which correlations count: positive ones, negative ones, or both by their absolute values.
    absolute, numeric : bool
        As in :func:`label_correlations`.

    Returns
    -------
    table : Bunch
        Arrays of equal length: ``label``, ``rank`` (0 for the atom with the largest correlation),
        ``atom``, ``correlation`` and, if the codes are a data frame, the ``name`` of the atom.

    Examples
    --------
    >>> from lincode.inspection import correlated_atoms
    >>> table = correlated_atoms([[1.0, 0.0], [1.0, 2.0], [0.0, 1.0]], ["a", "a", "b"])
    >>> table.label, table.atom
    (array(['a'], dtype='<U1'), array([0]))
    """
    result = label_correlations(codes, y, absolute=absolute, numeric=numeric)
    columns, ranks, rows, values = top_of_columns(
        result.correlation.T, n_atoms, "n_atoms", None, sign
    )
    table = Bunch(label=result.label[columns], rank=ranks, atom=rows, correlation=values)
    names = named_matrix(codes, "codes")[1]
    if names is not None:
        table.name = names[rows]
    return table


def _label_columns(y: Any, n: int, numeric: bool | None) -> tuple[Any, Floats]:
    """Return the labels and one column for each of them, to be correlated with the codes."""
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise InvalidInputError(
            f"y must have one label for each of {n} samples, got shape {labels.shape}."
        )
    if labels.dtype.kind in "fc" and not np.isfinite(labels).all():
        raise InvalidInputError("y must be finite, but contains NaN or infinity.")
    if numeric is None:
        numeric = labels.dtype.kind == "f" and bool(np.any(labels != np.trunc(labels)))
    if numeric:
        try:
            column = labels.astype(np.float64)[:, None]
        except (ValueError, TypeError) as error:
            raise InvalidInputError(f"y must be numbers if numeric=True: {error}") from error
        if not np.isfinite(column).all():
            raise InvalidInputError("y must be finite, but contains None, NaN or infinity.")
        return np.array(["y"]), column
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in labels})
        raise InvalidInputError(
            "y must be classes that can be sorted, such as only numbers or only strings, got"
            f" {', '.join(kinds)}; remove the samples without a label or name their class."
        ) from error
    if any(isinstance(label, float) and not np.isfinite(label) for label in classes):
        raise InvalidInputError("y must be finite, but contains NaN or infinity.")
    return classes, (codes[:, None] == np.arange(len(classes))).astype(np.float64)


def _correlations(U: Any, Y: Floats) -> Floats:
    """Return the correlation of each column of Y (rows) with each column of U (columns).

    U is a dense array or a CSR matrix of float64 without duplicate entries. Correlations with a
    constant column are 0.
    """
    n = len(Y)
    Y, variance_y = _centred(Y)
    covariance, variance_u = _sparse_moments(U, Y) if issparse(U) else _dense_moments(U, Y)
    scale = np.sqrt(np.outer(variance_y, variance_u))
    correlation = np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0)
    correlation[np.abs(correlation) <= n * EPS] = 0
    return np.clip(correlation, -1, 1)


def _exponents(largest: Floats) -> NDArray[np.intc]:
    """Return e such that largest / 2ᵉ is below 1. Unlike other divisions, this one is exact."""
    return np.frexp(largest)[1]


def _without_rounding_errors(variance: Floats) -> Floats:
    """Replace the variances of scaled columns that differ by rounding errors only by 0."""
    return np.where(variance <= (8 * EPS) ** 2, 0.0, variance)


def _centred(M: Floats) -> tuple[Floats, Floats]:
    """Return scaled columns without their means, and their variances."""
    M = np.ldexp(M, -_exponents(np.abs(M).max(axis=0)))
    M = M - M[0]  # A constant column becomes exactly 0.
    M -= M.mean(axis=0)
    return M, _without_rounding_errors(np.mean(M**2, axis=0))


def _dense_moments(U: Floats, Y: Floats) -> tuple[Floats, Floats]:
    """Return the covariances with centred columns Y, and the variances of the scaled U."""
    U, variance = _centred(U)
    return Y.T @ U / len(Y), variance


def _sparse_moments(U: Any, Y: Floats) -> tuple[Floats, Floats]:
    """Return the same as ``_dense_moments`` for a CSR matrix.

    Stored entries are centred. The others are all equal to minus the mean.
    """
    n, m = U.shape
    columns = U.indices
    exponents = _exponents(abs(U).max(axis=0).toarray().ravel())
    U = U.copy()
    U.data = np.ldexp(U.data, -exponents[columns])
    n_zeros = n - np.bincount(columns, minlength=m)
    U.data -= np.where(n_zeros == 0, U[[0]].toarray().ravel(), 0.0)[columns]
    mean = np.bincount(columns, U.data, minlength=m) / n
    stored = U.copy()
    stored.data = np.ones_like(U.data)
    U.data -= mean[columns]
    variance = (np.bincount(columns, U.data**2, minlength=m) + n_zeros * mean**2) / n
    y_of_zeros = np.where(n_zeros > 0, -np.asarray((stored.T @ Y).T), 0.0)  # Y sums to 0.
    covariance = (np.asarray((U.T @ Y).T) - mean * y_of_zeros) / n
    return covariance, _without_rounding_errors(variance)
