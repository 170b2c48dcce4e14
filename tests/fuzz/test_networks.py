"""SAANN, ASCNN and Sparsenet on valid data: energies, codes and copies."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import lincode
from tests.fuzz.cases import fuzz
from tests.fuzz.data import Rows
from tests.fuzz.recipes import Recipe, recipes
from tests.fuzz.strategies import rows
from tests.fuzz.support import fingerprint, state
from tests.fuzz.watching import attempt, watched

pytestmark = pytest.mark.slow

NETWORKS = ("SAANN", "ASCNN", "Sparsenet")
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "sigmoid": lambda Z: 1 / (1 + np.exp(-np.clip(Z, -700, 700))),
    "tanh": np.tanh,
    "linear": lambda Z: Z,
}


def expected_energy(model: Any, X: Any, U: Any) -> float:
    """The energy per sample of SAANN and ASCNN in float64, from the codes U = φ(X Cᵀ)."""
    D, C = (np.asarray(A, dtype=np.float64) for A in (model.components_, model.encoder_))
    inputs = U if type(model).__name__ == "SAANN" else X @ C.T / model.sigma
    penalty = float(np.log1p(inputs**2).sum())
    return (0.5 * float(((X - U @ D) ** 2).sum()) + float(model.alpha) * penalty) / len(X)


@given(rows(largest=15), recipes(NETWORKS), st.booleans())
@fuzz(60)
def test_networks(data: Rows, recipe: Recipe, again: bool) -> None:
    X, reference = data.build(), data.reference()
    before = fingerprint(X)
    model = recipe.build(data.p)
    _, fitted = attempt(lambda: model.fit(X), "fit")
    assert fingerprint(X) == before, "fit must not change X"
    if not fitted:
        assert not state(model), "a refused fit must not leave attributes"
        return
    path = model.energy_path_
    assert np.isfinite(path).all(), f"energies must be finite, got {path}"
    assert (path >= 0).all(), f"energies are not negative, got {path}"
    assert len(path) == model.n_iter_ + 1, "energy_path_ must have n_iter_ + 1 entries"
    if recipe.name != "Sparsenet":
        assert model.energy_ == path.min(), "the best pass must be kept"
    codes, encoded = attempt(lambda: model.transform(X), "transform")
    if not encoded:
        return
    U = np.asarray(codes, dtype=np.float64)
    assert np.isfinite(U).all(), "codes must be finite"
    if recipe.name != "Sparsenet":
        Z = reference @ np.asarray(model.encoder_, dtype=np.float64).T
        size = np.abs(reference) @ np.abs(model.encoder_.astype(np.float64)).T
        error = np.abs(U - ACTIVATIONS[model.activation](Z))
        eps = float(np.finfo(codes.dtype).eps)
        assert (error <= 200 * eps * (1 + size)).all(), "a code is not φ(X Cᵀ)"
    some = np.arange(0, len(U), 2)[::-1]
    part = reference.astype(data.precision())[some]
    with watched():
        V = np.asarray(model.transform(part), dtype=np.float64)
        W = np.asarray(model.transform(scipy.sparse.csr_array(part)), dtype=np.float64)
    if recipe.name != "Sparsenet":  # its local minima may depend on rounding
        size = np.abs(part.astype(np.float64)) @ np.abs(model.encoder_.astype(np.float64)).T
        slack = 200 * eps * (1 + size)
        assert (np.abs(V - U[some]) <= slack).all(), "codes depend on other samples"
        assert (np.abs(W - V) <= slack).all(), "codes of sparse samples differ"
    check_copies(model, X, codes)
    if again:
        refit(model, data)


def check_copies(model: Any, X: Any, codes: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.skops")
        lincode.save(model, path)
        loaded = lincode.load(path)
    with watched():
        twin = clone(model).fit(X)
    for what, other in {
        "pickle": pickle.loads(pickle.dumps(model)),
        "load": loaded,
        "a second fit": twin,
    }.items():
        with watched():
            assert np.array_equal(other.transform(X), codes), f"{what} changed the codes"


def refit(model: Any, data: Rows) -> None:
    """A second fit on other data, warm or not, is finite, or refused without a change."""
    before = state(model)
    other = replace(data.with_seed(1), container="array").build()
    _, fitted = attempt(lambda: model.fit(other), "a second fit")
    if fitted:
        assert np.isfinite(model.energy_path_).all(), "energies must be finite"
        assert np.isfinite(model.components_).all(), "atoms must be finite"
    else:
        assert state(model) == before, "a refused fit must not change the model"
