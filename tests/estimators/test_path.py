"""The path of λ and the choice among them."""

from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.pipeline import make_pipeline

from lincode import SCNN, SCNNCV, scnn_path
from lincode.core.encoder_step import factor_data
from lincode.estimators import path as path_module

pytestmark = pytest.mark.filterwarnings("ignore:SCNN. the encoder's codes")


@pytest.fixture(scope="module")
def labels() -> Any:
    return load_digits().target[:600]


def test_the_path_falls_and_each_network_is_as_good_as_its_own_fit(digits: Any) -> None:
    path = scnn_path(digits, 16, shares=[0.02, 0.2, 0.06], random_state=0)
    most = SCNN(16).alpha_max(digits)
    assert_allclose([scnn.alpha for scnn in path], np.array([0.2, 0.06, 0.02]) * most)
    for scnn in path:
        alone = SCNN(16, scnn.alpha, random_state=0).fit(digits)
        assert scnn.energy_ < 1.02 * alone.energy_
        assert_allclose(-scnn.score(digits), scnn.energy_ / 600, rtol=1e-3)
        assert scnn.optimality_["codes"] <= 1e-4
        assert scnn.optimality_["dictionary"] <= 1e-4
        assert scnn.n_features_in_ == 64


def test_the_path_saves_iterations_and_factors_once(digits: Any) -> None:
    with mock.patch.object(path_module, "factor_data", wraps=factor_data) as factor:
        path = scnn_path(digits, 16, shares=8, random_state=0)
    assert factor.call_count == 1
    warm = sum(scnn.n_iter_ for scnn in path)
    cold = sum(SCNN(16, s.alpha, random_state=0).fit(digits).n_iter_ for s in path)
    assert warm < 0.7 * cold


def test_zero_codes_at_the_top_do_not_stop_the_path(digits: Any) -> None:
    path = scnn_path(digits, 10, shares=[1.0, 0.05], random_state=0)
    assert not path[0].usage_.any()
    assert path[1].usage_.all()


