"""lincode.dask.SCNN: the same network as lincode.SCNN, lazy results, bad input."""

from __future__ import annotations

import copy
import gc
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from distributed import Client, LocalCluster
from lincode.estimators.progress import HAS_CALLBACKS
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import lincode
import lincode.dask
from lincode.estimators import dask_collections
from lincode.exceptions import InvalidInputError
from lincode.rows.dask_chunks import Chunk

TIMEOUT = 60


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
    monkeypatch.setattr(dask_collections, "MIN_CHUNK_ROWS", 1)


@pytest.fixture(scope="module")
def fitted(client: Client, digits: Any) -> lincode.dask.SCNN:
    return lincode.dask.SCNN(20, random_state=0).fit(da.from_array(digits, chunks=(150, -1)))


@pytest.fixture(scope="module")
def reference(digits: Any) -> lincode.SCNN:
    return lincode.SCNN(20, random_state=0).fit(digits)


def frame(X: Any) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"pixel{i}" for i in range(X.shape[1])])


def assert_same_network(model: lincode.SCNN, expected: lincode.SCNN) -> None:
    n = min(10, len(expected.energy_path_))
    assert_allclose(model.energy_path_[:n], expected.energy_path_[:n], rtol=1e-8)
    assert_allclose(model.energy_, expected.energy_, rtol=1e-3)
    assert (np.diff(model.energy_path_) <= 0).all()


@pytest.mark.parametrize("chunks", [600, 150, 77, (1, 2, 0, 300, 297)])
def test_energies_do_not_depend_on_the_chunks(
    client: Client, digits: Any, reference: lincode.SCNN, chunks: Any
) -> None:
    X = da.from_array(digits, chunks=(chunks, -1))
    model = lincode.dask.SCNN(20, random_state=0, client=client).fit(X)
    assert_same_network(model, reference)
    assert_allclose(model.components_, reference.components_, atol=1e-5)
    assert_allclose(model.matching_threshold_, reference.matching_threshold_, rtol=1e-4)
    assert_allclose(model.gains_, reference.gains_, rtol=1e-3)
    assert model.n_lost_chunks_ == 0


@pytest.mark.parametrize("n_workers", [1, 3])
def test_energies_do_not_depend_on_the_workers(
    digits: Any, reference: lincode.SCNN, n_workers: int
) -> None:
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=2, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster, timeout=TIMEOUT) as client,
    ):
        model = lincode.dask.SCNN(20, random_state=0, client=client)
        assert_same_network(model.fit(da.from_array(digits, chunks=(100, -1))), reference)


@pytest.mark.parametrize(
    "parameters",
    [
        {"encoder_weight": 0.0},
        {"positive_code": True, "positive_dict": True},
        {"refine_max_iter": 3},
        {"init_size": 60},
        {"fit_decoder": True, "encoder_ridge": 0.1},
        {"alpha": "0.1*max", "init": np.eye(64)[:20]},
    ],
    ids=lambda parameters: next(iter(parameters)),
)
def test_parameters_have_the_same_effect(client: Client, digits: Any, parameters: Any) -> None:
    parameters = {"random_state": 0, **parameters}
    expected = lincode.SCNN(20, **parameters).fit(digits)
    model = lincode.dask.SCNN(20, **parameters).fit(da.from_array(digits, chunks=(150, -1)))
    assert_same_network(model, expected)
    assert_allclose(model.encoder_r2_, expected.encoder_r2_, rtol=1e-3)
    assert (model.to_local().get_params()["alpha"]) == expected.alpha


@pytest.mark.parametrize("kind", ["csr", "csc", "float32", "int"])
def test_kinds_of_blocks(client: Client, digits: Any, kind: str) -> None:
    X = np.round(16 * digits).astype(np.int64) if kind == "int" else digits
    X = X.astype(np.float32) if kind == "float32" else X
    expected = lincode.SCNN(20, random_state=0).fit(X)
    blocks = da.from_array(X, chunks=(150, -1))
    if kind.startswith("cs"):
        blocks = blocks.map_blocks(getattr(scipy.sparse, f"{kind}_matrix"))
    model = lincode.dask.SCNN(20, random_state=0).fit(blocks)
    rtol = 1e-4 if kind == "float32" else 1e-8
    assert_allclose(model.energy_path_[:10], expected.energy_path_[:10], rtol=rtol)
    codes = model.transform(blocks)
    assert codes.dtype == expected.components_.dtype
    assert_allclose(codes.compute(), model.to_local().transform(X), atol=1e-6)


