"""A BatchTopK sparse autoencoder in torch, the peer of ``front.py`` for network activations.

Codes are ReLU outputs, of which the k · n largest of a batch of n samples are kept; at the end one
threshold replaces them. Units that were not used for 20,000 samples reconstruct the residual in an
auxiliary loss. The decoder has atoms of length 1, and the centre is trained.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

BATCH_SIZE, RATE = 1024, 3e-3
AUX_WEIGHT, IDLE_SAMPLES = 1 / 32, 20_000


class BatchTopK:
    """The autoencoder with ``n_components`` units and k non-zeros per sample."""

    def __init__(self, n_components: int, k: int, seed: int = 0) -> None:
        self.m, self.k, self.seed = n_components, k, seed

    def fit(self, X: Any, seconds: float) -> BatchTopK:
        """Train with Adam for the given time; the rate decreases over the last third."""
        torch.manual_seed(self.seed)
        scale = float(np.sqrt(np.mean(np.sum(X**2, axis=1))))
        data = torch.tensor(np.asarray(X / scale, np.float32))
        D = torch.nn.functional.normalize(torch.randn(self.m, data.shape[1]), dim=1)
        self.D = torch.nn.Parameter(D)
        self.W = torch.nn.Parameter(D.clone())
        self.b = torch.nn.Parameter(torch.zeros(self.m))
        self.c = torch.nn.Parameter(data.mean(dim=0))
        adam = torch.optim.Adam([self.D, self.W, self.b, self.c], lr=RATE)
        idle, start = torch.zeros(self.m), time.perf_counter()
        size = min(BATCH_SIZE, len(data))
        while (elapsed := (time.perf_counter() - start) / seconds) < 1:
            for group in adam.param_groups:
                group["lr"] = RATE * min(1.0, 3 * (1 - elapsed))
            batch = data[torch.randint(len(data), (size,))]
            idle = self._step(adam, batch, idle)
        with torch.no_grad():
            sample = data[torch.randint(len(data), (min(len(data), 10_000),))]
            Z = self._outputs(sample).flatten()
            self.threshold = float(torch.topk(Z, self.k * len(sample)).values[-1])
            self.components_ = self.D.numpy() * scale
            self.centre_ = self.c.numpy() * scale
            self.scale = scale
        return self

    def _outputs(self, X: Any) -> Any:
        return torch.relu((X - self.c) @ self.W.T + self.b)

    def _step(self, adam: Any, X: Any, idle: Any) -> Any:
        Z = self._outputs(X)
        limit = torch.topk(Z.flatten(), min(self.k * len(X), Z.numel())).values[-1]
        U = Z * (limit <= Z)
        R = X - self.c - U @ self.D
        loss = R.square().sum(dim=1).mean()
        dead = idle > IDLE_SAMPLES
        if dead.any():
            outputs = (X - self.c) @ self.W.T + self.b
            Z_dead = torch.where(dead, outputs, outputs.new_full((), -torch.inf))
            n = min(int(dead.sum()), X.shape[1] // 2)
            values, units = torch.topk(Z_dead, n, dim=1)
            U_dead = torch.zeros_like(outputs).scatter(1, units, torch.relu(values))
            aux = (R.detach() - U_dead @ self.D).square().sum(dim=1).mean()
            loss = loss + AUX_WEIGHT * aux
        adam.zero_grad()
        loss.backward()
        adam.step()
        with torch.no_grad():
            self.D /= self.D.norm(dim=1, keepdim=True)
        return torch.where((U > 0).any(dim=0), torch.zeros(()), idle + len(X))

    def transform(self, X: Any) -> Any:
        with torch.no_grad():
            Z = self._outputs(torch.tensor(np.asarray(X / self.scale, np.float32)))
            return (Z * (self.threshold < Z)).numpy()
