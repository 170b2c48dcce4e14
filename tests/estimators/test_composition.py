"""The estimators within scikit-learn: pipelines, searches, copies and data frames."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from lincode import SCNN, SCNNCV, MiniBatchSCNN

pytestmark = [
    pytest.mark.filterwarnings("ignore:SCNNCV. no alpha gives codes"),
    pytest.mark.filterwarnings("ignore:.*refine"),
]
ESTIMATORS = [
    pytest.param(SCNN(8, tol=1e-2, random_state=0), id="SCNN"),
    pytest.param(SCNN(8, tol=1e-2, random_state=0, refine_max_iter=3), id="refined"),
    pytest.param(SCNN(8, tol=1e-2, random_state=0, threshold_mode="top_k"), id="top_k"),
    pytest.param(SCNN(8, tol=1e-2, random_state=0, split_sign=True, fit_decoder=True), id="split"),
    pytest.param(MiniBatchSCNN(8, random_state=0, refine_max_iter=3), id="MiniBatchSCNN"),
    pytest.param(SCNNCV(SCNN(8, tol=1e-2, random_state=0), alphas=["mean"], cv=2), id="SCNNCV"),
]


@pytest.mark.parametrize("network", [SCNN, MiniBatchSCNN])
def test_search_over_modes_and_rounds_of_refinement(digits: Any, network: Any) -> None:
    labels = load_digits().target[:600]
    scnn = network(20, alpha="0.5*mean", tol=1e-2, random_state=0)
    model = make_pipeline(StandardScaler(with_std=False), scnn, Ridge())
    name = network.__name__.lower()
    grid = {
        f"{name}__refine_max_iter": [0, 3],
        f"{name}__threshold_mode": ["hard", "soft", "top_k"],
    }
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(digits, labels)
    scores = search.cv_results_["mean_test_score"]
    assert len(scores) == len(set(scores)) == 6  # each parameter has an effect
    assert search.score(digits, labels) > 0.4
    best = search.best_estimator_[1]
    assert hasattr(best, "refined_encoder_") == (best.refine_max_iter > 0)
    assert best.calibrated_mode_ == best.threshold_mode


def test_search_by_the_score_of_the_network(digits: Any) -> None:
    """``score`` is that of exact codes, so it does not depend on how the encoder is calibrated."""
    grid = {"refine_max_iter": [0, 2], "threshold_mode": ["hard", "top_k"]}
    search = GridSearchCV(SCNN(8, tol=1e-2, random_state=0), grid, cv=2).fit(digits)
    assert_allclose(search.cv_results_["mean_test_score"], search.best_score_, rtol=1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_copies(digits: Any, estimator: Any) -> None:
    X, new = digits[:200], digits[200:300]
    fitted = clone(estimator).fit(X)
    codes = fitted.transform(new)
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
    assert_allclose(fitted.inverse_transform(codes.to_numpy()), fitted.reconstruct(frame))
    # StandardScaler would turn pixels that are nearly always zero into extreme values.
    scaled = make_pipeline(MaxAbsScaler(), clone(estimator)).set_output(transform="pandas")
    assert list(scaled.fit(frame).transform(frame).columns) == list(names)


def test_output_of_a_search_and_of_its_network_have_the_same_names(digits: Any) -> None:
    search = SCNNCV(SCNN(8, tol=1e-2, split_sign=True), alphas=[0.1], cv=2).fit(digits[:200])
    names = search.get_feature_names_out()
    assert_array_equal(names, search.best_estimator_.get_feature_names_out())
    assert names[0] == "scnn0_pos"
    assert names.dtype == np.dtype(object)
