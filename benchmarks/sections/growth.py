"""How seconds and memory grow with N and m, each fit in a process of its own.

python benchmarks/sections/growth.py SCNN X.npy 10000 400      one fit: prints seconds and bytes
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ruler import Section

ITERATIONS = 3


def one(kind: str, file: str, N: int, m: int) -> None:
    """Seconds an outer iteration (SCNN) or a pass (MiniBatchSCNN) takes, and its peak memory."""
    from lincode import SCNN, MiniBatchSCNN

    warnings.simplefilter("ignore")
    stored = np.load(file, mmap_mode="r")[:N]
    small = np.array(stored[:1000])
    SCNN(20, 0.5, max_iter=2, random_state=0).fit(small)  # libraries and threads are loaded
    if kind == "SCNN":
        X: Any = np.array(stored)
        scnn: Any = SCNN(m, 0.5, max_iter=ITERATIONS, tol=0.0, random_state=0)
        shares = ITERATIONS
    else:
        X, shares = stored, 1
        scnn = MiniBatchSCNN(
            m, 0.5, batch_size=2048, max_iter=1, max_no_improvement=None, random_state=0
        )
    before = memory()
    done, peak = threading.Event(), [before]
    watch = threading.Thread(target=watch_memory, args=(done, peak))
    watch.start()
    start = time.perf_counter()
    scnn.fit(X)
    seconds = (time.perf_counter() - start) / shares
    done.set()
    watch.join()
    print(json.dumps({"seconds": seconds, "bytes": peak[0] - before}))


def watch_memory(done: threading.Event, peak: list[int]) -> None:
    while not done.wait(0.005):
        peak[0] = max(peak[0], memory())


def memory() -> int:
    """Bytes this process holds now, without the pages of files it has mapped. Linux only."""
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("RssAnon")).split()[1]) * 1024


def fit(kind: str, file: Path, N: int, m: int) -> dict[str, float]:
    command = [sys.executable, __file__, kind, str(file), str(N), str(m)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result: dict[str, float] = json.loads(out.splitlines()[-1])
    print(f"  {kind}, N={N}, m={m}: {result['seconds']:.2f} s, "
          f"{result['bytes'] / 1e6:.0f} MB", flush=True)  # fmt: skip
    return result


def exponent(sizes: list[int], values: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def run(X: Any, quick: bool) -> Section:
    from ruler import Row, Section  # not where a fit runs alone

    Ns = [2000, 8000] if quick else [10_000, 20_000, 40_000, 60_000]
    ms = [50, 200] if quick else [100, 200, 400, 800, 1600]
    m, N = (100, 4000) if quick else (400, 10_000)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "X.npy"
        np.save(file, X[: max(Ns)])
        by_N = [fit("SCNN", file, n, m) for n in Ns]
        by_m = [fit("SCNN", file, N, k) for k in ms]
        stream = [] if quick else [fit("MiniBatchSCNN", file, n, m) for n in (Ns[1], Ns[-1])]
    in_N = exponent(Ns, [r["seconds"] for r in by_N])
    in_m = exponent(ms, [r["seconds"] for r in by_m])
    detail = {"N": dict(zip(Ns, by_N, strict=True)), "m": dict(zip(ms, by_m, strict=True)),
              "MiniBatchSCNN": stream}  # fmt: skip
    span = f"N = {Ns[0]:,} to {Ns[-1]:,}, m={m}"
    lines: list[tuple[Any, ...]] = [
        (f"seconds an iteration, {span}", f"N^{in_N:.2f}", "linear in N", in_N <= 1.1, detail),
        (f"seconds an iteration, m = {ms[0]} to {ms[-1]}, N={N:,}", f"m^{in_m:.2f}", "", None,
         detail),
    ]  # fmt: skip
    if not quick:  # so few codes are lost beside what does not depend on N
        lines += memory_lines(Ns, m, by_N, stream, span)
    return Section([Row(*line) for line in lines])


def memory_lines(
    Ns: list[int], m: int, by_N: list[dict[str, float]], stream: list[dict[str, float]], span: str
) -> list[tuple[Any, ...]]:
    """Beyond X, which is there before: codes, and what does not depend on N."""
    codes = [n * m * 4 for n in Ns]
    slope = float(np.polyfit(codes, [r["bytes"] for r in by_N], 1)[0])
    first, last = (r["bytes"] / 1e6 for r in stream)
    return [
        (f"peak memory beyond X, {span}", f"grows by {slope:.2f} × N·m·itemsize"
         f" ({by_N[-1]['bytes'] / 1e6:.0f} MB at {Ns[-1]:,})", "≤ 1.3 ×", slope <= 1.3),
        (f"peak memory of `MiniBatchSCNN`, N = {Ns[1]:,} and {Ns[-1]:,}",
         f"{first:.0f} and {last:.0f} MB", "flat (within a tenth)", last <= 1.1 * first),
    ]  # fmt: skip


if __name__ == "__main__":
    one(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
