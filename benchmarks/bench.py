"""Compare lincode with scikit-learn, SPAMS and dictlearn.

    python benchmarks/bench.py                   all sections (make bench)
    python benchmarks/bench.py --quick           smaller problems (make bench-quick)
    python benchmarks/bench.py --only scaling    some sections; the records of the others are kept

The libraries are run in turn, and their results are evaluated in float64. Each section writes its
record to ``--out`` as soon as it is finished. The records are combined into a table (bench.md), a
file with all numbers (bench.json) and a plot of energy against time (bench.png).
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

from data import load_digits
from joblib import cpu_count
from measure import Curve, Row, Section

SECTIONS = (
    "encoding",
    "transform_output",
    "exact_codes",
    "sparse_codes",
    "dictionary_learning",
    "training",
    "alpha_path",
    "scaling",
    "wide",
    "out_of_core",
    "shared_machine",
    "dask",
    "missing",
)
PACKAGES = ("lincode", "numpy", "scipy", "scikit-learn", "numba", "spams-bin", "dictlearn")


def environment() -> dict[str, str]:
    """Return a description of the machine, and the versions of Python and the packages."""
    model = ""
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":")[1].strip() for line in lines if "model name" in line), "")
    return {
        "machine": f"{model or platform.processor()}, {cpu_count()} cores, {platform.system()}",
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def run_section(name: str, X: Any, quick: bool, out: Path) -> None:
    """Run one section, print its rows and write its record."""
    start = time.perf_counter()
    section: Section = importlib.import_module(f"sections.{name}").run(X, quick)
    if quick:  # the goals are meant for the full sizes
        section = replace(section, rows=[replace(row, reached=None) for row in section.rows])
    for row in section.rows:
        print(row, flush=True)
    seconds = time.perf_counter() - start
    print(f"  [{name}: {seconds:.0f} s]", flush=True)
    record = {"quick": quick, "seconds": seconds, **environment(), **asdict(section)}
    (out / f"{name}.json").write_text(json.dumps(record, indent=1, default=float))


def write_report(source: str, quick: bool, out: Path) -> str:
    """Write bench.md, bench.json and bench.png from all records, and return the table.

    Only the records of quick runs are used if ``quick`` is true, otherwise only those of full runs.
    """
    records = {}
    for name in SECTIONS:
        path = out / f"{name}.json"
        if path.exists() and (record := json.loads(path.read_text()))["quick"] == quick:
            records[name] = record
    seconds = sum(record["seconds"] for record in records.values())
    versions = environment()
    machine = versions.pop("machine")
    table = "\n".join(
        [
            f"{source}, {'quick' if quick else 'full'} run of {seconds:.0f} s.",
            f"{machine}, {', '.join(f'{k} {v}' for k, v in versions.items())}.",
            "",
            "| task | measured | goal | reached |",
            "| --- | --- | --- | --- |",
            *(str(Row(**row)) for record in records.values() for row in record["rows"]),
        ]
    )
    (out / "bench.md").write_text(table + "\n")
    (out / "bench.json").write_text(json.dumps({"data": source, "sections": records}, indent=1))
    plot({k: v for record in records.values() for k, v in record["curves"].items()}, out)
    return table


def plot(curves: dict[str, dict[str, Curve]], out: Path) -> None:
    """Plot energy against time to bench.png, with one panel for each title."""
    if not curves:
        return
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(curves), figsize=(6 * len(curves), 4.2), squeeze=False)
    for ax, (title, lines) in zip(axes[0], curves.items(), strict=True):
        for name, curve in lines.items():
            seconds, energy = zip(*curve, strict=True)
            ax.plot(seconds, energy, marker=".", label=name)
        ax.set(xscale="log", xlabel="seconds", ylabel="energy per digit", title=title)
        ax.grid(alpha=0.3)
        ax.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(out / "bench.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="run smaller problems")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--out", type=Path, default=Path("bench-output"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    X, source = load_digits()
    print(f"{source}; {environment()}", flush=True)
    for name in args.only:
        run_section(name, X, args.quick, args.out)
    print("\n" + write_report(source, args.quick, args.out))


if __name__ == "__main__":
    main()
