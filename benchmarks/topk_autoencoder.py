"""Compare SCNN with a TopK sparse autoencoder on hidden activations, in the same time.

    OMP_NUM_THREADS=1 python benchmarks/topk_autoencoder.py

SCNN is fitted first, with ``threshold_mode="top_k"`` and refinement. The autoencoder is then
trained with Adam for as many seconds of CPU time. Both keep 32 non-zeros per sample. The learning
rate of the autoencoder is chosen by the error of validation samples, and every learning rate gets
the full time. A unit is dead if no test or validation sample uses it.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from reconstruction_data import activations

from lincode import SCNN

K, BATCH_SIZE = 32, 256
LEARNING_RATES = (3e-4, 1e-3, 3e-3)


def keep_top_k(Z: Any, k: int) -> Any:
    """Return max(Z, 0) at the k largest entries of each row, and 0 elsewhere."""
    limit = np.partition(Z, -k, axis=1)[:, -k, None]
    return np.where(limit <= Z, np.maximum(Z, 0), 0)


class TopKAutoencoder:
    """Codes U = top_k(max(X Wᵀ + b, 0)) and reconstructions U D with ‖D[j]‖ = 1, without a bias.

    The samples are centred beforehand. The encoder starts as the decoder (tied initialisation).
    """

    def __init__(self, n_components: int, learning_rate: float, seed: int = 0) -> None:
        self.rate = learning_rate
        self.m, self.rng = n_components, np.random.default_rng(seed)

    def fit(self, X: Any, seconds: float) -> TopKAutoencoder:
        """Train with Adam until the given CPU time is over."""
        end = time.process_time() + seconds
        D = self.rng.standard_normal((self.m, X.shape[1])).astype(X.dtype)
        D /= np.linalg.norm(D, axis=1, keepdims=True)
        self.weights = [D.copy(), np.zeros(self.m, X.dtype), D]
        self.moments = [(np.zeros_like(w), np.zeros_like(w)) for w in self.weights]
        self.n_steps = 0
        while True:
            order = self.rng.permutation(len(X))
            for start in range(0, len(X) - BATCH_SIZE + 1, BATCH_SIZE):
                if time.process_time() >= end:
                    return self
                self._step(X[order[start : start + BATCH_SIZE]])

    def _step(self, X: Any) -> None:
        D = self.weights[2]
        U = self.transform(X)
        error = 2 * (U @ D - X) / len(X)
        back = (error @ D.T) * (U > 0)
        grad_D = U.T @ error
        # The length of an atom is fixed, so only the gradient orthogonal to it is used.
        grad_D -= np.sum(grad_D * D, axis=1, keepdims=True) * D
        self.n_steps += 1
        gradients = (back.T @ X, back.sum(axis=0), grad_D)
        for w, g, (mean, square) in zip(self.weights, gradients, self.moments, strict=True):
            mean += 0.1 * (g - mean)
            square += 0.001 * (g * g - square)
            scale = np.sqrt(square / (1 - 0.999**self.n_steps)) + 1e-8
            w -= self.rate * mean / (1 - 0.9**self.n_steps) / scale
        D /= np.linalg.norm(D, axis=1, keepdims=True)

    def transform(self, X: Any) -> Any:
        W, b, _ = self.weights
        return keep_top_k(X @ W.T + b, K)

    def inverse_transform(self, U: Any) -> Any:
        return U @ self.weights[2]


def unexplained(model: Any, X: Any) -> float:
    """Return the fraction of the variance of X that the reconstruction does not explain."""
    R = model.inverse_transform(model.transform(X))
    return float(np.sum((X - R) ** 2) / np.sum((X - X.mean(axis=0)) ** 2))


def n_dead(model: Any, X: Any) -> int:
    return int(np.sum(~np.any(model.transform(X) != 0, axis=0)))


def report(name: str, model: Any, seconds: float, split: Any) -> None:
    held_out = np.vstack([split.validation, split.test])
    nonzeros = np.count_nonzero(model.transform(split.test), axis=1).mean()
    cells = (
        name,
        f"{seconds:.0f}",
        f"{nonzeros:.1f}",
        f"{unexplained(model, split.train):.4f}",
        f"{unexplained(model, split.test):.4f}",
        f"{n_dead(model, held_out)}",
    )
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    warnings.simplefilter("ignore")
    split = activations()
    m = split.n_components
    SCNN(8, tol=1e-2).fit(split.train[:50])  # compiles the kernels, which is not counted
    print(f"{split.title}: N = {len(split.train)}, p = {split.train.shape[1]}, m = {m}, k = {K}")
    print("| model | CPU seconds | non-zeros | unexplained, training | test | dead units |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    start = time.process_time()
    scnn = SCNN(
        m,
        threshold_mode="top_k",
        transform_n_nonzero_coefs=K,
        refine_max_iter=50,
        random_state=0,
    ).fit(split.train)
    seconds = time.process_time() - start
    report("SCNN, refined", scnn, seconds, split)
    models = [TopKAutoencoder(m, rate).fit(split.train, seconds) for rate in LEARNING_RATES]
    best = min(models, key=lambda model: unexplained(model, split.validation))
    name = f"TopK autoencoder, learning rate {best.rate:g}, {best.n_steps} steps"
    report(name, best, seconds, split)


if __name__ == "__main__":
    main()
