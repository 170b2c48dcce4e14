"""lincode.dask.SCNN on a cluster of processes whose workers are killed, or join late."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster
from numpy.testing import assert_allclose

import lincode
import lincode.dask
from lincode.estimators import dask_collections
from lincode.exceptions import ClusterError
from lincode.rows import dask_cluster
from lincode.rows.dask import DaskRows

TIMEOUT = 120
"""Seconds after which workers that do not start are an error."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address=":0",
        silence_logs=logging.CRITICAL,
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    """A client with two workers. Killed workers are started again by their nannies."""
    with Client(cluster, timeout=TIMEOUT) as client:
        wait_for_workers(client, 2)
        yield client


def wait_for_workers(client: Client, n: int) -> None:
    deadline = time.monotonic() + TIMEOUT
    while len(client.nthreads()) != n:
        assert time.monotonic() < deadline, f"the cluster does not have {n} workers"
        time.sleep(0.1)


def kill_worker(client: Client, address: str | None = None) -> None:
    processes = client.run(os.getpid)
    os.kill(processes.get(address) or next(iter(processes.values())), signal.SIGKILL)


@pytest.fixture
def X(digits: Any, monkeypatch: pytest.MonkeyPatch) -> da.Array:
    monkeypatch.setattr(dask_collections, "MIN_CHUNK_ROWS", 1)
    return da.from_array(digits, chunks=(75, -1))


def fit(
    client: Client, X: da.Array, on_iteration: Callable[[int], None], **parameters: Any
) -> lincode.dask.SCNN:
    def callback(iteration: lincode.Iteration) -> None:
        on_iteration(iteration.n_iter)

    model = lincode.dask.SCNN(
        16, random_state=0, max_iter=100, client=client, callback=callback, **parameters
    )
    return model.fit(X)


def assert_same_result(model: lincode.dask.SCNN, expected: lincode.SCNN) -> None:
    assert (np.diff(model.energy_path_) <= 0).all()
    assert_allclose(model.energy_, expected.energy_, rtol=1e-3)


@pytest.mark.parametrize("eta", [1.0, 0.0])
def test_energies_of_processes(client: Client, X: da.Array, digits: Any, eta: float) -> None:
    expected = lincode.SCNN(16, random_state=0, encoder_weight=eta).fit(digits)
    model = fit(client, X, lambda n_iter: None, encoder_weight=eta)
    assert_allclose(model.energy_path_[:10], expected.energy_path_[:10], rtol=1e-8)
    assert_same_result(model, expected)
    assert model.n_lost_chunks_ == 0


@pytest.mark.parametrize(("eta", "when"), [(1.0, 1), (1.0, 8), (0.0, 3)])
def test_worker_is_killed_between_iterations(
    client: Client, X: da.Array, digits: Any, eta: float, when: int
) -> None:
    expected = lincode.SCNN(16, random_state=0, encoder_weight=eta).fit(digits)
    model = fit(
        client,
        X,
        lambda n_iter: kill_worker(client) if n_iter == when else None,
        encoder_weight=eta,
    )
    assert_same_result(model, expected)
    assert model.n_lost_chunks_ > 0
    assert_allclose(model.energy_path_[: when + 1], expected.energy_path_[: when + 1], rtol=1e-8)


def test_worker_is_killed_during_an_iteration(client: Client, X: da.Array, digits: Any) -> None:
    """The time is that of the first tasks of an iteration, or a little later."""
    expected = lincode.SCNN(16, random_state=0).fit(digits)
    timers = []

    def on_iteration(n_iter: int) -> None:
        if n_iter in (2, 5):
            pid = list(client.run(os.getpid).values())[-1]
            timers.append(threading.Timer(0.02 * n_iter, os.kill, (pid, signal.SIGKILL)))
            timers[-1].start()

    assert_same_result(fit(client, X, on_iteration), expected)
    assert len(timers) == 2


def test_worker_with_the_last_codes_is_killed(
    client: Client, X: da.Array, digits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker dies after the last iteration, before codes are taken for the calibration."""
    expected = lincode.SCNN(16, random_state=0).fit(digits)
    take_codes = DaskRows.take_codes
    killed = []

    def kill_and_take(rows: DaskRows, indices: Any) -> Any:
        killed.append(rows.chunks.homes[0])
        kill_worker(client, rows.chunks.homes[0])
        return take_codes(rows, indices)

    monkeypatch.setattr(DaskRows, "take_codes", kill_and_take)
    model = fit(client, X, lambda n_iter: None)
    assert killed
    assert_same_result(model, expected)
    assert_allclose(model.matching_threshold_, expected.matching_threshold_, rtol=1e-2)


def test_worker_joins_late(cluster: LocalCluster, client: Client, X: da.Array, digits: Any) -> None:
    expected = lincode.SCNN(16, random_state=0).fit(digits)
    cluster.scale(1)
    wait_for_workers(client, 1)

    def on_iteration(n_iter: int) -> None:
        if n_iter == 2:
            cluster.scale(2)
            wait_for_workers(client, 2)

    homes: list[set[str]] = []
    reduce = dask_cluster.Chunks.reduce

    def record(chunks: dask_cluster.Chunks, *arguments: Any) -> Any:
        result = reduce(chunks, *arguments)
        homes.append(set(chunks.homes))
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dask_cluster.Chunks, "reduce", record)
        model = fit(client, X, on_iteration)
    assert (len(homes[0]), len(homes[-1])) == (1, 2)
    # The codes move together with the rows, so that not even the tolerance changes anything.
    assert model.n_lost_chunks_ == 0
    assert_allclose(model.energy_path_[:10], expected.energy_path_[:10], rtol=1e-8)
    assert_same_result(model, expected)


def test_no_workers_are_left(
    cluster: LocalCluster, client: Client, X: da.Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dask_cluster.WAIT_SECONDS < 60
    monkeypatch.setattr(dask_cluster, "WAIT_SECONDS", 2.0)

    def on_iteration(n_iter: int) -> None:
        if n_iter == 2:
            cluster.scale(0)
            wait_for_workers(client, 0)

    try:
        with pytest.raises(ClusterError, match="no workers"):
            fit(client, X, on_iteration)
    finally:
        cluster.scale(2)
        wait_for_workers(client, 2)


def test_scheduler_is_lost(X: da.Array) -> None:
    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        client = Client(cluster, timeout=TIMEOUT)
        with pytest.raises(ClusterError, match="connection to the Dask scheduler was lost"):
            fit(client, X, lambda n_iter: cluster.close() if n_iter == 2 else None)
        client.close(timeout=5)
