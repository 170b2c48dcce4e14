"""SAANN (paper eq. 2; Sivaram et al. 2010): a sparse auto-associative network, learned in one go.

    E(D, C) = ½‖X − φ(X Cᵀ) D‖²  +  λ Σ log(1 + u²),      U = φ(X Cᵀ)

Both weight matrices together by mini-batch gradient descent. No constraint on D is in the energy,
and none is added.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lincode.core.activations import ACTIVATIONS
from lincode.core.penalties import PENALTIES
from lincode.core.types import Array
from lincode.networks._layers import Weights, encode


@dataclass(frozen=True)
class SAANNEnergy:
    """E and its gradient."""

    lam: float
    activation: str = "sigmoid"

    def value(self, X: Array, D: Array, C: Array) -> float:
        """E, summed over the rows of X."""
        U = encode(X, C, self.activation)
        error = np.square(X - U @ D).sum(dtype=np.float64)
        return 0.5 * float(error) + self.lam * PENALTIES["log"].sum(U)

    def gradient(self, X: Array, D: Array, C: Array) -> Weights:
        """∂E/∂D and ∂E/∂C"""
        U = encode(X, C, self.activation)
        R = U @ D - X
        dU = R @ D.T + self.lam * PENALTIES["log"].slope(U)
        dZ = dU * ACTIVATIONS[self.activation].slope(U)
        return Weights(D=U.T @ R, C=dZ.T @ X)
