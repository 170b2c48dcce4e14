"""The number of threads that fit, transform and score use."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from lincode.networks import scnn as scnn_network
from threadpoolctl import ThreadpoolController, threadpool_limits

from lincode import SCNN, MiniBatchSCNN
from lincode.core import code_step as code_step_module
from lincode.core import coders
from lincode.estimators import coding
from lincode.rows import memory, threads

BLAS = ThreadpoolController().select(user_api="blas")


def present_limit() -> int:
    return max(int(library["num_threads"]) for library in BLAS.info())


@pytest.fixture(autouse=True)
def four_blas_threads() -> Iterator[None]:
    with threadpool_limits(4, user_api="blas"):
        yield


class Observer:
    """Records the limit on BLAS threads, and how many Python threads compute at once."""

    def __init__(self) -> None:
        self.limits: list[int] = []
        self.active = self.most_active = 0
        self.lock = threading.Lock()

    def wrap(self, function: Any) -> Any:
        def observed(*args: Any, **kwargs: Any) -> Any:
            with self.lock:
                self.active += 1
                self.most_active = max(self.most_active, self.active)
                self.limits.append(present_limit())
            if self.most_active < 2:
                time.sleep(1e-3)  # so that other threads start on a busy machine too
            try:
                return function(*args, **kwargs)
            finally:
                with self.lock:
                    self.active -= 1

        return observed


@pytest.fixture
def observer(monkeypatch: pytest.MonkeyPatch) -> Observer:
    """Observe every function that computes large products or factorisations."""
    observer = Observer()
    functions = [
        (memory, "code_step"),
        (memory, "factor_rows"),
        (coders, "solve_codes"),
        (coders, "encode"),
        (coding, "encoder_output"),
        (scnn_network, "dictionary_step"),
        (scnn_network, "encoder_step"),
        (code_step_module, "_leading_eigenvalues"),
    ]
    for module, name in functions:
        monkeypatch.setattr(module, name, observer.wrap(getattr(module, name)))
    monkeypatch.setattr(memory, "MIN_THREAD_ENTRIES", 200)  # so that there are many blocks
    monkeypatch.setattr(coding, "MIN_BLOCK_ROWS", 20)
    monkeypatch.setattr(coding, "MIN_BLOCK_PRODUCTS", 1)
    return observer


NETWORKS = [
    pytest.param(SCNN(12, 0.1, random_state=0, tol=1e-2), id="SCNN"),
    pytest.param(
        MiniBatchSCNN(12, 0.1, random_state=0, batch_size=300, tol=1e-1), id="MiniBatchSCNN"
    ),
]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("algorithm", ["encoder", "exact", "lasso"])
def test_number_of_threads_never_exceeds_n_jobs(
    digits: Any, network: Any, n_jobs: int, algorithm: str, observer: Observer
) -> None:
    network.set_params(n_jobs=n_jobs, transform_algorithm=algorithm)
    seen: list[int] = []
    network.set_params(callback=lambda _: seen.append(present_limit()))
    for call in (network.fit, network.transform, network.score):
        call(digits)
        assert observer.limits, call
        assert max(observer.limits) <= n_jobs
        assert observer.most_active <= n_jobs
        assert present_limit() == 4
        observer.limits.clear()
    assert max(seen) <= n_jobs
    network.set_params(callback=None)


def test_large_matrices_use_n_jobs_threads_and_small_ones_use_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "MIN_PARALLEL_SIZE", 40)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 3)) @ rng.standard_normal((3, 40))
    factored: list[int] = []
    factor_rows = memory.factor_rows

    def record(X: Any, n_threads: int, weights: Any) -> Any:
        factored.append(present_limit())
        return factor_rows(X, n_threads, weights)

    monkeypatch.setattr(memory, "factor_rows", record)
    network = SCNN(4, 0.001, random_state=0, n_jobs=3, tol=1e-1)
    network.fit(X)
    network.fit(X[:, 1:])
    network.set_params(n_jobs=None).fit(X)
    network.set_params(n_jobs=1).fit(X)
    assert factored == [3, 1, 4, 1]


@pytest.mark.parametrize("network", NETWORKS)
def test_limit_is_restored_after_an_error(digits: Any, network: Any) -> None:
    def fail(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        network.set_params(callback=fail, n_jobs=1).fit(digits)
    assert present_limit() == 4
    network.set_params(callback=None)
    with pytest.raises(ValueError, match="NaN"):
        network.fit(np.full((5, 4), np.nan))
    assert present_limit() == 4


def test_limit_is_restored_after_an_error_in_transform(
    digits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = SCNN(8, 0.1, random_state=0, n_jobs=2, transform_algorithm="exact").fit(digits)

    def fail(*args: Any, **kwargs: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(coders, "solve_codes", fail)
    with pytest.raises(MemoryError):
        network.transform(digits)
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


def test_fit_that_overlaps_a_fit_of_the_main_thread_restores_the_limit(digits: Any) -> None:
    started, main_finished = threading.Event(), threading.Event()

    def slow_callback(iteration: Any) -> None:
        started.set()
        if iteration.n_iter == 2:
            main_finished.wait(30)

    def fit() -> None:
        SCNN(8, 0.1, random_state=1, n_jobs=1, tol=1e-2, callback=slow_callback).fit(digits)

    thread = threading.Thread(target=fit)

    def start_other(iteration: Any) -> None:
        if iteration.n_iter == 1:
            thread.start()
            assert started.wait(30)

    SCNN(8, 0.1, random_state=0, n_jobs=1, tol=1e-2, callback=start_other).fit(digits)
    main_finished.set()
    thread.join(60)
    assert not thread.is_alive()
    assert present_limit() == 4


def test_observer_sees_both_threads(digits: Any, observer: Observer) -> None:
    """Ensure that the observer sees the functions it is meant to see."""
    network = SCNN(12, 0.1, random_state=0, n_jobs=2, tol=1e-2).fit(digits)
    assert observer.most_active == 2
    observer.limits.clear()
    observer.most_active = 0
    network.transform(digits)
    assert len(observer.limits) == 8
