"""The update of one block of atoms in a sweep of the D step, compiled by Numba.

This module imports Numba, so ``dictionary_step.py`` imports it only when it is needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lincode.core.compiler import compiled


@compiled
def update_block(
    D: Any, block: Any, UtU: Any, negative_gradient: Any, change: Any, positive: bool
) -> None:
    """Update the atoms of a block in turn, in place.

    ``UtU`` is that of the block, shape (n, n). ``negative_gradient`` (n, p) is UtX − UtU D for the
    atoms before the update, and is overwritten. ``change`` is scratch memory of the same shape:
    the changes of the atoms that are already updated correct the gradient of the next one.
    """
    n, p = negative_gradient.shape
    for k in range(n):
        j = block[k]
        for i in range(k):
            weight = UtU[k, i]
            if weight != 0:
                for q in range(p):
                    negative_gradient[k, q] -= weight * change[i, q]
        square = 0.0
        for q in range(p):
            entry = D[j, q] + negative_gradient[k, q] / UtU[k, k]
            if positive:
                entry = max(entry, 0.0)
            negative_gradient[k, q] = entry
            square += entry * entry
        length = max(np.sqrt(square), 1.0)
        for q in range(p):
            entry = negative_gradient[k, q] / length
            change[k, q] = entry - D[j, q]
            D[j, q] = entry
