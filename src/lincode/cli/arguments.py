"""The arguments of the commands.

Values are checked here as far as possible, so that errors name the option and not a parameter of
an estimator.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import lincode
from lincode.cli import commands

FORMATS = "npy, npz, csv or parquet"
DEFAULTS = lincode.SCNN().get_params()


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of ``lincode``. The function of a command is stored as ``func``."""
    parser = argparse.ArgumentParser(
        prog="lincode",
        description="Learn sparse codes of vectors and compute them.",
        epilog="Use `lincode COMMAND --help` to list the arguments of a command.",
    )
    parser.add_argument("--version", action="version", version=f"lincode {lincode.__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, text: str, func: Callable[..., None]) -> argparse.ArgumentParser:
        command = subparsers.add_parser(name, help=text, description=text)
        command.set_defaults(func=func)
        return command

    _add_fit_arguments(add("fit", "learn a model from a file of vectors", commands.fit))
    _add_encode_arguments(add("encode", "compute the codes of vectors", commands.encode))
    _add_decode_arguments(add("decode", "reconstruct vectors from codes", commands.decode))
    info = add("info", "print information about a model file", commands.info)
    info.add_argument("model", help="the model file")
    info.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _add_fit_arguments(parser: argparse.ArgumentParser) -> None:
    add: Any = parser.add_argument
    add("X", help=f"the vectors, one per row: {FORMATS}")
    add("-o", "--output", required=True, metavar="MODEL", help="the model file to write")
    add(
        "-m",
        "--components",
        type=positive_integer,
        metavar="M",
        help="number of components (default: number of features)",
    )
    add(
        "--alpha",
        type=alpha,
        help="sparsity penalty: a number, a fraction of the value at which all codes are zero such"
        " as 0.05*max, or relative to the mean length of the vectors such as 0.5*mean"
        f" (default: {DEFAULTS['alpha']})",
    )
    add(
        "--threshold",
        type=threshold,
        metavar="T",
        help="threshold of the encoder: a number, match (codes as sparse as in training) or alpha"
        f" (alpha divided by the encoder weight); default: {DEFAULTS['threshold']}",
    )
    add(
        "--encoder-weight",
        type=nonnegative_number,
        metavar="WEIGHT",
        help=f"weight of the encoder in the energy (default: {DEFAULTS['encoder_weight']:g})",
    )
    add(
        "--max-iter",
        type=positive_integer,
        metavar="N",
        help="maximum number of iterations (with --minibatch: of passes over the data)",
    )
    add(
        "--tol",
        type=nonnegative_number,
        metavar="TOL",
        help="relative change of the energy at which training stops",
    )
    add("--seed", type=seed, default=0, help="random seed of the initialization (default: 0)")
    add("--minibatch", action="store_true", help="learn in batches; for npy larger than memory")
    add(
        "--batch-size",
        type=positive_integer,
        metavar="N",
        help="number of rows in a batch (implies --minibatch)",
    )
    add("--dtype", choices=("float32", "float64"), help="convert X in memory (default: as it is)")
    _add_common_arguments(parser)


def _add_encode_arguments(parser: argparse.ArgumentParser) -> None:
    add: Any = parser.add_argument
    add("model", help="the model file")
    add("X", help=f"the vectors, one per row: {FORMATS}")
    add(
        "-o",
        "--output",
        required=True,
        metavar="CODES",
        help="the codes to write: .npz (a sparse matrix), .npy, .csv or .parquet",
    )
    add(
        "--algorithm",
        choices=("encoder", "exact", "lasso"),
        help="how codes are computed (default: that of the model)",
    )
    add(
        "--threshold",
        type=threshold,
        metavar="T",
        help="threshold of the encoder: a number, match or alpha (default: that of the model)",
    )
    _add_common_arguments(parser)


def _add_decode_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="the model file")
    parser.add_argument("codes", help=f"the codes, one per row: {FORMATS}")
    parser.add_argument(
        "-o", "--output", required=True, metavar="X", help=f"the vectors to write: {FORMATS}"
    )
    parser.add_argument(
        "--algorithm",
        choices=("encoder", "exact", "lasso"),
        help="how the codes were computed (default: that of the model); it matters only for models"
        " with a separate decoder",
    )
    _add_common_arguments(parser, jobs=False)


def _add_common_arguments(parser: argparse.ArgumentParser, *, jobs: bool = True) -> None:
    parser.add_argument(
        "--key", metavar="NAME", help="name of the array in an npz file with several arrays"
    )
    if jobs:
        parser.add_argument(
            "--jobs", type=n_jobs, metavar="N", help="number of threads; -1 means all cores"
        )
    parser.add_argument("-q", "--quiet", action="store_true", help="print only errors and warnings")


def positive_integer(text: str) -> int:
    """Return an integer of at least 1."""
    return _integer(text, 1)


def seed(text: str) -> int:
    """Return an integer between 0 and 2**32 - 1."""
    return _integer(text, 0)


def _integer(text: str, minimum: int) -> int:
    if not text.isdecimal() or not minimum <= int(text) < 2**32:
        raise argparse.ArgumentTypeError(f"must be an integer of at least {minimum}, got {text!r}")
    return int(text)


def n_jobs(text: str) -> int:
    """Return an integer other than 0."""
    if not text.removeprefix("-").isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(
            f"must be an integer other than 0 (-1 means all cores), got {text!r}"
        )
    return int(text)


def nonnegative_number(text: str, alternatives: str = "") -> float:
    """Return a finite number of at least 0. Errors also mention the ``alternatives``."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(
            f"must be a number of at least 0{alternatives}, got {text!r}"
        )
    return value


def alpha(text: str) -> float | str:
    """Return a number, or text such as "0.05*max", which the estimator checks."""
    try:
        float(text)
    except ValueError:
        return text
    return nonnegative_number(text)


def threshold(text: str) -> float | str:
    """Return a number, "match" or "alpha"."""
    return text if text in ("match", "alpha") else nonnegative_number(text, ", match or alpha")
