"""Threads: the same result for every n_jobs, and the limit on BLAS threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from threadpoolctl import ThreadpoolController, threadpool_limits

from lincode import SCNN, MiniBatchSCNN

BLAS = ThreadpoolController().select(user_api="blas")


def present_limit() -> int:
    return max(int(library["num_threads"]) for library in BLAS.info())


@pytest.fixture(autouse=True)
def four_blas_threads() -> Iterator[None]:
    with threadpool_limits(4, user_api="blas"):
        yield


@pytest.fixture(scope="module")
def many(digits: Any) -> Any:
    """Enough samples for several blocks and chunks."""
    X = np.random.default_rng(0).uniform(0.5, 2, (12, 1, 1)) * digits
    return X.reshape(-1, 64)


NETWORKS = [
    pytest.param(SCNN(32, 0.1, random_state=0, tol=1e-2, refine_max_iter=2), id="SCNN"),
    pytest.param(SCNN(8, random_state=0, tol=1e-2, init_size=500), id="subsets"),
    pytest.param(MiniBatchSCNN(32, 0.1, random_state=0, batch_size=3600, tol=0.1), id="batches"),
]


@pytest.mark.parametrize("network", NETWORKS)
def test_every_number_of_threads_gives_the_same_bits(network: Any, many: Any) -> None:
    results = []
    for n_jobs, blas in ((1, 4), (3, 1), (None, 2)):
        with threadpool_limits(blas, user_api="blas"):
            results.append(clone(network).set_params(n_jobs=n_jobs).fit(many))
    for other in results[1:]:
        assert_array_equal(other.components_, results[0].components_)
        assert_array_equal(other.encoder_, results[0].encoder_)
        assert_array_equal(other.energy_path_, results[0].energy_path_)


@pytest.mark.parametrize("algorithm", ["encoder", "exact", "lasso", "omp"])
def test_every_number_of_threads_gives_the_same_codes(
    algorithm: str, digits: Any, many: Any
) -> None:
    network = SCNN(32, 0.1, random_state=0, tol=1e-1, transform_algorithm=algorithm).fit(digits)
    X = np.tile(many, (10, 1)) if algorithm == "encoder" else many  # two blocks, which are larger
    expected = network.set_params(n_jobs=1).transform(X)
    for n_jobs in (2, 3, None):
        assert_array_equal(network.set_params(n_jobs=n_jobs).transform(X), expected)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_blas_uses_at_most_n_jobs_threads_and_the_limit_is_restored(
    digits: Any, network: Any, n_jobs: int
) -> None:
    seen: list[int] = []
    network = clone(network).set_params(n_jobs=n_jobs)
    network.set_params(callback=lambda _: seen.append(present_limit())).fit(digits)
    assert max(seen) <= n_jobs
    assert present_limit() == 4
    score = network.score(digits)
    assert_allclose(network.set_params(n_jobs=3).score(digits), score, rtol=1e-12)
    assert present_limit() == 4


@pytest.mark.parametrize("network", NETWORKS)
def test_limit_is_restored_after_an_error(digits: Any, network: Any) -> None:
    def fail(_: object) -> None:
        raise KeyboardInterrupt

    network = clone(network).set_params(n_jobs=1)
    with pytest.raises(ValueError, match="NaN"):
        network.fit(np.full((5, 4), np.nan))
    with pytest.raises(KeyboardInterrupt):
        network.set_params(callback=fail).fit(digits)
    assert present_limit() == 4


@pytest.mark.parametrize("first_to_finish", [0, 1])
def test_overlapping_fits_in_two_threads_restore_the_limit(
    digits: Any, first_to_finish: int
) -> None:
    """Both fits are in progress at the same time, and either may finish first."""
    started = threading.Barrier(2, timeout=30)
    other_finished = threading.Event()
    limits: list[int] = []
    errors: list[BaseException] = []

    def fit(k: int) -> None:
        def callback(iteration: Any) -> None:
            if iteration.n_iter == 1:
                started.wait()
            if iteration.n_iter == 2 and k != first_to_finish:
                assert other_finished.wait(30)
            limits.append(present_limit())

        try:
            SCNN(8, 0.1, random_state=k, n_jobs=1, tol=1e-2, callback=callback).fit(digits)
        except BaseException as error:
            errors.append(error)
        if k == first_to_finish:
            other_finished.set()

    running = [threading.Thread(target=fit, args=(k,)) for k in range(2)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(60)
    assert not errors
    assert max(limits) == 1
    assert present_limit() == 4
