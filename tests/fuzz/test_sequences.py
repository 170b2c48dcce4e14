"""Sequences of calls on one estimator: fits, batches, changes of parameters, copies, refusals.

After every call the learned arrays are finite and the atoms are not too long. A refused call leaves
the model as it was.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.base import clone

from lincode import SCNN, MiniBatchSCNN
from tests.fuzz import invariants as inv
from tests.fuzz.data import Rows, rows
from tests.fuzz.strategies import EXTREME, EXTREME_BATCHES
from tests.fuzz.support import attempt, dense, fingerprint, fuzz, state

pytestmark = pytest.mark.slow

CHANGES = ("fit", "partial_fit", "calibrate")
QUESTIONS = ("transform", "score", "reconstruct")
BAD_PARAMETERS: list[dict[str, Any]] = [
    {"alpha": -1},
    {"alpha": "0.1*max"},
    {"density": 0.0},
    {"density": 1.5},
    {"n_components": 0},
    {"encoder_weight": float("nan")},
    {"refine": True, "transform_algorithm": "exact"},
    {"transform_algorithm": "omp", "positive_code": True},
    {"tol": None},
    {"positive_code": True, "split_sign": True},
    {"transform_algorithm": "fastest"},
]


@dataclass(frozen=True)
class Step:
    """One call, with data or parameters."""

    call: str
    data: Rows = field(default_factory=Rows)
    parameters: dict[str, Any] = field(default_factory=dict)


@st.composite
def parameters_of(draw: st.DrawFn, minibatch: bool, most: int) -> dict[str, Any]:
    """Few parameters that differ from the defaults."""
    pool = EXTREME_BATCHES if minibatch else EXTREME
    names = draw(st.lists(st.sampled_from(sorted(pool)), max_size=most, unique=True))
    return {name: draw(pool[name]) for name in names}


@st.composite
def steps(draw: st.DrawFn, minibatch: bool, p: int) -> Step:
    call = draw(st.sampled_from([*CHANGES, *QUESTIONS, "set_params", "bad", "pickle", "clone"]))
    if call == "set_params":
        return Step(call, parameters=draw(parameters_of(minibatch, 3)))
    if call == "bad":
        return Step(call, parameters=draw(st.sampled_from(BAD_PARAMETERS)))
    other = draw(st.integers(0, 9)) == 0  # another number of features
    data = draw(rows(largest=10, p=p + other, missing=draw(st.booleans())))
    return Step(call, replace(data, container="array"))


@st.composite
def sequences(draw: st.DrawFn) -> tuple[bool, dict[str, Any], list[Step]]:
    minibatch, p = draw(st.sampled_from([False, True, True])), draw(st.integers(1, 8))
    parameters = draw(parameters_of(minibatch, 20)) | {"max_iter": 2, "random_state": 0}
    first = Step("partial_fit", replace(draw(rows(largest=10, p=p)), container="array"))
    return minibatch, parameters, [first, *draw(st.lists(steps(minibatch, p), max_size=6))]


def change(model: Any, step: Step) -> Any:
    if step.call in CHANGES:
        learns_batches = step.call == "partial_fit" and isinstance(model, MiniBatchSCNN)
        method = step.call if learns_batches or step.call == "calibrate" else "fit"
        return getattr(model, method)(step.data.build())
    return model.set_params(**step.parameters)


def observe(model: Any, step: Step) -> None:
    """Call a method that must not change the model."""
    X, learned = step.data.build(), state(model)
    before = fingerprint(X)
    result, accepted = attempt(lambda: getattr(model, step.call)(X), step.call)
    assert fingerprint(X) == before, f"{step.call} must not change X"
    assert state(model) == learned, f"{step.call} must not change the model"
    if accepted:
        assert np.isfinite(dense(result)).all(), f"the result of {step.call} must be finite"
        copied = pickle.loads(pickle.dumps(model))
        again, _ = attempt(lambda: getattr(copied, step.call)(X), step.call)
        assert np.array_equal(dense(again), dense(result)), f"{step.call} of a pickled model"


LARGE_FLOAT64 = Step("partial_fit", Rows(n=1, p=1, exponent=100))
LARGE_FIT = Step("fit", Rows(n=1, p=1, exponent=100, missing=0.1))
SMALL_FLOAT32 = Step("partial_fit", Rows(n=1, p=1, dtype="float32"))


@given(sequences())
@example((True, {"max_iter": 2, "random_state": 0}, [LARGE_FLOAT64, SMALL_FLOAT32]))
@example((True, {"max_iter": 2, "random_state": 0}, [SMALL_FLOAT32, LARGE_FIT, SMALL_FLOAT32]))
@fuzz(60)
def test_sequences(case: tuple[bool, dict[str, Any], list[Step]]) -> None:
    minibatch, parameters, sequence = case
    model: Any = (MiniBatchSCNN if minibatch else SCNN)(**parameters)
    for step in sequence:
        if step.call in QUESTIONS:
            observe(model, step)
        elif step.call in ("pickle", "clone"):
            model = clone(model) if step.call == "clone" else pickle.loads(pickle.dumps(model))
        else:
            before, good = state(model), model.get_params()
            if step.call == "bad":
                model.set_params(**step.parameters)
                _, accepted = attempt(lambda: model.fit(step.data.build()), "bad")  # noqa: B023
                assert not accepted, f"{step.parameters} must be refused"
                model.set_params(**good)
            else:
                _, accepted = attempt(lambda: change(model, step), step.call)  # noqa: B023
            if not accepted:
                assert state(model) == before, f"{step.call}: a refusal must not change the model"
        if hasattr(model, "components_"):
            inv.check_arrays(model)
            if not minibatch:
                inv.check_energy_path(model)