def test_warm_start(client: Client, digits: Any) -> None:
    X = da.from_array(digits, chunks=(150, -1))
    models: list[Any] = [cls(20, random_state=0) for cls in (lincode.dask.SCNN, lincode.SCNN)]
    for model, data in zip(models, (X, digits), strict=True):
        model.fit(data).set_params(warm_start=True, alpha=0.1).fit(data)
    assert_same_network(*models)


def test_small_blocks_are_joined(client: Client, digits: Any, reference: lincode.SCNN) -> None:
    dask_collections.MIN_CHUNK_ROWS = 200  # restored by the fixture
    X = da.from_array(digits, chunks=(60, -1))
    rows = dask_collections.make_rows(client, X, 20, X.dtype)
    assert [scan.n for scan in rows.scans] == [240, 240, 120]
    rows.close()
    assert_same_network(lincode.dask.SCNN(20, random_state=0).fit(X), reference)


@pytest.mark.skipif(not HAS_CALLBACKS, reason="scikit-learn has callbacks since version 1.9")
def test_callbacks_of_scikit_learn_are_called(client: Client, digits: Any) -> None:
    monitor = lincode.EnergyMonitor()
    scnn = lincode.dask.SCNN(8, random_state=0, tol=1e-2).set_callbacks(monitor)
    scnn.fit(da.from_array(digits, chunks=(150, -1)))
    assert len(monitor.records_) == scnn.n_iter_
    assert scnn.transform(da.from_array(digits, chunks=(150, -1))).compute().shape == (600, 8)


# Results


@pytest.mark.parametrize("split_sign", [False, True])
@pytest.mark.parametrize("sparse_output", [False, True])
@pytest.mark.parametrize("algorithm", ["encoder", "exact"])
def test_transform_is_lazy(
    fitted: lincode.dask.SCNN, digits: Any, split_sign: bool, sparse_output: bool, algorithm: str
) -> None:
    model = copy.deepcopy(fitted).set_params(
        split_sign=split_sign, sparse_output=sparse_output, transform_algorithm=algorithm
    )
    X = da.from_array(digits, chunks=(77, -1))
    codes = model.transform(X)
    assert isinstance(codes, da.Array)
    assert codes.chunks == (X.chunks[0], (40 if split_sign else 20,))
    computed, expected = codes.compute(), model.to_local().transform(digits)
    assert scipy.sparse.issparse(computed) == sparse_output
    assert computed.dtype == expected.dtype == codes.dtype
    assert abs(computed - expected).max() <= 1e-9
    back = model.inverse_transform(codes)
    assert back.shape == X.shape
    assert_allclose(back.compute(), model.to_local().inverse_transform(expected), atol=1e-9)


def test_other_lazy_results(fitted: lincode.dask.SCNN, digits: Any) -> None:
    X, local = da.from_array(digits, chunks=(77, -1)), fitted.to_local()
    assert_allclose(fitted.reconstruct(X).compute(), local.reconstruct(digits), atol=1e-9)
    assert_allclose(fitted.score(X), local.score(digits), rtol=1e-9)
    assert_allclose(fitted.alpha_max(X), local.alpha_max(digits), rtol=1e-12)


def test_results_of_data_in_memory_are_not_lazy(fitted: lincode.dask.SCNN, digits: Any) -> None:
    local = fitted.to_local()
    codes = fitted.transform(digits)
    assert_array_equal(codes, local.transform(digits))
    assert_array_equal(fitted.inverse_transform(codes), local.inverse_transform(codes))
    assert_array_equal(fitted.reconstruct(digits), local.reconstruct(digits))
    assert fitted.score(digits) == local.score(digits)
    assert fitted.alpha_max(digits) == local.alpha_max(digits)


