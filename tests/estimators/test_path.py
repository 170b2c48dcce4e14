"""SCNN for several values of alpha, and the choice of alpha by cross-validation."""

import warnings
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.pipeline import make_pipeline

from lincode import SCNN, SCNNCV, MiniBatchSCNN, scnn_path
from lincode.exceptions import InvalidInputError
from lincode.rows import memory

# Most searches have few values of alpha, far from the target.
pytestmark = pytest.mark.filterwarnings("ignore:SCNNCV. no alpha gives codes")


@pytest.fixture(scope="module")
def labels() -> Any:
    return load_digits().target[:600]


def test_each_network_of_the_path_is_as_good_as_a_separate_fit(digits: Any) -> None:
    path = scnn_path(digits, 16, alpha_ratios=[0.02, 0.2, 0.06], random_state=0)
    alpha_max = SCNN(16).alpha_max(digits)
    assert_allclose([scnn.alpha_ for scnn in path], np.array([0.2, 0.06, 0.02]) * alpha_max)
    for scnn in path:
        alone = SCNN(16, scnn.alpha, random_state=0).fit(digits)
        assert scnn.energy_ < 1.02 * alone.energy_
        assert_allclose(-scnn.score(digits), scnn.energy_, rtol=1e-3)
        assert scnn.optimality_["codes"] <= 1e-4
        assert scnn.optimality_["dictionary"] <= 1e-4
        assert scnn.n_features_in_ == 64


@pytest.mark.slow
def test_path_needs_fewer_iterations_and_one_factorisation(digits: Any) -> None:
    with mock.patch.object(memory, "factor_rows", wraps=memory.factor_rows) as factor:
        path = scnn_path(digits, 16, alpha_ratios=8, random_state=0)
    assert factor.call_count == 1
    warm = sum(scnn.n_iter_ for scnn in path)
    cold = sum(SCNN(16, s.alpha, random_state=0).fit(digits).n_iter_ for s in path)
    assert warm < 0.7 * cold


def test_path_continues_after_zero_codes(digits: Any) -> None:
    path = scnn_path(digits, 10, alpha_ratios=[1.0, 0.05], random_state=0)
    assert not path[0].usage_.any()
    assert path[1].usage_.all()


