"""The commands of ``python -m paper``: reproduce, report, data fetch and data verify."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from paper.datasets import NAMES, fetch, verify
from paper.errors import DataMissingError, PaperError, RunsFailedError
from paper.experiments.experiment import SCALES, Run, duration
from paper.experiments.records import Store
from paper.experiments.registry import EXPERIMENTS, TYPICAL_SECONDS
from paper.experiments.runner import (
    OnFinished,
    Task,
    TimeLeft,
    n_cores,
    run_tasks,
    threads_per_job,
)
from paper.experiments.samples import check_data
from paper.report import write_report

FAILED, USER_ERROR, INTERRUPTED = 1, 2, 130
"""Exit codes: some runs failed or some data are wrong; wrong input; Ctrl-C (128 + SIGINT)."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    argv : sequence of str, default=None
        The arguments after the name of the program. None means those of this process.

    Returns
    -------
    int
        0 for success, 1 if runs failed or data are wrong, 2 for wrong input, 130 after Ctrl-C.
    """
    args = make_parser().parse_args(argv)
    try:
        return int(args.func(args))
    except KeyboardInterrupt:
        print("paper: interrupted.", file=sys.stderr)
        return INTERRUPTED
    except PaperError as error:
        print(f"paper: {error}", file=sys.stderr)
        return FAILED if isinstance(error, RunsFailedError) else USER_ERROR


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="python -m paper", description="Reproduce the experiments of the paper with lincode."
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    add_reproduce(add_command(commands, "reproduce", "run experiments of the paper"))
    text = "make figures, tables and an HTML page from the records, without training"
    add_report(add_command(commands, "report", text))
    data = add_command(commands, "data", "download or check MNIST and BSDS300")
    actions = data.add_subparsers(metavar="ACTION", required=True)
    text = "download the data that are missing, and check their sha256"
    add_data(add_command(actions, "fetch", text), run_fetch)
    text = "check the sha256 of the data; the exit code is 1 if something is wrong"
    add_data(add_command(actions, "verify", text), run_verify)
    return parser


def add_command(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    """Return the parser of a command, with the same text in both help messages."""
    parser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    assert isinstance(parser, argparse.ArgumentParser)
    return parser


def add_reproduce(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``reproduce``."""
    parser.description = (
        "Run experiments of the paper and make the report. Each run is saved when it is complete,"
        " so that the same command continues after an interruption."
    )
    parser.epilog = "experiments:\n" + "\n".join(
        f"  {x.id:<18} {x.title}" for x in EXPERIMENTS.values()
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "ids", nargs="+", metavar="ID", choices=[*EXPERIMENTS, "all"], help="experiments, or all"
    )
    parser.add_argument(
        "--scale",
        choices=SCALES,
        default="smoke",
        help="smoke: small sizes to test everything in minutes (default); paper: the paper's sizes",
    )
    parser.add_argument("--data-dir", type=Path, help="folder that contains mnist/ and bsds300/")
    parser.add_argument(
        "--embedded",
        action="store_true",
        help="use digits and photographs from scikit-learn instead of MNIST and BSDS300",
    )
    parser.add_argument("--jobs", type=positive, help="parallel runs (default: number of cores)")
    parser.add_argument("--seed", type=natural, default=0, help="first seed (default: 0)")
    parser.add_argument(
        "--repetitions", type=positive, help="only the first repetitions (default: all)"
    )
    add_out(parser)
    parser.set_defaults(func=run_reproduce)


