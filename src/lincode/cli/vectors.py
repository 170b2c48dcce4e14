"""``lincode fit``, ``encode`` and ``decode``: a network from and for files of vectors."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from typing import Any

import numpy as np
import scipy.sparse

from lincode import SCNN, MiniBatchSCNN
from lincode.cli.numbers import amount, natural, positive, threads
from lincode.cli.progress import progress
from lincode.model_file import load, save
from lincode.vectors import Vectors, check_target, format_of, read_vectors, write_vectors
from lincode.vectors.reading import import_pyarrow

SHARE = 0.05
"""λ as a share of alpha_max where nothing is said about it."""
FILES = "npy, npz, csv or parquet"


def add(subparsers: Any) -> None:
    """Add these three commands to those of ``lincode``."""
    _add_fit(_command(subparsers, "fit", "learn a network from a file of vectors", fit))
    _add_encode(_command(subparsers, "encode", "make codes of vectors", encode))
    _add_decode(_command(subparsers, "decode", "make vectors of codes", decode))


def _command(subparsers: Any, name: str, text: str, func: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = subparsers.add_parser(name, help=text, description=text)
    parser.set_defaults(func=func)
    return parser


def _add_fit(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option("X", help=f"the vectors, one a row: {FILES}")
    option("-o", "--output", required=True, metavar="MODEL", help="the model file to write")
    option("-m", "--components", type=positive, metavar="M", help="units (default: one a feature)")
    alpha = parser.add_mutually_exclusive_group()
    alpha.add_argument("--alpha", type=amount, metavar="LAMBDA", help="sparsity lambda")
    alpha.add_argument(
        "--alpha-share", type=amount, metavar="SHARE",
        help=f"lambda as a share of that at which all codes are zero (default: {SHARE})",
    )  # fmt: skip
    option(
        "--threshold", type=_threshold, metavar="T",
        help="the encoder's threshold: a number, or match (as sparse as the trained codes);"
        " default: lambda over the encoder's weight, as in the paper",
    )  # fmt: skip
    option("--encoder-weight", type=amount, metavar="WEIGHT", help="default: 1")
    option("--max-iter", type=positive, metavar="N", help="most iterations (--minibatch: passes)")
    option("--tol", type=amount, metavar="SHARE", help="change of the energy that ends training")
    option("--seed", type=natural, default=0, help="of the start (default: 0)")
    option("--minibatch", action="store_true", help="a batch at a time: for npy beyond memory")
    option("--batch-size", type=positive, metavar="N", help="rows of a batch (implies --minibatch)")
    option("--dtype", choices=("float32", "float64"), help="to compute in (default: as in X)")
    _add_common(parser)


def _add_encode(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option("model", help="a model file")
    option("X", help=f"the vectors, one a row: {FILES}")
    option(
        "-o", "--output", required=True, metavar="CODES",
        help="the codes: .npz as a sparse matrix, .npy, .csv or .parquet",
    )  # fmt: skip
    option("--method", choices=("encoder", "exact", "relearn"), help="default: the model's own")
    option("--threshold", type=_threshold, metavar="T", help="a number, or match")
    _add_common(parser)


def _add_decode(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option("model", help="a model file")
    option("codes", help=f"what encode wrote: {FILES}")
    option("-o", "--output", required=True, metavar="X", help=f"the vectors: {FILES}")
    _add_common(parser, jobs=False)


def _add_common(parser: argparse.ArgumentParser, *, jobs: bool = True) -> None:
    parser.add_argument("--key", metavar="NAME", help="which array of an npz file that has several")
    if jobs:
        parser.add_argument("--jobs", type=threads, metavar="N", help="threads; -1 for all cores")
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing but errors")


def _threshold(text: str) -> float | str:
    return text if text == "match" else amount(text, " or match")


def fit(args: argparse.Namespace) -> int:
    """Learn a network and save it."""
    _check_output(args.output, args.X, table=False)
    vectors = read_vectors(args.X, key=args.key)
    vectors.check_finite()
    X = vectors.X if args.dtype is None else vectors.X.astype(args.dtype, copy=False)
    model = _network(args)
    if args.alpha is None:
        share = SHARE if args.alpha_share is None else args.alpha_share
        model.set_params(alpha=share * model.alpha_max(X))
    _learn(model, X, quiet=args.quiet)
    if vectors.names is not None:
        model.feature_names_in_ = np.array(vectors.names, dtype=object)
    save(model, args.output)
    if not args.quiet:
        print(f"{args.output}: {X.shape[0]} vectors; {_summary(model)}")
    return 0


def _network(args: argparse.Namespace) -> Any:
    """An estimator of the options that were given; it looks at them itself."""
    given = {
        "n_components": args.components,
        "alpha": args.alpha,
        "threshold": args.threshold,
        "encoder_weight": args.encoder_weight,
        "max_iter": args.max_iter,
        "tol": args.tol,
        "n_jobs": args.jobs,
        "batch_size": args.batch_size,
    }
    minibatch = args.minibatch or args.batch_size is not None
    parameters = {name: value for name, value in given.items() if value is not None}
    return (MiniBatchSCNN if minibatch else SCNN)(random_state=args.seed, **parameters)


def _learn(model: Any, X: Any, *, quiet: bool) -> None:
    """Fit, and tell on stderr how it goes; the model is left as if nobody had asked."""
    if isinstance(model, SCNN):
        with progress(quiet=quiet) as callback:
            model.set_params(callback=callback).fit(X)
        model.set_params(callback=None)
    else:
        with contextlib.redirect_stdout(sys.stderr):
            model.set_params(verbose=0 if quiet else 1).fit(X)
        model.set_params(verbose=0)


def encode(args: argparse.Namespace) -> int:
    """Codes of the vectors in a file, a block of rows at a time."""
    _check_output(args.output, args.X, args.model)
    model = load(args.model)
    for name, value in (
        ("transform_method", args.method), ("threshold", args.threshold), ("n_jobs", args.jobs),
    ):  # fmt: skip
        if value is not None:
            _set(model, name, value)
    if args.threshold is not None and model.transform_method != "encoder":
        raise ValueError(
            f"--threshold is of the encoder's codes, and these are {model.transform_method} ones;"
            " leave it out, or say --method encoder."
        )
    vectors = read_vectors(args.X, key=args.key)
    _check_names(model, vectors)
    names = list(model.get_feature_names_out())
    zeros = 0

    def codes() -> Any:
        nonlocal zeros
        for block in vectors.blocks(len(names)):
            U = model.transform(block)
            zeros += int(np.prod(U.shape)) - _count_nonzero(U)
            yield U

    n = vectors.X.shape[0]
    write_vectors(args.output, codes(), n, names=names, sparse=True)
    if not args.quiet:
        share = zeros / (n * len(names))
        print(f"{args.output}: codes of {n} vectors, {len(names)} wide, {share:.1%} zeros")
    return 0


def decode(args: argparse.Namespace) -> int:
    """Vectors that the codes in a file stand for, a block of rows at a time."""
    _check_output(args.output, args.codes, args.model)
    model = load(args.model)
    codes = read_vectors(args.codes, key=args.key)
    names = getattr(model, "feature_names_in_", None)
    blocks = (model.inverse_transform(U) for U in codes.blocks(model.n_features_in_))
    n = codes.X.shape[0]
    write_vectors(args.output, blocks, n, names=None if names is None else list(names))
    if not args.quiet:
        print(f"{args.output}: {n} vectors of {model.n_features_in_} features")
    return 0


def _summary(model: Any) -> str:
    m, p = model.components_.shape
    return (
        f"{m} units of {p} features, alpha {model.alpha:.4g},"
        f" {1 - model.usage_.mean():.1%} of the trained codes are zero; {model.stop_reason_}"
    )


def _set(model: Any, name: str, value: Any) -> None:
    if name not in model.get_params():
        raise ValueError(f"{type(model).__name__} has no {name}; leave the option out.")
    model.set_params(**{name: value})


def _check_output(output: str, *inputs: str, table: bool = True) -> None:
    """That the output can be written, before any work is done for it."""
    if table and format_of(output) == "parquet":
        import_pyarrow()
    check_target(output)
    for path in inputs:
        if os.path.exists(output) and os.path.exists(path) and os.path.samefile(output, path):
            raise ValueError(f"the output must not be the input {path}; give it another name.")


def _check_names(model: Any, vectors: Vectors) -> None:
    """Columns with names are those the network was fitted to, in their order.

    The model's names are taken away from it, that arrays without any are no news to it.
    """
    known = vars(model).pop("feature_names_in_", None)
    if known is None or vectors.names is None or list(known) == vectors.names:
        return
    pairs = zip(known, vectors.names, strict=False)
    at = next((j for j, (a, b) in enumerate(pairs) if a != b), min(len(known), len(vectors.names)))
    wanted, got = (n[at] if at < len(n) else "nothing" for n in (known, vectors.names))
    raise ValueError(
        f"{vectors.path}: column {at + 1} must be {wanted!r} as in the model, got {got!r}; bring"
        " the columns to the model's order."
    )


def _count_nonzero(U: Any) -> int:
    return int(U.count_nonzero() if scipy.sparse.issparse(U) else np.count_nonzero(U))
