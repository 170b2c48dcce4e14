"""The estimators within scikit-learn: its checks, pipelines, searches, copies and data frames."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from lincode import SCNN, MiniBatchSCNN

DEFAULT = SCNN()
EXACT = SCNN(n_components=3, refine=False, transform_algorithm="exact", split_sign=True)
BATCHES = MiniBatchSCNN(n_components=3, batch_size=7, density=1)

# The checks allow few iterations, use few samples, and transform arrays after fitting data frames.
few_samples = pytest.mark.filterwarnings(
    "ignore:SCNN. max_iter was reached",
    "ignore:MiniBatchSCNN. max_iter passes",
    "ignore:(MiniBatch)?SCNN. the encoder's codes",
    "ignore:X (does not have valid|has) feature names",
)


@few_samples
@parametrize_with_checks([DEFAULT, BATCHES])
def test_scikit_learn_checks(estimator: BaseEstimator, check: Any) -> None:
    check(estimator)


@few_samples
@pytest.mark.parametrize("estimator", [EXACT, BATCHES], ids=["SCNN", "MiniBatchSCNN"])
@pytest.mark.parametrize(
    "name",
    [
        "check_set_output_transform_pandas",
        "check_set_output_transform_polars",
        "check_transformer_get_feature_names_out_pandas",
        "check_get_feature_names_out_error",
        "check_dataframe_column_names_consistency",
    ],
)
def test_checks_that_scikit_learn_does_not_run_for_other_packages(
    estimator: BaseEstimator, name: str
) -> None:
    getattr(estimator_checks, name)(type(estimator).__name__, clone(estimator))


ESTIMATORS = [
    pytest.param(SCNN(8, tol=1e-2, random_state=0), id="SCNN"),
    pytest.param(SCNN(8, tol=1e-2, random_state=0, split_sign=True, refine=False), id="split"),
    pytest.param(MiniBatchSCNN(8, random_state=0), id="MiniBatchSCNN"),
]


def test_search_in_a_pipeline_with_labels(digits: Any) -> None:
    labels = load_digits().target[:600]
    model = make_pipeline(MaxAbsScaler(), SCNN(20, random_state=0), Ridge())
    grid = {"scnn__refine": [True, False], "scnn__density": [3, 0.3]}
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(digits, labels)
    scores = search.cv_results_["mean_test_score"]
    assert len(set(scores)) == 4  # each parameter has an effect
    assert search.score(digits, labels) > 0.4


@pytest.mark.parametrize("network", [SCNN, MiniBatchSCNN])
def test_search_by_the_score_of_the_network(digits: Any, network: Any) -> None:
    """More units and non-zeros reconstruct better."""
    model = Pipeline([("scale", MaxAbsScaler()), ("code", network(random_state=0))])
    grid = {"code__n_components": [4, 16], "code__density": [0.1, 0.3]}
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(digits)
    assert search.best_params_ == {"code__n_components": 16, "code__density": 0.3}
    for parameters, first in zip(
        search.cv_results_["params"], search.cv_results_["split0_test_score"], strict=True
    ):
        alone = clone(model).set_params(**parameters).fit(digits[300:])
        new = alone["scale"].transform(digits[:300])
        R = alone["code"].reconstruct(new)
        assert_allclose(first, 1 - np.sum((new - R) ** 2) / np.sum(new**2))
    assert search.score(digits) == search.best_estimator_.score(digits)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_copies(digits: Any, estimator: Any) -> None:
    X, new = digits[:200], digits[200:300]
    fitted = clone(estimator).fit(X)
    codes = fitted.transform(new)
    assert_array_equal(clone(estimator).fit_transform(X), fitted.transform(X))
    copy = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(copy.transform(new), codes)
    assert_array_equal(copy.reconstruct(new), fitted.reconstruct(new))
    unfitted = clone(fitted)
    assert not [name for name in vars(unfitted) if name.endswith("_")]
    assert_array_equal(unfitted.fit(X).transform(new), codes)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_data_frames(digits: Any, estimator: Any) -> None:
    frame = pd.DataFrame(digits[:200], columns=[f"pixel{k}" for k in range(64)])
    frame.index = pd.RangeIndex(1000, 1200)
    fitted = clone(estimator).set_output(transform="pandas").fit(frame)
    codes = fitted.transform(frame)
    names = fitted.get_feature_names_out()
    assert isinstance(codes, pd.DataFrame)
    assert list(codes.columns) == list(names)
    assert codes.index.equals(frame.index)
    assert list(fitted.feature_names_in_) == list(frame.columns)
    assert_array_equal(codes, clone(estimator).fit(digits[:200]).transform(digits[:200]))
    assert_allclose(fitted.inverse_transform(codes), fitted.reconstruct(frame))
    model = make_pipeline(MaxAbsScaler(), clone(estimator)).set_output(transform="pandas")
    assert list(model.fit(frame).transform(frame).columns) == list(names)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        fitted.transform(digits[:5])


def test_names_of_the_codes(digits: Any) -> None:
    scnn = SCNN(8, tol=1e-1, random_state=0).fit(digits)
    assert list(scnn.get_feature_names_out()) == [f"scnn{j}" for j in range(8)]
    names = scnn.set_params(split_sign=True).get_feature_names_out()
    assert list(names[[0, 7, 8, 15]]) == ["scnn0_pos", "scnn7_pos", "scnn0_neg", "scnn7_neg"]
    assert names.dtype == np.dtype(object)
