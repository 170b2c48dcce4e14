"""Sequences of calls on one estimator: fits, batches, changes of parameters, copies, refusals.

After every call the learned arrays are finite and the atoms are not too long. A refused call leaves
the model as it was.
"""

from __future__ import annotations

import pickle
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import lincode
from lincode import SCNN, MiniBatchSCNN
from tests.fuzz import invariants as inv
from tests.fuzz.cases import fuzz
from tests.fuzz.data import Rows
from tests.fuzz.recipes import PARAMETERS, Recipe, recipes
from tests.fuzz.strategies import rows
from tests.fuzz.support import dense, fingerprint, state
from tests.fuzz.watching import attempt, watched

pytestmark = pytest.mark.slow

CALLS = ("fit", "partial_fit", "fit_batches", "transform", "score", "calibrate", "reconstruct")
COPIES = ("pickle", "load", "clone", "set_params", "bad_params")
BAD_PARAMETERS: list[dict[str, Any]] = [
    {"alpha": -1},
    {"n_components": 0},
    {"encoder_weight": float("nan")},
    {"threshold": "x"},
    {"tol": None},
    {"positive_code": True, "split_sign": True},
    {"transform_algorithm": "fastest"},
    {"unknown": 1},
]


@dataclass(frozen=True)
class Step:
    """One call, with data or parameters."""

    call: str
    data: Rows = field(default_factory=Rows)
    parameters: dict[str, Any] = field(default_factory=dict)
    weighted: bool = False
    missing: bool = False

    def samples(self) -> Any:
        if not self.missing:
            return self.data.build()
        X = self.data.reference().astype(self.data.precision())
        holes = np.random.default_rng(0).random(X.shape) < 0.2
        return np.where(holes, np.asarray(np.nan, X.dtype), X)

    def weights(self) -> Any:
        if not self.weighted:
            return None
        return np.random.default_rng(0).choice([0.0, 0.5, 1.0, 3.0], self.data.n)


@st.composite
def steps(draw: st.DrawFn, recipe: Recipe, p: int) -> Step:
    call = draw(st.sampled_from(CALLS + COPIES))
    if call == "set_params":
        names = draw(st.lists(st.sampled_from(sorted(PARAMETERS[recipe.name])), max_size=3))
        return Step(call, parameters={name: draw(PARAMETERS[recipe.name][name]) for name in names})
    if call == "bad_params":
        return Step(call, parameters=draw(st.sampled_from(BAD_PARAMETERS)))
    if call in COPIES:
        return Step(call)
    other = draw(st.integers(0, 9)) == 0
    data = replace(draw(rows(largest=10, p=p + other)), container="array")
    return Step(call, data, weighted=draw(st.booleans()), missing=draw(st.booleans()))


@st.composite
def sequences(draw: st.DrawFn) -> tuple[Recipe, list[Step]]:
    recipe = draw(recipes(("SCNN", "MiniBatchSCNN", "MiniBatchSCNN")))
    p = draw(st.integers(1, 8))
    first = "fit" if draw(st.booleans()) else "partial_fit"
    data = replace(draw(rows(largest=10, p=p)), container="array")
    return recipe, [Step(first, data), *draw(st.lists(steps(recipe, p), max_size=6))]


def apply(model: Any, step: Step) -> Any:
    """Return the model after the step: the same one, or a copy."""
    X = step.samples()
    if step.call == "fit":
        return model.fit(X, sample_weight=step.weights())
    if step.call == "partial_fit":
        if not isinstance(model, MiniBatchSCNN):
            return model.fit(X)
        return model.partial_fit(X, sample_weight=step.weights())
    if step.call == "fit_batches":
        return model.fit_batches([X, X]) if isinstance(model, MiniBatchSCNN) else model.fit(X)
    if step.call == "calibrate":
        return model.calibrate(X)
    if step.call == "clone":
        return clone(model)
    assert step.call in ("set_params", "bad_params")
    return model.set_params(**step.parameters)


def observe(model: Any, step: Step) -> None:
    """Call a method that must not change the model."""
    X = step.samples()
    before, learned = fingerprint(X), state(model)
    result, accepted = attempt(lambda: getattr(model, step.call)(X), step.call)
    assert fingerprint(X) == before, f"{step.call} must not change X"
    assert state(model) == learned, f"{step.call} must not change the model"
    if accepted:
        assert np.isfinite(dense(result)).all(), f"the result of {step.call} must be finite"


def copied(model: Any, how: str) -> Any:
    """Return a copy, which has the same codes."""
    if how == "load" and hasattr(model, "components_"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.skops")
            lincode.save(model, path)
            other = lincode.load(path)
    else:
        other = pickle.loads(pickle.dumps(model))
    if hasattr(model, "components_"):
        X = np.random.default_rng(0).standard_normal((3, model.n_features_in_))
        X = X.astype(model.components_.dtype)
        codes, accepted = attempt(lambda: model.transform(X), "transform")
        if accepted:
            with watched():
                assert np.array_equal(dense(other.transform(X)), dense(codes)), f"{how}: codes"
    return other


def check(model: Any) -> None:
    if hasattr(model, "components_"):
        inv.check_finite(model)
        inv.check_atoms(model)
        if isinstance(model, SCNN):
            inv.check_energy_path(model)


@given(sequences())
@fuzz(60)
def test_sequences(case: tuple[Recipe, list[Step]]) -> None:
    recipe, sequence = case
    model = recipe.build(sequence[0].data.p)
    for step in sequence:
        if step.call in ("transform", "score", "reconstruct"):
            observe(model, step)
        elif step.call in ("pickle", "load"):
            model = copied(model, step.call)
        else:
            before, parameters = state(model), model.get_params()
            changed, accepted = attempt(lambda: apply(model, step), step.call)  # noqa: B023
            if not accepted:
                assert state(model) == before, f"{step.call}: a refusal must not change the model"
            if step.call == "bad_params":
                model.set_params(**parameters)
            model = changed if accepted and step.call == "clone" else model
        check(model)
