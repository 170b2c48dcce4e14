"""Measure lincode, scikit-learn and SPAMS, and write the tables of README.md.

    python benchmarks/bench.py                   all sections (make bench)
    python benchmarks/bench.py --quick           smaller problems (make bench-quick)
    python benchmarks/bench.py --only front      some sections; the records of the others are kept

Each section writes a record to ``--out`` as soon as it is finished. The tables go to README.md
if all sections have a record of the full problems and of the present commit, and otherwise only to
bench.md in that folder.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import subprocess
import time
import traceback
import warnings
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from data import load_digits
from joblib import cpu_count

FOLDER = Path(__file__).parent
SECTIONS = (
    "front",
    "transform",
    "sparse_codes",
    "exact_codes",
    "large",
    "dictionary_learning",
    "alpha_path",
    "missing",
    "dask",
    "shared_machine",
)
PACKAGES = ("lincode", "numpy", "scipy", "scikit-learn", "numba", "spams-bin")
BEGIN, END = "<!-- begin: bench.py writes the following -->", "<!-- end -->"


def environment() -> str:
    """Return a description of the machine, and the versions of Python and the packages."""
    model = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), model)
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    machine = f"{model}, {cpu_count()} cores, {platform.system()}"
    return f"{machine}, python {platform.python_version()}, {versions}"


def commit() -> str:
    """Return the commit of the library, with "+" if it was changed since."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(FOLDER.parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    found = git("rev-parse", "--short", "HEAD") or "unknown"
    return found + ("+" if git("status", "--porcelain", "src") else "")


def run_section(name: str, X: Any, quick: bool, out: Path, about: dict[str, Any]) -> None:
    """Run a section and write its record; if it fails, the other sections are still run."""
    print(f"[{name}]", flush=True)
    path = out / f"{name}.json"
    path.unlink(missing_ok=True)
    start = time.perf_counter()
    try:
        section = importlib.import_module(f"sections.{name}").run(X, quick)
    except Exception:
        traceback.print_exc()
        return
    seconds = time.perf_counter() - start
    record = {**about, "seconds": seconds, **asdict(section)}
    path.write_text(json.dumps(record, indent=1, default=float))
    print(f"{section.text}\n[{name}: {seconds:.0f} s]\n", flush=True)


def write_report(out: Path, about: dict[str, Any]) -> None:
    """Write the tables of all records of this commit, if they are complete to README.md."""
    paths = [out / f"{name}.json" for name in SECTIONS]
    found = {path.stem: json.loads(path.read_text()) for path in paths if path.exists()}
    records = {name: r for name, r in found.items() if about.items() <= r.items()}
    times = {name: record["seconds"] for name, record in records.items()}
    seconds = ", ".join(f"{name} {value:.0f} s" for name, value in times.items())
    parts = [
        f"One run of {sum(times.values()) / 60:.0f} minutes on commit {about['commit']};"
        f" {about['data']}. {about['environment']}.",
        *(f"## {record['title']}\n\n{record['text']}" for record in records.values()),
        f"The sections took: {seconds}.",
    ]
    text = "\n\n".join(parts)
    (out / "bench.md").write_text(text + "\n")
    missing = [name for name in SECTIONS if name not in records]
    if missing:
        print(f"README.md was not written, because these are missing: {', '.join(missing)}")
    elif not about["quick"]:
        readme = FOLDER / "README.md"
        before, rest = readme.read_text(encoding="utf-8").split(BEGIN)
        after = rest.split(END)[1]
        readme.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")
        front = importlib.import_module("sections.front")
        front.plot(records["front"]["details"], FOLDER / "front.png")


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
    about = {"commit": commit(), "quick": args.quick, "data": source}
    about |= {"environment": environment()}
    for name in args.only:
        run_section(name, X, args.quick, args.out, about)
    write_report(args.out, about)


if __name__ == "__main__":
    main()
