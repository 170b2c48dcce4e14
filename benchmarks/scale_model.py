"""The time of an iteration of lincode.dask.SCNN on large clusters, from measured constants.

    python benchmarks/scale_model.py                 prints the tables
    python benchmarks/scale_model.py --seconds-per-row 1e-4 --bandwidth 3e9 ...

The model is for p=784 and m=400. An iteration consists of

    broadcast    the problem of the U step goes to all workers, one after the other
    codes        every worker solves the codes of its rows
    tasks        the scheduler and the client handle the tasks
    reduction    statistics are added along a tree, 16 at a time
    client       the D step, the C step and the energy

The formula is checked by a simulation of the tree with random task times of the measured spread.
"""

from __future__ import annotations

import argparse
import heapq
import math
from dataclasses import dataclass, fields

import numpy as np

FAN_IN = 16
ROWS = (10**6, 10**7, 10**8, 10**9)
WORKERS = (8, 32, 128, 512, 1024)


@dataclass(frozen=True)
class Constants:
    """What was measured on one machine, and what is assumed of the network."""

    seconds_per_row: float = 4.5e-5
    """CPU time of the U step and the statistics of a row"""
    spread: float = 0.2
    """The standard deviation of the time of a task, relative to its mean"""
    seconds_per_task: float = 1.9e-3
    """Time of client and scheduler for one task"""
    client_seconds: float = 0.35
    """Time of the D step, the C step, the energy and messages in the client"""
    problem_bytes: float = 4.4e6
    stats_bytes: float = 3.8e6
    seconds_per_sum: float = 1.0e-3
    """Time to add two statistics (0.15 ms in the cache)"""
    bandwidth: float = 1.0e9
    """Bytes per second between two machines (assumed)"""
    latency: float = 2.0e-3
    """Time of one transfer of no bytes, with its messages (assumed)"""
    chunk_rows: int = 20_000


def depth(n: int) -> int:
    """Return the number of levels of the tree of n workers."""
    levels = 0
    while n > 1:
        n, levels = -(-n // FAN_IN), levels + 1
    return levels


def chunks_of(N: int, n_workers: int, c: Constants) -> tuple[int, int]:
    """Return the number of rows of a chunk and the number of chunks of a worker."""
    chunk_rows = min(c.chunk_rows, math.ceil(N / n_workers))
    return chunk_rows, math.ceil(math.ceil(N / chunk_rows) / n_workers)


def model(
    N: int, n_workers: int, c: Constants, *, tree_broadcast: bool = False
) -> dict[str, float]:
    """Return the seconds of each part of an iteration, for workers with one thread."""
    chunk_rows, per_worker = chunks_of(N, n_workers, c)
    n_tasks = n_workers * (per_worker + math.ceil(per_worker / FAN_IN)) + n_workers / (FAN_IN - 1)
    send = c.latency + c.problem_bytes / c.bandwidth
    copies = FAN_IN * depth(n_workers) if tree_broadcast else n_workers
    receive = c.latency + (FAN_IN - 1) * (c.stats_bytes / c.bandwidth + c.seconds_per_sum)
    # The slowest of the workers, whose times are sums of independent task times.
    slowest = 1 + c.spread / per_worker**0.5 * (2 * np.log(max(n_workers, 2))) ** 0.5
    return {
        "broadcast": copies * send,
        "codes": per_worker * chunk_rows * c.seconds_per_row * slowest,
        "tasks": n_tasks * c.seconds_per_task,
        "reduction": depth(n_workers) * receive,
        "client": c.client_seconds,
    }


def simulate(N: int, n_workers: int, c: Constants, seed: int = 0) -> float:
    """Simulate one iteration: broadcast, tasks, tree; return its seconds.

    The broadcast and the submission of tasks run at the same time as the codes of the workers that
    have already got their problem and tasks. The model adds them, so it is an upper bound there.
    """
    rng = np.random.default_rng(seed)
    chunk_rows, per_worker = chunks_of(N, n_workers, c)
    send = c.latency + c.problem_bytes / c.bandwidth
    mean = chunk_rows * c.seconds_per_row
    submitted = 0.0
    ready = []
    for worker in range(n_workers):
        submitted += (per_worker + math.ceil(per_worker / FAN_IN)) * c.seconds_per_task
        start = max((worker + 1) * send, submitted)
        times = np.maximum(rng.normal(mean, c.spread * mean, per_worker), 0.0)
        ready.append(start + float(times.sum()) + per_worker * c.seconds_per_sum)
    while len(ready) > 1:
        ready = [receive_all(ready[i : i + FAN_IN], c) for i in range(0, len(ready), FAN_IN)]
    return ready[0] + c.client_seconds


def receive_all(times: list[float], c: Constants) -> float:
    """Return when a worker has received and added the statistics of the others in its group."""
    heapq.heapify(times)
    now = heapq.heappop(times) + c.latency
    while times:
        now = max(now, heapq.heappop(times)) + c.stats_bytes / c.bandwidth + c.seconds_per_sum
    return now


def seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 100 else f"{value:,.0f} s"


def table(c: Constants, n_iter: int) -> str:
    """Return the time of training, core hours and the largest part that is not the codes."""
    lines = [
        "| rows | workers | iteration: model | simulation | codes | largest other part |"
        f" {n_iter} iterations | core hours |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for N in ROWS:
        for n_workers in WORKERS:
            parts = model(N, n_workers, c)
            total = sum(parts.values())
            simulated = float(np.mean([simulate(N, n_workers, c, seed) for seed in range(3)]))
            other = max((name for name in parts if name != "codes"), key=parts.__getitem__)
            training = n_iter * total
            time = f"{training / 3600:.2g} h" if training >= 3600 else f"{training / 60:.2g} min"
            lines.append(
                f"| 10^{round(np.log10(N))} | {n_workers} | {seconds(total)} |"
                f" {seconds(simulated)} | {parts['codes'] / total:.0%} |"
                f" {other}, {seconds(parts[other])} | {time} |"
                f" {training * n_workers / 3600:.3g} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for field in fields(Constants):
        option = "--" + field.name.replace("_", "-")
        parser.add_argument(option, type=type(field.default), default=field.default)
    parser.add_argument("--n-iter", type=int, default=20, help="iterations on all rows")
    arguments = vars(parser.parse_args())
    n_iter = arguments.pop("n_iter")
    constants = Constants(**arguments)
    print(constants, "\n")
    print(table(constants, n_iter))
    print("\nBroadcast of 1024 workers, one after the other and along a tree:", end=" ")
    for tree in (False, True):
        print(seconds(model(10**9, 1024, constants, tree_broadcast=tree)["broadcast"]), end=" ")
    print()


if __name__ == "__main__":
    main()