def test_unknown_and_empty_chunks_can_be_transformed(
    fitted: lincode.dask.SCNN, digits: Any
) -> None:
    X = da.from_array(digits, chunks=((100, 0, 500), -1))
    chosen = X[X[:, 20] > 0.5]
    codes = fitted.transform(chosen)
    expected = fitted.to_local().transform(digits[digits[:, 20] > 0.5])
    assert_allclose(codes.compute(), expected, atol=1e-9)


def test_data_frames(client: Client, digits: Any, reference: lincode.SCNN) -> None:
    X = dd.from_pandas(frame(digits), npartitions=4)
    X = dd.concat([X, X[X["pixel20"] > 99]])  # the last partitions are empty
    model = lincode.dask.SCNN(20, random_state=0).fit(X)
    assert_same_network(model, reference)
    assert_array_equal(model.feature_names_in_, frame(digits).columns)
    codes = model.transform(X)
    assert isinstance(codes, dd.DataFrame)
    assert list(codes.columns) == [f"scnn{i}" for i in range(20)]
    computed = codes.compute()
    assert_array_equal(computed.index, frame(digits).index)
    assert_allclose(computed, model.to_local().transform(frame(digits)), atol=1e-9)
    back = model.inverse_transform(codes).compute()
    assert list(back.columns) == list(X.columns)
    assert_allclose(back, model.reconstruct(X).compute(), atol=1e-9)
    assert_allclose(model.score(X), model.to_local().score(frame(digits)), rtol=1e-9)
    with pytest.raises(InvalidInputError, match="feature names"):
        model.transform(X.rename(columns={"pixel0": "other"}))
    with pytest.raises(InvalidInputError, match="requires a Dask array"):
        model.set_params(sparse_output=True).transform(X)


def test_columns_of_different_types(client: Client, digits: Any) -> None:
    data = frame(np.round(16 * digits[:200, 16:24])).astype({"pixel0": "Int64", "pixel1": "int8"})
    X = dd.from_pandas(data, npartitions=3)
    expected = lincode.SCNN(5, random_state=0).fit(data.astype(float))
    assert_same_network(lincode.dask.SCNN(5, random_state=0).fit(X), expected)


def test_calibrate(fitted: lincode.dask.SCNN, digits: Any) -> None:
    model, local = copy.deepcopy(fitted), fitted.to_local()
    model.calibrate(da.from_array(digits, chunks=(150, -1)), density=0.1)
    local.calibrate(digits, density=0.1)
    assert_allclose(model.threshold_, local.threshold_, rtol=1e-9)
    assert_allclose(model.gains_, local.gains_, rtol=1e-9)


# The estimator


def test_parameters_are_those_of_scnn_and_the_client() -> None:
    expected = lincode.SCNN().get_params() | {"client": None}
    assert lincode.dask.SCNN().get_params() == expected
    changed = {name: object() for name in expected}
    assert lincode.dask.SCNN(**changed).get_params() == changed  # type: ignore[arg-type]


def test_local_copy_can_be_saved(fitted: lincode.dask.SCNN, digits: Any, tmp_path: Path) -> None:
    local = fitted.to_local()
    assert type(local) is lincode.SCNN
    for model, name in ((local, "local"), (fitted, "dask")):
        lincode.save(model, tmp_path / name)
        assert_array_equal(lincode.load(tmp_path / name).transform(digits), local.transform(digits))
    local.components_[...] = 0
    assert fitted.components_.any()


def test_clone_keeps_the_client_and_pickle_does_not(
    client: Client, fitted: lincode.dask.SCNN, digits: Any
) -> None:
    model = copy.copy(fitted).set_params(client=client)
    assert clone(model).client is client
    loaded = pickle.loads(pickle.dumps(model))
    assert loaded.client is None
    assert_array_equal(loaded.transform(digits), fitted.transform(digits))


