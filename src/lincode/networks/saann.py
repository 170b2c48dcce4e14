"""The energy of SAANN, a sparse auto-associative network (paper eq. 2; Sivaram et al. 2010).

    E(D, C) = ½‖X − U D‖² + λ Σ log(1 + u²),      U = φ(X Cᵀ)

Both weight matrices are learned together by mini-batches (``layers.py``). The energy does not
constrain the length of the atoms, and no constraint is added.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lincode.core.smooth_functions import ACTIVATIONS, PENALTIES
from lincode.core.types import Array
from lincode.networks.layers import Layers, apply_encoder


@dataclass(frozen=True)
class SAANNEnergy:
    """E and its gradient, summed over the rows of X."""

    lam: float
    activation: str = "sigmoid"

    def value(self, X: Array, D: Array, C: Array) -> float:
        """Return E(D, C)."""
        U = apply_encoder(X, C, self.activation)
        squared_error = np.square(X - U @ D).sum(dtype=np.float64)
        return 0.5 * float(squared_error) + self.lam * PENALTIES["log"].sum(U)

    def gradient(self, X: Array, D: Array, C: Array) -> Layers:
        """Return ∂E/∂D and ∂E/∂C."""
        U = apply_encoder(X, C, self.activation)
        R = U @ D - X
        dU = R @ D.T + self.lam * PENALTIES["log"].derivative(U)
        dZ = dU * ACTIVATIONS[self.activation].derivative_from_output(U)
        return Layers(D=U.T @ R, C=dZ.T @ X)
