"""alpha as a number or relative to the data, and the warning if it is too large."""

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from lincode.networks.scnn_minibatch import Stream
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lincode import SCNN, MiniBatchSCNN
from lincode.core.energy import energy
from lincode.estimators import batch_training as batch_training_module
from lincode.estimators import scnn as scnn_module
from lincode.exceptions import InvalidInputError

NETWORKS = [SCNN(8, random_state=0), MiniBatchSCNN(8, batch_size=200, random_state=0)]


def mean_length(X: Any) -> float:
    return float(np.mean(np.linalg.norm(np.asarray(X), axis=1)))


@pytest.mark.parametrize("network", NETWORKS, ids=["SCNN", "MiniBatchSCNN"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("alpha", "factor", "scale"),
    [
        ("0.05*max", 0.05, "max"),
        ("0.2*mean", 0.2, "mean"),
        (" 5e-2 * max ", 0.05, "max"),
        ("0*mean", 0.0, "mean"),
        ("mean", 1.0, "mean"),
    ],
)
def test_string_is_relative_to_the_training_data(
    digits: Any, network: Any, sparse: bool, alpha: str, factor: float, scale: str
) -> None:
    X = scipy.sparse.csr_matrix(digits) if sparse else digits
    unit = network.alpha_max(X) if scale == "max" else 8**0.5 / 64 * mean_length(digits)
    scnn = clone(network).set_params(alpha=alpha, tol=1e-1).fit(X)
    assert_allclose(scnn.alpha_, factor * unit, rtol=1e-12)
    assert scnn.alpha == alpha
    assert clone(scnn).get_params()["alpha"] == alpha
    number = clone(network).set_params(alpha=scnn.alpha_, tol=1e-1).fit(X)
    assert number.alpha_ == scnn.alpha_
    assert_array_equal(number.components_, scnn.components_)


@pytest.mark.parametrize("network", NETWORKS, ids=["SCNN", "MiniBatchSCNN"])
def test_relative_alpha_makes_training_independent_of_the_scale(digits: Any, network: Any) -> None:
    one = clone(network).set_params(alpha="0.1*mean").fit(digits)
    two = clone(network).set_params(alpha="0.1*mean").fit(1000 * digits)
    assert_allclose(two.alpha_, 1000 * one.alpha_)
    assert_allclose(two.components_, one.components_, atol=1e-6)


@pytest.mark.parametrize(
    "alpha",
    [
        "",
        "max*0.1",
        "0.1",
        "0.1*",
        "*max",
        "0.1*rms",
        "-0.1*max",
        "nan*max",
        "inf*mean",
        "0,1*max",
        "0.1*max*2",
        "x*max",
        "0.1 max",
    ],
)
@pytest.mark.parametrize("network", NETWORKS, ids=["SCNN", "MiniBatchSCNN"])
def test_invalid_strings_are_explained(digits: Any, network: Any, alpha: str) -> None:
    sentence = r"alpha must be .* a string such as '0.1\*max' or '0.1\*mean', got"
    with pytest.raises(InvalidInputError, match=sentence) as error:
        clone(network).set_params(alpha=alpha).fit(digits)
    assert repr(alpha) in str(error.value)


@pytest.mark.parametrize("alpha", [None, [0.1], b"max", object()])
def test_alpha_of_another_type_is_explained(digits: Any, alpha: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"alpha must be a finite number .* of type"):
        SCNN(4, alpha).fit(digits)


def test_string_in_a_pipeline_is_relative_to_the_input_of_the_step(digits: Any) -> None:
    pipeline = make_pipeline(StandardScaler(), SCNN(8, "0.1*max", random_state=0, tol=1e-2))
    pipeline.fit(digits)
    scaled = StandardScaler().fit_transform(digits)
    assert_allclose(pipeline[-1].alpha_, 0.1 * SCNN(8).alpha_max(scaled))


def test_each_fold_of_a_grid_search_has_its_own_alpha(digits: Any) -> None:
    X = digits * np.linspace(1, 3, len(digits))[:, None]  # the folds have different scales
    y = (digits[:, 20] > 0.5).astype(int)
    alphas: list[float] = []

    def score(pipeline: Any, X: Any, y: Any) -> float:
        alphas.append(pipeline[0].alpha_)
        return float(pipeline.score(X, y))

    pipeline = make_pipeline(
        SCNN(6, "0.1*max", random_state=0, tol=1e-1), LogisticRegression(max_iter=1000)
    )
    grid = {"scnn__alpha": ["0.1*max", "mean"]}
    search = GridSearchCV(pipeline, grid, cv=KFold(3), scoring=score)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(X, y)
    folds = [X[train] for train, _ in KFold(3).split(X)]
    expected = [0.1 * SCNN(6).alpha_max(fold) for fold in folds]
    expected += [6**0.5 / 64 * mean_length(fold) for fold in folds]
    assert_allclose(alphas, expected)
    assert len(set(alphas)) > 2
    best = search.best_params_["scnn__alpha"]
    unit = 0.1 * SCNN(6).alpha_max(X) if best == "0.1*max" else 6**0.5 / 64 * mean_length(X)
    assert_allclose(search.best_estimator_[0].alpha_, unit)


def test_first_batch_of_partial_fit_resolves_a_string(digits: Any) -> None:
    scnn = MiniBatchSCNN(8, "0.1*mean", random_state=0).partial_fit(digits[:200])
    first = scnn.alpha_
    assert_allclose(first, 0.1 * 8**0.5 / 64 * mean_length(digits[:200]))
    scnn.partial_fit(5 * digits[200:400])
    assert scnn.alpha_ == first
    scnn.set_params(alpha="0.3*mean").partial_fit(digits[400:])
    assert scnn.alpha_ == first
    # fit starts again.
    assert_allclose(scnn.fit(digits).alpha_, 0.3 * 8**0.5 / 64 * mean_length(digits))


def test_number_can_change_between_batches(digits: Any) -> None:
    scnn = MiniBatchSCNN(8, 0.1, random_state=0).partial_fit(digits[:200])
    assert scnn.alpha_ == 0.1
    scnn.set_params(alpha=0.05).partial_fit(digits[200:400])
    assert scnn.alpha_ == 0.05


def test_change_of_alpha_takes_effect_in_the_next_fit(digits: Any) -> None:
    """transform and score use alpha_, not alpha."""
    scnn = SCNN(8, "0.1*max", threshold="alpha", encoder_ridge=0, random_state=0).fit(digits)
    assert scnn.threshold_ == scnn.alpha_
    exact = clone(scnn).set_params(transform_algorithm="exact").fit(digits)
    lasso = clone(scnn).set_params(transform_algorithm="lasso").fit(digits)
    before = [network.transform(digits) for network in (scnn, exact, lasso)]
    score = scnn.score(digits)
    U = before[1]
    expected = energy(digits, U, exact.components_, exact.encoder_, exact.alpha_) / len(digits)
    assert_allclose(-score, expected, rtol=1e-6)
    for network in (scnn, exact, lasso):
        network.set_params(alpha=1e-6)
    after = [network.transform(digits) for network in (scnn, exact, lasso)]
    for one, two in zip(before, after, strict=True):
        assert_array_equal(one, two)
    assert scnn.score(digits) == score


@pytest.mark.parametrize("kind", [SCNN, MiniBatchSCNN])
@pytest.mark.parametrize("alpha", ["max", "2*max", 1e6, "zero data"])
def test_warning_before_training_if_all_codes_will_be_zero(
    digits: Any, kind: Any, alpha: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class TrainingStartedError(Exception):
        pass

    def fail(*args: Any, **kwargs: Any) -> None:
        raise TrainingStartedError

    monkeypatch.setattr(scnn_module, "train_in_stages", fail)
    monkeypatch.setattr(Stream, "learn", fail)
    monkeypatch.setattr(batch_training_module, "learn_online", fail)
    X = np.zeros_like(digits) if alpha == "zero data" else digits
    network = kind(8, "0.1*max" if alpha == "zero data" else alpha, random_state=0)
    reason = "X is all zero" if alpha == "zero data" else r"alpha is .* must be below alpha_max"
    message = f"{kind.__name__}: all codes will be zero: {reason}"
    methods = ["fit"] if kind is SCNN else ["fit", "partial_fit"]
    for method in methods:
        with (
            pytest.warns(UserWarning, match=message) as caught,
            pytest.raises(TrainingStartedError),
        ):
            getattr(network, method)(X)
        assert caught[0].filename == __file__, "the warning must point to the caller"


@pytest.mark.parametrize("kind", [SCNN, MiniBatchSCNN])
def test_warning_names_the_string_and_its_value(digits: Any, kind: Any) -> None:
    with pytest.warns(UserWarning, match=r"alpha is .* \('2\*max'\), .* Try alpha='0.1\*max'"):
        kind(8, "2*max", random_state=0).fit(digits)


@pytest.mark.parametrize("kind", [SCNN, MiniBatchSCNN])
def test_no_warning_below_alpha_max(digits: Any, kind: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kind(8, "0.5*max", random_state=0).fit(digits)


def test_only_one_warning_about_alpha(digits: Any) -> None:
    with pytest.warns(UserWarning, match="all codes") as caught:
        SCNN(8, "2*max", random_state=0).fit(digits)
    assert len(caught) == 1