def chunks_in_memory() -> list[Chunk]:
    """Return the chunks that exist. The workers of ``client`` are threads of this process."""
    gc.collect()
    # isinstance would follow weak proxies, whose objects may no longer exist.
    return [thing for thing in gc.get_objects() if type(thing) is Chunk]


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.usefixtures("client")
def test_workers_forget_the_chunks(digits: Any, fails: bool) -> None:
    others = chunks_in_memory()

    def new_chunks() -> list[Chunk]:
        return [chunk for chunk in chunks_in_memory() if all(chunk is not x for x in others)]

    def callback(iteration: lincode.Iteration) -> bool:
        assert new_chunks()
        if fails:
            raise KeyError("stop")
        return True

    model = lincode.dask.SCNN(5, random_state=0, callback=callback)
    X = da.from_array(digits, chunks=(150, -1))
    if fails:
        with pytest.raises(KeyError):
            model.fit(X)
    else:
        model.fit(X)
    deadline = time.monotonic() + TIMEOUT
    while remaining := new_chunks():
        used_by = [type(user) for chunk in remaining for user in gc.get_referrers(chunk)]
        assert time.monotonic() < deadline, f"there are still chunks, used by {used_by}"
        del remaining
        time.sleep(0.1)


# Bad input


def bad_inputs(X: Any) -> dict[str, tuple[Any, str]]:
    array = da.from_array(X, chunks=(150, -1))
    nan = np.array(X)
    nan[400, 3] = np.nan
    data = frame(X)
    text = data.assign(pixel3="seven")
    return {
        "unknown chunks": (array[array[:, 20] > 0.5], "compute_chunk_sizes"),
        "chunks of columns": (array.rechunk((-1, 32)), r"rechunk\(\{1: -1\}\)"),
        "object": (array.astype(object), "its dtype is object"),
        "complex": (array.astype(complex), "its dtype is complex128"),
        "three dimensions": (array[None], "two dimensions"),
        "not finite": (da.from_array(nan, chunks=(150, -1)), "in rows 300 to 449"),
        "infinite": (da.from_array(nan, chunks=(150, -1)) * np.inf, "NaN or infinity"),
        "too large": (array * 1e200, "largest absolute value"),
        "no rows": (array[:0], "no rows"),
        "no columns": (array[:, :0], "0 feature"),
        "in memory": (X, "must be a Dask array or data frame, got ndarray"),
        "text": (dd.from_pandas(text, npartitions=2), r"'pixel3' \(str"),
        "bag": (None, "got NoneType"),
    }


@pytest.mark.parametrize("kind", bad_inputs(np.ones((600, 64))))
@pytest.mark.filterwarnings("ignore:invalid value encountered in multiply:RuntimeWarning")
def test_bad_input_loses_nothing(fitted: lincode.dask.SCNN, digits: Any, kind: str) -> None:
    X, message = bad_inputs(digits)[kind]
    model = copy.deepcopy(fitted)
    before = dict(vars(model))
    with pytest.raises(InvalidInputError, match=message):
        model.fit(X)
    assert vars(model) == before


def test_bad_parameters(client: Client, fitted: lincode.dask.SCNN, digits: Any) -> None:
    X = da.from_array(digits, chunks=(150, -1))
    for name in ("solver", "init"):
        with pytest.raises(InvalidInputError, match="not supported on a cluster"):
            lincode.dask.SCNN(5, **{name: "paper"}).fit(X)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="sample_weight is not supported"):
        lincode.dask.SCNN(5).fit(X, sample_weight=np.ones(600))
    with pytest.raises(InvalidInputError, match="client must be"):
        lincode.dask.SCNN(5, client="localhost").fit(X)
    with pytest.raises(InvalidInputError, match="columns, as returned by transform"):
        fitted.inverse_transform(X)
    with pytest.raises(InvalidInputError, match="64 features"):
        fitted.transform(X[:, :5].rechunk({1: -1}))


def test_no_client(monkeypatch: pytest.MonkeyPatch, digits: Any) -> None:
    def no_client() -> None:
        raise ValueError

    monkeypatch.setattr(dask_collections, "get_client", no_client)
    with pytest.raises(InvalidInputError, match="there is no Dask client"):
        lincode.dask.SCNN(5).fit(da.from_array(digits))
