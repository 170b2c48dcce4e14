"""Threads: the same result for every n_jobs, and the limit on BLAS threads."""

from __future__ import annotations

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
    pytest.param(SCNN(20, random_state=0), id="SCNN"),
    pytest.param(SCNN(8, random_state=0, tol=1e-2, refine=False), id="energy"),
    pytest.param(MiniBatchSCNN(32, random_state=0, batch_size=3600, tol=0.1), id="batches"),
]


@pytest.mark.parametrize("network", NETWORKS)
def test_every_number_of_threads_gives_the_same_bits(network: Any, many: Any) -> None:
    one = clone(network).set_params(n_jobs=1).fit(many)
    with threadpool_limits(1, user_api="blas"):
        three = clone(network).set_params(n_jobs=3).fit(many)
    for name in ("components_", "encoder_", "energy_path_", "threshold_", "usage_"):
        assert_array_equal(getattr(one, name), getattr(three, name))


@pytest.mark.parametrize("algorithm", ["encoder", "projection", "exact", "lasso", "omp"])
def test_every_number_of_threads_gives_the_same_codes(
    algorithm: str, digits: Any, many: Any
) -> None:
    network = SCNN(32, random_state=0, tol=1e-1, refine=False).fit(digits)
    network.set_params(transform_algorithm=algorithm)
    X = np.tile(many, (10, 1)) if algorithm == "encoder" else many  # two blocks, which are larger
    expected = network.set_params(n_jobs=1).transform(X)
    for n_jobs in (2, 3, None):
        assert_array_equal(network.set_params(n_jobs=n_jobs).transform(X), expected)


@pytest.mark.parametrize("network", NETWORKS)
def test_blas_uses_at_most_n_jobs_threads_and_the_limit_is_restored(
    digits: Any, network: Any
) -> None:
    seen: list[int] = []
    network = clone(network).set_params(n_jobs=2)
    network.set_params(callback=lambda _: seen.append(present_limit())).fit(digits)
    assert max(seen) <= 2
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
