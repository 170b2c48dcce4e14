"""The memory of `lincode fit` on files, and the time to read batches. Each runs in a process."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from measure import Row, Section

FIT = """
import sys
from lincode.cli import main
assert main(sys.argv[1:]) == 0
status = open("/proc/self/status").read().splitlines()
print([int(line.split()[1]) for line in status if line.startswith("VmHWM")][0])
"""
READ = """
import json, os, sys, time
import numpy as np
from lincode import MiniBatchSCNN

def drop_cache():
    file = os.open(sys.argv[1], os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)

class Slices:
    def __init__(self, X):
        self.X, self.shape, self.dtype = X, X.shape, X.dtype

    def __getitem__(self, rows):
        return self.X[rows]

seconds = {}
for name in ("random rows", "chunks"):
    drop_cache()  # pages that are mapped are not dropped, so the file is opened afterwards
    mapped = np.load(sys.argv[1], mmap_mode="r")
    X = Slices(mapped) if name == "chunks" else mapped
    scnn = MiniBatchSCNN(2, alpha=1.0, refine=False, max_iter=1, n_jobs=1)
    scnn.set_params(max_no_improvement=None)
    start = time.perf_counter()
    scnn.set_params(random_state=0).fit(X)
    seconds[name] = time.perf_counter() - start
    del X, mapped
print(json.dumps(seconds))
"""
"""Training with two units takes hardly any time, so that mostly the reading is measured."""


def run(X: Any, quick: bool) -> Section:
    n_bytes = 2e8 if quick else 3e9
    with tempfile.TemporaryDirectory() as folder:
        rows = [memory_row(X, suffix, n_bytes, Path(folder)) for suffix in ("npy", "parquet")]
        rows.append(memory_row(X, "csv", n_bytes / 6, Path(folder)))
        rows.append(reading_row(X, n_bytes / 3, Path(folder)))
    return Section(rows)


def write_rows(X: Any, path: Path, n: int) -> None:
    """Write n noisy digits of float32."""
    X = np.asarray(X[:20_000], dtype=np.float32)
    schema = pa.schema([(f"x{j}", pa.float32()) for j in range(X.shape[1])])
    if path.suffix == ".npy":
        array = np.lib.format.open_memmap(path, "w+", X.dtype, (n, X.shape[1]))
        for start, block in noisy_blocks(X, n):
            array[start : start + len(block)] = block
        array.flush()
        return
    writer = pa.csv.CSVWriter if path.suffix == ".csv" else pa.parquet.ParquetWriter
    with writer(path, schema) as table:
        for _, block in noisy_blocks(X, n):
            columns = [pa.array(column) for column in block.T.copy()]
            table.write_table(pa.Table.from_arrays(columns, schema=schema))


def noisy_blocks(X: Any, n: int) -> Iterator[tuple[int, Any]]:
    for start in range(0, n, len(X)):
        noise = np.random.default_rng(start).standard_normal(X.shape, dtype=np.float32)
        yield start, (X + 0.01 * noise)[: n - start]


def memory_row(X: Any, suffix: str, n_bytes: float, folder: Path) -> Row:
    """Fit a model to a file that is about ``n_bytes`` large as float32."""
    path = folder / f"X.{suffix}"
    n = int(n_bytes / 4 / X.shape[1])
    write_rows(X, path, n)
    size = path.stat().st_size
    command = ["fit", str(path), "-m", "200", "--minibatch", "-q", "-o", str(folder / "model")]
    output = subprocess.run(
        [sys.executable, "-c", FIT, *command], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    path.unlink()
    kilobytes = int(output.splitlines()[-1])
    print(f"  {suffix}, {size / 1e9:.2f} GB: {kilobytes / 1e3:.0f} MB", flush=True)
    return Row(
        f"memory of `lincode fit --minibatch`, {suffix} file of {size / 1e9:.1f} GB, m=200",
        f"{kilobytes / 1e3:.0f} MB",
        "below 1 GB",
        kilobytes < 1e6,
    )


def reading_row(X: Any, n_bytes: float, folder: Path) -> Row:
    """Compare random rows of a memory map with chunks, from a file that is not in the cache."""
    path = folder / "X.npy"
    write_rows(X, path, int(n_bytes / 4 / X.shape[1]))
    output = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", READ, str(path)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    path.unlink()
    seconds = json.loads(output.splitlines()[-1])
    ratio = seconds["random rows"] / seconds["chunks"]
    return Row(
        f"one pass over an npy file of {n_bytes / 1e9:.1f} GB: chunks compared with random rows",
        f"{ratio:.2f} × as fast",
        details=seconds,
    )
