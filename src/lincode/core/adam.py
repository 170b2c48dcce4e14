"""Gradient steps whose length does not depend on the gradient's scale (Kingma and Ba 2015)."""

from __future__ import annotations

import numpy as np

from lincode.core.types import Array

DECAY, DECAY_SQUARE = 0.9, 0.999
"""How much of the past the running means of the gradient and of its square keep."""


class Adam:
    """One array of weights on its way down; steps are about ``rate`` long in each entry."""

    def __init__(self, weights: Array) -> None:
        self.weights = weights
        self.mean, self.square, self.age = np.zeros_like(weights), np.zeros_like(weights), 0

    def step(self, gradient: Array, rate: float) -> None:
        """``weights`` against the gradient; a new array, so that old ones can be kept."""
        self.age += 1
        self.mean = DECAY * self.mean + (1 - DECAY) * gradient
        self.square = DECAY_SQUARE * self.square + (1 - DECAY_SQUARE) * gradient**2
        mean = self.mean / (1 - DECAY**self.age)
        size = np.sqrt(self.square / (1 - DECAY_SQUARE**self.age))
        step = np.divide(mean, size, out=np.zeros_like(mean), where=size > 0)
        self.weights = self.weights - rate * step
