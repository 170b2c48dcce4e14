"""``lincode reproduce`` and ``lincode report``: the paper's experiments, and a page on them."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lincode.experiments.experiment import SCALES, Run, Scale

IDS = (
    "pca", "missing-pixels", "sparsity", "digits-components", "times", "accuracy-sparsity",
    "digits-input-size", "mnist-methods", "mnist-units", "mnist-noise",
)  # fmt: skip
NEEDS = {"pca": "bsds300", "missing-pixels": "bsds300", "sparsity": "bsds300"}
"""What data an experiment is about, if not MNIST."""


def add(subparsers: Any) -> None:
    """Add both commands."""
    reproduce = subparsers.add_parser(
        "reproduce",
        help="run the paper's experiments",
        description="Run experiments of the paper. Each run is kept as it is done: stop at any"
        " moment, and the same command goes on.",
    )
    reproduce.add_argument(
        "ids", nargs="+", metavar="ID", choices=[*IDS, "all"], help=f"all, or of: {', '.join(IDS)}"
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
    from lincode.experiments.registry import EXPERIMENTS
    from lincode.experiments.runner import Task, cores, perform, threads_for

    ids = list(IDS) if "all" in args.ids else list(dict.fromkeys(args.ids))
    embedded = {need: is_embedded(args, need) for need in {NEEDS.get(i, "mnist") for i in ids}}
    wanted = dict.fromkeys(
        run for i in ids
        for run in EXPERIMENTS[i].runs(args.scale, args.seed, embedded[NEEDS.get(i, "mnist")])
    )  # fmt: skip
    store = Store(args.out)
    missing = [run for run in wanted if not store.has(run)]
    jobs = min(args.jobs or cores(), max(1, len(missing)))
    print(f"{len(wanted)} runs, {len(wanted) - len(missing)} of them done before; {jobs} at a time")
    tasks = [Task(run, args.out, args.data_dir, threads_for(jobs)) for run in missing]
    with progress(missing, jobs) as told:
        perform(tasks, jobs, told)
    return draw(args.out, args.scale)


def is_embedded(args: argparse.Namespace, need: str) -> bool:
    """Whether to use embedded data: if asked to, or for a smoke run where the real are missing."""
    from lincode.datasets import DataMissingError, find

    if args.embedded:
        return True
    try:
        find(need, args.data_dir)
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
    from lincode.experiments.registry import TYPICAL
    from lincode.experiments.runner import TimeLeft

    left = TimeLeft(runs, jobs, TYPICAL)
    bar = rich_bar(len(runs)) if sys.stdout.isatty() and runs else None
    start = time.perf_counter()

    def told(run: Run, seconds: float) -> None:
        left.note(run, seconds)
        rest = f"about {words(left.seconds())} left" if left.left else f"{words(since())} in all"
        line = f"{run.label}: {words(seconds)}"
        if bar is None:
            print(f"[{len(left.seen)}/{len(runs)}] {line}; {rest}", flush=True)
        else:
            bar.print(line)
            bar.update(bar.task_ids[0], advance=1, rest=rest)

    def since() -> float:
        return time.perf_counter() - start

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


def words(seconds: float | None) -> str:
    """Seconds as people say them."""
    if seconds is None:
        return "an unknown time"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def positive(text: str) -> int:
    """An integer from 1."""
    return natural(text, 1)


def natural(text: str, least: int = 0) -> int:
    """An integer from 0."""
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"must be an integer from {least}, got {text!r}")
    return int(text)
