"""The encoder and the decoder as a module of PyTorch.

This module imports torch, so it is imported only when a module is made.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from lincode.estimators.exported_layers import ExportedLayers

ACTIVATIONS = {"sigmoid": torch.sigmoid, "tanh": torch.tanh, "linear": lambda Z: Z}


class EncoderModule(nn.Module):
    """Codes of samples and reconstructions from codes, with gradients.

    ``forward`` returns the codes. All inputs may have any number of leading dimensions.

    Attributes
    ----------
    encoder : parameter of shape (n_components, n_features)
    decoder : parameter of shape (n_components, n_features)
    gains : parameter of shape (n_components,), or None
    threshold : buffer with one number
    """

    def __init__(self, layers: ExportedLayers) -> None:
        super().__init__()
        rule, dtype = layers.thresholding, np.asarray(layers.C).dtype
        self.encoder = nn.Parameter(torch.tensor(layers.C))
        self.decoder = nn.Parameter(torch.tensor(layers.D.astype(dtype)))
        gains = None if rule is None or rule.gains is None else rule.gains.astype(dtype)
        self.gains = None if gains is None else nn.Parameter(torch.tensor(gains))
        limit = 0.0 if rule is None else min(rule.threshold, float(np.finfo(dtype).max))
        self.register_buffer("threshold", torch.tensor(limit, dtype=self.encoder.dtype))
        self.mode = layers.activation if rule is None else rule.mode
        self.k = 0 if rule is None else rule.k
        self.positive = rule is not None and rule.positive
        self.split_sign = layers.split_sign

    def forward(self, X: Any) -> Any:
        """Return the codes of samples X, of shape (..., n_features)."""
        U = self._codes(nn.functional.linear(X, self.encoder))
        if self.gains is not None:
            U = U * self.gains
        return torch.cat([U.clamp(min=0), (-U).clamp(min=0)], dim=-1) if self.split_sign else U

    def decode(self, U: Any) -> Any:
        """Return the reconstructions of samples with codes U, as returned by ``forward``."""
        if self.split_sign:
            m = len(self.encoder)
            U = U[..., :m] - U[..., m:]
        return U @ self.decoder

    def reconstruct(self, X: Any) -> Any:
        """Return the reconstructions of samples X from their codes."""
        return self.decode(self(X))

    def _codes(self, Z: Any) -> Any:
        """Return the codes for the output Z of the encoder, without gains."""
        if self.mode == "soft":
            low = None if self.positive else -self.threshold
            return Z - Z.clamp(min=low, max=self.threshold)
        if self.mode == "hard":
            magnitude = Z if self.positive else Z.abs()
            return torch.where(magnitude <= self.threshold, torch.zeros_like(Z), Z)
        if self.mode == "top_k":
            values = Z.clamp(min=0) if self.positive else Z
            indices = values.abs().topk(self.k, dim=-1).indices
            zeros = Z.detach() - Z.detach()  # or NaN, so that it does not become zero
            return zeros.scatter(-1, indices, values.gather(-1, indices))
        return ACTIVATIONS[self.mode](Z)

    def extra_repr(self) -> str:
        """Return what ``print`` shows."""
        m, p = self.encoder.shape
        return f"{p} features, {m} components, {self.mode}"
