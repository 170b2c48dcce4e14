"""How the time and the memory of training grow with N and m. Each fit runs in its own process."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from measure import Row, Section

SCRIPT = Path(__file__).parents[1] / "single_fit.py"
Measured = dict[str, float]
"""The seconds per iteration ("seconds") and the peak memory ("bytes") of one fit"""


def run(X: Any, quick: bool) -> Section:
    Ns = [2000, 8000] if quick else [10_000, 20_000, 40_000, 60_000]
    ms = [50, 200] if quick else [100, 200, 400, 800, 1600]
    N, m = (4000, 100) if quick else (10_000, 400)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "X.npy"
        np.save(file, X[: max(Ns)])
        by_N = {n: measure_fit("SCNN", file, n, m) for n in Ns}
        by_m = {k: measure_fit("SCNN", file, N, k) for k in ms}
        batches = (
            {} if quick else {n: measure_fit("MiniBatchSCNN", file, n, m) for n in (Ns[1], Ns[-1])}
        )
    in_N, in_m = time_exponent(by_N), time_exponent(by_m)
    details = {"N": by_N, "m": by_m, "MiniBatchSCNN": batches}
    rows = [
        Row(
            f"time per iteration, N = {Ns[0]:,} to {Ns[-1]:,}, m={m}",
            f"N^{in_N:.2f}",
            "linear in N",
            in_N <= 1.1,
            details,
        ),
        Row(
            f"time per iteration, m = {ms[0]} to {ms[-1]}, N={N:,}",
            f"m^{in_m:.2f}",
            details=details,
        ),
    ]
    if not quick:  # the codes of few samples need less memory than what does not depend on N
        rows += [memory_row(by_N, m), batch_memory_row(batches)]
    return Section(rows)


def measure_fit(estimator: str, file: Path, n: int, m: int) -> Measured:
    """Train in a new process and return what it measured."""
    command = [sys.executable, str(SCRIPT), estimator, str(file), str(n), str(m)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    result: Measured = json.loads(output.splitlines()[-1])
    megabytes = result["bytes"] / 1e6
    print(f"  {estimator}, N={n}, m={m}: {result['seconds']:.2f} s, {megabytes:.0f} MB", flush=True)
    return result


def time_exponent(fits: dict[int, Measured]) -> float:
    """Return the exponent e such that the time is about proportional to size**e."""
    seconds = [fit["seconds"] for fit in fits.values()]
    return float(np.polyfit(np.log(list(fits)), np.log(seconds), 1)[0])


def memory_row(fits: dict[int, Measured], m: int) -> Row:
    """Compare the growth of the memory with that of the codes, which are float32."""
    code_bytes = [n * m * 4 for n in fits]
    slope = float(np.polyfit(code_bytes, [fit["bytes"] for fit in fits.values()], 1)[0])
    largest = max(fits)
    return Row(
        f"peak memory in addition to X, N = {min(fits):,} to {largest:,}, m={m}",
        f"grows by {slope:.2f} × the size of the codes"
        f" ({fits[largest]['bytes'] / 1e6:.0f} MB at {largest:,})",
        "≤ 1.3 ×",
        slope <= 1.3,
    )


def batch_memory_row(fits: dict[int, Measured]) -> Row:
    """Compare the memory of MiniBatchSCNN for two numbers of samples."""
    (small, fewer), (large, more) = fits.items()
    return Row(
        f"peak memory of `MiniBatchSCNN`, N = {small:,} and {large:,}",
        f"{fewer['bytes'] / 1e6:.0f} MB and {more['bytes'] / 1e6:.0f} MB",
        "equal to within 10 %",
        more["bytes"] <= 1.1 * fewer["bytes"],
    )
