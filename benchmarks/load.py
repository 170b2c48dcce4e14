"""Processes that keep cores busy, to measure how lincode behaves on a shared machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from joblib import cpu_count

# The process also ends if its parent was killed, because its parent process id changes then.
SPIN = """
import os
parent = os.getppid()
print("started", flush=True)
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""


@contextmanager
def busy_cores(n: int | None = None) -> Iterator[None]:
    """Keep n cores busy with other processes inside the context; by default half of the cores."""
    processes = []
    try:
        for _ in range(max(1, cpu_count() // 2) if n is None else n):
            command = [sys.executable, "-c", SPIN]
            processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()
