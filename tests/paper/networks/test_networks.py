"""The networks of the paper: golden numbers, training and the contract of scikit-learn."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from paper.experiments.networks import build
from paper.networks import ASCNN, SAANN, PaperSCNN, Sparsenet
from paper.networks.scnn import stopped_encoders
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_estimator
from threadpoolctl import threadpool_limits

from lincode import SCNN
from lincode.exceptions import InvalidInputError
from lincode.metrics import rms_error

X = load_digits().data / 8 - 1
TRAIN, TEST = X[:500], X[500:700]
UNITS: Any = {"n_components": 30, "random_state": 0}

GOLDEN: list[tuple[Any, float, float, float]] = [
    (
        SAANN(alpha=0.1, max_iter=10, **UNITS),
        3.708151620802439,
        2286.602514115027,
        6803.64992709860,
    ),
    (
        SAANN(alpha=0.1, max_iter=5, init="paper", solver="sgd", learning_rate=0.001, **UNITS),
        47.53693598937401,
        1639.4666895623961,
        14171.651878604082,
    ),
    (
        ASCNN(alpha=0.1, max_iter=10, **UNITS),
        1.76627742841546,
        2292.4375398271886,
        7516.04582476545,
    ),
    (
        ASCNN(alpha=0.1, max_iter=5, init="paper", solver="sgd", learning_rate=1e-4, **UNITS),
        236.8109015941137,
        5113.197926740002,
        87465.72685121893,
    ),
    (Sparsenet(alpha=0.5, max_iter=3, **UNITS), 6.46562322175939, 1991.84983861847, 5713.583803749),
    (PaperSCNN(alpha=0.1, max_iter=20, **UNITS), 0.2064943419880, 5129.8320266748, 7282.4388396864),
    (
        PaperSCNN(alpha=0.1, tol=1e-2, solver="accelerated", **UNITS),
        0.106680040907197,
        2511.985240340635,
        5924.441255929158,
    ),
    (
        build("SCNN", 30, 0.1, 0, tol=1e-2),
        0.10611967004361839,
        2518.5110645695804,
        5907.3765742771775,
    ),
]
"""Networks, and the numbers of the code with which the records of the experiments were measured:
the energy per sample, Σ|u| of the test codes, and Σx² of their reconstructions."""
SMALL: list[Any] = [
    SAANN(12, 0.01, max_iter=10, random_state=0),
    ASCNN(12, 0.01, max_iter=10, random_state=0),
    Sparsenet(12, 0.02, max_iter=5, random_state=0),
    PaperSCNN(12, 0.1, max_iter=3, random_state=0),
    PaperSCNN(12, 0.1, solver="accelerated", random_state=0),
]
every_network = pytest.mark.parametrize("network", SMALL, ids=str)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with threadpool_limits(1):
        yield


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("network", "energy", "l1", "square"), GOLDEN, ids=str)
def test_networks_give_the_numbers_of_the_records(
    network: Any, energy: float, l1: float, square: float
) -> None:
    codes = network.fit(TRAIN).transform(TEST)
    # The D step of the library stops within a tolerance, and elsewhere than that of the records.
    uses_library = isinstance(network, SCNN) or getattr(network, "solver", "") == "accelerated"
    rtol = 1e-4 if uses_library else 1e-6
    assert_allclose(network.energy_, energy, rtol=rtol)
    assert_allclose(np.abs(codes).sum(), l1, rtol=rtol)
    assert_allclose(np.square(network.inverse_transform(codes)).sum(), square, rtol=rtol)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@every_network
def test_training_lowers_the_energy(network: Any) -> None:
    network = clone(network).fit(TRAIN)
    path = network.energy_path_
    assert len(path) == network.n_iter_ + 1
    assert network.energy_ == path[-1] < 0.7 * path[0]
    if isinstance(network, PaperSCNN):  # every step minimises the energy
        assert all(after <= before * (1 + 1e-12) for before, after in pairwise(path))
    elif isinstance(network, Sparsenet):
        assert_allclose(network.score(TRAIN), -path[-1], rtol=0.02)  # score has better codes
    else:
        assert path[-1] == path.min()
        assert_allclose(network.score(TRAIN), -path[-1])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@every_network
def test_seeds_and_precision(network: Any) -> None:
    first, second = (clone(network).fit(TRAIN) for _ in range(2))
    assert_array_equal(first.components_, second.components_)
    other = clone(network).set_params(random_state=1).fit(TRAIN)
    assert not np.allclose(first.components_, other.components_)
    single = clone(network).fit(TRAIN.astype(np.float32))
    codes = single.transform(TEST.astype(np.float32))
    assert codes.dtype == single.components_.dtype == np.float32
    assert_allclose(single.energy_, first.energy_, rtol=0.02)


def test_linear_networks_without_penalty_approach_pca() -> None:
    centred = TRAIN - TRAIN.mean(axis=0)
    pca = PCA(8).fit(centred)
    best = rms_error(centred, pca.inverse_transform(pca.transform(centred)))
    for cls in (SAANN, ASCNN):
        network = cls(8, 0.0, activation="linear", max_iter=60, random_state=0)
        codes = network.fit_transform(centred)
        assert best - 1e-9 <= rms_error(centred, network.inverse_transform(codes)) < 1.02 * best


def test_gain_control_moves_the_variances_to_the_goal() -> None:
    network = Sparsenet(10, 0.02, max_iter=30, random_state=0).fit(TRAIN)
    goal = np.square(TRAIN).mean()
    assert np.abs(np.log(network.variance_ / goal)).max() < 0.5


def test_training_that_fails_is_reported() -> None:
    with pytest.warns(ConvergenceWarning, match="every pass ended with a higher energy"):
        ASCNN(4, 1.0, max_iter=1, learning_rate=1e9, random_state=0).fit(TRAIN)
    with pytest.raises(InvalidInputError, match="the energy is"):
        SAANN(4, solver="sgd", activation="linear", learning_rate=1e9, max_iter=9).fit(TRAIN)
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        PaperSCNN(4, max_iter=1, random_state=0).fit(TRAIN)
    with pytest.warns(ConvergenceWarning, match="transform_max_iter=1 iterations"):
        Sparsenet(4, max_iter=1, transform_max_iter=1, random_state=0).fit_transform(TRAIN)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (SAANN(activation="relu"), "activation must be one of"),
        (ASCNN(init="zeros"), "init must be one of"),
        (SAANN(solver="lbfgs"), "solver must be one of"),
        (Sparsenet(penalty="l2"), "penalty must be one of"),
        (PaperSCNN(solver="auto"), "solver must be one of"),
    ],
    ids=str,
)
def test_unknown_choices_raise_an_error(network: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        network.fit(TRAIN)


def test_stopped_encoders_are_those_of_the_gradient_steps(rng: np.random.Generator) -> None:
    X, U = rng.standard_normal((50, 6)) * [3, 1, 1, 0.5, 0.1, 1] + 1, rng.standard_normal((50, 4))
    C = rng.uniform(-1, 1, (4, 6))
    ((one, many, limit),) = stopped_encoders(X, U, [C], [1, 500, np.inf])
    for t in range(1, 501):
        C = C - (C @ X.T @ X - U.T @ X) / np.linalg.norm(X.T @ X, 2)
        if t in (1, 500):
            assert_allclose(one if t == 1 else many, C)
    assert_allclose(limit, np.linalg.lstsq(X, U, rcond=None)[0].T)
    assert np.abs(limit - many).max() > 1e-3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("cls", [SAANN, ASCNN, Sparsenet, PaperSCNN])
def test_scikit_learn_checks(cls: Any) -> None:
    check_estimator(cls(3, max_iter=3), on_skip=None)
