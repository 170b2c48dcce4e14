"""Training on wide sparse rows (synthetic TF-IDF): CPU time and memory, each in its own process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from measure import Row, Section

SCRIPT = Path(__file__).parents[1] / "wide_fit.py"
MAX_BYTES = 2e9
"""The goal for the memory in addition to X."""


def run(X: Any, quick: bool) -> Section:
    """Train both estimators; X, the digits of the other sections, is not used."""
    N, p, m = (2000, 3000, 50) if quick else (20_000, 50_000, 200)
    rows = []
    for estimator in ("SCNN", "MiniBatchSCNN"):
        command = [sys.executable, str(SCRIPT), estimator, str(N), str(p), str(m)]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        result: dict[str, float] = json.loads(output.splitlines()[-1])
        rows.append(
            Row(
                f"`{estimator}`, default parameters, {N:,} texts × {p:,} words (CSR), m={m}",
                f"{result['cpu_seconds']:.0f} s of CPU time,"
                f" {result['bytes'] / 1e9:.2f} GB in addition to X",
                f"≤ {MAX_BYTES / 1e9:.0f} GB",
                result["bytes"] <= MAX_BYTES,
                result,
            )
        )
    return Section(rows)
