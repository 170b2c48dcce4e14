"""``lincode reproduce`` and ``lincode report``: the paper's experiments, and a page on them."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lincode.cli.numbers import natural, positive
from lincode.experiments.experiment import SCALES, Run, Scale, duration
from lincode.experiments.registry import EXPERIMENTS, TYPICAL

FAILED = 1
"""Exit code where runs met an error."""


def add(subparsers: Any) -> None:
    """Add both commands."""
    reproduce = subparsers.add_parser(
        "reproduce",
        help="run the paper's experiments",
        description="Run experiments of the paper. Each run is kept as it is done: stop at any"
        " moment, and the same command goes on.",
        epilog="\n".join(f"{x.id:<18} {x.title}" for x in EXPERIMENTS.values()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    reproduce.add_argument(
        "ids", nargs="+", metavar="ID", choices=[*EXPERIMENTS, "all"], help="all, or of those below"
    )
    reproduce.add_argument(
        "--scale", choices=SCALES, default="smoke",
        help="smoke: minutes, to see that all works (default); paper: the paper's sizes",
    )  # fmt: skip
    reproduce.add_argument("--data-dir", type=Path, help="folder with mnist/ and bsds300/")
    reproduce.add_argument(
        "--embedded", action="store_true",
        help="use digits and photographs that come with scikit-learn; all is labelled so",
    )  # fmt: skip
    reproduce.add_argument("--jobs", type=positive, help="runs at a time (default: one a core)")
    reproduce.add_argument("--seed", type=natural, default=0, help="the first seed (default 0)")
    _add_out(reproduce)
    reproduce.set_defaults(func=run_reproduce)
    report = subparsers.add_parser(
        "report",
        help="draw figures, tables and the page from records",
        description="Draw figures (SVG, PNG), tables (Markdown, CSV) and one HTML page from the"
        " records alone; nothing is trained.",
    )
    report.add_argument("--scale", choices=SCALES, help="default: paper if there are such records")
    _add_out(report)
    report.set_defaults(func=run_report)


def _add_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", type=Path, default=Path("lincode-results"),
        help="folder of records, figures and tables (default: lincode-results)",
    )  # fmt: skip


def run_reproduce(args: argparse.Namespace) -> int:
    """Do what is missing, then draw."""
    from lincode.experiments.records import Store
    from lincode.experiments.runner import RunsFailedError, Task, cores, perform, threads_for

    if args.embedded and args.scale == "paper":
        raise ValueError(
            "--embedded goes with --scale smoke only: the data that come with scikit-learn are too"
            " few for the paper's sizes."
        )
    chosen = list(EXPERIMENTS.values()) if "all" in args.ids else [
        EXPERIMENTS[name] for name in dict.fromkeys(args.ids)
    ]  # fmt: skip
    embedded = {need: is_embedded(args, need) for need in sorted({x.needs for x in chosen})}
    wanted = dict.fromkeys(
        run for x in chosen for run in x.runs(args.scale, args.seed, embedded[x.needs])
    )
    store = Store(args.out)
    store.check()
    # First draws first: whenever it is stopped, as much as can be is there to look at.
    missing = sorted((run for run in wanted if not store.has(run)), key=lambda run: run.seed)
    jobs = min(args.jobs or cores(), max(1, len(missing)))
    print(f"{len(wanted)} runs, {len(wanted) - len(missing)} of them done before; {jobs} at a time")
    tasks = [Task(run, args.out, args.data_dir, threads_for(jobs)) for run in missing]
    try:
        with progress(missing, jobs) as told:
            perform(tasks, jobs, told)
    except KeyboardInterrupt:
        done = sum(store.has(run) for run in wanted)
        print(f"{done} of {len(wanted)} runs are done and kept; the same command goes on.")
        raise
    except RunsFailedError as error:
        print(f"lincode: {error}", file=sys.stderr)
        return FAILED
    return draw(args.out, args.scale)


def is_embedded(args: argparse.Namespace, need: str) -> bool:
    """Whether to use embedded data: if asked to, or for a smoke run where the real are missing."""
    from lincode.datasets import DataMissingError
    from lincode.experiments.samples import check

    if args.embedded:
        return True
    try:
        check(need, args.data_dir)
    except DataMissingError as error:
        if args.scale == "paper" or args.data_dir is not None:
            raise
        print(f"{error} Going on with embedded data; tables and figures say so.", file=sys.stderr)
        return True
    return False


def run_report(args: argparse.Namespace) -> int:
    """Draw."""
    return draw(args.out, args.scale)


def draw(out: Path, scale: Scale | None) -> int:
    """Write the report; say where it is."""
    from lincode.experiments.report import write_report

    print(f"the page: {write_report(out, scale)}")
    return 0


@contextmanager
def progress(runs: Sequence[Run], jobs: int) -> Iterator[Any]:
    """A live bar with the time left on a terminal; plain lines elsewhere."""
    from lincode.experiments.runner import TimeLeft

    left = TimeLeft(runs, jobs, TYPICAL)
    bar = rich_bar(len(runs)) if sys.stdout.isatty() and runs else None
    start = time.perf_counter()

    def told(run: Run, outcome: float | Exception) -> None:
        if isinstance(outcome, Exception):
            left.note(run, None)
            print("".join(traceback.format_exception(outcome)), file=sys.stderr)
            line = f"{run.label}: failed"
        else:
            left.note(run, outcome)
            line = f"{run.label}: {duration(outcome)}"
        if bar is None:
            print(f"[{len(runs) - len(left.left)}/{len(runs)}] {line}; {rest()}", flush=True)
        else:
            bar.print(line)
            bar.update(bar.task_ids[0], advance=1, rest=rest())

    def rest() -> str:
        if not left.left:
            return f"{duration(time.perf_counter() - start)} in all"
        return f"about {duration(left.seconds())} left" if left.seen else "time left unknown"

    if bar is None:
        yield told
    else:
        with bar:
            yield told


def rich_bar(total: int) -> Any:
    """The progress bar of rich; None where rich is not installed."""
    try:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )
    except ImportError:
        return None
    bar = Progress(
        TextColumn("reproducing"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.fields[rest]}"),
    )  # fmt: skip
    bar.add_task("reproducing", total=total, rest="")
    return bar