def test_alphas_given_are_used_and_names_kept(digits: Any) -> None:
    import pandas as pd

    frame = pd.DataFrame(digits, columns=[f"pixel{k}" for k in range(64)])
    path = scnn_path(frame, 8, alphas=[0.1, 0.5], random_state=0, split_sign=True)
    assert [scnn.alpha for scnn in path] == [0.5, 0.1]
    assert list(path[0].feature_names_in_) == list(frame.columns)
    assert path[0].transform(frame).shape == (600, 16)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shares": 0}, "shares must be at least 1"),
        ({"shares": []}, "shares must be one or more"),
        ({"shares": [0.1, np.nan]}, "shares must be one or more finite"),
        ({"alphas": [-1.0]}, "alphas must be one or more finite numbers of at least 0"),
        ({"alphas": [[0.1]]}, "alphas must be"),
        ({"tol": -1}, "tol must be"),
    ],
)
def test_bad_grids_are_refused(digits: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        scnn_path(digits, 4, **arguments)


def network(**parameters: Any) -> SCNN:
    scnn: SCNN = SCNN(16, threshold="match", random_state=0).set_params(**parameters)
    return scnn


def test_the_sparsity_asked_for_is_what_new_data_have(digits: Any) -> None:
    unseen = load_digits().data[600:] / 16
    shares = np.geomspace(0.9, 0.1, 12)
    for target in (0.5, 0.8):
        search = SCNNCV(network(), target_sparsity=target, shares=shares, cv=3).fit(digits)
        assert abs((search.transform(unseen) == 0).mean() - target) < 0.08
        results = search.cv_results_
        assert results["sparsity"].shape == (12, 3)
        mean = results["sparsity"].mean(axis=1)
        assert search.alpha_ == results["alpha"][np.abs(mean - target).argmin()]


def test_the_choice_by_a_classifier(digits: Any, labels: Any) -> None:
    search = SCNNCV(network(), choose="score", shares=4, cv=2, scoring="balanced_accuracy")
    search.fit(digits, labels)
    mean = search.cv_results_["score"].mean(axis=1)
    assert search.alpha_ == search.cv_results_["alpha"][mean.argmax()]
    assert mean.max() > 0.8
    ridge = SCNNCV(network(), choose="score", classifier=RidgeClassifier(), shares=4, cv=2)
    assert_array_equal(ridge.fit(digits, labels).cv_results_["alpha"], search.cv_results_["alpha"])
    assert not np.allclose(ridge.cv_results_["score"], search.cv_results_["score"])


def test_the_choice_by_energy_measures_samples_that_were_held_out(digits: Any) -> None:
    folds = KFold(2)
    search = SCNNCV(network(), choose="energy", shares=3, cv=folds).fit(digits)
    train, test = next(folds.split(digits))
    path = scnn_path(
        digits[train], 16, alphas=search.cv_results_["alpha"], threshold="match", random_state=0
    )
    expected = [-scnn.score(digits[test]) for scnn in path]
    assert_allclose(search.cv_results_["energy"][:, 0], expected)
    assert search.alpha_ == search.cv_results_["alpha"].min()


def test_the_network_chosen_is_learned_from_all_samples(digits: Any) -> None:
    search = SCNNCV(network(), shares=3, cv=2).fit(digits)
    same = network(alpha=search.alpha_).fit(digits)
    assert_array_equal(search.components_, same.components_)
    assert_array_equal(search.transform(digits), same.transform(digits))
    assert_array_equal(search.encoder_, same.encoder_)
    assert search.score(digits) == same.score(digits)
    assert_array_equal(search.get_feature_names_out(), same.get_feature_names_out())
    codes = search.transform(digits)
    assert_array_equal(search.inverse_transform(codes), same.inverse_transform(codes))


def test_sparse_data_and_codes_and_a_pipeline(digits: Any, labels: Any) -> None:
    X = scipy.sparse.csr_matrix(digits)
    search = SCNNCV(network(sparse_output=True), target_sparsity=0.4, shares=3, cv=2)
    classifier = make_pipeline(search, RidgeClassifier()).fit(X, labels)
    assert classifier.score(X, labels) > 0.8
    grid = GridSearchCV(search, {"estimator__n_components": [4, 8]}, cv=2).fit(X)
    assert grid.best_params_["estimator__n_components"] in (4, 8)


def test_bad_searches_are_refused_and_change_nothing(digits: Any) -> None:
    with pytest.raises(ValueError, match="choose='score' requires y"):
        SCNNCV(network(), choose="score").fit(digits)
    with pytest.raises(ValueError, match="target_sparsity must be between 0 and 1"):
        SCNNCV(network(), target_sparsity=90).fit(digits)
    with pytest.raises(TypeError, match="estimator must be an SCNN"):
        SCNNCV(RidgeClassifier()).fit(digits)
    search = SCNNCV(network(), shares=2, cv=2).fit(digits)
    alpha = search.alpha_
    with pytest.raises(ValueError, match="choose must be one of"):
        search.set_params(choose="best").fit(digits)
    assert search.alpha_ == alpha


def test_an_ensemble_may_judge_and_scores_that_are_nan_do_not_win(digits: Any, labels: Any) -> None:
    forest = RandomForestClassifier(5, random_state=0)
    search = SCNNCV(network(), choose="score", classifier=forest, shares=2, cv=2)
    assert search.fit(digits, labels).cv_results_["score"].max() > 0.5
    calls = iter([np.nan, 0.5, 0.5, 0.4, 0.6, 0.5])
    search.set_params(shares=3, scoring=lambda judge, U, y: next(calls)).fit(digits, labels)
    assert search.alpha_ == search.cv_results_["alpha"][1]
    with pytest.raises(ValueError, match="that is NaN"):
        search.set_params(scoring=lambda judge, U, y: np.nan).fit(digits, labels)
    with pytest.raises(ValueError, match="nope"):
        search.set_params(scoring="nope").fit(digits, labels)


def test_groups_are_kept_together(digits: Any) -> None:
    groups = np.arange(600) // 200
    search = SCNNCV(network(), shares=2, cv=GroupKFold(3)).fit(digits, groups=groups)
    assert search.cv_results_["sparsity"].shape == (2, 3)


def test_a_callback_hears_of_the_path_and_ends_it(digits: Any) -> None:
    heard: list[Any] = []
    scnn_path(digits, 6, shares=[0.3, 0.1], random_state=0, callback=heard.append)
    assert len(heard) > 5
    stopped = scnn_path(digits, 6, shares=[0.3, 0.1], callback=lambda now: now.n_iter >= 2)
    assert len(stopped) == 1
    impatient = network(callback=lambda now: now.n_iter >= 2)
    assert len(SCNNCV(impatient, shares=3, cv=2).fit(digits).cv_results_["sparsity"]) == 3
    with pytest.raises(TypeError, match="not alpha"):
        scnn_path(digits, 6, alpha=0.1)
