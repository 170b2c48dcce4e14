"""SCNN on a Dask cluster of worker processes on this machine, compared with SCNN in one process.

The times are CPU times of all processes, so that other load on the machine matters little. Worker
processes and SCNN use one thread each.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import psutil
from distributed import Client, LocalCluster
from measure import ALPHA, N_COMPONENTS, Section, cell, table

import lincode.dask
from lincode import SCNN, Iteration

N_ROWS, N_CHUNKS, GOAL = 80_000, 8, 1.25
PARAMETERS: dict[str, Any] = {"random_state": 0, "n_jobs": 1, "tol": 0, "refine": False}
"""All iterations use all rows."""


def run(X: Any, quick: bool) -> Section:
    n, m, n_iter = (4000, 50, 4) if quick else (N_ROWS, N_COMPONENTS, 4)
    rows, details = [], {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X.npy"
        np.save(path, np.resize(X, (n, X.shape[1])))
        details["SCNN"] = single_process(path, m, n_iter)
        for n_workers in (1, 2):
            found = on_cluster(path, m, n_iter, n_workers)
            details[f"{n_workers} workers"] = found
            # The first iteration contains the time to load compiled code.
            seconds, alone = (np.mean(r["iterations"][1:]) for r in (found, details["SCNN"]))
            wall = found["wall"] / details["SCNN"]["wall"]
            sent = f"{found['megabytes']:.1f} MB"
            rows.append([n_workers, cell(seconds / alone, GOAL), f"{wall:.2f}", sent])
    text = (
        f"`lincode.dask.SCNN` ({n:,}×{X.shape[1]}, m={m}, {N_CHUNKS} chunks) relative to `SCNN`"
        f" with one thread: the CPU time of all processes per iteration (goal: {GOAL}), the elapsed"
        " time of the fit, and what all processes send per iteration:\n\n"
        + table(["workers with one thread each", "CPU time", "elapsed time", "sent"], rows)
        + f"\n\n{scheduler_memory(X[:2000])}"
    )
    return Section("Dask", text, details)


class Clock:
    """The CPU time and the bytes sent at the end of each iteration, by a callback."""

    def __init__(self, cpu: Any) -> None:
        self.cpu, self.times, self.bytes = cpu, [cpu()], [bytes_sent()]

    def __call__(self, iteration: Iteration) -> None:
        self.times.append(self.cpu())
        self.bytes.append(bytes_sent())


def single_process(path: Path, m: int, n_iter: int) -> dict[str, Any]:
    """Train SCNN with one thread."""
    clock = Clock(time.process_time)
    wall = time.perf_counter()
    SCNN(m, alpha=ALPHA, **PARAMETERS, max_iter=n_iter, callback=clock).fit(np.load(path))
    return {"wall": time.perf_counter() - wall, "iterations": np.diff(clock.times).tolist()}


def on_cluster(path: Path, m: int, n_iter: int, n_workers: int) -> dict[str, Any]:
    """Train on a cluster of processes with one thread each."""
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, memory_limit=0, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):

        def cpu() -> float:
            return float(sum(client.run(time.process_time).values()) + time.process_time())

        N, p = np.load(path, mmap_mode="r").shape
        X = da.map_blocks(
            load_block,
            str(path),
            dtype=np.float32,
            chunks=((N // N_CHUNKS,) * N_CHUNKS, (p,)),
            meta=np.empty((0, 0), np.float32),
        )
        clock = Clock(cpu)
        wall = time.perf_counter()
        lincode.dask.SCNN(m, alpha=ALPHA, **PARAMETERS, max_iter=n_iter, callback=clock).fit(X)
        wall = time.perf_counter() - wall
        return {
            "wall": wall,
            "iterations": np.diff(clock.times).tolist(),
            "megabytes": float(np.diff(clock.bytes[1:]).mean()) / 1e6,
        }


def load_block(path: str, block_info: Any = None) -> Any:
    (start, stop), _ = block_info[None]["array-location"]
    return np.array(np.load(path, mmap_mode="r")[start:stop])


def bytes_sent() -> int:
    """Return the bytes that all processes have sent within this machine."""
    return int(psutil.net_io_counters(pernic=True)["lo"].bytes_sent)


def scheduler_memory(X: Any, n_iter: int = 50) -> str:
    """Measure the number of tasks and the memory of the scheduler in the course of 50 iterations.

    The scheduler and the client are in this process.
    """
    tasks: list[int] = []
    megabytes: list[float] = []
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):

        def record(iteration: Iteration) -> None:
            tasks.append(client.run_on_scheduler(count_tasks))
            megabytes.append(resident_bytes() / 1e6)

        lincode.dask.SCNN(50, alpha=ALPHA, **PARAMETERS, max_iter=n_iter, callback=record).fit(
            da.from_array(X, chunks=(500, -1))
        )
    return (
        f"The scheduler has {tasks[9]} tasks after 10 iterations and {tasks[-1]} after {n_iter};"
        f" the memory of scheduler and client is then {megabytes[9]:.0f} and"
        f" {cell(megabytes[-1], 1.05 * megabytes[9], digits=0)} MB (goal: constant)."
    )


def count_tasks(dask_scheduler: Any) -> int:
    return len(dask_scheduler.tasks)


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
