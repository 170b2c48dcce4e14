"""Bad input and bad parameters are refused with a sentence, and a refusal changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from lincode import SCNN, MiniBatchSCNN
from tests.fuzz.cases import fuzz
from tests.fuzz.data import Rows
from tests.fuzz.recipes import Recipe, recipes
from tests.fuzz.strategies import ALGORITHM, Network, minibatch_networks, rows, scnn_networks
from tests.fuzz.support import fitted, state
from tests.fuzz.watching import assert_refused, attempt

pytestmark = pytest.mark.slow


def _with_entry(X: Any, value: Any, kind: Any = np.float64) -> Any:
    X = np.ones(X.shape, dtype=kind)
    X[-1, -1] = value
    return X


BAD_DATA: dict[str, Callable[[Any], Any]] = {
    "infinity": lambda X: _with_entry(X, -np.inf),
    "NaN and infinity": lambda X: np.where(np.eye(*X.shape) > 0, np.inf, np.nan),
    "NaN in CSR": lambda X: scipy.sparse.csr_matrix(_with_entry(X, np.nan)),
    "infinity in a frame": lambda X: pd.DataFrame(_with_entry(X, np.inf)),
    "text": lambda X: _with_entry(X, "many", object),
    "complex": lambda X: _with_entry(X, 1j, np.complex128),
    "too large": lambda X: _with_entry(X, 1e200),
    "too small": lambda X: np.full(X.shape, 1e-200),
    "too large in float32": lambda X: _with_entry(X, 1e30, np.float32),
    "too small in CSR": lambda X: scipy.sparse.csr_array(np.full(X.shape, 1e-30, np.float32)),
    "one dimension": lambda X: X[0],
    "three dimensions": lambda X: X[None],
    "no rows": lambda X: X[:0],
    "no columns": lambda X: X[:, :0],
    "a number": lambda X: 3.0,
    "nothing": lambda X: None,
    "a string": lambda X: "X.npy",
    "ragged": lambda X: [[1.0, 2.0], [3.0]],
    "a dict": lambda X: {"x": [1.0, 2.0]},
}

BAD_NUMBERS = (-1, -1e-9, float("nan"), float("inf"), "x", [0.1], np.array([0.1, 0.2]), 10**400)
BAD_PARAMETERS: dict[str, tuple[Any, ...]] = {
    "n_components": (0, -3, 1.5, "3", True, [3]),
    "alpha": (*BAD_NUMBERS, None, True),
    "encoder_weight": (*BAD_NUMBERS, None, False),
    "threshold": (*BAD_NUMBERS, True),
    ALGORITHM: ("lars", "", None, 3),
    "split_sign": ("yes", None, 2),
    "sparse_output": ("yes", None, 2),
    "positive_code": ("yes", None, 2),
    "init": ("random", None, 3.0, [["a"]], np.full((4, 3), np.nan), np.ones((97, 3)), np.ones(4)),
    "tol": (*BAD_NUMBERS, None),
    "transform_tol": (*BAD_NUMBERS, None),
    "max_iter": (0, -1, 1.5, "3", float("inf")),
    "n_jobs": (0, 1.5, "2", True),
    "random_state": ("x", -1, 1.5, [[]]),
    "verbose": (-1, "yes", None),
    "solver": ("lars", None, 1),
    "callback": (3, "print"),
    "encoder_ridge": (-1, float("nan"), "x", None),
    "threshold_mode": ("x", None, 3),
    "fit_gains": ("yes", None),
    "fit_decoder": ("yes", None),
    "refine_max_iter": (-1, 1.5, "x"),
    "batch_size": (0, -1, 1.5),
    "half_life": (0, -1.0, float("nan"), "x"),
    "max_no_improvement": (0, 1.5, "x"),
}


def check_unchanged(model: Any, call: Callable[[], Any], what: str) -> None:
    """The call is refused, and what the model has learned stays as it was."""
    before = state(model)
    assert_refused(call, what)
    assert state(model) == before, f"{what}: a refused call must not change the model"


@given(rows(largest=12), scnn_networks(), st.sampled_from(sorted(BAD_DATA)), st.booleans())
@fuzz(40, part=0.2)
def test_bad_data(data: Rows, network: Network, bad: str, minibatch: bool) -> None:
    cls = MiniBatchSCNN if minibatch else SCNN
    network = Network(network.n_components, network.alpha_fraction, "data", network.parameters)
    model, _, reference = fitted(cls, data, network)
    X = BAD_DATA[bad](reference)
    check_unchanged(model, lambda: model.fit(X), f"fit of {bad}")
    check_unchanged(model, lambda: model.score(X), f"score of {bad}")
    if not bad.startswith("too "):  # the encoder has no need of squares
        check_unchanged(model, lambda: model.transform(X), f"transform of {bad}")
    if minibatch:
        check_unchanged(model, lambda: model.partial_fit(X), f"partial_fit of {bad}")
    wider = np.ones((3, data.p + 1))
    check_unchanged(model, lambda: model.transform(wider), "transform of other features")
    if minibatch:
        check_unchanged(model, lambda: model.partial_fit(wider), "partial_fit of other features")
    assert_refused(lambda: cls().transform(reference), "transform before fit")
    assert_refused(lambda: cls().score(reference), "score before fit")


@st.composite
def bad_parameters(draw: st.DrawFn) -> tuple[str, Any]:
    name = draw(st.sampled_from(sorted(BAD_PARAMETERS)))
    return name, draw(st.sampled_from(BAD_PARAMETERS[name]))


@given(rows(largest=8), scnn_networks(), minibatch_networks(), bad_parameters(), st.booleans())
@fuzz(60, part=0.2)
def test_bad_parameters(
    data: Rows, network: Network, batch_network: Network, bad: tuple[str, Any], minibatch: bool
) -> None:
    cls = MiniBatchSCNN if minibatch else SCNN
    model, X, _ = fitted(cls, data, batch_network if minibatch else network)
    name, value = bad
    if name not in model.get_params():
        return
    model.set_params(**{name: value})
    check_unchanged(model, lambda: model.fit(X), f"fit with {name}={value!r}")
    if minibatch and name != "random_state" and name != "init":
        check_unchanged(model, lambda: model.partial_fit(X), f"partial_fit with {name}={value!r}")


JUNK: dict[str, Any] = {
    "None": None,
    "True": True,
    "text": "junk",
    "empty text": "",
    "minus one": -1,
    "zero": 0,
    "half": 0.5,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "huge": 10**400,
    "complex": 1j,
    "list": [],
    "array": np.ones(3),
    "matrix": np.ones((2, 2)),
    "dict": {"a": 1},
    "bytes": b"1",
    "function": len,
    "class": Rows,
    "object": object(),
}


@given(recipes(), rows(largest=6), st.sampled_from(sorted(JUNK)), st.data())
@fuzz(60, part=4)
def test_junk_parameters(recipe: Recipe, data: Rows, junk: str, choice: st.DataObject) -> None:
    """A parameter of any class with a value of any kind is accepted, or refused with a sentence."""
    X = data.build()
    model = recipe.build(data.p)
    name = choice.draw(st.sampled_from(sorted(model.get_params(deep=False))))
    if name == "callback" and callable(JUNK[junk]):
        return  # its errors are those of the caller
    model.set_params(**{name: JUNK[junk]})
    before = state(model)
    _, fitted = attempt(lambda: model.fit(X), f"fit with {name}={junk}")
    if not fitted:
        assert state(model) == before, "a refused fit must not leave attributes"
        return
    attempt(lambda: model.transform(X), f"transform with {name}={junk}")
