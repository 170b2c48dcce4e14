"""alpha: a number, relative to the data, and several values by scnn_path."""

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from lincode import SCNN, MiniBatchSCNN, scnn_path
from lincode.exceptions import InvalidInputError

NETWORKS = [SCNN(8, random_state=0), MiniBatchSCNN(8, batch_size=200, random_state=0)]
both = pytest.mark.parametrize("network", NETWORKS, ids=["SCNN", "MiniBatchSCNN"])


def mean_scale(X: Any, m: int) -> float:
    return float(m**0.5 / X.shape[1] * np.mean(np.linalg.norm(X, axis=1)))


@both
@pytest.mark.parametrize(
    ("alpha", "factor", "scale"),
    [("0.05*max", 0.05, "max"), (" 2e-1 * mean ", 0.2, "mean"), ("mean", 1.0, "mean")],
)
def test_string_is_relative_to_the_training_data(
    digits: Any, network: Any, alpha: str, factor: float, scale: str
) -> None:
    longest = np.linalg.norm(digits, axis=1).max()
    unit = 8 / 64 * longest if scale == "max" else mean_scale(digits, 8)
    for X in (digits, scipy.sparse.csr_matrix(digits)):
        scnn = clone(network).set_params(alpha=alpha, tol=1e-1).fit(X)
        assert_allclose(scnn.alpha_, factor * unit, rtol=1e-12)
        assert scnn.alpha == alpha
    number = clone(network).set_params(alpha=scnn.alpha_, tol=1e-1).fit(X)
    assert_array_equal(number.components_, scnn.components_)


@both
def test_relative_alpha_makes_training_independent_of_the_scale(digits: Any, network: Any) -> None:
    one = clone(network).set_params(alpha="0.1*mean").fit(digits)
    two = clone(network).set_params(alpha="0.1*mean").fit(1000 * digits)
    assert_allclose(two.alpha_, 1000 * one.alpha_)
    assert_allclose(two.components_, one.components_, atol=1e-6)


@pytest.mark.parametrize(
    "alpha", ["", "max*0.1", "0.1", "*max", "0.1*rms", "-0.1*max", "nan*max", "x*max", "0.1 max"]
)
def test_invalid_strings_are_explained(digits: Any, alpha: str) -> None:
    sentence = r"alpha must be .* a string such as '0.1\*max' or '0.1\*mean', got"
    with pytest.raises(InvalidInputError, match=sentence) as error:
        SCNN(8, alpha).fit(digits)
    assert repr(alpha) in str(error.value)


@pytest.mark.parametrize("alpha", [None, [0.1], True, -1.0, np.inf])
def test_other_values_are_explained(digits: Any, alpha: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"alpha must be a finite number .* of type"):
        SCNN(4, alpha).fit(digits)


def test_alpha_of_batches(digits: Any) -> None:
    """The first batch of ``partial_fit`` resolves a string; a number may change."""
    scnn = MiniBatchSCNN(8, "0.1*mean", random_state=0).partial_fit(digits[:200])
    first = scnn.alpha_
    assert_allclose(first, 0.1 * mean_scale(digits[:200], 8))
    scnn.set_params(alpha="0.3*mean").partial_fit(5 * digits[200:400])
    assert scnn.alpha_ == first
    assert scnn.set_params(alpha=0.05).partial_fit(digits[400:]).alpha_ == 0.05
    assert_allclose(
        scnn.set_params(alpha="0.3*mean").fit(digits).alpha_, 0.3 * mean_scale(digits, 8)
    )


@pytest.mark.parametrize("algorithm", ["encoder", "exact", "lasso"])
def test_change_of_alpha_takes_effect_in_the_next_fit(digits: Any, algorithm: str) -> None:
    """transform and score use alpha_, not alpha."""
    scnn = SCNN(8, "0.1*max", threshold="alpha", random_state=0, transform_algorithm=algorithm)
    codes, score = scnn.fit_transform(digits), scnn.score(digits)
    scnn.set_params(alpha=1e-6)
    assert_array_equal(scnn.transform(digits), codes)
    assert scnn.score(digits) == score


@pytest.mark.parametrize("method", [SCNN.fit, MiniBatchSCNN.fit, MiniBatchSCNN.partial_fit])
def test_one_warning_if_all_codes_will_be_zero(digits: Any, method: Any) -> None:
    cls: Any = SCNN if method is SCNN.fit else MiniBatchSCNN
    name = cls.__name__
    for X, alpha, reason in (
        (digits, "max", "alpha is .* below alpha_max"),
        (0 * digits, "0.1*max", "X is all zero"),
    ):
        with pytest.warns(UserWarning, match=f"{name}: all codes will be zero: {reason}") as caught:
            scnn = method(cls(8, alpha, random_state=0), X)
        assert len(caught) == 1
        assert caught[0].filename == __file__, "the warning must point to the caller"
        assert not scnn.usage_.any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        method(cls(8, "0.5*max", random_state=0), digits)


# scnn_path


def test_each_network_of_the_path_is_as_good_as_a_separate_fit(digits: Any) -> None:
    alphas: Any = ["0.02*max", 0.3, "0.06*max"]
    path = scnn_path(digits, 16, alphas=alphas, random_state=0)
    alpha_max = SCNN(16).alpha_max(digits)
    expected = sorted([0.02 * alpha_max, 0.3, 0.06 * alpha_max], reverse=True)
    assert_allclose([scnn.alpha_ for scnn in path], expected)
    separate = [SCNN(16, scnn.alpha, random_state=0).fit(digits) for scnn in path]
    for scnn, alone in zip(path, separate, strict=True):
        assert scnn.alpha == scnn.alpha_
        assert scnn.energy_ < 1.02 * alone.energy_
        assert_allclose(-scnn.score(digits), scnn.energy_, rtol=1e-3)
        assert scnn.optimality_["codes"] <= 1e-4
        assert scnn.optimality_["dictionary"] <= 1e-4
    assert sum(scnn.n_iter_ for scnn in path) < sum(scnn.n_iter_ for scnn in separate)


def test_default_grid_and_feature_names(digits: Any) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(digits, columns=[f"pixel{k}" for k in range(64)])
    path = scnn_path(frame, 8, n_alphas=3, random_state=0, split_sign=True)
    alpha_max = SCNN(8).alpha_max(digits)
    assert_allclose([scnn.alpha_ for scnn in path], np.geomspace(0.9, 0.003, 3) * alpha_max)
    assert list(path[0].feature_names_in_) == list(frame.columns)
    assert path[0].transform(frame).shape == (600, 16)


def test_path_continues_after_zero_codes(digits: Any) -> None:
    path = scnn_path(digits, 10, alphas=["max", "0.05*max"], random_state=0)
    assert not path[0].usage_.any()
    assert path[1].usage_.all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_alphas": 0}, "n_alphas must be an integer of at least 1"),
        ({"alphas": [0.1, np.nan]}, "alpha must be a finite number"),
        ({"alphas": [0.1, "-1*max"]}, "alpha must be .* got '-1.max'"),
        ({"alphas": [0.1, None]}, "alpha must be a finite number"),
        ({"alpha": 0.1}, "alpha is not a parameter of scnn_path"),
        ({"tol": -1}, "tol must be"),
    ],
)
def test_invalid_arguments_of_the_path_are_explained(
    digits: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        scnn_path(digits, 4, **arguments)
