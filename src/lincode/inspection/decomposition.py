"""The contributions of atoms to a sample."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import Bunch

from lincode.exceptions import InvalidInputError
from lincode.inspection.checks import check_network


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
    if hasattr(sample, "to_frame") and hasattr(sample, "index"):  # a row of a frame of pandas
        return sample.to_frame().T
    return sample if len(getattr(sample, "shape", ())) == 2 else x
