"""Missing entries: the linear prediction, and rows grouped by their observed entries."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lincode.core.missing import FILL_RIDGE, SecondMoments, patterns, predict_missing


def test_patterns_group_rows_with_the_same_observed_entries() -> None:
    X = np.ones((5, 3))
    X[[0, 3], 1] = X[4] = np.nan
    found = {tuple(observed): list(rows) for observed, rows in patterns(X)}
    assert found == {(0, 1, 2): [1, 2], (0, 2): [0, 3], (): [4]}


@pytest.mark.parametrize("k", [3, 20])
def test_prediction_is_ridge_regression_on_the_observed_entries(k: int) -> None:
    rng = np.random.default_rng(0)
    F, X = rng.standard_normal((k, 8)), rng.standard_normal((10, 8))
    missing = rng.random(X.shape) < 0.4
    missing[0] = True
    moments = SecondMoments.of_factor(F)
    assert moments.is_factor == (k == 3)
    filled = X.copy()
    predict_missing(filled, missing, moments)
    assert_array_equal(filled[~missing], X[~missing])
    assert_array_equal(filled[0], 0)
    G = F.T @ F
    ridge = FILL_RIDGE * np.trace(G) / 8
    for x, y, holes in zip(X, filled, missing, strict=True):
        seen, gone = np.flatnonzero(~holes), np.flatnonzero(holes)
        w = np.linalg.solve(G[np.ix_(seen, seen)] + ridge * np.eye(len(seen)), x[seen])
        assert_allclose(y[gone], w @ G[np.ix_(seen, gone)], atol=1e-8)
