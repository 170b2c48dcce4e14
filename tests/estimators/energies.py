"""The energy of a fitted network."""

from __future__ import annotations

import copy
from typing import Any

import scipy.sparse

from lincode.core.energy import energy


def energy_of_codes(scnn: Any, X: Any, U: Any) -> float:
    """Return the energy per sample of codes U, for the weights of a fitted network."""
    X = X.toarray() if scipy.sparse.issparse(X) else X
    D, C, ridge = scnn.components_, scnn.encoder_, X.shape[0] * scnn.noise_variance_
    return energy(X, U, D, C, scnn.alpha_, scnn.encoder_weight, ridge) / len(U)


def exact_energy(scnn: Any, X: Any) -> float:
    """Return the energy per sample, minimised over the codes.

    The network must have been fitted with ``transform_algorithm="exact"`` or "paper".
    """
    assert scnn.density_ is None, "the dictionary does not minimise the energy"
    exact = copy.copy(scnn).set_params(transform_algorithm="exact")
    return energy_of_codes(scnn, X, exact.transform(X))
