"""SCNNCV and scnn_path with grids, folds and targets of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, LeaveOneOut

from lincode import SCNN, SCNNCV, MiniBatchSCNN, scnn_path
from tests.fuzz.cases import fuzz
from tests.fuzz.data import Rows
from tests.fuzz.strategies import rows
from tests.fuzz.support import dense, fingerprint, state
from tests.fuzz.watching import attempt

pytestmark = pytest.mark.slow

GRIDS: list[Any] = [
    [0.1],
    ["mean", "0.1*max"],
    ["0.1*max", 0.5, 0.0],
    np.array([0.3, 0.1]),
    (0.5, 0.2),
    [1e300],
    [],
    "mean",
    "text",
    ["text"],
    ["-1*max"],
    [-1.0],
    [None],
    [float("nan")],
    [[0.1, 0.2]],
    3.0,
    {"a": 1},
    np.array(0.5),
    np.zeros((2, 2)),
    range(3),
]
RATIOS: list[Any] = [*GRIDS, 2, 1, 0, -1, True, 2.5, None]
FOLDS: list[Any] = [
    2,
    3,
    KFold(2, shuffle=True, random_state=0),
    LeaveOneOut(),
    [(np.arange(3), np.arange(3, 5))],
    [([0, 1], [0, 1])],
    [],
    iter([]),
    [([], [0])],
    [([0], [])],
    [([0, 1000], [1])],
    [([0, -1], [1])],
    [(0, 1)],
    [([0.5], [1])],
    [(["a"], [1])],
    [1, 2],
    1,
    0,
    -1,
    1000,
    "five",
    None,
    2.5,
    object(),
]
TARGETS = ("none", "classes", "one class", "numbers", "text", "short", "two columns", "NaN")


def one_of_first(n: int, total: int) -> st.SearchStrategy[int]:
    """Indices, every second one of the first n, which are valid."""
    return st.one_of(st.integers(0, n - 1), st.integers(0, total - 1))


def targets(kind: str, n: int) -> Any:
    rng = np.random.default_rng(0)
    return {
        "none": None,
        "classes": np.arange(n) % 2,
        "one class": np.zeros(n, int),
        "numbers": rng.standard_normal(n),
        "text": np.array(["a", "b"])[np.arange(n) % 2],
        "short": np.zeros(max(n - 1, 0)),
        "two columns": np.zeros((n, 2)),
        "NaN": np.full(n, np.nan),
    }[kind]


@given(
    rows(largest=10),
    one_of_first(5, len(GRIDS) + 3),
    one_of_first(5, len(RATIOS)),
    one_of_first(3, len(FOLDS)),
    st.sampled_from(["sparsity", "sparsity", "score", "score", "energy", "energy", "best", None]),
    st.sampled_from(("classes", "classes", "numbers", *TARGETS)),
    st.booleans(),
)
@fuzz(40)
def test_cross_validation(
    data: Rows, grid: int, ratios: int, folds: int, criterion: str, kind: str, minibatch: bool
) -> None:
    X = data.build()
    before = fingerprint(X)
    network = MiniBatchSCNN if minibatch else SCNN
    values = {"alphas": GRIDS[grid]} if grid < len(GRIDS) else {"alpha_ratios": RATIOS[ratios]}
    model = SCNNCV(
        network(3, max_iter=2, random_state=0, n_jobs=1),
        **values,
        cv=FOLDS[folds],
        criterion=criterion,
        classifier=Ridge() if kind == "numbers" else None,
    )
    _, fitted = attempt(lambda: model.fit(X, targets(kind, data.n)), "fit")
    assert fingerprint(X) == before, "fit must not change X"
    if not fitted:
        assert not state(model), "a refused fit must not leave attributes"
        return
    assert np.isfinite(model.alpha_), "alpha_ must be finite"
    codes, encoded = attempt(lambda: model.transform(X), "transform")
    assert not encoded or np.isfinite(dense(codes)).all(), "codes must be finite"


@given(rows(largest=10), st.sampled_from(range(len(GRIDS))), st.sampled_from(range(len(RATIOS))))
@fuzz(20, part=0.5)
def test_grids_of_paths(data: Rows, grid: int, ratios: int) -> None:
    X = data.build()
    for name, value in (("alphas", GRIDS[grid]), ("alpha_ratios", RATIOS[ratios])):
        arguments: dict[str, Any] = {name: value}
        path, accepted = attempt(
            lambda: scnn_path(X, 3, max_iter=2, random_state=0, **arguments),  # noqa: B023
            f"scnn_path with {arguments}",
        )
        if accepted:
            alphas = [model.alpha_ for model in path]
            assert alphas == sorted(alphas, reverse=True), f"alpha must fall, got {alphas}"
            assert all(np.isfinite(model.components_).all() for model in path), "atoms are finite"
