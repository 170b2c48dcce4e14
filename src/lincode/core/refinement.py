"""Refinement of the encoder on its own support, after training.

The encoder of SCNN is fitted to codes that an optimisation found. Refinement fits it to the task
that it is used for: its thresholded outputs S(C) reconstruct X with a decoder D'. The objective is

    J(C, D') = ‖X − S(C) D'‖².

Each round holds the support of S fixed. On the support S is linear in C, so the round consists of
two block steps:

    D'  least squares (``calibration.py``); then its rows are normalised, and C is multiplied by
        their norms;
    C   half of a step towards the minimiser, for each unit over the rows in which it is active, of
        the ridge regression with the targets  S[:, j] + ½ (X − S D') D'[j]ᵀ.

The ridge regressions of all units are solved together by a few conjugate gradient steps, which are
matrix products. A round is kept only if J decreases on the rows that it was computed from and on
held-out rows; otherwise it is undone and the refinement ends. The paper does not have this step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lincode.core.calibration import CodedRows, fit_decoder, matching_threshold
from lincode.core.encoder_step import Thresholding
from lincode.core.types import Array, Rows

HELD_OUT_STEP = 10
"""One row in ten is held out to decide when to stop."""
MIN_THRESHOLD_ROWS = 50
"""With fewer held-out rows the threshold is computed from all rows."""
CG_STEPS = 3
"""Conjugate gradient steps per round. Ten gave the same errors on patches and MNIST digits."""
RIDGE = 0.1
"""The ridge of each unit, relative to the mean eigenvalue of its rows."""
TARGET_STEP, ENCODER_STEP = 0.5, 0.5
"""The fractions of the residual in the targets, and of the step of the encoder. Larger steps were
faster on patches but diverged on MNIST digits."""


@dataclass(frozen=True)
class Refined:
    """A refined encoder, with the decoder and the thresholding that belong to it."""

    C: Array
    D: Array
    thresholding: Thresholding
    used: Array
    """The number of rows that use each unit, shape (m,)"""
    r2: float
    """The fraction of the held-out rows that is reconstructed, 1 − ‖X − S D'‖²/‖X‖²"""


def refine_encoder(
    X: Rows,
    C: Array,
    D: Array,
    thresholding: Thresholding,
    density: float,
    *,
    max_iter: int,
) -> Refined:
    """Refine the encoder C for the dictionary D on the rows X, in at most ``max_iter`` rounds.

    Soft and hard thresholds are chosen anew in each round, so that the codes keep their density.
    The threshold that is returned is that of the held-out rows. Codes have no gains, because the
    decoder makes them redundant.
    """
    held_out = np.random.RandomState(0).permutation(X.shape[0]) % HELD_OUT_STEP == 0
    X_train, X_test = (X[~held_out], X[held_out]) if X.shape[0] > 1 else (X, X)
    rule, positive = replace(thresholding, gains=None), thresholding.positive
    # Rows of unit scale, so that no product overflows; the codes do not change.
    scale = _scale(X)
    X_train, X_test = X_train / X.dtype.type(scale), X_test / X.dtype.type(scale)
    C, D = (C * scale).astype(X.dtype), D / scale
    best: Refined | None = None
    train_r2 = -np.inf
    for n_iter in range(max_iter + 1):
        Z, Z_test = (np.ascontiguousarray(rows @ C.T) for rows in (X_train, X_test))
        threshold = matching_threshold(Z, density, positive=positive)
        # A few held-out rows do not determine a threshold.
        Z_match = Z_test if len(Z_test) >= MIN_THRESHOLD_ROWS else np.vstack([Z, Z_test])
        rule = replace(rule, threshold=matching_threshold(Z_match, density, positive=positive))
        S = replace(rule, threshold=threshold).apply(Z)
        coded = CodedRows.of_codes(S, X_train)
        D = fit_decoder(coded, np.ones(len(D)), D)
        r2 = coded.r2_of_decoder(D)
        test_r2 = CodedRows.of_codes(rule.apply(Z_test), X_test).r2_of_decoder(D)
        if best is not None and not (r2 > train_r2 and test_r2 > best.r2):
            break
        best, train_r2 = Refined(C, D, rule, np.count_nonzero(S, axis=0), test_r2), r2
        if n_iter == max_iter:
            break
        C, D, S = _normalised(C, D, S)
        C = C + ENCODER_STEP * _encoder_change(X_train, S, D)
    assert best is not None
    return replace(best, C=best.C / X.dtype.type(scale), D=best.D * scale)


def _normalised(C: Array, D: Array, S: Array) -> tuple[Array, Array, Array]:
    """Normalise the rows of D and move their norms to C and S."""
    norms = np.linalg.norm(D, axis=1)
    norms[norms == 0] = 1.0
    scale = norms.astype(C.dtype)
    return C * scale[:, None], D / norms[:, None], S * scale


def _encoder_change(X: Rows, S: Array, D: Array) -> Array:
    """Return the change of C that solves the ridge regressions of all units on their support.

    With the mask M of the support, unit j solves
    (Xᵀ diag(M[:, j]) X + ρ_j I) δ = Xᵀ (M[:, j] ∘ ½ (X − S D) D[j]ᵀ).
    """
    D = D.astype(S.dtype)
    M = (S != 0).astype(S.dtype)
    target = (np.asarray(X @ D.T) - S @ (D @ D.T)) * (TARGET_STEP * M)
    squares = _row_squares(X).astype(S.dtype)
    ridge = (RIDGE / X.shape[1] * (M.T @ squares))[:, None]
    residual = np.asarray(target.T @ X)
    change, direction = np.zeros_like(residual), residual.copy()
    norm = np.einsum("jp,jp->j", residual, residual)
    for _ in range(CG_STEPS):
        product = np.asarray((np.asarray(X @ direction.T) * M).T @ X) + ridge * direction
        curvature = np.einsum("jp,jp->j", direction, product)
        length = np.divide(norm, curvature, out=np.zeros_like(norm), where=curvature > 0)[:, None]
        change += length * direction
        residual -= length * product
        previous, norm = norm, np.einsum("jp,jp->j", residual, residual)
        factor = np.divide(norm, previous, out=np.zeros_like(norm), where=previous > 0)
        direction = residual + factor[:, None] * direction
    return change


def _scale(X: Rows) -> float:
    """Return the largest absolute value of X, or 1 if X is zero."""
    return float(abs(X).max()) or 1.0


def _row_squares(X: Rows) -> Array:
    if hasattr(X, "multiply"):
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return np.asarray(np.einsum("ij,ij->i", X, X))
