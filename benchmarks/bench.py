"""One ruler for all: lincode and its peers, interleaved, judged in float64 by what they returned.

    python benchmarks/bench.py                  everything (make bench)
    python benchmarks/bench.py --quick          a reduced version (make bench-quick)
    python benchmarks/bench.py --only growth    one section again, the others as they were

Each section leaves its record in ``--out`` as soon as it is done. From the records come the
table (bench.md), all figures (bench.json) and the picture (bench.png), energy against seconds.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import time
import warnings
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from data import digits
from joblib import cpu_count
from ruler import Row, Section

SECTIONS = (
    "encoding", "exact_codes", "dictionary_learning", "training", "path_of_lambda", "growth"
)  # fmt: skip


def machine() -> dict[str, Any]:
    names = ("lincode", "numpy", "scipy", "scikit-learn", "numba", "spams-bin", "dictlearn")
    model = ""
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((li.split(":")[1].strip() for li in lines if "model name" in li), "")
    return {
        "machine": f"{model or platform.processor()}, {cpu_count()} cores, {platform.system()}",
        "python": platform.python_version(),
        **{name: version(name) for name in names},
    }


def measure(name: str, X: Any, quick: bool, out: Path) -> None:
    """One section; its record, with what it ran on."""
    began = time.perf_counter()
    section: Section = importlib.import_module(f"sections.{name}").run(X, quick)
    if quick:  # what must be shown is said of the full sizes
        section = replace(section, rows=[replace(row, met=None) for row in section.rows])
    for row in section.rows:
        print(row, flush=True)
    seconds = time.perf_counter() - began
    print(f"  [{name}: {seconds:.0f} s]", flush=True)
    record = {"quick": quick, "seconds": seconds, **machine(), **asdict(section)}
    (out / f"{name}.json").write_text(json.dumps(record, indent=1, default=float))


def report(source: str, quick: bool, out: Path) -> str:
    """The table of all records of this kind of run; also bench.md, bench.json and bench.png."""
    records = {}
    for name in SECTIONS:
        path = out / f"{name}.json"
        if path.exists() and (record := json.loads(path.read_text()))["quick"] == quick:
            records[name] = record
    seconds = sum(record["seconds"] for record in records.values())
    rows = [str(Row(**row)) for record in records.values() for row in record["rows"]]
    table = "\n".join(
        [f"{source}, {'reduced' if quick else 'full'} run of {seconds:.0f} s.",
         ", ".join(f"{k} {v}" if k != "machine" else v for k, v in machine().items()) + ".", "",
         "| work | measured | must show | met |", "| --- | --- | --- | --- |", *rows]
    )  # fmt: skip
    (out / "bench.md").write_text(table + "\n")
    (out / "bench.json").write_text(json.dumps({"data": source, "sections": records}, indent=1))
    draw({k: v for record in records.values() for k, v in record["curves"].items()}, out)
    return table


def draw(curves: dict[str, dict[str, Any]], out: Path) -> None:
    if not curves:
        return
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(curves), figsize=(6 * len(curves), 4.2), squeeze=False)
    for ax, (title, lines) in zip(axes[0], curves.items(), strict=True):
        for name, line in lines.items():
            seconds, energy = zip(*line, strict=True)
            ax.plot(seconds, energy, marker=".", label=name)
        ax.set(xscale="log", xlabel="seconds", ylabel="energy per digit", title=title)
        ax.grid(alpha=0.3)
        ax.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(out / "bench.png", dpi=110)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--quick", action="store_true")
    arguments.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS)
    arguments.add_argument("--out", type=Path, default=Path("bench-output"))
    given = arguments.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    X, source = digits()
    print(f"{source}; {machine()}", flush=True)
    for name in given.only:
        measure(name, X, given.quick, given.out)
    print("\n" + report(source, given.quick, given.out))


if __name__ == "__main__":
    main()
