"""Gradient steps whose length does not depend on the gradient's scale (Kingma and Ba 2015)."""

from __future__ import annotations

import numpy as np

from lincode.core.types import Array

DECAY, DECAY_SQUARE = 0.9, 0.999
"""How much of the past the running means of the gradient and of its square keep."""


class Adam:
    """One array of weights on its way down; steps are about ``rate`` long in each entry.

    All is done in place and in the precision of the weights: at the size of a layer, what costs is
    memory. ``unit`` is about the size of a gradient, so that its square is within range.
    """

    def __init__(self, weights: Array, *, unit: float = 1.0) -> None:
        self.weights, self.unit = weights.copy(), unit
        self.mean, self.square, self.age = np.zeros_like(weights), np.zeros_like(weights), 0
        self._change, self._step = np.empty_like(weights), np.empty_like(weights)

    def step(self, gradient: Array, rate: float) -> None:
        """``weights`` against the gradient."""
        self.age += 1
        change, step = self._change, self._step
        np.multiply(gradient, 1 / self.unit, out=step)
        np.subtract(step, self.mean, out=change)
        change *= 1 - DECAY
        self.mean += change
        np.square(step, out=change)
        change -= self.square
        change *= 1 - DECAY_SQUARE
        self.square += change
        # Entries without a gradient, or one whose square is below what floats can hold, stay.
        np.sqrt(self.square, out=step)
        np.divide(self.mean, step, out=step, where=step > 0)
        step *= rate * np.sqrt(1 - DECAY_SQUARE**self.age) / (1 - DECAY**self.age)
        self.weights -= step