def test_given_alphas_are_used_and_feature_names_are_stored(digits: Any) -> None:
    import pandas as pd

    frame = pd.DataFrame(digits, columns=[f"pixel{k}" for k in range(64)])
    path = scnn_path(frame, 8, alphas=[0.1, 0.5], random_state=0, split_sign=True)
    assert [scnn.alpha for scnn in path] == [0.5, 0.1]
    assert list(path[0].feature_names_in_) == list(frame.columns)
    assert path[0].transform(frame).shape == (600, 16)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha_ratios": 0}, "alpha_ratios must be a number of values from 1"),
        ({"alpha_ratios": []}, "alpha_ratios must be a sequence"),
        ({"alpha_ratios": [0.1, np.nan]}, "alpha_ratios must be a sequence of finite"),
        ({"alphas": [-1.0]}, "alphas must be a sequence of finite numbers of at least 0"),
        ({"alphas": [[0.1]]}, "alphas must be"),
        ({"alphas": "text"}, "alphas must be a sequence of finite numbers .* got 'text'"),
        ({"alphas": ["a", "b"]}, "alphas must be a sequence of finite numbers"),
        ({"alpha_ratios": "many"}, "alpha_ratios must be a sequence of finite numbers"),
        ({"alphas": "0.1*max"}, "alphas must be a sequence .* got '0.1.max'"),
        ({"alphas": ["0.1*most"]}, "strings such as '0.1.max' .* got the entry '0.1.most'"),
        ({"alphas": [0.1, "-1*max"]}, "alphas must be .* got the entry '-1.max'"),
        ({"alphas": [0.1, True]}, "alphas must be .* got the entry True"),
        ({"alphas": [0.1, np.inf]}, "alphas must be .* got the entry inf"),
        ({"alphas": 0.1}, "alphas must be a sequence .* got 0.1"),
        ({"alpha_ratios": ["0.1*max"]}, "alpha_ratios must be .* got the entry '0.1.max'"),
        ({"alpha_ratios": True}, "alpha_ratios must be a sequence of finite numbers"),
        ({"alpha": 0.1}, "takes alphas or alpha_ratios instead of alpha"),
        ({"alphas": [0.1], "alpha_ratios": 3}, "alphas and alpha_ratios exclude each other"),
        ({"alphas": [0.1], "alpha_ratios": [0.5]}, "exclude each other.* Leave one of them out"),
        ({"tol": -1}, "tol must be"),
    ],
)
def test_invalid_values_of_alpha_are_explained(
    digits: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        scnn_path(digits, 4, **arguments)


@pytest.mark.parametrize("container", [list, tuple, np.array])
def test_alphas_relative_to_the_data(digits: Any, container: Any) -> None:
    strings = ["mean", "0.1*max", "0.5*mean"]
    expected = [SCNN(8, alpha, random_state=0, max_iter=1) for alpha in strings]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alphas = [scnn.fit(digits).alpha_ for scnn in expected]
        path = scnn_path(digits, 8, alphas=container(strings), random_state=0, max_iter=1)
        assert [scnn.alpha for scnn in path] == sorted(alphas, reverse=True)
        assert [scnn.alpha_ for scnn in path] == sorted(alphas, reverse=True)


def test_alphas_that_are_numbers_and_strings(digits: Any) -> None:
    limit = SCNN(8).alpha_max(digits)
    mixed: Any = [0.2, "0.5*max", np.float32(0.25)]
    path = scnn_path(digits, 8, alphas=mixed, random_state=0)
    assert_allclose([scnn.alpha_ for scnn in path], [0.5 * limit, 0.25, 0.2])
    search = SCNNCV(network(), alphas=mixed[:2], cv=2).fit(digits)
    expected = sorted([0.5 * SCNN(16).alpha_max(digits), 0.2], reverse=True)
    assert_allclose(search.cv_results_["alpha"], expected)
    assert search.best_estimator_.alpha == search.alpha_ in search.cv_results_["alpha"]


def network(**parameters: Any) -> SCNN:
    scnn: SCNN = SCNN(16, random_state=0).set_params(**parameters)
    return scnn


@pytest.mark.slow
def test_codes_of_new_data_have_the_target_sparsity(digits: Any) -> None:
    unseen = load_digits().data[600:] / 16
    alpha_ratios = np.linspace(0.9, 0.35, 12)
    for target in (0.5, 0.8):
        search = SCNNCV(network(), target_sparsity=target, alpha_ratios=alpha_ratios, cv=3).fit(
            digits
        )
        assert abs((search.transform(unseen) == 0).mean() - target) < 0.08
        results = search.cv_results_
        assert results["sparsity"].shape == (12, 3)
        mean = results["sparsity"].mean(axis=1)
        assert search.alpha_ == results["alpha"][np.abs(mean - target).argmin()]


@pytest.mark.slow
def test_choice_by_the_score_of_a_classifier(digits: Any, labels: Any) -> None:
    search = SCNNCV(network(), criterion="score", alpha_ratios=4, cv=2, scoring="balanced_accuracy")
    search.fit(digits, labels)
    mean = search.cv_results_["score"].mean(axis=1)
    assert search.alpha_ == search.cv_results_["alpha"][mean.argmax()]
    assert mean.max() > 0.8
    ridge = SCNNCV(network(), criterion="score", classifier=RidgeClassifier(), alpha_ratios=4, cv=2)
    assert_array_equal(ridge.fit(digits, labels).cv_results_["alpha"], search.cv_results_["alpha"])
    assert not np.allclose(ridge.cv_results_["score"], search.cv_results_["score"])


def test_choice_by_the_energy_of_held_out_samples(digits: Any) -> None:
    folds = KFold(2)
    search = SCNNCV(network(), criterion="energy", alpha_ratios=3, cv=folds).fit(digits)
    train, test = next(folds.split(digits))
    path = scnn_path(digits[train], 16, alphas=search.cv_results_["alpha"], random_state=0)
    expected = [-scnn.score(digits[test]) for scnn in path]
    assert_allclose(search.cv_results_["energy"][:, 0], expected)
    assert search.alpha_ == search.cv_results_["alpha"].min()


def test_chosen_network_is_that_of_the_path_on_all_samples(digits: Any) -> None:
    search = SCNNCV(network(), target_sparsity=0.1, alpha_ratios=4, cv=2).fit(digits)
    alphas = search.cv_results_["alpha"]
    best = alphas.tolist().index(search.alpha_)
    assert best == 2, "two networks come before the chosen one"
    same = scnn_path(digits, 16, alphas=alphas[: best + 1], random_state=0)[-1]
    assert search.energy_ == same.energy_ != network(alpha=search.alpha_).fit(digits).energy_
    assert_array_equal(search.energy_path_, same.energy_path_)
    assert_array_equal(search.components_, same.components_)
    assert_array_equal(search.transform(digits), same.transform(digits))
    assert_array_equal(search.encoder_, same.encoder_)
    assert search.score(digits) == same.score(digits)
    assert_array_equal(search.get_feature_names_out(), same.get_feature_names_out())
    codes = search.transform(digits)
    assert_array_equal(search.inverse_transform(codes), same.inverse_transform(codes))


@pytest.mark.parametrize(
    "parameters",
    [
        {"init": "paper"},
        {"encoder_weight": 0.0},
        {"refine_max_iter": 2},
        {"init_size": 50},
        {"solver": "paper", "max_iter": 3},
        {"random_state": np.random.RandomState(3)},
    ],
    ids=lambda parameters: next(iter(parameters)),
)
@pytest.mark.filterwarnings("ignore:.*max_iter was reached")
@pytest.mark.filterwarnings("ignore:.*refine")
def test_chosen_network_is_that_of_the_path_for_all_parameters(
    digits: Any, parameters: dict[str, Any]
) -> None:
    X = digits[:300]
    scnn = network(tol=1e-2, **parameters)
    search = SCNNCV(scnn, criterion="energy", alpha_ratios=[0.5, 0.2], cv=2).fit(X)
    settings = clone(scnn).get_params() | {"alphas": search.cv_results_["alpha"]}
    del settings["alpha"]
    same = scnn_path(X, **settings)[-1]
    assert search.alpha_ == same.alpha_
    assert_array_equal(search.energy_path_, same.energy_path_)
    assert_array_equal(search.transform(X), same.transform(X))


def test_chosen_network_is_that_of_the_path_with_weights_and_missing_entries(digits: Any) -> None:
    rng = np.random.default_rng(0)
    X = np.where(rng.random((200, 64)) < 0.1, np.nan, digits[:200])
    weights = rng.integers(0, 3, 200)
    search = SCNNCV(network(tol=1e-2), criterion="energy", alpha_ratios=[0.5, 0.2], cv=2)
    search.fit(X, sample_weight=weights)
    alphas = search.cv_results_["alpha"]
    path = scnn_path(X, 16, alphas=alphas, sample_weight=weights, tol=1e-2, random_state=0)
    assert search.alpha_ == path[-1].alpha_
    assert_array_equal(search.energy_path_, path[-1].energy_path_)
    assert_array_equal(search.components_, path[-1].components_)


@pytest.mark.slow
def test_search_with_sparse_input_sparse_output_and_a_pipeline(digits: Any, labels: Any) -> None:
    X, labels = scipy.sparse.csr_matrix(digits[:400]), labels[:400]
    search = SCNNCV(network(sparse_output=True), target_sparsity=0.4, alpha_ratios=3, cv=2)
    classifier = make_pipeline(search, RidgeClassifier()).fit(X, labels)
    assert classifier.score(X, labels) > 0.8
    grid = GridSearchCV(search, {"estimator__n_components": [4, 8]}, cv=2).fit(X)
    assert grid.best_params_["estimator__n_components"] in (4, 8)


def test_invalid_searches_are_explained_and_change_nothing(digits: Any) -> None:
    with pytest.raises(ValueError, match="criterion='score' requires y"):
        SCNNCV(network(), criterion="score").fit(digits)
    with pytest.raises(ValueError, match="target_sparsity must be between 0 and 1"):
        SCNNCV(network(), target_sparsity=90).fit(digits)
    with pytest.raises(InvalidInputError, match="estimator must be an SCNN"):
        SCNNCV(RidgeClassifier()).fit(digits)
    with pytest.raises(InvalidInputError, match=r"got 40; SCNNCV takes a network .*SCNNCV\(SCNN"):
        SCNNCV(40).fit(digits)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="alphas and alpha_ratios exclude each other"):
        SCNNCV(network(), alphas=["mean"], alpha_ratios=[0.1, 0.2]).fit(digits)
    search = SCNNCV(network(), alpha_ratios=2, cv=2).fit(digits)
    alpha = search.alpha_
    with pytest.raises(ValueError, match="criterion must be one of"):
        search.set_params(criterion="best").fit(digits)
    assert search.alpha_ == alpha


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:SCNNCV. the best score is that of")
def test_scores_that_are_nan_are_not_chosen(digits: Any, labels: Any) -> None:
    forest = RandomForestClassifier(5, random_state=0)
    search = SCNNCV(network(), criterion="score", classifier=forest, alpha_ratios=2, cv=2)
    assert search.fit(digits, labels).cv_results_["score"].max() > 0.5
    calls = iter([np.nan, 0.5, 0.5, 0.4, 0.6, 0.5])
    search.set_params(alpha_ratios=3, scoring=lambda classifier, U, y: next(calls)).fit(
        digits, labels
    )
    assert search.alpha_ == search.cv_results_["alpha"][1]
    with pytest.raises(ValueError, match="is NaN for every alpha"):
        search.set_params(scoring=lambda classifier, U, y: np.nan).fit(digits, labels)
    with pytest.raises(ValueError, match="nope"):
        search.set_params(scoring="nope").fit(digits, labels)


