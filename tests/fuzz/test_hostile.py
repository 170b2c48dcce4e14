"""Every estimator with every kind of input: it is refused with a sentence, or all promises hold."""

from __future__ import annotations

import copy
import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from sklearn.base import clone

import lincode
from lincode import SCNNCV
from tests.fuzz import invariants as inv
from tests.fuzz.cases import fuzz
from tests.fuzz.hostile import Hostile, hostile_inputs
from tests.fuzz.recipes import Recipe, recipes
from tests.fuzz.support import dense, fingerprint, state
from tests.fuzz.watching import assert_refused, attempt, watched

NAMES = "feature_names_in_"

pytestmark = pytest.mark.slow


def check_learned(model: Any) -> None:
    """Every number that was learned is finite, no atom of SCNN is too long, the energy falls."""
    for name, value in vars(model).items():
        if name.endswith("_") and isinstance(value, np.ndarray | float) and name != NAMES:
            assert np.isfinite(value).all(), f"{name} must be finite, got {value}"
    if hasattr(model, "usage_"):
        inv.check_finite(model)
        inv.check_atoms(model)
    if type(model).__name__ == "SCNN":
        inv.check_energy_path(model)


def check_codes(model: Any, X: Any, codes: Any, reference: Any) -> None:
    """The codes are finite and have a row per sample; those of a sample need no other sample."""
    U = dense(codes)
    assert len(U) == len(reference), f"codes have shape {U.shape}"
    assert np.isfinite(U).all(), "codes must be finite"
    assert U.dtype in (np.float64, np.float32), f"codes have dtype {U.dtype}"
    if getattr(model, "positive_code", False) or getattr(model, "split_sign", False):
        assert (U >= 0).all(), "codes must not be negative"
    back, _ = attempt(lambda: model.inverse_transform(codes), "inverse_transform")
    if back is not None:
        assert back.shape == reference.shape, "reconstructions have the shape of X"
        assert np.isfinite(back).all(), "reconstructions must be finite"


def check_copies(model: Any, X: Any, codes: Any) -> None:
    """Copies of the model give the same codes."""
    copies = {"pickle": pickle.loads(pickle.dumps(model)), "deepcopy": copy.deepcopy(model)}
    if not isinstance(model, SCNNCV):  # load does not trust it
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.skops")
            lincode.save(model, path)
            copies["load"] = lincode.load(path)
    for what, other in copies.items():
        with watched():
            same = np.array_equal(dense(other.transform(X)), dense(codes))
        assert same, f"{what} changed the codes"


@given(recipes(), hostile_inputs())
@fuzz(150, part=4)
def test_hostile_input(recipe: Recipe, data: Hostile) -> None:
    X = data.build()
    before = fingerprint(X)
    model = recipe.build(data.rows.p)
    if data.refused_by_all:
        assert_refused(lambda: model.fit(X), "fit")
        assert not state(model), "a refused fit must not leave attributes"
        return
    _, fitted = attempt(lambda: model.fit(X), "fit")
    assert fingerprint(X) == before, "fit must not change X"
    if not fitted:
        assert not state(model), "a refused fit must not leave attributes"
        return
    learner = model.best_estimator_ if isinstance(model, SCNNCV) else model
    check_learned(learner)
    reference = data.reference()
    learned = state(model)
    codes, encoded = attempt(lambda: model.transform(X), "transform")
    assert fingerprint(X) == before, "transform must not change X"
    if encoded:
        check_codes(learner, X, codes, reference)
        check_copies(learner, X, codes)
    score, scored = attempt(lambda: getattr(model, "score", lambda X: 0.0)(X), "score")
    assert not scored or np.isfinite(score), f"score must be finite, got {score}"
    back, reconstructed = attempt(lambda: model.reconstruct(X), "reconstruct")
    assert not reconstructed or np.isfinite(dense(back)).all(), "reconstructions must be finite"
    assert state(model) == learned, "transform, score and reconstruct must not change the model"
    twin, _ = attempt(lambda: clone(model).fit(X), "fit of a clone")
    if encoded and not scipy.sparse.issparse(X):
        with watched():
            same = np.array_equal(dense(twin.transform(X)), dense(codes))
        assert same, "the same seed must give the same bits"
