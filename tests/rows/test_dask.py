"""Rows on a Dask cluster: the same answers as rows in memory, also if codes are lost."""

from __future__ import annotations

import itertools
import pickle
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from distributed import Client, LocalCluster
from lincode.core.code_step import CodeProblem
from lincode.core.encoder_step import DirectFactor, Thresholding
from lincode.rows.memory import MemoryRows
from lincode.rows.protocol import RowSource
from numpy.testing import assert_allclose, assert_array_equal

from lincode.core.energy import CodeStats, energy_from_stats
from lincode.exceptions import ClusterError, InvalidInputError
from lincode.rows import dask_chunks, dask_cluster
from lincode.rows.dask import DaskRows
from lincode.rows.dask_chunks import Chunk, Recipe, Versions, make_chunk
from lincode.rows.dask_cluster import Chunks, balance

LAM, M = 0.1, 12
TIMEOUT = 60
"""Seconds after which a cluster that does not start is an error."""


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A client of two workers in threads of this process."""
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster, timeout=TIMEOUT) as client,
    ):
        yield client


def dask_rows(client: Client, parts: list[Any], m: int = M) -> DaskRows:
    dtype = parts[0].dtype
    return DaskRows(
        client, [client.submit(make_chunk, [part], m, dtype) for part in parts], m, dtype
    )


def pair(client: Client, X: Any) -> tuple[DaskRows, MemoryRows]:
    """The same rows in chunks of different lengths, one of them empty, and in memory."""
    ends = [0, 1, 37, 37, 300, X.shape[0]]
    parts = [X[a:b] for a, b in itertools.pairwise(ends)]
    return dask_rows(client, parts), MemoryRows(X, M, n_threads=1)


def singular_values(rows: RowSource) -> Any:
    factor = rows.factor()
    assert isinstance(factor, DirectFactor)
    return factor.s2


def weights(X: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    dense = X.toarray() if scipy.sparse.issparse(X) else X
    D = dense[rng.choice(len(dense), M, replace=False)].astype(np.float64)
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    return D, 0.1 * rng.standard_normal(D.shape)


def problem_of(D: Any, C: Any, dtype: Any, eta: float = 1.0) -> CodeProblem:
    return CodeProblem.of(D, C, LAM, eta, positive=False, dtype=dtype)


def forget_codes(chunk: Chunk) -> None:
    chunk.codes = {}


def lose_codes(rows: DaskRows, chunks: list[int]) -> None:
    """Remove the codes of some chunks, as if they had been made again on another worker."""
    rows.chunks.each(forget_codes, dict.fromkeys(chunks, ()))


def assert_equal_stats(stats: CodeStats, expected: CodeStats, rtol: float = 1e-10) -> None:
    for name in ("UtU", "UtX", "l1", "used", "n"):
        value = getattr(expected, name)
        atol = rtol * float(np.abs(value).max())
        assert_allclose(getattr(stats, name), value, rtol=rtol, atol=atol, err_msg=name)


KINDS = {
    "float64": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "csr": scipy.sparse.csr_matrix,
}


@pytest.mark.parametrize("kind", KINDS)
def test_answers_equal_those_of_rows_in_memory(
    client: Client, digits: Any, rng: np.random.Generator, kind: str
) -> None:
    X = KINDS[kind](digits)
    rows, memory = pair(client, X)
    rtol = 1e-4 if kind == "float32" else 1e-10
    assert rows.shape == memory.shape
    assert rows.dtype == memory.dtype
    assert_allclose(rows.row_lengths().longest, memory.row_lengths().longest)
    assert_allclose(rows.row_lengths().mean, memory.row_lengths().mean)
    assert_allclose(singular_values(rows), singular_values(memory), rtol=1e-8)
    assert not rows.has_missing
    indices = np.array([599, 0, 300, 1, 36, 37, 0])
    assert scipy.sparse.issparse(rows.take(indices)) == (kind == "csr")
    difference = rows.take(indices) - memory.take(indices)
    assert abs(difference).max() == 0
    assert rows.take(np.arange(0)).shape == (0, 64)

    D, C = weights(X, rng)
    for source in (rows, memory):
        source.set_codes(C, Thresholding("soft", LAM))
    assert_equal_stats(rows.stats(), memory.stats(), rtol)
    problem = problem_of(D, C, X.dtype)
    stats, expected = (s.update_codes(problem, tol=1e-3, max_iter=500) for s in (rows, memory))
    assert_equal_stats(stats, expected, rtol)
    assert_allclose(stats.residual, expected.residual, rtol=1e-3)
    assert_allclose(rows.take_codes(indices), memory.take_codes(indices), atol=1e-5)
    assert_equal_stats(rows.stats(), memory.stats(), rtol)
    other = problem_of(D, 2 * C, X.dtype)
    assert_allclose(rows.code_residual(other), memory.code_residual(other), rtol=1e-3)
    for k in (1, 7, 1000):
        R, expected_R = rows.largest_residuals(D, k), memory.largest_residuals(D, k)
        assert_allclose(R, expected_R, atol=1e-5)
    rows.close()


def test_equally_long_residuals_are_in_the_order_of_the_rows(client: Client) -> None:
    X = np.vstack([np.eye(4), -np.eye(4), np.eye(4)[::-1]])
    rows = dask_rows(client, list(np.split(X, 6)), m=2)
    assert_array_equal(rows.largest_residuals(np.zeros((2, 4)), 12), X)
    rows.close()


def test_subset_is_in_memory(client: Client, digits: Any) -> None:
    rows, _ = pair(client, digits)
    indices = np.array([0, 36, 37, 599])
    subset = rows.subset(indices)
    assert isinstance(subset, MemoryRows)
    assert_array_equal(subset.X, digits[indices])
    assert subset.U.shape == (4, M)
    rows.close()


def test_wide_rows_are_factored_like_rows_in_memory(client: Client, digits: Any) -> None:
    X = digits[:20]
    rows = dask_rows(client, [X[:7], X[7:]])
    expected = singular_values(MemoryRows(X, M, n_threads=1))
    assert_allclose(singular_values(rows), expected, rtol=1e-10)
    rows.close()


@pytest.mark.parametrize("eta", [1.0, 1e-3, 0.0])
@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_lost_codes_do_not_raise_the_energy(
    client: Client, digits: Any, rng: np.random.Generator, kind: str, eta: float
) -> None:
    """A second U step for the same D and C, of which some codes were lost in between."""
    X = KINDS[kind](digits)
    rows, memory = pair(client, X)
    D, C = weights(X, rng)
    problem, factor = problem_of(D, C, X.dtype, eta), rows.factor()
    C = factor.project(C)
    before = rows.update_codes(problem, tol=1e-6, max_iter=1000)
    lose_codes(rows, [0, 3])
    after = rows.update_codes(problem, tol=1e-2, max_iter=1000)
    assert rows.n_lost == 2
    energies = [energy_from_stats(s, D, C, factor, LAM, eta) for s in (before, after)]
    assert energies[1] <= energies[0] * (1 + 4 * np.finfo(X.dtype).eps)
    expected = memory.update_codes(problem, tol=1e-10, max_iter=20_000)
    assert_allclose(energies[1], energy_from_stats(expected, D, C, factor, LAM, eta), rtol=1e-5)
    rows.close()


@pytest.mark.parametrize("lost", [[], [0, 1, 2, 3]])
def test_answers_without_the_codes(
    client: Client, digits: Any, rng: np.random.Generator, lost: list[int]
) -> None:
    """Questions about lost codes are answered by codes that are solved for the same problem."""
    rows, memory = pair(client, digits)
    D, C = weights(digits, rng)
    problem = problem_of(D, C, digits.dtype)
    for source in (rows, memory):
        source.update_codes(problem, tol=1e-9, max_iter=5000)
    lose_codes(rows, lost)
    indices = np.array([0, 599, 36])
    assert_allclose(rows.take_codes(indices), memory.take_codes(indices), atol=1e-6)
    lose_codes(rows, lost)
    assert_equal_stats(rows.stats(), memory.stats(), 1e-6)
    assert_allclose(rows.largest_residuals(D, 3), memory.largest_residuals(D, 3), atol=1e-6)
    assert rows.code_residual(problem) < 1e-6
    rows.close()


def test_saved_codes_are_restored(client: Client, digits: Any, rng: np.random.Generator) -> None:
    rows, _ = pair(client, digits)
    D, C = weights(digits, rng)
    first = rows.update_codes(problem_of(D, C, digits.dtype), tol=1e-2, max_iter=100)
    saved = rows.save_codes()
    for factor in (2.0, 3.0):
        rows.update_codes(problem_of(D, factor * C, digits.dtype), tol=1e-2, max_iter=100)
    lose_codes(rows, [])
    rows.restore_codes(saved)
    assert_equal_stats(rows.stats(), first)
    # The next step starts from the restored codes: they are accurate enough, so nothing changes.
    again = rows.update_codes(problem_of(D, C, digits.dtype), tol=1e-2, max_iter=100)
    assert_equal_stats(again, first)
    assert rows.n_lost == 0
    rows.close()


def test_a_task_that_runs_again_does_not_change_the_codes(
    digits: Any, rng: np.random.Generator
) -> None:
    chunk = make_chunk([digits[:50], digits[50:90]], M, digits.dtype)
    update = Recipe(problem=problem_of(*weights(digits, rng), digits.dtype))
    first = dask_chunks.update_codes(chunk, Versions(1, 2), Recipe(), update, 1e-2, 100)
    codes = chunk.codes[2].U.copy()
    second = dask_chunks.update_codes(chunk, Versions(1, 2), Recipe(), update, 1e-9, 100)
    assert_array_equal(chunk.codes[2].U, codes)
    assert_equal_stats(second.stats, first.stats, 1e-15)
    assert second.stats.residual == first.stats.residual > 0


def test_a_chunk_is_sent_with_its_codes_and_reports_its_size(
    digits: Any, rng: np.random.Generator
) -> None:
    chunk = make_chunk([digits], M, digits.dtype)
    update = Recipe(problem=problem_of(*weights(digits, rng), digits.dtype))
    dask_chunks.update_codes(chunk, Versions(1, 2), Recipe(), update, 1e-2, 100)
    copy = pickle.loads(pickle.dumps(chunk, protocol=5))
    assert_array_equal(copy.codes[2].U, chunk.codes[2].U)
    n_bytes = digits.nbytes + chunk.codes[2].U.nbytes
    assert n_bytes <= sys.getsizeof(chunk) <= 1.01 * n_bytes + 1000


def count_tasks(dask_scheduler: Any) -> int:
    return len(dask_scheduler.tasks)


def test_the_scheduler_does_not_remember_earlier_iterations(
    client: Client, digits: Any, rng: np.random.Generator
) -> None:
    rows, _ = pair(client, digits)
    D, C = weights(digits, rng)
    counts = []
    for i in range(12):
        rows.update_codes(problem_of(D, (1 + i) * C, digits.dtype), tol=1e-2, max_iter=100)
        counts.append(client.run_on_scheduler(count_tasks))
    assert max(counts[6:]) <= max(counts[:6])
    rows.close()


def test_large_arguments_are_sent_in_parts(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "MESSAGE_BYTES", 1000)
    value = np.arange(1000.0)
    assert_array_equal(Chunks(client, []).broadcast(value).result(timeout=TIMEOUT), value)


def test_error_in_the_rows_of_the_user(client: Client) -> None:
    def fail() -> None:
        raise OSError("the file is missing")

    with pytest.raises(OSError, match="the file is missing"):
        DaskRows(client, [client.submit(fail, pure=False)], 3, np.dtype(np.float64))


def test_blocks_of_different_widths_are_refused(client: Client) -> None:
    with pytest.raises(InvalidInputError, match="same number of columns"):
        dask_rows(client, [np.ones((2, 3)), np.ones((2, 4))])


def test_no_workers(monkeypatch: pytest.MonkeyPatch, digits: Any) -> None:
    monkeypatch.setattr(dask_cluster, "WAIT_SECONDS", 1.0)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        Client(cluster, timeout=TIMEOUT) as client,
        pytest.raises(ClusterError, match="no workers for 1 seconds"),
    ):
        dask_rows(client, [digits])


def test_balance() -> None:
    assert balance(["a", "b"], [10, 10], {"a": 1, "b": 1}) == {}
    assert balance(["a"] * 4, [10] * 4, {"a": 1, "b": 1}) == {3: "b", 2: "b"}
    assert balance(["a"] * 4, [10] * 4, {"a": 3, "b": 1}) == {3: "b"}
    assert balance(["a", "a"], [10, 1], {"a": 1, "b": 1}) == {1: "b"}
    assert balance(["a"], [10], {"a": 1, "b": 1}) == {}


@pytest.mark.parametrize("seed", range(20))
def test_balanced_loads_differ_by_at_most_one_chunk(seed: int) -> None:
    rng = np.random.default_rng(seed)
    workers = {name: int(rng.integers(1, 4)) for name in "abcde"[: rng.integers(1, 6)]}
    rows = rng.integers(1, 100, rng.integers(1, 30)).tolist()
    homes = rng.choice(list(workers)[:2], len(rows)).tolist()
    for i, worker in balance(homes, rows, workers).items():
        homes[i] = worker
    totals = {w: sum(n for n, h in zip(rows, homes, strict=True) if h == w) for w in workers}
    most = max(workers, key=lambda w: totals[w] / workers[w])
    smallest = min((n for n, h in zip(rows, homes, strict=True) if h == most))
    for worker, n_threads in workers.items():
        if worker != most:
            assert (totals[worker] + smallest) / n_threads >= totals[most] / workers[most]