def test_groups_are_passed_to_the_splitter(digits: Any) -> None:
    groups = np.arange(600) // 200
    search = SCNNCV(network(), alpha_ratios=2, cv=GroupKFold(3)).fit(digits, groups=groups)
    assert search.cv_results_["sparsity"].shape == (2, 3)


def test_callback_receives_the_iterations_of_the_path_and_can_end_it(digits: Any) -> None:
    seen: list[Any] = []
    scnn_path(digits, 6, alpha_ratios=[0.3, 0.1], random_state=0, callback=seen.append)
    assert len(seen) > 5
    stopped = scnn_path(digits, 6, alpha_ratios=[0.3, 0.1], callback=lambda now: now.n_iter >= 2)
    assert len(stopped) == 1
    stopping = network(callback=lambda now: now.n_iter >= 2)
    assert len(SCNNCV(stopping, alpha_ratios=3, cv=2).fit(digits).cv_results_["sparsity"]) == 3


@pytest.mark.parametrize("criterion", ["sparsity", "energy", "score"])
@pytest.mark.filterwarnings("ignore:SCNNCV. the best score is that of")
def test_search_with_minibatch_scnn(digits: Any, labels: Any, criterion: str) -> None:
    minibatch = MiniBatchSCNN(10, batch_size=200, random_state=0)
    search = SCNNCV(
        minibatch, criterion=criterion, alpha_ratios=[0.3, 0.1], target_sparsity=0.5, cv=2
    )
    search.fit(digits, labels)
    assert isinstance(search.best_estimator_, MiniBatchSCNN)
    results = search.cv_results_
    assert results[criterion].shape == (2, 2)
    mean = results[criterion].mean(axis=1)
    best = {
        "sparsity": np.abs(mean - 0.5).argmin(),
        "energy": mean.argmin(),
        "score": mean.argmax(),
    }[criterion]
    assert search.alpha_ == results["alpha"][best] == search.best_estimator_.alpha_
    same = MiniBatchSCNN(10, search.alpha_, batch_size=200, random_state=0).fit(digits)
    assert_array_equal(search.transform(digits), same.transform(digits))


