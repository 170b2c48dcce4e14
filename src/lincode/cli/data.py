"""``lincode data fetch`` and ``lincode data verify``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from lincode.datasets import NAMES, DataMissingError, fetch, verify


def add(subparsers: Any) -> None:
    """Add the subcommand ``data`` to those of ``lincode``."""
    data = subparsers.add_parser("data", help="download MNIST and BSDS300, or check them")
    actions = data.add_subparsers(metavar="action", required=True)
    add_action(actions, "fetch", "download what is missing, and check it by sha256", run_fetch)
    add_action(actions, "verify", "check what is there by sha256; exit code 1 if wrong", run_verify)


def add_action(actions: Any, name: str, text: str, run: Any) -> None:
    """Add one action, with the arguments both have."""
    action = actions.add_parser(name, help=text, description=text)
    action.add_argument("names", nargs="*", metavar="name", help=f"{' or '.join(NAMES)}; else both")
    action.add_argument(
        "--data-dir",
        type=Path,
        metavar="FOLDER",
        help="the folder that holds mnist/ and bsds300/; else the environment variable"
        " LINCODE_DATA, else the user's cache folder",
    )
    action.set_defaults(func=run)


def run_fetch(args: argparse.Namespace) -> int:
    """Download each data set in turn."""
    for name in check_names(args.names):
        fetch(name, args.data_dir)
    return 0


def run_verify(args: argparse.Namespace) -> int:
    """Print a line for each file or folder: ``ok`` and what it is, or what is wrong with it."""
    wrong = 0
    for name in check_names(args.names):
        try:
            report = verify(name, args.data_dir)
        except DataMissingError as error:
            print(f"missing  {error}")
            wrong += 1
            continue
        for entry in report:
            print(
                f"ok       {entry.what}: {entry.path}" if entry.ok else f"wrong    {entry.problem}"
            )
            wrong += not entry.ok
    return 1 if wrong else 0


def check_names(names: list[str]) -> list[str]:
    """The names given, each known before the first is worked on; all if none is given."""
    for name in names:
        if name not in NAMES:
            raise ValueError(f"A data set must be {' or '.join(NAMES)}, got {name}.")
    return names or list(NAMES)
