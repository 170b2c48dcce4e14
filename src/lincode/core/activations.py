"""What hidden units do with their input: φ and its slope φ', the latter from the output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.special

from lincode.core.types import Array


@dataclass(frozen=True)
class Activation:
    """φ, entry by entry."""

    of: Callable[[Array], Array]
    """U = φ(Z)"""
    slope: Callable[[Array], Array]
    """φ'(Z) as a function of U = φ(Z)"""


ACTIVATIONS = {
    "sigmoid": Activation(scipy.special.expit, lambda U: U * (1 - U)),
    "tanh": Activation(np.tanh, lambda U: 1 - U * U),
    "linear": Activation(np.array, np.ones_like),
}
