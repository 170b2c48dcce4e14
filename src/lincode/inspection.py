"""What codes mean: the samples behind an atom, the parts of a sample, the atoms of a label.

Most functions return a table: a Bunch of arrays of equal length. ``pandas.DataFrame`` accepts it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted

from lincode.exceptions import InvalidInputError

__all__ = [
    "correlated_atoms",
    "decompose",
    "label_correlations",
    "top_features",
    "top_samples",
]

SIGNS = ("both", "positive", "negative")
Floats = NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)


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
    U, names = _matrix(codes, "codes")
    columns, ranks, rows, values = _top_of_columns(U, n_samples, "n_samples", atoms, sign)
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
    D, _ = _matrix(components, "components")
    columns, ranks, rows, values = _top_of_columns(D.T, n_features, "n_features", atoms, sign)
    table = Bunch(atom=columns, rank=ranks, feature=rows, value=values)
    if feature_names is not None:
        table.name = check_names(feature_names, D.shape[1])[rows]
    return table


def decompose(estimator: Any, sample: Any, *, code: Any = None) -> Bunch:
    """Decompose a sample into the contributions of the atoms that its code uses.

    The contribution of an atom is what its coefficient alone reconstructs. The contributions add
    up to the reconstruction of the sample, and with ``residual`` to the sample itself.

    Parameters
    ----------
    estimator : fitted estimator
        A network or :class:`lincode.SparseCoder`. The contributions are those of the dictionary
        that ``inverse_transform`` uses.
    sample : array-like or CSR matrix of shape (n_features,) or (1, n_features)
        The sample.
    code : array-like or CSR matrix of shape (n_features_out,) or (1, n_features_out), default=None
        Its code. None means the code that ``transform`` returns.

    Returns
    -------
    parts : Bunch
        The atoms in the order of the lengths of their contributions, the longest first:

        - ``atom``: array of shape (n_parts,), the numbers of the atoms;
        - ``coefficient``: array of shape (n_parts,), with a sign also if ``split_sign=True``;
        - ``contribution``: array of shape (n_parts, n_features);
        - ``fraction``: array of shape (n_parts,), the inner product of a contribution and the
          reconstruction, divided by the squared length of the reconstruction. The fractions add up
          to 1. One below 0 means that an atom cancels a part of other contributions;
        - ``reconstruction``: array of shape (n_features,);
        - ``residual``: array of shape (n_features,), the sample without its reconstruction.

    Examples
    --------
    >>> from lincode import SparseCoder
    >>> from lincode.inspection import decompose
    >>> coder = SparseCoder([[1.0, 0.0], [0.0, 1.0]], transform_n_nonzero_coefs=2)
    >>> parts = decompose(coder, [1.0, 3.0])
    >>> parts.atom, parts.coefficient, parts.fraction
    (array([1, 0]), array([3., 1.]), array([0.9, 0.1]))
    >>> parts.contribution
    array([[0., 3.],
           [1., 0.]])
    """
    check_network(estimator)
    x = _single_row(sample, "sample")
    if code is None:
        code = estimator.transform(_as_samples(sample, x))
    u = _single_row(code, "code")
    D = np.asarray(estimator.components_)
    _check_length(x, "sample", D.shape[1])
    _check_length(u, "code", len(estimator.get_feature_names_out()))
    columns = np.flatnonzero(u)
    single = np.zeros((len(columns), u.shape[1]), u.dtype)
    single[np.arange(len(columns)), columns] = u[0, columns]
    contribution = np.zeros((0, D.shape[1]), u.dtype)
    if len(columns):
        contribution = np.asarray(estimator.inverse_transform(single))
    order = np.argsort(-np.linalg.norm(contribution, axis=1), kind="stable")
    contribution, columns = contribution[order], columns[order]
    is_negative = columns >= len(D)  # the negative parts of codes with split signs
    reconstruction = contribution.sum(axis=0)
    total = float(reconstruction @ reconstruction)
    return Bunch(
        atom=columns - len(D) * is_negative,
        coefficient=np.where(is_negative, -u[0, columns], u[0, columns]),
        contribution=contribution,
        fraction=contribution @ reconstruction / (total or 1.0),
        reconstruction=reconstruction,
        residual=x[0] - reconstruction,
    )


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
    U, _ = _matrix(codes, "codes")
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
    columns, ranks, rows, values = _top_of_columns(
        result.correlation.T, n_atoms, "n_atoms", None, sign
    )
    table = Bunch(label=result.label[columns], rank=ranks, atom=rows, correlation=values)
    names = _matrix(codes, "codes")[1]
    if names is not None:
        table.name = names[rows]
    return table


def check_network(estimator: Any, attribute: str = "components_") -> Any:
    """Check that an estimator is a fitted network with an attribute, and return the attribute."""
    name = type(estimator).__name__
    if hasattr(estimator, "steps"):
        steps = [key for key, step in estimator.steps if hasattr(step, attribute)]
        step = f"{steps[-1]!r}" if steps else "name"
        raise InvalidInputError(
            f"estimator must be a fitted network, got a {name}; pass its step,"
            f" pipeline[{step}], and samples that the steps before it have transformed."
        )
    if not hasattr(estimator, "fit") or isinstance(estimator, type):
        raise InvalidInputError(
            f"estimator must be a fitted network, such as SCNN, got {estimator!r:.40}; pass arrays"
            " to the constructor of a display."
        )
    if hasattr(estimator, attribute):
        return getattr(estimator, attribute)
    best = getattr(estimator, "best_estimator_", None)
    if best is not None and not hasattr(estimator, "components_"):
        raise InvalidInputError(
            f"estimator must be a fitted network, got a {name}; pass its best_estimator_."
        )
    check_is_fitted(estimator)
    raise InvalidInputError(f"{name} has no {attribute}; it must be an estimator that has it.")


def codes_per_atom(estimator: Any, X: Any) -> Any:
    """Return the codes of X with one column per atom, also if signs are split."""
    m = len(check_network(estimator))
    U, _ = _matrix(estimator.transform(X), "codes")
    return U[:, :m] - U[:, m:] if U.shape[1] == 2 * m else U


def splits_signs(estimator: Any) -> bool:
    """Return whether the codes have two columns per atom, for either sign."""
    network = getattr(estimator, "best_estimator_", estimator)
    return bool(getattr(network, "split_sign", False))


def decoder_of(estimator: Any) -> Floats:
    """Return what ``inverse_transform`` multiplies codes with, one row per atom."""
    D = np.asarray(check_network(estimator))
    n_columns = len(D) * (2 if splits_signs(estimator) else 1)
    return np.asarray(estimator.inverse_transform(np.eye(len(D), n_columns)))


def check_codes(codes: Any) -> Any:
    """Return codes as a dense float64 array or a CSR matrix of finite numbers, or raise."""
    return _matrix(codes, "codes")[0]


def check_names(names: Any, n: int) -> Any:
    """Return names as an array, or raise if their number is wrong."""
    array = np.asarray(names)
    if array.shape != (n,):
        raise InvalidInputError(
            f"feature_names must have one name for each of {n} features, got shape {array.shape}."
        )
    return array


def _matrix(values: Any, name: str) -> tuple[Any, Any]:
    """Return a dense float64 array or a CSR matrix, and the names of its columns or None."""
    names = getattr(values, "columns", None)
    if hasattr(values, "fit"):
        raise InvalidInputError(
            f"{name} must be numbers, got the estimator {type(values).__name__}; pass"
            " scnn.transform(X), where scnn is the estimator."
        )
    if issparse(values):
        matrix = values.tocsr().astype(np.float64)
        matrix.sum_duplicates()
    else:
        try:
            matrix = np.asarray(values, dtype=np.float64)
        except (ValueError, TypeError) as error:
            raise InvalidInputError(f"{name} must be numbers: {error}") from error
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InvalidInputError(
            f"{name} must have two dimensions and at least one entry, got shape {matrix.shape}."
        )
    if not np.isfinite(matrix.data if issparse(matrix) else matrix).all():
        raise InvalidInputError(f"{name} must be finite, but contain NaN or infinity.")
    return matrix, None if names is None else np.asarray(names)


def _top_of_columns(
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


def check_indices(indices: Any, n: int, advice: str = "") -> NDArray[np.intp]:
    """Return indices of atoms as an array; None means all n of them.

    ``advice`` is added to the message if an index is not below n.
    """
    if indices is None:
        return np.arange(n)
    array = np.atleast_1d(np.asarray(indices))
    if array.ndim != 1 or not array.size or not np.issubdtype(array.dtype, np.integer):
        raise InvalidInputError(f"atoms must be None or integers, got {indices!r}.")
    if array.min() < 0 or array.max() >= n:
        more = f"; {advice}" if advice else ""
        raise InvalidInputError(f"atoms must be between 0 and {n - 1}, got {indices!r}{more}.")
    return array.astype(np.intp)


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


def _single_row(values: Any, name: str) -> Any:
    """Return a vector or a matrix with one row as a dense array with one row."""
    row = values.toarray() if issparse(values) else np.asarray(values)
    row = np.atleast_2d(row)
    if row.ndim != 2 or len(row) != 1:
        raise InvalidInputError(
            f"{name} must be a single one, of shape (n,) or (1, n), got shape {row.shape};"
            " call decompose once for each sample."
        )
    return row.astype(np.result_type(row.dtype, np.float32), copy=False)


def _check_length(row: Any, name: str, n: int) -> None:
    """Check the number of entries of a sample or code."""
    if row.shape[1] != n:
        raise InvalidInputError(
            f"{name} must have {n} entries, as those of the estimator, got {row.shape[1]}."
        )


def _as_samples(sample: Any, x: Any) -> Any:
    """Return a sample with two dimensions, with the names of its features if it has any."""
    if hasattr(sample, "to_frame"):  # a row of a data frame
        return sample.to_frame().T
    return sample if getattr(sample, "ndim", 1) == 2 else x
