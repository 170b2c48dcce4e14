"""The long search of all fuzzers, ``make fuzz``.

It runs the tests of this folder in rounds with new random cases, until enough cases were tried. In
the end it prints the number of cases by fuzzer and outcome. A test that fails is saved in
``fuzz-output/failures`` and left out of the following rounds. Its cases are kept in
``fuzz-output/examples``, so the next search tries them first. ``--resume`` adds to the counts of
the last search.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

from tests.fuzz.cases import ACCEPTED, COUNTS, FAILED, FAILURES

HERE = Path(__file__).parent


def main() -> int:
    options = parse_arguments()
    output = options.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(output / FAILURES, ignore_errors=True)
    for path in output.glob("running-*.txt"):
        path.unlink()
    if not options.resume:
        (output / COUNTS).unlink(missing_ok=True)
    deadline = time.monotonic() + 60 * options.minutes
    n_cases = total(output)
    while n_cases < options.cases and time.monotonic() < deadline:
        run_round(options, output)
        before, n_cases = n_cases, total(output)
        print(f"{n_cases} cases, {len(failed_tests(output))} failures", flush=True)
        if n_cases == before:
            break  # nothing is left to run
    print(table(output))
    return report_failures(output)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("fuzzers", nargs="*", help="parts of their names; all if none is given")
    parser.add_argument("--cases", type=int, default=100_000, help="cases in all, default 100000")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no round starts later")
    parser.add_argument("--round", type=int, default=500, help="cases of each test in a round")
    parser.add_argument("--jobs", default="auto", help="processes")
    parser.add_argument("--output", type=Path, default=Path("fuzz-output"))
    parser.add_argument("--resume", action="store_true", help="add to the last counts")
    return parser.parse_args()


def run_round(options: argparse.Namespace, output: Path) -> None:
    """Run every test that has not failed yet once, with new random cases."""
    paths = [
        str(path)
        for path in sorted(HERE.glob("test_*.py"))
        if not options.fuzzers or any(word in path.stem for word in options.fuzzers)
    ]
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=short", *paths]
    command += ["-n", options.jobs, "--dist", "worksteal", "-p", "no:cacheprovider"]
    for test in failed_tests(output):
        command += ["--deselect", test]
    environment = dict(
        os.environ,
        LINCODE_FUZZ_EXAMPLES=str(options.round),
        LINCODE_FUZZ_OUTPUT=str(output),
        OMP_NUM_THREADS="1",
    )
    subprocess.run(command, env=environment, check=False)
    for path in output.glob("running-*.txt"):  # of a process that crashed
        path.rename(output / FAILURES / path.name)


def failed_tests(output: Path) -> list[str]:
    files = sorted((output / FAILURES).glob("test*.txt"))
    return [path.read_text(encoding="utf-8").partition("\n")[0] for path in files]


def read_counts(output: Path) -> dict[str, Counter[str]]:
    """Return the cases by outcome of each fuzzer."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    path = output / COUNTS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for entry in map(json.loads, lines):
        counts[entry["fuzzer"]][entry["outcome"]] += entry["cases"]
    return counts


def total(output: Path) -> int:
    return sum(number.total() for number in read_counts(output).values())


def table(output: Path) -> str:
    """Return the cases by fuzzer and outcome as a Markdown table."""
    counts = read_counts(output)
    whole: Counter[str] = sum(counts.values(), Counter())
    others = sorted(set(whole) - {ACCEPTED, FAILED})
    columns = [ACCEPTED, *others, FAILED]
    lines = [
        f"| fuzzer | cases | {' | '.join(columns)} |",
        f"| --- | {' | '.join(['---:'] * (len(columns) + 1))} |",
    ]
    for name, number in [*sorted(counts.items()), ("all", whole)]:
        entries = [f"{number[column]:,}" for column in columns]
        lines.append(f"| {name} | {number.total():,} | {' | '.join(entries)} |")
    return "\n".join(lines)


def report_failures(output: Path) -> int:
    """Print where the failures are, and return the exit status."""
    files = sorted((output / FAILURES).glob("*.txt"))
    for path in files:
        print(f"failed: {path}")
    return 1 if files else 0


if __name__ == "__main__":
    sys.exit(main())