@pytest.mark.slow
@pytest.mark.filterwarnings("default:SCNNCV. no alpha gives codes")
def test_warning_if_no_alpha_reaches_the_target_sparsity(digits: Any) -> None:
    search = SCNNCV(network(), alpha_ratios=[0.05, 0.02], target_sparsity=0.99, cv=2)
    with pytest.warns(UserWarning, match=r"no alpha gives .* target_sparsity=0.99; .* closest has"):
        search.fit(digits)
    assert hasattr(search, "best_estimator_")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reached = search.cv_results_["sparsity"].mean(axis=1)[0]
        search.set_params(target_sparsity=float(reached)).fit(digits)
        search.set_params(target_sparsity=0.99, criterion="energy").fit(digits)


@pytest.mark.parametrize(
    ("scores", "end"),
    [
        ([0.9, 0.8, 0.7], "largest"),
        ([0.7, 0.8, 0.9], "smallest"),
        ([0.7, 0.9, 0.8], None),
        ([0.9, 0.9, 0.9], None),
        ([0.5], None),
    ],
)
def test_warning_if_the_best_score_is_at_an_end_of_the_grid(
    digits: Any, labels: Any, scores: list[float], end: str | None
) -> None:
    values = iter(2 * scores)
    search = SCNNCV(
        SCNN(4, random_state=0, tol=1e-2),
        alphas=["0.3*max", "0.2*max", "0.1*max"][: len(scores)],
        criterion="score",
        classifier=RidgeClassifier(),
        scoring=lambda classifier, U, y: next(values),
        cv=2,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(digits[:200], labels[:200])
    messages = [str(warning.message) for warning in caught]
    if end is None:
        assert messages == []
    else:
        (message,) = messages
        assert f"best score is that of the {end} alpha, {search.alpha_:.3g}; add" in message


def test_search_has_the_methods_and_attributes_of_its_network(digits: Any) -> None:
    X, new = digits[:300], digits[300:]
    search = SCNNCV(network(fit_decoder=True), alpha_ratios=[0.3, 0.1], cv=2)
    assert search.alpha_max(X) == network().alpha_max(X)  # before fit
    assert SCNNCV(MiniBatchSCNN(5)).alpha_max(X) == SCNN(5).alpha_max(X)
    assert not hasattr(search, "threshold_")
    best = search.fit(X).best_estimator_
    assert_array_equal(search.reconstruct(new), best.reconstruct(new))
    names = ["components_", "encoder_", "gains_", "decoder_", "threshold_", "n_nonzero_coefs_"]
    for name in (*names, "encoder_ridge_", "encoder_r2_", "usage_", "energy_"):
        assert_array_equal(getattr(search, name), getattr(best, name), name)
    assert not hasattr(search, "refined_encoder_")
    before = (search.transform(new) != 0).mean()
    assert search.calibrate(new, density=0.5 * before) is search
    assert_allclose((search.transform(new) != 0).mean(), 0.5 * before, atol=0.01)
    for call in (SCNNCV().reconstruct, SCNNCV().calibrate):
        with pytest.raises(NotFittedError):
            call(X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"cv": 0}, "cv must be an integer of at least 2, .* got 0: .*n_splits=0"),
        ({"cv": 1}, "cv must be an integer of at least 2, .* got 1"),
        ({"cv": 1000}, "cv must be .* got 1000: .* greater than the number of samples"),
        ({"cv": "x"}, "cv must be .* got 'x'"),
        ({"cv": 2.5}, "cv must be .* got 2.5"),
        ({"cv": [1, 2]}, "cv must be .* iterable of pairs"),
        ({"cv": GroupKFold(2)}, "cv must be .* groups"),
        ({"scoring": "nope"}, "scoring must be .* got 'nope'"),
        ({"scoring": 3}, "scoring must be .* got 3"),
        ({"classifier": 5}, "classifier must be an estimator of scikit-learn, got 5"),
        ({"classifier": "svc"}, "classifier must be an estimator of scikit-learn, got 'svc'"),
    ],
)
def test_invalid_parameters_of_a_search_are_explained(
    digits: Any, labels: Any, parameters: dict[str, Any], message: str
) -> None:
    search = SCNNCV(network(), criterion="score", alphas=[0.3]).set_params(**parameters)
    with pytest.raises(InvalidInputError, match=message):
        search.fit(digits, labels)


