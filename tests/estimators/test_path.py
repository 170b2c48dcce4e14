"""alpha: a number, automatic, and several values by scnn_path."""

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from lincode import SCNN, MiniBatchSCNN, scnn_path
from lincode.exceptions import InvalidInputError
from tests.estimators.energies import exact_energy


def auto_alpha(X: Any, m: int) -> float:
    return float(m**0.5 / X.shape[1] * np.mean(np.linalg.norm(X, axis=1)))


@pytest.mark.parametrize("alpha", [None, [0.1], True, -1.0, np.inf])
def test_other_values_are_explained(digits: Any, alpha: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"alpha must be 'auto' or a finite .* of type"):
        SCNN(4, alpha=alpha).fit(digits)


def test_alpha_of_batches(digits: Any) -> None:
    """The first batch of ``partial_fit`` determines an automatic alpha; a number may change."""
    scnn = MiniBatchSCNN(8, random_state=0).partial_fit(digits[:200])
    first = scnn.alpha_
    assert_allclose(first, auto_alpha(digits[:200], 8))
    assert scnn.partial_fit(5 * digits[200:400]).alpha_ == first
    assert scnn.set_params(alpha=0.05).partial_fit(digits[400:]).alpha_ == 0.05
    assert_allclose(scnn.set_params(alpha="auto").fit(digits).alpha_, auto_alpha(digits, 8))


@pytest.mark.parametrize("algorithm", ["paper", "exact", "lasso"])
def test_change_of_alpha_takes_effect_in_the_next_fit(digits: Any, algorithm: str) -> None:
    """transform and score use alpha_, not alpha."""
    scnn = SCNN(8, alpha=0.2, refine=False, random_state=0, transform_algorithm=algorithm)
    codes, score = scnn.fit_transform(digits), scnn.score(digits)
    scnn.set_params(alpha=1e-6)
    assert_array_equal(scnn.transform(digits), codes)
    assert scnn.score(digits) == score


@pytest.mark.parametrize("method", [SCNN.fit, MiniBatchSCNN.fit, MiniBatchSCNN.partial_fit])
def test_one_warning_if_all_codes_will_be_zero(digits: Any, method: Any) -> None:
    cls: Any = SCNN if method is SCNN.fit else MiniBatchSCNN
    name = cls.__name__
    edge = SCNN(8).alpha_max(digits)
    for X, alpha, reason in (
        (digits, edge, "alpha is .* below alpha_max"),
        (0 * digits, "auto", "X is all zero"),
    ):
        with pytest.warns(UserWarning, match=f"{name}: all codes will be zero: {reason}") as caught:
            scnn = method(cls(8, density=2, alpha=alpha, random_state=0), X)
        assert len(caught) == 1
        assert caught[0].filename == __file__, "the warning must point to the caller"
        assert not scnn.transform(X).any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        method(cls(8, density=2, alpha=0.5 * edge, random_state=0), digits)


# scnn_path


def test_each_network_of_the_path_is_as_good_as_a_separate_fit(digits: Any) -> None:
    parameters: Any = {"random_state": 0, "transform_algorithm": "exact"}
    path = scnn_path(digits, 16, alphas=[0.03, 0.3, 0.1], **parameters)
    assert [scnn.alpha_ for scnn in path] == [0.3, 0.1, 0.03]
    assert not any(scnn.refine for scnn in path)
    separate = [clone(scnn).fit(digits) for scnn in path]
    for scnn, alone in zip(path, separate, strict=True):
        assert scnn.alpha == scnn.alpha_
        assert scnn.energy_ < 1.02 * alone.energy_
        assert_allclose(exact_energy(scnn, digits), scnn.energy_, rtol=1e-3)
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
    edge = SCNN(10).alpha_max(digits)
    path = scnn_path(
        digits, 10, alphas=[edge, 0.05 * edge], random_state=0, transform_algorithm="paper"
    )
    assert not path[0].usage_.any()
    assert path[1].usage_.all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_alphas": 0}, "n_alphas must be an integer of at least 1"),
        ({"alphas": [0.1, np.nan]}, "alpha must be a finite number"),
        ({"alphas": [0.1, -1.0]}, "alpha must be .* got -1.0"),
        ({"alphas": "auto"}, "alpha must be a finite number .* got 'auto'"),
        ({"alphas": [0.1, None]}, "alpha must be a finite number"),
        ({"refine": True}, "refine is not a parameter of scnn_path"),
        ({"alpha": 0.1}, "alpha is not a parameter of scnn_path"),
        ({"tol": -1}, "tol must be"),
    ],
)
def test_invalid_arguments_of_the_path_are_explained(
    digits: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        scnn_path(digits, 4, **arguments)
