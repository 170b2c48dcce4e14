"""Calibration of the encoder after training: its threshold and its dictionary.

The encoder is fitted to codes that the ℓ1 penalty has shrunk, so its codes S = T(X Cᵀ), where T
keeps the largest outputs, are too small. Calibration computes the dictionary that fits them,

    min_D ‖X − S D‖²,

and then gives the atoms the length 1, multiplies the rows of C by the former lengths, and chooses
the threshold again, in turn.

All of this uses leave-one-out outputs: the output for row i of the encoder that would have been
fitted without row i. With the hat matrix of the ridge regression they are

    z₋ᵢ = uᵢ − (uᵢ − zᵢ)/(1 − hᵢᵢ),      hᵢᵢ = xᵢ (XtX + ρ I)⁻¹ xᵢᵀ,

so the threshold holds for new rows even if the encoder overfits. They belong to the encoder that
minimises ‖U − X Cᵀ‖² + ρ‖C‖² exactly. If X is too wide for hᵢᵢ, whole folds of rows are left out
instead, and an encoder is fitted without each of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from lincode.core.arrays import Array, Rows, dense, dense_blocks
from lincode.core.energy import code_products
from lincode.core.ridge import DirectFactor, EncoderFactor
from lincode.core.threshold import Thresholding
from lincode.core.wide import IterativeFactor

MIN_LEVERAGE = 0.01
"""If the mean leverage is smaller, the outputs of the encoder are used as they are."""
MAX_FOLD, FOLD_TOL = 0.1, 1e-3
"""With an iterative factor, at most this fraction of all rows is left out at a time, and the
encoder without them is computed to this relative residual. On 6000 texts with 3000 words, the
threshold is then 1.3 % above that of single rows; with 1e-2 it was 10 % below it."""
ROUNDS = 2
"""How often the dictionary and the threshold are computed."""
MIN_RIDGE = 1e-3
"""The weight, relative to the mean of the diagonal of SᵀS, that pulls the dictionary towards the
trained one. It is m/n for n rows if that is more, so that few rows do not overfit."""


@dataclass(frozen=True)
class Network:
    """An encoder C and a dictionary D, of shape (m, p), and the rule that makes codes sparse."""

    C: Array
    D: Array
    rule: Thresholding


@dataclass(frozen=True)
class Calibrated:
    """A calibrated network, and how its codes reconstruct the rows it was calibrated on."""

    network: Network
    r2: float
    """The fraction of the rows that is reconstructed, 1 − ‖X − S D‖²/‖X‖²"""
    usage: Array
    """The fraction of the rows that use each unit, shape (m,)"""


def calibrate(
    network: Network, Z: Array, X: Rows, density: float, *, positive_dict: bool = False
) -> Calibrated:
    """Fit the threshold and the dictionary to outputs Z of the encoder for the rows X."""
    C, D, rule = network.C, network.D, network.rule
    Z = np.array(Z)
    for _ in range(ROUNDS):
        rule = rule.matched(Z, density)
        D = _fitted_dictionary(rule.apply(Z.copy()), X, D)
        if positive_dict:
            D = np.maximum(D, 0)
        lengths = np.linalg.norm(D, axis=1)
        lengths[lengths == 0] = 1
        D, C, Z = D / lengths[:, None], C * lengths[:, None], Z * lengths.astype(Z.dtype)
    rule = rule.matched(Z, density)
    S = rule.apply(Z)
    return Calibrated(Network(C, D, rule), explained_fraction(X, S, D), np.mean(S != 0, axis=0))


def scale_network(network: Network, X: Rows, density: float) -> tuple[Network, Array]:
    """Multiply the encoder by the best number for the rows X; return also its codes of X."""
    C, D = network.C, network.D
    Z = np.ascontiguousarray(X @ C.T.astype(X.dtype))
    rule = network.rule.matched(Z, density)
    S, product, square = rule.apply(Z), 0.0, 0.0
    for rows in dense_blocks(X):
        R = S[rows] @ D.astype(S.dtype)
        product += float(np.vdot(R, dense(X[rows])))
        square += float(np.vdot(R, R))
    g = product / square if product > 0 else 1.0
    S *= S.dtype.type(g)
    return Network(g * C, D, replace(rule, threshold=g * rule.threshold)), S


def explained_fraction(X: Rows, S: Array, D: Array) -> float:
    """Return 1 − ‖X − S D‖²/‖X‖², the fraction of X that codes S reconstruct; 0 if X is zero."""
    D, error, total = D.astype(S.dtype), 0.0, 0.0
    for rows in dense_blocks(X):
        block = dense(X[rows])
        total += float(np.sum(np.square(block, dtype=np.float64)))
        error += float(np.sum(np.square(block - S[rows] @ D, dtype=np.float64)))
    return 1 - error / total if total > 0 else 0.0


def _fitted_dictionary(S: Array, X: Rows, D: Array) -> Array:
    """Return argmin_D' ‖X − S D'‖² + κ‖D' − g D‖² with the best common factor g of D."""
    StS, StX = code_products(S, X, np.count_nonzero(S) / S.size)
    used = np.diag(StS) > 0
    if not used.any():
        return D
    square = float(np.vdot(StS, D @ D.T))
    g = float(np.vdot(StX, D)) / square if square > 0 else 1.0
    kappa = max(MIN_RIDGE, len(D) / X.shape[0]) * float(np.diag(StS)[used].mean())
    A = StS + kappa * np.eye(len(D))
    fitted = scipy.linalg.solve(A, StX + kappa * max(g, 0) * D, assume_a="pos")
    fitted[~used] = D[~used]
    return np.asarray(fitted)