def test_invalid_targets_of_a_search_are_explained(digits: Any, labels: Any) -> None:
    search = SCNNCV(network(), criterion="score", alphas=[0.3])
    for y, message in (
        (labels[:5], "got 5: .*inconsistent numbers of samples"),
        (np.ones((600, 2)), "y must have one target per sample"),
        ("text", "y must have one target per sample"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            search.fit(digits, y)


def test_search_without_folds_is_explained(digits: Any) -> None:
    with pytest.raises(InvalidInputError, match="cv must yield at least one fold, got none"):
        SCNNCV(network(), cv=[]).fit(digits)


@pytest.mark.parametrize("alphas", ["text", ["a"], [0.1, None], []])
def test_search_with_invalid_alphas_is_explained(digits: Any, alphas: Any) -> None:
    with pytest.raises(InvalidInputError, match="alphas must be a sequence of finite numbers"):
        SCNNCV(network(), alphas=alphas).fit(digits)


def test_search_ignores_the_alpha_of_its_estimator(digits: Any) -> None:
    results = [
        SCNNCV(network(alpha=alpha), alphas=[0.3, 0.1], cv=2).fit(digits).cv_results_["sparsity"]
        for alpha in (0.7, "0.5*max")
    ]
    assert_array_equal(*results)


def test_sparsity_of_split_codes_is_that_of_the_codes(digits: Any) -> None:
    """split_sign doubles the columns, but not the number of codes."""
    parameters: Any = {"alphas": [0.02, 0.1], "cv": 2, "target_sparsity": 0.6}
    plain = SCNNCV(SCNN(12, random_state=0), **parameters).fit(digits)
    split = SCNNCV(SCNN(12, split_sign=True, random_state=0), **parameters).fit(digits)
    assert_allclose(split.cv_results_["sparsity"], plain.cv_results_["sparsity"])
