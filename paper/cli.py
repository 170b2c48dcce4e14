"""The commands of ``python -m paper``: reproduce, report and fetch."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import joblib

from paper.cache import SCALES, Cache
from paper.datasets import NAMES, fetch, find
from paper.errors import PaperError, RunsFailedError
from paper.experiments import EXPERIMENTS
from paper.report import write_report

FAILED, USER_ERROR, INTERRUPTED = 1, 2, 130
"""Exit codes: some runs failed; wrong input; Ctrl-C (128 + SIGINT)."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    args = make_parser().parse_args(argv)
    try:
        args.func(args)
    except KeyboardInterrupt:
        print("paper: interrupted. The records of finished runs are kept.", file=sys.stderr)
        return INTERRUPTED
    except PaperError as error:
        print(f"paper: {error}", file=sys.stderr)
        return FAILED if isinstance(error, RunsFailedError) else USER_ERROR
    return 0


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="python -m paper", description="Reproduce the experiments of the paper with lincode."
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    reproduce = commands.add_parser(
        "reproduce",
        help="run experiments of the paper and make the report",
        description="Run experiments of the paper and make the report. Each run is saved when it is"
        " complete, so that the same command continues after an interruption.",
        epilog="experiments:\n"
        + "\n".join(f"  {x.id:<18} {x.title}" for x in EXPERIMENTS.values()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_reproduce(reproduce)
    report = commands.add_parser(
        "report", help="make figures and tables from the records, without training"
    )
    report.add_argument("--scale", choices=SCALES, help="default: paper if it has records")
    report.add_argument("--page", type=Path, help="a Markdown page whose claims are filled in")
    report.set_defaults(func=run_report)
    for command in (reproduce, report):
        command.add_argument(
            "--out",
            type=Path,
            default=Path("lincode-results"),
            help="folder for records, figures and tables (default: lincode-results)",
        )
    data = commands.add_parser("fetch", help="download MNIST and BSDS300, and check their sha256")
    data.add_argument("names", nargs="*", choices=NAMES, metavar="NAME", help=" or ".join(NAMES))
    data.set_defaults(func=run_fetch)
    for command in (reproduce, data):
        command.add_argument(
            "--data-dir",
            type=Path,
            help="folder that contains mnist/ and bsds300/ (default: the environment variable"
            " LINCODE_DATA, or else the user's cache folder)",
        )
    return parser


def add_reproduce(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``reproduce``."""
    parser.add_argument(
        "ids", nargs="+", metavar="ID", choices=[*EXPERIMENTS, "all"], help="experiments, or all"
    )
    parser.add_argument(
        "--scale",
        choices=SCALES,
        default="smoke",
        help="smoke: small sizes to test everything in minutes (default); paper: the paper's sizes",
    )
    parser.add_argument(
        "--embedded",
        action="store_true",
        help="use digits and photographs from scikit-learn instead of MNIST and BSDS300; only with"
        " --scale smoke",
    )
    parser.add_argument("--jobs", type=int, help="parallel runs (default: number of cores)")
    parser.set_defaults(func=run_reproduce)


def run_reproduce(args: argparse.Namespace) -> None:
    """Measure the runs that have no record and write the report."""
    if args.embedded and args.scale == "paper":
        raise PaperError(
            "--embedded can only be used with --scale smoke: scikit-learn's data have too few"
            " samples for the paper's sizes."
        )
    chosen = EXPERIMENTS if "all" in args.ids else dict.fromkeys(args.ids)
    experiments = [EXPERIMENTS[name] for name in chosen]
    if not args.embedded:
        for needed in {x.needs for x in experiments}:
            find(needed, args.data_dir)
    runs = [run for x in experiments for run in x.runs(args.scale, args.embedded)]
    Cache(args.out).run_missing(runs, args.data_dir, args.jobs or joblib.cpu_count())
    run_report(args)


def run_report(args: argparse.Namespace) -> None:
    """Write the report and print its folder."""
    print(f"report: {write_report(args.out, args.scale, getattr(args, 'page', None))}")


def run_fetch(args: argparse.Namespace) -> None:
    """Download each data set."""
    for name in args.names or NAMES:
        print(f"{fetch(name, args.data_dir)}: complete, sha256 is correct")