def leave_one_out_outputs(
    X: Rows, U: Array, C: Array, UtX: Array, n: float, factor: EncoderFactor
) -> Array:
    """Return the outputs for some rows of encoders that were fitted without them.

    U are the trained codes of the rows X. C is the encoder, UtX and n are those of all rows. With a
    direct factor each row is left out alone, otherwise together with others.
    """
    if isinstance(factor, IterativeFactor):
        return fold_outputs(X, U, C, UtX, n, factor)
    if factor.n_parameters(factor.ridge) / n < MIN_LEVERAGE:
        return np.ascontiguousarray(X @ C.T.astype(X.dtype))
    assert isinstance(factor, DirectFactor)
    return _direct_outputs(X, U, UtX, n, factor)


def fold_outputs(
    X: Rows, U: Array, C: Array, UtX: Array, n: float, factor: IterativeFactor
) -> Array:
    """Return the outputs for each fold of rows of the encoder that is fitted without the fold.

    A fold has at most a fraction ``MAX_FOLD`` of all rows. The encoder without it is computed from
    C by a few conjugate gradient steps, with the rows of the fold subtracted from all sums.
    """
    N = X.shape[0]
    n_folds = min(N, int(np.ceil(N / (MAX_FOLD * n))))
    Z = np.empty(U.shape, dtype=X.dtype)
    for fold in np.array_split(np.random.RandomState(0).permutation(N), n_folds):
        rows = np.sort(fold)
        X_fold = X[rows]
        left = UtX - np.asarray(U[rows].T @ X_fold, dtype=np.float64)
        C_fold = factor.without(X_fold).solve(left, C, FOLD_TOL)
        Z[rows] = X_fold @ C_fold.T.astype(X.dtype)
    return Z


def _direct_outputs(X: Rows, U: Array, UtX: Array, n: float, factor: DirectFactor) -> Array:
    """Return the outputs for some rows, each of which is left out alone, by the hat matrix."""
    # Without any ridge the outputs are 0/0 if the encoder interpolates. UtX is as precise as X, and
    # its rounding error is divided by the ridge, so the smallest ridge depends on the precision.
    eps = float(np.finfo(X.dtype).eps)
    too_small = factor.ridge < eps**0.5 * factor.mean_eigenvalue
    if too_small and X.dtype != np.float64 and X.shape[0] == n:
        X, eps = X.astype(np.float64), float(np.finfo(np.float64).eps)
        UtX = np.asarray(X.T @ U.astype(np.float64)).T
    ridge = max(factor.ridge, eps**0.5 * factor.mean_eigenvalue)
    roots = np.sqrt(factor.s2 + ridge)
    # The products have the precision of X; float64 would take twice as long.
    V = (factor.V / roots).astype(X.dtype)
    W = ((UtX @ factor.V) / roots).astype(X.dtype)
    XV = np.asarray(X @ V)
    Z = XV @ W.T
    h = np.einsum("ij,ij->i", XV, XV, dtype=np.float64)
    freedom = np.maximum(1 - h, 1e-12)[:, None]
    loo = np.ascontiguousarray(U - (U - Z) / freedom.astype(X.dtype))
    # A row that is orthogonal to all others has the output 0, but rounding adds an error,
    # which could be magnified without bound.
    rounding = 10 * eps / freedom
    loo[np.abs(loo) <= rounding * np.abs(U).max(axis=1, keepdims=True)] = 0
    return loo
