"""Measure runs in several processes and write their records.

Each process writes the record of a run before it starts the next one. So the work can be stopped at
any time, and the same command continues with the runs that have no record.
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

from paper.errors import PaperError, RunsFailedError
from paper.experiments.experiment import Record, Run
from paper.experiments.records import Store, commit, versions
from paper.experiments.samples import Samples

Measure = Callable[[Run, Samples], Mapping[str, Any]]
"""Returns the result of a run. The entry "parameters", if there is one, is stored apart: all
parameters of the estimators, by their names."""
OnFinished = Callable[[Run, float | Exception], None]
"""Called with each finished run and its seconds, or the exception that it raised."""
SYSTEM_ERRORS = (OSError, MemoryError)
"""Errors that later runs would raise too, such as a full disk or too little memory."""


@dataclass(frozen=True)
class Task:
    """A run, and what a process needs to measure it."""

    run: Run
    out: Path
    data_dir: Path | None
    threads: int


Outcomes = Iterator[tuple[Task, float | Exception]]


def run_tasks(tasks: Sequence[Task], jobs: int, on_finished: OnFinished) -> None:
    """Measure all tasks, ``jobs`` at a time.

    If a run raises an exception, the others continue and RunsFailedError is raised at the end.
    After one of SYSTEM_ERRORS no further run is started. KeyboardInterrupt ends the processes
    immediately, so that only the runs in progress are lost.
    """
    failed = 0
    try:
        for task, outcome in _in_this_process(tasks) if jobs == 1 else _in_processes(tasks, jobs):
            on_finished(task.run, outcome)
            failed += isinstance(outcome, Exception)
    except SYSTEM_ERRORS as error:
        raise PaperError(
            f"The runs were stopped by an error of the system ({error or type(error).__name__})."
            " The completed runs are kept. Correct the cause and run the same command again."
        ) from error
    if failed:
        raise RunsFailedError(
            f"{failed} of {len(tasks)} runs failed, see above. The other runs are complete and"
            " kept. The same command tries the failed runs again."
        )


def _in_this_process(tasks: Sequence[Task]) -> Outcomes:
    for task in tasks:
        try:
            yield task, run_task(task)
        except SYSTEM_ERRORS:
            raise
        except Exception as error:
            yield task, error


def _in_processes(tasks: Sequence[Task], jobs: int) -> Outcomes:
    # New processes, because forks of a process that has used BLAS threads may hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_exit_with_parent) as pool:
        try:
            yield from _submit_in_turn(pool, tasks, jobs)
        except BrokenProcessPool as error:
            raise PaperError(
                "A process was killed, perhaps because there was too little memory. The completed"
                " runs are kept. Run the same command again, with a smaller --jobs if this happens"
                " again."
            ) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            raise


def _submit_in_turn(pool: ProcessPoolExecutor, tasks: Sequence[Task], jobs: int) -> Outcomes:
    """Submit at most ``jobs`` tasks at a time and yield those that are finished."""
    remaining = iter(tasks)
    running: dict[Future[float], Task] = {}
    while True:
        with interrupts_blocked():  # processes start here and inherit the blocked signal
            while len(running) < jobs and (task := next(remaining, None)) is not None:
                running[pool.submit(run_task, task)] = task
        if not running:
            return
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        if any(isinstance(future.exception(), SYSTEM_ERRORS) for future in done):
            done, _ = wait(running)  # start no further run, but keep those in progress
        for future in sorted(done, key=lambda f: isinstance(f.exception(), SYSTEM_ERRORS)):
            error, task = future.exception(), running.pop(future)
            if isinstance(error, Exception) and not isinstance(
                error, (*SYSTEM_ERRORS, BrokenProcessPool)
            ):
                yield task, error
            else:
                yield task, future.result()


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Block SIGINT: Ctrl-C reaches all processes, but only the parent process handles it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_task(task: Task) -> float:
    """Measure one run, write its record and return the seconds it took."""
    from paper.experiments.registry import MEASURES

    samples = Samples(task.data_dir, task.run.embedded)
    start = time.perf_counter()
    with threadpool_limits(task.threads):
        result = dict(MEASURES[task.run.group](task.run, samples))
    seconds = time.perf_counter() - start
    now = datetime.now(UTC).isoformat(timespec="seconds")
    record = Record(
        run=task.run,
        parameters=result.pop("parameters", {}),
        result=result,
        seconds=seconds,
        data=samples.given,
        versions=versions(),
        finished=now,
        commit=commit(),
        cores=n_cores(),
    )
    Store(task.out).write(record)
    return seconds


def n_cores() -> int:
    """Return the number of cores that this process may use."""
    return int(joblib.cpu_count())


def threads_per_job(jobs: int) -> int:
    """Return the number of BLAS threads for each of ``jobs`` processes."""
    return max(1, n_cores() // jobs)


def _exit_with_parent() -> None:
    """Make a process exit when its parent process is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:

        def exit_after_parent() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=exit_after_parent, daemon=True).start()


class TimeLeft:
    """An estimate of the remaining time, from the times of the finished runs.

    ``typical_seconds`` gives the relative times of groups without a finished run.
    """

    def __init__(
        self, runs: Sequence[Run], jobs: int, typical_seconds: Mapping[str, float]
    ) -> None:
        self.remaining, self.jobs, self.typical = list(runs), jobs, typical_seconds
        self.finished: list[tuple[Run, float]] = []

    def note(self, run: Run, seconds: float | None) -> None:
        """Note that a run is finished; ``seconds`` is None if it failed."""
        self.remaining.remove(run)
        if seconds is not None:
            self.finished.append((run, seconds))

    def seconds(self) -> float:
        """Return the estimate. At least one run must be finished."""
        total = sum(self._estimate(run) for run in self.remaining)
        return total / min(self.jobs, max(1, len(self.remaining)))

    def _estimate(self, run: Run) -> float:
        def similarity(other: Run) -> int:
            return sum(bool(run.settings.get(k) == v) for k, v in other.settings.items())

        group = [(other, seconds) for other, seconds in self.finished if other.group == run.group]
        if not group:
            expected = sum(self.typical[other.group] for other, _ in self.finished)
            return self.typical[run.group] * sum(s for _, s in self.finished) / expected
        closest = max(similarity(other) for other, _ in group)
        return float(np.mean([s for other, s in group if similarity(other) == closest]))
