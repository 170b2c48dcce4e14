"""lincode.dask.SCNN: the same network as lincode.SCNN, lazy results, bad input, lost workers."""

from __future__ import annotations

import copy
import gc
import logging
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from distributed import Client, LocalCluster, wait
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import lincode
import lincode.dask
from lincode.exceptions import ClusterError, InvalidInputError
from lincode.training import dask_rows

TIMEOUT = 120
"""Seconds after which workers that do not start are an error."""
ALL_KILLS = bool(os.environ.get("LINCODE_ALL_KILLS"))
"""Whether workers are killed at every point of a fit, which takes about half an hour."""
FEW: dict[str, Any] = {"random_state": 0, "tol": 1e-2, "refine": False}
"""Parameters for few iterations, all of which use the workers."""


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A client of two workers in threads of this process; it is the current client."""
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster, timeout=TIMEOUT) as client,
    ):
        yield client


@pytest.fixture(autouse=True)
def _keep_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lincode.dask, "MIN_CHUNK_ROWS", 1)


@pytest.fixture(scope="module")
def fitted(client: Client, digits: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lincode.dask, "MIN_CHUNK_ROWS", 1)
        return lincode.dask.SCNN(20, **FEW).fit(lazy(digits))


@pytest.fixture(scope="module")
def reference(digits: Any) -> Any:
    return lincode.SCNN(20, **FEW).fit(digits)


def lazy(X: Any, chunks: Any = 150) -> da.Array:
    return da.from_array(X, chunks=(chunks, -1))


def frame(X: Any) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"pixel{i}" for i in range(X.shape[1])])


def assert_same_network(model: lincode.SCNN, expected: lincode.SCNN, rtol: float = 1e-8) -> None:
    assert_allclose(model.energy_, expected.energy_, rtol=rtol)
    assert model.n_iter_ == expected.n_iter_
    assert_allclose(model.components_, expected.components_, atol=1e-4)
    assert_allclose(model.encoder_, expected.encoder_, atol=1e-4)
    assert_allclose(model.threshold_ or 0.0, expected.threshold_ or 0.0, rtol=1e-4)
    assert_allclose(model.encoder_r2_, expected.encoder_r2_, rtol=1e-4)


# Training


def test_client_is_missing(digits: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed.client, "_get_global_client", lambda: None)
    with pytest.raises(InvalidInputError, match="no Dask client"):
        lincode.dask.SCNN(5).fit(lazy(digits))


@pytest.mark.parametrize("chunks", [600, 77, (1, 2, 0, 300, 297)])
@pytest.mark.usefixtures("client")
def test_network_does_not_depend_on_the_chunks(
    digits: Any, reference: lincode.SCNN, chunks: Any
) -> None:
    model = lincode.dask.SCNN(20, **FEW).fit(lazy(digits, chunks))
    assert_same_network(model, reference)


def test_energies_are_the_same_for_any_number_of_workers(
    fitted: lincode.dask.SCNN, digits: Any
) -> None:
    with (
        LocalCluster(
            n_workers=3, threads_per_worker=2, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster, timeout=TIMEOUT),
    ):
        model = lincode.dask.SCNN(20, **FEW).fit(lazy(digits))
    assert_array_equal(model.energy_path_, fitted.energy_path_)
    assert_array_equal(model.components_, fitted.components_)


def test_small_blocks_are_joined(
    monkeypatch: pytest.MonkeyPatch, fitted: lincode.dask.SCNN, digits: Any
) -> None:
    monkeypatch.setattr(lincode.dask, "MIN_CHUNK_ROWS", 150)
    model = lincode.dask.SCNN(20, **FEW).fit(lazy(digits, 25))
    assert_array_equal(model.energy_path_, fitted.energy_path_)


@pytest.mark.parametrize(
    "parameters",
    [
        {"encoder_weight": 0.0},
        {"positive_code": True, "positive_dict": True},
        {"density": 3},
        {"transform_algorithm": "paper"},
        {"refine": True},
        {"refine": True, "density": 3, "positive_dict": True},
        {"n_components": 90, "alpha": 1.5},  # atoms are replaced
    ],
    ids=lambda parameters: ", ".join(parameters),
)
@pytest.mark.usefixtures("client")
def test_parameters_have_the_same_effect(digits: Any, parameters: Any) -> None:
    parameters = {"n_components": 20, **FEW, **parameters}
    expected = lincode.SCNN(**parameters).fit(digits)
    assert_same_network(lincode.dask.SCNN(**parameters).fit(lazy(digits)), expected)


@pytest.mark.parametrize("kind", ["csr", "csc", "float32", "int", "wide"])
@pytest.mark.usefixtures("client")
def test_kinds_of_blocks(digits: Any, kind: str) -> None:
    X = np.round(16 * digits).astype(np.int64) if kind == "int" else digits
    X = X.astype(np.float32) if kind == "float32" else X[:50] if kind == "wide" else X
    expected = lincode.SCNN(10, **FEW).fit(X)
    blocks = lazy(X, len(X) // 4)
    if kind.startswith("cs"):
        blocks = blocks.map_blocks(getattr(scipy.sparse, f"{kind}_matrix"))
    model = lincode.dask.SCNN(10, **FEW).fit(blocks)
    assert_allclose(model.energy_, expected.energy_, rtol=1e-4 if kind == "float32" else 1e-8)
    codes = model.transform(blocks)
    assert codes.dtype == expected.components_.dtype
    assert_allclose(codes.compute(), model.to_local().transform(X), atol=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.usefixtures("client")
def test_wide_data(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, sparse: bool) -> None:
    monkeypatch.setattr("lincode.training.rows.MAX_DIRECT_BYTES", 1000)
    X = rng.standard_normal((300, 40)) * (rng.random((300, 40)) < 0.3)
    make = scipy.sparse.csr_matrix if sparse else np.asarray
    expected = lincode.SCNN(10, **FEW).fit(make(X))
    model = lincode.dask.SCNN(10, **FEW).fit(lazy(X, 70).map_blocks(make))
    assert_same_network(model, expected)


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.usefixtures("client")
def test_missing_entries(rng: np.random.Generator, digits: Any, refine: bool) -> None:
    X = np.where(rng.random(digits.shape) < 0.2, np.nan, digits)
    X[7] = X[400] = np.nan
    models: list[Any] = [
        cls(20, **FEW | {"refine": refine}) for cls in (lincode.dask.SCNN, lincode.SCNN)
    ]

    def assert_same() -> None:
        model, expected = models
        if refine:  # it amplifies rounding
            assert_allclose(model.energy_, expected.energy_, rtol=1e-8)
            assert_allclose(model.encoder_r2_, expected.encoder_r2_, atol=0.01)
        else:
            assert_same_network(model, expected)

    for model, data in zip(models, (lazy(X), X), strict=True):
        with pytest.warns(UserWarning, match="2 samples have no observed entry"):
            model.fit(data)
        with pytest.warns(UserWarning, match="2 samples have no observed entry"):
            assert_allclose(model.alpha_max(data), models[0].alpha_max(lazy(X)))
    assert_same()
    observed = X[8:400]
    model = models[0]
    assert_allclose(model.score(lazy(observed)), model.to_local().score(observed))
    for model, data in zip(models, (lazy(observed), observed), strict=True):
        model.calibrate(data, density=0.3)
    assert_same()


@pytest.mark.usefixtures("client")
def test_masked_blocks(digits: Any) -> None:
    mask = np.arange(digits.size).reshape(digits.shape) % 7 == 0
    model = lincode.dask.SCNN(20, **FEW).fit(lazy(np.ma.masked_array(digits, mask)))
    assert_same_network(model, lincode.SCNN(20, **FEW).fit(np.where(mask, np.nan, digits)))


@pytest.mark.usefixtures("client")
def test_sparse_blocks_are_not_changed(digits: Any, reference: lincode.SCNN) -> None:
    X = scipy.sparse.csr_matrix(digits)
    twice = scipy.sparse.csr_matrix(
        (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), X.shape
    )
    for array in (twice.data, twice.indices, twice.indptr):
        array.flags.writeable = False
    block = da.from_delayed(dask.delayed(lambda: twice)(), X.shape, X.dtype, meta=X[:0])
    assert_same_network(lincode.dask.SCNN(20, **FEW).fit(block), reference)
    assert twice.nnz == 2 * X.nnz


def test_fit_and_score_in_a_task(client: Client, digits: Any, reference: lincode.SCNN) -> None:
    """A worker with one thread does not wait for itself."""

    def fit() -> Any:
        X = lazy(digits)
        model = lincode.dask.SCNN(20, **FEW).fit(X)
        return model.to_local(), model.score(X)

    futures = [client.submit(fit, pure=False) for _ in range(2)]
    for future in futures:
        model, score = future.result(timeout=TIMEOUT)
        assert_same_network(model, reference)
        assert_allclose(score, reference.score(digits))


@pytest.mark.usefixtures("client")
def test_warm_start(digits: Any) -> None:
    models: list[Any] = [cls(20, **FEW) for cls in (lincode.dask.SCNN, lincode.SCNN)]
    for model, data in zip(models, (lazy(digits), digits), strict=True):
        model.fit(data).set_params(warm_start=True, alpha=0.1).fit(data)
    assert_same_network(*models)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.usefixtures("client")
def test_workers_forget_the_chunks(digits: Any, fails: bool) -> None:
    def chunks_in_memory() -> int:
        gc.collect()
        # isinstance would follow weak proxies, whose objects may no longer exist. Chunks of other
        # tests have another number of units.
        found = [thing for thing in gc.get_objects() if type(thing) is dask_rows.Chunk]
        return sum(chunk.m == 9 for chunk in found)

    def callback(iteration: lincode.Iteration) -> bool:
        assert chunks_in_memory() > 0
        if fails:
            raise KeyError("stop")
        return True

    model = lincode.dask.SCNN(9, **FEW, callback=callback)
    if fails:
        with pytest.raises(KeyError):
            model.fit(lazy(digits))
    else:
        model.fit(lazy(digits))
    deadline = time.monotonic() + TIMEOUT
    while chunks_in_memory() > 0:
        assert time.monotonic() < deadline, "there are still chunks"
        time.sleep(0.1)


# Results


@pytest.mark.parametrize(
    "parameters",
    [{}, {"split_sign": True, "sparse_output": True}, {"transform_algorithm": "projection"}],
)
def test_transform_is_lazy(fitted: lincode.dask.SCNN, digits: Any, parameters: Any) -> None:
    model, X = copy.deepcopy(fitted).set_params(**parameters), lazy(digits, 77)
    codes, local = model.transform(X), model.to_local()
    assert isinstance(codes, da.Array)
    assert codes.chunks == (X.chunks[0], (40 if model.split_sign else 20,))
    computed, expected = codes.compute(), local.transform(digits)
    assert scipy.sparse.issparse(computed) == model.sparse_output
    assert computed.dtype == expected.dtype == codes.dtype
    assert abs(computed - expected).max() <= 1e-9
    back = model.inverse_transform(codes)
    assert back.shape == X.shape
    assert_allclose(back.compute(), local.inverse_transform(expected), atol=1e-9)


def test_other_results(fitted: lincode.dask.SCNN, digits: Any) -> None:
    local = fitted.to_local()
    for X, rtol in ((lazy(digits, 77), 1e-9), (digits, 0)):  # Dask and memory
        assert_allclose(fitted.reconstruct(X), local.reconstruct(digits), atol=rtol)
        assert_allclose(fitted.score(X), local.score(digits), rtol=rtol)
        assert_allclose(fitted.alpha_max(X), local.alpha_max(digits), rtol=rtol)


def test_unknown_and_empty_chunks(fitted: lincode.dask.SCNN, digits: Any) -> None:
    X, chosen = lazy(digits, (100, 0, 500)), digits[:, 20] > 0.5
    X = X[X[:, 20] > 0.5]
    codes = fitted.transform(X).compute()
    assert_allclose(codes, fitted.to_local().transform(digits[chosen]), atol=1e-9)
    expected = lincode.SCNN(20, **FEW).fit(digits[chosen])
    assert_same_network(lincode.dask.SCNN(20, **FEW).fit(X), expected)


@pytest.mark.usefixtures("client")
def test_data_frames(digits: Any, reference: lincode.SCNN) -> None:
    X = dd.from_pandas(frame(digits), npartitions=4)
    X = dd.concat([X, X[X["pixel20"] > 99]])  # the last partitions are empty
    model = lincode.dask.SCNN(20, **FEW).fit(X)
    assert_same_network(model, reference)
    assert_array_equal(model.feature_names_in_, frame(digits).columns)
    codes, local = model.transform(X), model.to_local()
    assert isinstance(codes, dd.DataFrame)
    assert list(codes.columns) == [f"scnn{i}" for i in range(20)]
    computed = codes.compute()
    assert_array_equal(computed.index, frame(digits).index)
    assert_allclose(computed, local.transform(frame(digits)), atol=1e-9)
    back = model.inverse_transform(codes).compute()
    assert list(back.columns) == list(X.columns)
    assert_allclose(back, model.reconstruct(X).compute(), atol=1e-9)
    assert_allclose(model.score(X), local.score(frame(digits)), rtol=1e-9)
    with pytest.raises(InvalidInputError, match="feature names"):
        model.transform(X.rename(columns={"pixel0": "other"}))
    with pytest.raises(InvalidInputError, match="requires a Dask array"):
        model.set_params(sparse_output=True).transform(X)


@pytest.mark.usefixtures("client")
def test_columns_of_different_types(digits: Any) -> None:
    data = frame(np.round(16 * digits[:200, 16:24])).astype({"pixel0": "Int64", "pixel1": "int8"})
    expected = lincode.SCNN(5, **FEW).fit(data.astype(float))
    model = lincode.dask.SCNN(5, **FEW).fit(dd.from_pandas(data, npartitions=3))
    assert_same_network(model, expected)


@pytest.mark.parametrize("make", [lazy, lambda X: dd.from_pandas(frame(X), npartitions=2)])
@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.usefixtures("client")
def test_calibrate(digits: Any, make: Callable[[Any], Any], refine: bool) -> None:
    model = lincode.dask.SCNN(8, **FEW | {"refine": refine}).fit(make(digits))
    local = model.to_local()
    model.calibrate(make(digits), density=0.3)
    local.calibrate(frame(digits) if hasattr(local, "feature_names_in_") else digits, density=0.3)
    assert model.density == model.density_ == 0.3
    assert_same_network(model, local)


def test_estimator_contract(fitted: lincode.dask.SCNN) -> None:
    assert lincode.dask.SCNN().get_params() == lincode.SCNN().get_params()
    assert type(clone(fitted)) is lincode.dask.SCNN
    local = fitted.to_local()
    assert type(local) is lincode.SCNN
    local.components_[...] = 0
    assert fitted.components_.any()


# Bad input


def bad_inputs(X: Any) -> dict[str, tuple[Any, str]]:
    array, infinite, unobserved, holes = lazy(X), np.array(X), np.array(X), np.array(X)
    infinite[400, 3], infinite[500, 3], holes[0, 0], infinite[:100] = np.inf, np.nan, np.nan, np.nan
    unobserved[:, 5] = np.nan
    text = frame(X).assign(pixel3="seven")
    return {
        "chunks of columns": (array.rechunk((-1, 32)), r"rechunk\(\{1: -1\}\)"),
        "object": (array.astype(object), "the dtype object"),
        "complex": (array.astype(complex), "the dtype complex128"),
        "three dimensions": (array[None], "two dimensions"),
        "infinite": (lazy(infinite), "infinity.* in rows 300 to 449"),
        "sparse NaN": (lazy(unobserved).map_blocks(scipy.sparse.csr_matrix), "NaN in a sparse"),
        "unobserved feature": (lazy(unobserved), r"features \[5\] are NaN"),
        "all missing": (array * np.nan, "all entries of X are NaN"),
        "too large": (array * 1e200, "largest absolute value"),
        "no rows": (array[:0], "no rows"),
        "sparse and NaN": (
            da.concatenate([array.map_blocks(scipy.sparse.csr_matrix), lazy(holes)]),
            "make all blocks dense",
        ),
        "no columns": (array[:, :0], "0 feature"),
        "in memory": (X, "must be a Dask array or data frame, got ndarray"),
        "text": (dd.from_pandas(text, npartitions=2), "pixel3 has the dtype"),
        "series": (dd.from_pandas(frame(X), npartitions=2)["pixel3"], "got Series"),
        "delayed": (dask.delayed(X), "got Delayed"),
    }


@pytest.mark.parametrize("kind", bad_inputs(np.ones((600, 64))))
def test_bad_input_loses_nothing(fitted: lincode.dask.SCNN, digits: Any, kind: str) -> None:
    X, message = bad_inputs(digits)[kind]
    model = copy.deepcopy(fitted)
    before = dict(vars(model))
    with pytest.raises(InvalidInputError, match=message):
        model.fit(X)
    assert vars(model) == before


def test_other_bad_input(fitted: lincode.dask.SCNN, digits: Any) -> None:
    X = lazy(digits)
    with pytest.raises(InvalidInputError, match="columns, as returned by transform"):
        fitted.inverse_transform(X)
    with pytest.raises(InvalidInputError, match="64 features"):
        fitted.transform(X[:, :5].rechunk({1: -1}))
    assert not hasattr(fitted, "set_output")  # it would compute lazy results
    X = da.concatenate([X, np.full((1, 64), np.nan)])
    for method in (lincode.dask.SCNN(5, **FEW).fit, copy.deepcopy(fitted).calibrate):
        with pytest.warns(UserWarning, match="1 samples have no observed entry"):
            method(X)
    with pytest.raises(InvalidInputError, match="n_jobs"):
        copy.deepcopy(fitted).set_params(n_jobs="a").calibrate(X)


@pytest.mark.usefixtures("client")
def test_errors_of_tasks_are_raised(digits: Any) -> None:
    def fail(block: Any) -> Any:
        raise OSError("the disk is gone")

    def too_little_memory(block: Any) -> Any:
        raise MemoryError("no memory")

    meta = np.empty((0, 0))
    with pytest.raises(OSError, match="the disk is gone"):
        lincode.dask.SCNN(5).fit(lazy(digits).map_blocks(fail, meta=meta))
    with pytest.raises(ClusterError, match=r"failed repeatedly.*no memory"):
        lincode.dask.SCNN(5).fit(lazy(digits).map_blocks(too_little_memory, meta=meta))


# Lost workers: processes that are killed, and started again by Dask


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    # Otherwise a worker that is killed twice within 15 seconds is not started again.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "600s"}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
        ) as cluster,
    ):
        yield cluster


@pytest.fixture
def workers(cluster: LocalCluster) -> Iterator[Client]:
    """A client of two worker processes."""
    with Client(cluster, timeout=TIMEOUT) as client:
        wait_for_workers(client, 2)
        yield client


def wait_for_workers(client: Client, n: int) -> None:
    deadline = time.monotonic() + TIMEOUT
    while len(processes(client)) != n:
        assert time.monotonic() < deadline, f"the cluster does not have {n} workers"
        time.sleep(0.1)


def processes(client: Client) -> dict[str, int]:
    """Return the processes of the workers; nothing if one of them was killed just now."""
    try:
        return dict(client.run(os.getpid))
    except OSError:
        return {}


@pytest.fixture(scope="module")
def expected(digits: Any) -> Any:
    return lincode.SCNN(16, refine=False, random_state=0).fit(digits)


def fit(X: Any, on_iteration: Callable[[int], object] = bool) -> Any:
    def callback(iteration: lincode.Iteration) -> None:
        on_iteration(iteration.n_iter)

    model = lincode.dask.SCNN(16, refine=False, random_state=0, callback=callback)
    model.fit(lazy(X, 75))
    assert (np.diff(model.energy_path_) <= 0).all()
    return model


def at_gather(n: int, action: Callable[[list[Any]], object]) -> Any:
    """Return a function that replaces ``results`` and calls the action before the n-th gather."""
    results, count = dask_rows.results, [0]

    def replacement(client: Client, futures: list[Any]) -> list[Any]:
        count[0] += 1
        if count[0] == n:
            wait(futures, timeout=TIMEOUT)
            action(futures)
        return results(client, futures)

    return replacement


@pytest.mark.slow
@pytest.mark.parametrize("n", range(1, 41) if ALL_KILLS else [1, 2, 3, 7, 8, 12, 20, 33])
def test_worker_with_a_result_is_killed(
    workers: Client, monkeypatch: pytest.MonkeyPatch, digits: Any, expected: lincode.SCNN, n: int
) -> None:
    killed = []

    def kill(futures: list[Any]) -> None:
        killed.append(next(iter(workers.who_has(futures).values()))[0])
        os.kill(processes(workers)[killed[0]], signal.SIGKILL)

    monkeypatch.setattr(dask_rows, "results", at_gather(n, kill))
    assert_allclose(fit(digits).energy_, expected.energy_, rtol=1e-6)
    assert killed


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30 if ALL_KILLS else 4))
def test_worker_is_killed_at_any_time(
    workers: Client, digits: Any, expected: lincode.SCNN, seed: int
) -> None:
    rng = random.Random(seed)
    pid = rng.choice(list(processes(workers).values()))
    timer = threading.Timer(rng.uniform(0, 1.2), os.kill, (pid, signal.SIGKILL))
    timer.start()
    assert_allclose(fit(digits).energy_, expected.energy_, rtol=1e-6)
    timer.join()


@pytest.mark.slow
def test_all_workers_are_killed(workers: Client, digits: Any, expected: lincode.SCNN) -> None:
    def kill_all(n_iter: int) -> None:
        if n_iter == 3:
            for pid in processes(workers).values():
                os.kill(pid, signal.SIGKILL)

    assert_allclose(fit(digits, kill_all).energy_, expected.energy_, rtol=1e-6)


@pytest.mark.slow
def test_worker_is_stopped_for_a_while(
    workers: Client, digits: Any, expected: lincode.SCNN
) -> None:
    def stop(n_iter: int) -> None:
        if n_iter == 3:
            pid = next(iter(processes(workers).values()))
            os.kill(pid, signal.SIGSTOP)
            threading.Timer(30 if ALL_KILLS else 5, os.kill, (pid, signal.SIGCONT)).start()

    assert_allclose(fit(digits, stop).energy_, expected.energy_, rtol=1e-6)


@pytest.mark.slow
def test_all_workers_leave(
    cluster: LocalCluster, workers: Client, monkeypatch: pytest.MonkeyPatch, digits: Any
) -> None:
    def scale(n: int) -> bool:
        cluster.scale(n)
        wait_for_workers(workers, n)
        return False

    monkeypatch.setattr(dask_rows, "WAIT_SECONDS", 2.0)
    model = lincode.dask.SCNN(5, **FEW, callback=lambda i: scale(0))
    before = dict(vars(model))
    started = time.monotonic()
    try:
        with pytest.raises(ClusterError, match="no running workers for 2 seconds"):
            model.fit(lazy(digits))
        assert time.monotonic() - started < TIMEOUT
        assert vars(model) == before
    finally:
        scale(2)


@pytest.mark.slow
def test_worker_exceeds_its_memory(digits: Any) -> None:
    def allocate(block: Any) -> Any:
        memory = np.ones((1024, 2**20))  # 8 GiB, of which the worker gets 1
        return block + memory[0, 0]

    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            memory_limit="1GiB",
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster, timeout=TIMEOUT),
        pytest.raises(ClusterError, match=r"failed repeatedly.*more memory"),
    ):
        lincode.dask.SCNN(5).fit(lazy(digits).map_blocks(allocate, meta=np.empty((0, 0))))


@pytest.mark.slow
def test_scheduler_is_lost(digits: Any) -> None:
    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        client = Client(cluster, timeout=TIMEOUT)
        lost = "connection to the Dask scheduler was lost"
        with client.as_current(), pytest.raises(ClusterError, match=lost):
            fit(digits, lambda n_iter: cluster.close() if n_iter == 2 else None)
        client.close(timeout=5)
