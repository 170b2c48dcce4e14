"""The optimality conditions of the lasso problem."""

from typing import Any

import numpy as np


def code_violation(U: Any, G: Any, tau: float, *, positive: bool = False) -> Any:
    """Return the largest violation of the optimality conditions in each row.

    With the gradient G = U H − b the conditions are |G + τ sign U| = 0 where U ≠ 0, and |G| ≤ τ
    where U = 0 (with the constraint U ≥ 0, G ≥ −τ there).
    """
    at_zero = np.maximum(-G - tau, 0) if positive else np.maximum(np.abs(G) - tau, 0)
    violation = np.where(U == 0, at_zero, np.abs(G + tau * np.sign(U)))
    return violation.max(axis=1, initial=0)
