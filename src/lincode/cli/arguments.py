"""The arguments of the commands.

Values are checked here as far as possible, so that errors name the option and not a parameter of
an estimator.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Callable
from typing import Any

import lincode
from lincode.cli import commands
from lincode.cli.parser import CommandParser
from lincode.exceptions import InvalidInputError
from lincode.vectors.header import HEADERS
from lincode.vectors.limits import parse_size

INPUTS = (
    "npy, npz, csv, tsv, csv.gz, tsv.gz, parquet, a folder of parquet files, or - for csv from"
    " standard input"
)
OUTPUTS = "npy, npz, csv, tsv, csv.gz, tsv.gz or parquet"
DEFAULTS = lincode.SCNN().get_params()
SPLIT_SIGN = "positive and negative parts of the codes are separate columns"
ALGORITHMS = ("encoder", "exact", "lasso", "omp", "ols")
FLAG: dict[str, Any] = {"action": argparse.BooleanOptionalAction, "default": None}
"""An option without a value that can be negated, such as --fit-gains and --no-fit-gains"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of ``lincode``. The function of a command is stored as ``func``."""
    parser = CommandParser(
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
    """Add the arguments of ``fit``. Options that are parameters of SCNN have their names."""
    add: Any = parser.add_argument
    add("X", help=f"the vectors, one per row: {INPUTS}")
    add("-o", "--output", required=True, metavar="MODEL", help="the model file to write")
    add(
        "-m",
        "--n-components",
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
    add("--positive-code", **FLAG, help="constrain the codes to be at least 0")
    _add_training_arguments(parser)
    _add_encoder_arguments(parser)
    _add_common_arguments(parser)


def _add_training_arguments(parser: argparse.ArgumentParser) -> None:
    add: Any = parser.add_argument_group("training").add_argument
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
    add(
        "--random-state",
        type=seed,
        default=0,
        metavar="SEED",
        help="random seed of the initialisation (default: 0)",
    )
    add(
        "--minibatch",
        **FLAG,
        help="learn in batches, in memory that does not depend on the number of vectors (default:"
        " if the data are large)",
    )
    add(
        "--batch-size",
        type=positive_integer,
        metavar="N",
        help="number of rows in a batch (implies --minibatch)",
    )
    add(
        "--checkpoint-path",
        metavar="FILE",
        help="save the state of training to this file; after an interruption, the same command"
        " continues from it",
    )
    add(
        "--checkpoint-every",
        type=nonnegative_number,
        metavar="SECONDS",
        help="time between two checkpoints (default: 60)",
    )
    add("--dtype", choices=("float32", "float64"), help="convert X (default: as it is)")


def _add_encoder_arguments(parser: argparse.ArgumentParser) -> None:
    add: Any = parser.add_argument_group("codes").add_argument
    add(
        "--encoder-weight",
        type=nonnegative_number,
        metavar="WEIGHT",
        help=f"weight of the encoder in the energy (default: {DEFAULTS['encoder_weight']:g})",
    )
    add(
        "--encoder-ridge",
        type=encoder_ridge,
        metavar="RIDGE",
        help="ridge of the encoder: a number, or auto for generalised cross-validation"
        f" (default: {DEFAULTS['encoder_ridge']})",
    )
    add(
        "--threshold",
        type=threshold,
        metavar="T",
        help="threshold of the encoder: a number, match (codes as sparse as in training) or alpha"
        f" (alpha divided by the encoder weight); default: {DEFAULTS['threshold']}",
    )
    add(
        "--threshold-mode",
        choices=("hard", "soft", "top_k"),
        help="how the output of the encoder is made sparse"
        f" (default: {DEFAULTS['threshold_mode']})",
    )
    add(
        "--transform-n-nonzero-coefs",
        type=positive_integer,
        metavar="K",
        help="number of non-zeros per vector with --threshold-mode top_k (default: as in training)",
    )
    add("--fit-gains", **FLAG, help="multiply the codes by one factor per component (default)")
    add("--fit-decoder", **FLAG, help="fit a separate dictionary to the codes of the encoder")
    add(
        "--refine-max-iter",
        type=nonnegative_integer,
        metavar="N",
        help="maximum number of rounds that refine the encoder after training (default: 0)",
    )
    add(
        "--transform-algorithm",
        "--algorithm",
        choices=ALGORITHMS,
        help=f"how encode computes codes (default: {DEFAULTS['transform_algorithm']})",
    )
    _add_tolerance(add)
    add("--split-sign", **FLAG, help=SPLIT_SIGN)


def _add_tolerance(add: Any) -> None:
    add(
        "--transform-tol",
        type=nonnegative_number,
        metavar="TOL",
        help="accuracy of the codes of the algorithms exact and lasso",
    )


def _add_encode_arguments(parser: argparse.ArgumentParser) -> None:
    add: Any = parser.add_argument
    add("model", help="the model file")
    add("X", help=f"the vectors, one per row: {INPUTS}")
    add(
        "-o",
        "--output",
        required=True,
        metavar="CODES",
        help=f"the codes to write: {OUTPUTS}; npz is a sparse matrix",
    )
    add(
        "--transform-algorithm",
        "--algorithm",
        choices=ALGORITHMS,
        help="how codes are computed (default: that of the model)",
    )
    add(
        "--threshold",
        type=threshold,
        metavar="T",
        help="threshold of the encoder: a number, match or alpha (default: that of the model)",
    )
    add(
        "--transform-n-nonzero-coefs",
        type=positive_integer,
        metavar="K",
        help="number of non-zeros per vector of a model with threshold_mode top_k",
    )
    _add_tolerance(add)
    add("--positive-code", **FLAG, help="codes of at least 0 (default: as in the model)")
    add("--split-sign", **FLAG, help=f"{SPLIT_SIGN} (default: as in the model)")
    _add_common_arguments(parser)


def _add_decode_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="the model file")
    parser.add_argument("codes", help=f"the codes, one per row: {INPUTS}")
    parser.add_argument(
        "-o", "--output", required=True, metavar="X", help=f"the vectors to write: {OUTPUTS}"
    )
    parser.add_argument(
        "--transform-algorithm",
        "--algorithm",
        choices=ALGORITHMS,
        help="how the codes were computed (default: that of the model); it matters only for models"
        " with a separate decoder",
    )
    parser.add_argument("--split-sign", **FLAG, help=f"{SPLIT_SIGN} (default: as in the model)")
    _add_common_arguments(parser, n_jobs=False)


def _add_common_arguments(parser: argparse.ArgumentParser, *, n_jobs: bool = True) -> None:
    parser.add_argument(
        "--key", metavar="NAME", help="name of the array in an npz file with several arrays"
    )
    parser.add_argument(
        "--columns",
        type=column_list,
        metavar="A,B,...",
        help="the columns to read, in this order: names, or positions that start at 1 (default:"
        " all)",
    )
    parser.add_argument(
        "--exclude",
        type=column_list,
        metavar="A,B,...",
        help="columns to leave out, such as a label: names, or positions that start at 1",
    )
    parser.add_argument(
        "--header",
        choices=HEADERS,
        default="auto",
        help="whether the first row of a csv or tsv file contains the names of the columns"
        " (default: auto, which decides by its cells and those of the second row)",
    )
    parser.add_argument(
        "--max-size",
        type=size,
        metavar="SIZE",
        help="the largest size to which a compressed file may expand, such as 20GB (default: 1GB"
        " or 100 times the size of the file)",
    )
    if n_jobs:
        parser.add_argument(
            "--n-jobs", type=jobs, metavar="N", help="number of threads; -1 means all cores"
        )
    parser.add_argument("-q", "--quiet", action="store_true", help="print only errors and warnings")


def column_list(text: str) -> list[str]:
    """Return the cells of one row of csv, so that names with commas can be quoted."""
    cells = [cell.strip() for row in csv.reader([text]) for cell in row]
    if not cells or not all(cells):
        raise argparse.ArgumentTypeError(
            f"must be names or positions of columns separated by commas, got {text!r}"
        )
    return cells


def positive_integer(text: str) -> int:
    """Return an integer of at least 1."""
    return _integer(text, 1)


def nonnegative_integer(text: str) -> int:
    """Return an integer of at least 0."""
    return _integer(text, 0)


def seed(text: str) -> int:
    """Return an integer between 0 and 2**32 - 1."""
    return _integer(text, 0)


def _integer(text: str, minimum: int) -> int:
    if not text.isdecimal() or not minimum <= int(text) < 2**32:
        raise argparse.ArgumentTypeError(f"must be an integer of at least {minimum}, got {text!r}")
    return int(text)


def jobs(text: str) -> int:
    """Return an integer other than 0."""
    if not text.removeprefix("-").isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(
            f"must be an integer other than 0 (-1 means all cores), got {text!r}"
        )
    return int(text)


def size(text: str) -> int:
    """Return a number of bytes."""
    try:
        return parse_size(text)
    except InvalidInputError as error:
        raise argparse.ArgumentTypeError(str(error).removesuffix(".")) from error


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


def encoder_ridge(text: str) -> float | str:
    """Return a number or "auto"."""
    return text if text == "auto" else nonnegative_number(text, " or auto")


def threshold(text: str) -> float | str:
    """Return a number, "match" or "alpha"."""
    return text if text in ("match", "alpha") else nonnegative_number(text, ", match or alpha")
