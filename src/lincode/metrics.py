"""Metrics of codes and reconstructions: RMS errors, those of sparse autoencoders, and the energy.

The R² of held-out samples needs no function: it is ``score`` of the estimators, which
``GridSearchCV`` and ``cross_val_score`` use by default.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from lincode.core.energy import energy_of_rows
from lincode.exceptions import InvalidInputError


def rms_error(X: Any, X_reconstructed: ArrayLike) -> float:
    """Root-mean-square difference between X and its reconstruction, over all entries.

    Parameters
    ----------
    X : array-like or scipy sparse matrix of shape (n_samples, n_features)
        Samples.
    X_reconstructed : array-like of shape (n_samples, n_features)
        Reconstructed samples, for example from ``reconstruct`` or ``inverse_transform``.

    Examples
    --------
    >>> from lincode.metrics import rms_error
    >>> rms_error([[1.0, 2.0]], [[1.0, 0.0]])
    1.4142135623730951
    """
    A = np.asarray(X.toarray() if issparse(X) else X, dtype=np.float64)
    B = np.asarray(X_reconstructed, dtype=np.float64)
    _check_shapes("X", A, "X_reconstructed", B)
    error = float(np.sqrt(np.mean((A - B) ** 2)))
    if not np.isfinite(error):
        raise InvalidInputError(
            "X and X_reconstructed must be finite, but contain NaN or infinity; compare the other"
            " entries only."
        )
    return error


def energy(
    X: Any,
    codes: Any,
    components: ArrayLike,
    encoder: ArrayLike,
    alpha: float,
    encoder_weight: float = 1.0,
) -> float:
    """Energy per sample that SCNN minimises (equation 6 of the paper), without a ridge.

    For N samples X with p features and codes U of m units, a dictionary D and an encoder C it is

        E/N = 1/N (1/p ‖X − U D‖² + η/m ‖U − X Cᵀ‖² + 2λ/m ‖U‖₁).

    Parameters
    ----------
    X : array-like or scipy sparse matrix of shape (n_samples, n_features)
        Samples.
    codes : array-like or scipy sparse matrix of shape (n_samples, n_components)
        Codes U, as returned by ``transform`` with ``split_sign=False``.
    components : array-like of shape (n_components, n_features)
        Dictionary D, for example ``components_`` of a network.
    encoder : array-like of shape (n_components, n_features)
        Encoder C, for example ``encoder_`` of a network.
    alpha : float
        Weight λ of the ℓ1 penalty, for example ``alpha_`` of a network.
    encoder_weight : float, default=1.0
        Weight η of the encoder term.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from lincode import SCNN
    >>> from lincode.metrics import energy
    >>> X = load_digits().data / 16
    >>> scnn = SCNN(
    ...     16, encoder_ridge=0, refine=False, transform_algorithm="exact", random_state=0
    ... ).fit(X)
    >>> value = energy(X, scnn.transform(X), scnn.components_, scnn.encoder_, scnn.alpha_)
    >>> bool(abs(value - scnn.energy_) < 1e-3 * value)
    True
    """
    D, C = (np.asarray(A, dtype=np.float64) for A in (components, encoder))
    _check_shapes("components", D, "encoder", C)
    U = np.asarray(codes.toarray() if issparse(codes) else codes, dtype=np.float64)
    rows = csr_array(X) if issparse(X) else np.asarray(X, dtype=np.float64)
    expected = f"(n_samples, {D.shape[0]}) and (n_samples, {D.shape[1]})"
    if D.ndim != 2 or U.shape != (len(U), len(D)) or rows.shape != (len(U), D.shape[1]):
        raise InvalidInputError(
            f"codes and X must have the shapes {expected}, as the dictionary says, got {U.shape}"
            f" and {rows.shape}."
        )
    if not len(U):
        raise InvalidInputError("X must have at least one sample, got none.")
    value = energy_of_rows(rows, U, D, C, float(alpha), float(encoder_weight)) / len(U)
    if not np.isfinite(value):
        raise InvalidInputError("all arguments must be finite, but contain NaN or infinity.")
    return float(value)


def autoencoder_metrics(X: ArrayLike, codes: Any, X_reconstructed: ArrayLike) -> dict[str, float]:
    """The three numbers by which sparse autoencoders are compared.

    Parameters
    ----------
    X, X_reconstructed : array-like of shape (n_samples, n_features)
        Samples and their reconstruction, for example from ``inverse_transform``.
    codes : array-like or scipy sparse matrix of shape (n_samples, n_components)
        Codes, as returned by ``transform``.

    Returns
    -------
    dict
        "l0", the mean number of non-zeros per sample; "fvu", the fraction of the variance that is
        unexplained, ‖X − R‖² / ‖X − mean‖²; "alive", the fraction of units that any sample uses.

    Examples
    --------
    >>> from lincode.metrics import autoencoder_metrics
    >>> autoencoder_metrics([[1.0], [3.0]], [[1.0, 0.0], [3.0, 0.0]], [[1.0], [2.0]])
    {'l0': 1.0, 'fvu': 0.5, 'alive': 0.5}
    """
    A, R = np.asarray(X, dtype=np.float64), np.asarray(X_reconstructed, dtype=np.float64)
    _check_shapes("X", A, "X_reconstructed", R)
    U = csr_array(codes)
    variance = float(np.sum((A - A.mean(axis=0)) ** 2))
    counts = np.bincount(U.indices[U.data != 0], minlength=U.shape[1])
    return {
        "l0": float(counts.sum() / U.shape[0]),
        "fvu": float(np.sum((A - R) ** 2)) / variance if variance else float("nan"),
        "alive": float(np.mean(counts > 0)),
    }


def _check_shapes(name: str, A: NDArray[Any], other_name: str, B: NDArray[Any]) -> None:
    """Check that two arrays have the same shape and are not empty."""
    if A.shape != B.shape or not A.size:
        raise InvalidInputError(
            f"{name} and {other_name} must have the same shape and at least one entry, got shapes"
            f" {A.shape} and {B.shape}."
        )