def add_report(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``report``."""
    parser.add_argument("--scale", choices=SCALES, help="default: paper if it has records")
    parser.add_argument(
        "--update",
        type=Path,
        nargs="+",
        default=(),
        metavar="FILE",
        help="also replace the results between comments in these Markdown files",
    )
    add_out(parser)
    parser.set_defaults(func=run_report)


def add_out(parser: argparse.ArgumentParser) -> None:
    """Add the argument --out."""
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("lincode-results"),
        help="folder for records, figures and tables (default: lincode-results)",
    )


def add_data(parser: argparse.ArgumentParser, function: object) -> None:
    """Add the arguments of ``data fetch`` and ``data verify``."""
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"{' or '.join(NAMES)} (default: both)"
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        help="folder that contains mnist/ and bsds300/ (default: the environment variable"
        " LINCODE_DATA, or else the user's cache folder)",
    )
    parser.set_defaults(func=function)


def positive(text: str) -> int:
    """Parse an integer of at least 1."""
    return natural(text, 1)


def natural(text: str, least: int = 0) -> int:
    """Parse an integer of at least ``least`` that can be a seed."""
    if not text.isdecimal() or not least <= int(text) < 2**32:
        raise argparse.ArgumentTypeError(f"must be an integer of at least {least}, got {text!r}")
    return int(text)


def run_reproduce(args: argparse.Namespace) -> int:
    """Measure the runs that have no record and write the report."""
    if args.embedded and args.scale == "paper":
        raise PaperError(
            "--embedded can only be used with --scale smoke: scikit-learn's data have too few"
            " samples for the paper's sizes."
        )
    names = EXPERIMENTS if "all" in args.ids else dict.fromkeys(args.ids)
    chosen = [EXPERIMENTS[name] for name in names]
    embedded = {need: use_embedded(args, need) for need in sorted({x.needs for x in chosen})}
    planned = dict.fromkeys(
        run
        for x in chosen
        for run in x.runs(args.scale, args.seed, embedded[x.needs])
        if args.repetitions is None or run.seed < args.seed + args.repetitions
    )
    store = Store(args.out)
    store.check_writable()
    # The first repetitions come first, so that after an interruption there is much to report.
    missing = sorted((run for run in planned if not store.has(run)), key=lambda run: run.seed)
    jobs = min(args.jobs or n_cores(), max(1, len(missing)))
    print(f"{len(planned)} runs, {len(planned) - len(missing)} already complete; {jobs} at a time")
    tasks = [Task(run, args.out, args.data_dir, threads_per_job(jobs)) for run in missing]
    try:
        with progress(missing, jobs) as on_finished:
            run_tasks(tasks, jobs, on_finished)
    except KeyboardInterrupt:
        n_complete = sum(store.has(run) for run in planned)
        print(
            f"{n_complete} of {len(planned)} runs are complete and kept. The same command"
            " continues with the others."
        )
        raise
    return run_report(args)


def use_embedded(args: argparse.Namespace, need: str) -> bool:
    """Return whether to use scikit-learn's data: on request, or for smoke runs without data."""
    if args.embedded:
        return True
    try:
        check_data(need, args.data_dir)
    except DataMissingError as error:
        if args.scale == "paper" or args.data_dir is not None:
            raise
        print(
            f"{error} Using scikit-learn's data instead; all tables and figures say so.",
            file=sys.stderr,
        )
        return True
    return False


def run_report(args: argparse.Namespace) -> int:
    """Write the report and print the path of the page."""
    print(f"report: {write_report(args.out, args.scale, getattr(args, 'update', ()))}")
    return 0


def run_fetch(args: argparse.Namespace) -> int:
    """Download each data set."""
    for name in check_names(args.names):
        fetch(name, args.data_dir)
    return 0


def run_verify(args: argparse.Namespace) -> int:
    """Print one line for each file or folder: whether it is ok, or what is wrong."""
    n_wrong = 0
    for name in check_names(args.names):
        try:
            checked = verify(name, args.data_dir)
        except DataMissingError as error:
            print(f"missing  {error}")
            n_wrong += 1
            continue
        for entry in checked:
            n_wrong += not entry.ok
            print(
                f"ok       {entry.description}: {entry.path}"
                if entry.ok
                else f"wrong    {entry.problem}"
            )
    return FAILED if n_wrong else 0


def check_names(names: Sequence[str]) -> Sequence[str]:
    """Return the names of the data sets, or all if none is given."""
    for name in names:
        if name not in NAMES:
            raise PaperError(f"A data set must be {' or '.join(NAMES)}, got {name}.")
    return names or NAMES


@contextmanager
def progress(runs: Sequence[Run], jobs: int) -> Iterator[OnFinished]:
    """Show the progress: a bar on a terminal, otherwise one line per run."""
    left = TimeLeft(runs, jobs, TYPICAL_SECONDS)
    start = time.perf_counter()
    bar = Progress(
        TextColumn("reproducing"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        disable=not sys.stdout.isatty() or not runs,
    )
    bar_task = bar.add_task("", total=len(runs), left="")

    def on_finished(run: Run, outcome: float | Exception) -> None:
        if isinstance(outcome, Exception):
            print("".join(traceback.format_exception(outcome)), file=sys.stderr)
            left.note(run, None)
            line = f"{run.label}: failed"
        else:
            left.note(run, outcome)
            line = f"{run.label}: {duration(outcome)}"
        n_finished = len(runs) - len(left.remaining)
        if bar.disable:
            print(f"[{n_finished}/{len(runs)}] {line}; {time_left()}", flush=True)
        else:
            bar.print(line)
            bar.update(bar_task, advance=1, left=time_left())

    def time_left() -> str:
        if not left.remaining:
            return f"{duration(time.perf_counter() - start)} in total"
        return f"about {duration(left.seconds())} left" if left.finished else "time left unknown"

    with bar:
        yield on_finished
