"""Codes of a network by other algorithms than its encoder, and dictionaries with positive atoms."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lincode import SCNN, MiniBatchSCNN, sparse_encode
from lincode.exceptions import InvalidInputError

NETWORKS = [
    pytest.param(SCNN(20, random_state=0, tol=1e-2), id="SCNN"),
    pytest.param(MiniBatchSCNN(20, random_state=0, batch_size=500, max_iter=2), id="MiniBatchSCNN"),
]
pytestmark = pytest.mark.filterwarnings("ignore:MiniBatchSCNN. max_iter passes")


@pytest.fixture(params=NETWORKS)
def network(request: Any, digits: Any) -> Any:
    return request.param.fit(digits).set_params(transform_alpha=None, transform_debias=False)


def scale(network: Any) -> float:
    """Return the factor from SCNN's alpha to that of sparse_encode."""
    m, p = network.components_.shape
    return float(p / m)


@pytest.mark.parametrize("factor", [None, 0.3, 3.0])
def test_lasso_codes_are_those_of_sparse_encode(network: Any, digits: Any, factor: Any) -> None:
    alpha = None if factor is None else factor * network.alpha_
    network.set_params(transform_algorithm="lasso", transform_alpha=alpha)
    D, penalty = network.components_, (alpha or network.alpha_) * scale(network)
    U = network.transform(digits)
    expected = sparse_encode(digits, D, alpha=penalty)
    assert_allclose(U, expected, atol=1e-4 * np.abs(expected).max())
    assert_allclose(network.reconstruct(digits), U @ D, atol=1e-6)


def test_transform_alpha_changes_exact_codes_but_not_the_score(network: Any, digits: Any) -> None:
    network.set_params(transform_algorithm="exact")
    codes, score = network.transform(digits), network.score(digits)
    network.set_params(transform_alpha=5 * network.alpha_)
    assert np.count_nonzero(network.transform(digits)) < np.count_nonzero(codes)
    assert network.score(digits) == score


def test_transform_alpha_does_not_affect_the_encoder(network: Any, digits: Any) -> None:
    network.set_params(transform_algorithm="encoder")
    codes = network.transform(digits)
    assert_array_equal(network.set_params(transform_alpha=9.0).transform(digits), codes)


@pytest.mark.parametrize("algorithm", ["omp", "ols"])
@pytest.mark.parametrize("n_nonzero", [None, 3])
def test_greedy_codes_have_the_given_number_of_nonzeros(
    network: Any, digits: Any, algorithm: str, n_nonzero: int | None
) -> None:
    network.set_params(transform_algorithm=algorithm, transform_n_nonzero_coefs=n_nonzero)
    U, k = network.transform(digits), network.n_nonzero_coefs_
    assert n_nonzero in (None, k)
    expected = sparse_encode(digits, network.components_, algorithm=algorithm, n_nonzero_coefs=k)
    assert_array_equal(U, expected)
    assert np.count_nonzero(U, axis=1).max() == k
    network.set_params(transform_n_nonzero_coefs=None)


def test_debiased_codes_reconstruct_better(network: Any, digits: Any) -> None:
    network.set_params(transform_algorithm="lasso")
    biased = network.transform(digits)
    U = network.set_params(transform_debias=True).transform(digits)
    assert_array_equal(U != 0, biased != 0)
    D = network.components_
    assert np.sum((digits - U @ D) ** 2) < np.sum((digits - biased @ D) ** 2)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"transform_alpha": -1.0}, "transform_alpha must be None or a finite number"),
        ({"transform_debias": 1}, "transform_debias must be True or False"),
        ({"positive_dict": "yes"}, "positive_dict must be True or False"),
        ({"transform_algorithm": "omp", "positive_code": True}, "codes of both signs"),
        ({"transform_algorithm": "lars"}, "transform_algorithm must be one of"),
    ],
)
def test_bad_parameters_are_refused(digits: Any, parameters: Any, message: str) -> None:
    for cls in (SCNN, MiniBatchSCNN):
        with pytest.raises(InvalidInputError, match=message):
            cls(5, **parameters).fit(digits)


# Positive dictionaries


@pytest.mark.parametrize("eta", [0.0, 1.0])
@pytest.mark.parametrize("positive_code", [False, True])
def test_positive_dictionary_is_positive_and_the_energy_decreases(
    digits: Any, eta: float, positive_code: bool
) -> None:
    X = digits - digits.mean(axis=0)
    scnn = SCNN(
        20,
        "0.1*max",
        encoder_weight=eta,
        positive_dict=True,
        positive_code=positive_code,
        random_state=0,
        tol=1e-3,
    ).fit(X)
    D = scnn.components_
    assert (D >= 0).all()
    assert (np.linalg.norm(D, axis=1) <= 1 + 1e-9).all()
    assert (scnn.usage_ > 0).mean() > 0.5
    assert scnn.optimality_["dictionary"] <= 1e-3
    path = scnn.energy_path_
    assert (np.diff(path) <= 1e-9 * path[0]).all()
    assert path[-1] < 0.9 * path[0]
    free = SCNN(
        20, "0.1*max", encoder_weight=eta, positive_code=positive_code, random_state=0, tol=1e-3
    )
    assert free.fit(X).energy_ < scnn.energy_
    assert (free.components_ < 0).any()


@pytest.mark.parametrize("init", ["data", "paper", "array"])
def test_every_start_becomes_positive(digits: Any, init: str) -> None:
    start: Any = -np.random.default_rng(0).standard_normal((8, 64)) if init == "array" else init
    scnn = SCNN(8, positive_dict=True, init=start, random_state=0, max_iter=3, tol=0.0)
    with pytest.warns(match="max_iter"):
        scnn.fit(digits)
    assert (scnn.components_ >= 0).all()
    assert scnn.usage_.any()


def test_positive_dictionary_by_batches(digits: Any) -> None:
    X = digits - digits.mean(axis=0)
    network = MiniBatchSCNN(16, positive_dict=True, random_state=0, batch_size=300).fit(X)
    assert (network.components_ >= 0).all()
    network.partial_fit(X[:300])
    assert (network.components_ >= 0).all()
    assert network.usage_.any()


def test_algorithm_of_the_paper_has_no_positive_dictionary(digits: Any) -> None:
    with pytest.raises(InvalidInputError, match="positive_dict=True needs solver='auto'"):
        SCNN(5, solver="paper", positive_dict=True).fit(digits)


@pytest.mark.parametrize("cls", [SCNN, MiniBatchSCNN])
@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("lasso_cd", "'lasso_cd'; use 'lasso'"),
        ("lasso_lars", "'lasso_lars'; use 'lasso'"),
        ("lars", "'lars'; use 'ols'"),
        ("other", "got 'other'"),
    ],
)
def test_names_of_scikit_learn_are_explained(cls: Any, name: str, advice: str) -> None:
    with pytest.raises(InvalidInputError, match=f"must be one of 'encoder', .*{advice}"):
        cls(2, transform_algorithm=name).fit(np.eye(3))
