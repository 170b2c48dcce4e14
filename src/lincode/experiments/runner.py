"""Runs become records: several at a time, stopped and gone on with at will.

Each record is written by the process that made it, whole, before the next run begins. So whatever
happens, what is done is done, and the same command goes on with what is missing.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from lincode.experiments.experiment import Record, Run
from lincode.experiments.records import Store, versions
from lincode.experiments.samples import Samples

Measure = Callable[[Run, Samples], Mapping[str, Any]]
Told = Callable[[Run, float | Exception], None]
"""Called with each run that is over, and its seconds or what went wrong."""
MACHINE = (OSError, MemoryError)
"""Errors that the next run would meet as well: a full disk, too little memory."""
ENDING = (*MACHINE, BrokenProcessPool)
ENDING = (*MACHINE, BrokenProcessPool)


class RunsFailedError(RuntimeError):
    """Some runs met an error; the others are done and kept."""


@dataclass(frozen=True)
class Task:
    """A run, and what a process needs to do it."""

    run: Run
    out: Path
    data_dir: Path | None
    threads: int


def perform(tasks: Sequence[Task], jobs: int, told: Told) -> None:
    """Do all tasks, ``jobs`` at a time.

    A run that fails is told and the others go on; at the end RunsFailedError is raised. An error
    of the machine (``MACHINE``) ends the work once the runs in hand are done. KeyboardInterrupt
    ends the processes at once; their runs in hand are lost, no more.
    """
    failed = 0
    for task, outcome in _one_by_one(tasks) if jobs == 1 else _side_by_side(tasks, jobs):
        told(task.run, outcome)
        failed += isinstance(outcome, Exception)
    if failed:
        raise RunsFailedError(
            f"{failed} of {len(tasks)} runs failed, see above; the others are done and kept. The"
            " same command tries the failed ones again."
        )


Outcomes = Iterator[tuple[Task, float | Exception]]


def _one_by_one(tasks: Sequence[Task]) -> Outcomes:
    for task in tasks:
        try:
            yield task, do(task)
        except MACHINE:
            raise
        except Exception as error:
            yield task, error


def _side_by_side(tasks: Sequence[Task], jobs: int) -> Outcomes:
    # Fresh processes: forks of one that has used BLAS threads may hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_end_with_parent) as pool:
        try:
            yield from _in_turn(pool, tasks, jobs)
        except BrokenProcessPool as error:
            raise OSError(
                "A process was killed, perhaps for want of memory: what was done is kept; give the"
                " same command again, with a smaller --jobs if it comes back."
            ) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            raise


def _in_turn(pool: ProcessPoolExecutor, tasks: Sequence[Task], jobs: int) -> Outcomes:
    """Hand out no more than there are hands."""
    waiting = iter(tasks)
    at_work: dict[Future[float], Task] = {}
    while True:
        with interrupts_blocked():  # processes start here, and inherit that
            while len(at_work) < jobs and (task := next(waiting, None)) is not None:
                at_work[pool.submit(do, task)] = task
        if not at_work:
            return
        done, _ = wait(at_work, return_when=FIRST_COMPLETED)
        if any(isinstance(future.exception(), MACHINE) for future in done):
            done, _ = wait(at_work)  # nothing more is begun, what is in hand is kept
        for future in sorted(done, key=lambda f: isinstance(f.exception(), MACHINE)):
            error = future.exception()
            if isinstance(error, Exception) and not isinstance(
                error, (*MACHINE, BrokenProcessPool)
            ):
                yield at_work.pop(future), error
            else:
                yield at_work.pop(future), future.result()


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Ctrl-C reaches all processes of a terminal; what to do about it is the parent's matter."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def do(task: Task) -> float:
    """Measure one run and keep its record; its seconds."""
    from lincode.experiments.registry import MEASURES

    samples = Samples(task.data_dir, task.run.embedded)
    start = time.perf_counter()
    with threadpool_limits(task.threads):
        result = MEASURES[task.run.group](task.run, samples)
    seconds = time.perf_counter() - start
    now = datetime.now(UTC).isoformat(timespec="seconds")
    record = Record(task.run, result, seconds, samples.given, versions(), now)
    Store(task.out).write(record)
    return seconds


def threads_for(jobs: int) -> int:
    """BLAS threads of each of so many processes."""
    return max(1, cores() // jobs)


def cores() -> int:
    """Those this process may use."""
    return int(joblib.cpu_count())


def _end_with_parent() -> None:
    """If the parent is killed, end too instead of working for nobody."""
    parent = multiprocessing.parent_process()
    if parent is not None:

        def watch() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=watch, daemon=True).start()


class TimeLeft:
    """How long the rest will take, by what runs like it took.

    Of a group none of whose runs is done, ``typical`` tells how long one takes beside the others.
    """

    def __init__(self, runs: Sequence[Run], jobs: int, typical: Mapping[str, float]) -> None:
        self.left, self.jobs, self.typical = list(runs), jobs, typical
        self.seen: list[tuple[Run, float]] = []

    def note(self, run: Run, seconds: float | None) -> None:
        """A run is over; None if it failed, which tells nothing about the others."""
        self.left.remove(run)
        if seconds is not None:
            self.seen.append((run, seconds))

    def seconds(self) -> float:
        """Of the rest, once something is done."""
        return sum(self._guess(run) for run in self.left) / min(self.jobs, max(1, len(self.left)))

    def _guess(self, run: Run) -> float:
        def like(other: Run) -> int:
            return sum(bool(run.settings.get(k) == v) for k, v in other.settings.items())

        same = [(other, seconds) for other, seconds in self.seen if other.group == run.group]
        if not same:
            expected = sum(self.typical[other.group] for other, _ in self.seen)
            return self.typical[run.group] * sum(s for _, s in self.seen) / expected
        closest = max(like(other) for other, _ in same)
        return float(np.mean([seconds for other, seconds in same if like(other) == closest]))
