"""The commands: each is a function of its parsed arguments."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse

from lincode import SCNN, Iteration, MiniBatchSCNN
from lincode.cli.columns import check_columns
from lincode.cli.printing import print_line, print_message
from lincode.estimators.checkpoint import keep_checkpoints
from lincode.exceptions import InvalidInputError
from lincode.model_file import describe, save
from lincode.vectors import (
    Vectors,
    check_output_path,
    file_format,
    import_pyarrow,
    open_vectors,
    write_vectors,
)

GREEDY = ("omp", "ols")
"""The algorithms with a given number of non-zeros."""
ENCODE_PARAMETERS = (
    "transform_algorithm",
    "threshold",
    "transform_n_nonzero_coefs",
    "transform_tol",
    "positive_code",
    "split_sign",
    "n_jobs",
)
"""The parameters of the model that ``encode`` can change."""
SMALL_BYTES = 128 * 2**20
"""``fit`` reads smaller files completely, also for MiniBatchSCNN."""
MAX_BYTES = 4e9
"""SCNN is not used by default if the data and their codes need more memory."""
SECONDS_BETWEEN_LINES = 2.0
"""Minimum time between two lines that report progress."""


def fit(args: argparse.Namespace) -> None:
    """Fit a model to the vectors in a file and save it."""
    _check_output(args.output, args.X)
    if args.checkpoint_path and os.path.realpath(args.checkpoint_path) == os.path.realpath(
        args.output
    ):
        raise InvalidInputError(
            "the checkpoint is deleted when the model is saved, so --checkpoint-path must not be"
            f" the output {args.output}; choose another name."
        )
    opened = _open(args, args.X, dtype=args.dtype)
    with keep_checkpoints():  # until the model is saved
        model, n = _fit_model(args, opened)
        if opened.names is not None:
            model.feature_names_in_ = np.array(opened.names, dtype=object)
        save(model, args.output)
    if not args.quiet:
        m, p = model.components_.shape
        print_line(
            f"{args.output}: {n} vectors, {m} components, {p} features,"
            f" alpha {model.alpha_:.4g}, {1 - model.usage_.mean():.1%} of the training codes are"
            f" zero; {model.stop_reason_}"
        )


def _fit_model(args: argparse.Namespace, opened: Vectors) -> tuple[Any, int]:
    """Return the fitted model and the number of vectors."""
    with opened.with_slices(_output_folder(args), args.dtype) as vectors:
        cls, message = _model_class(args, vectors)
        if message and not args.quiet:
            print_message(message)
        model = _create_model(cls, args)
        X = vectors.X
        if cls is SCNN or _float_bytes(X) <= SMALL_BYTES:
            X = _load(vectors)
            if not np.isfinite(X.data if scipy.sparse.issparse(X) else X).all():
                vectors.check_finite()  # The estimator would accept NaN, but ``encode`` does not.
        try:
            with show_progress(quiet=args.quiet) as callback:
                model.set_params(callback=callback).fit(X)
        except ValueError:
            vectors.check_finite()  # This error says in which row and column the NaN is.
            raise
        n_vectors = int(vectors.X.shape[0])
    return model.set_params(callback=None, checkpoint_path=None), n_vectors


def _open(args: argparse.Namespace, path: str, dtype: str | None = None) -> Vectors:
    """Open a file of vectors. Temporary files are in the folder of the output, which is a disk."""
    return open_vectors(
        path,
        key=args.key,
        columns=args.columns,
        exclude=args.exclude,
        dtype=dtype,
        folder=_output_folder(args),
        max_bytes=args.max_size,
        header=args.header,
    )


def _output_folder(args: argparse.Namespace) -> str:
    return str(check_output_path(args.output).parent)


def _float_bytes(X: Any) -> int:
    """Return the size of X in memory as float32 or float64."""
    if scipy.sparse.issparse(X):
        return int(X.nnz) * 12
    return int(X.shape[0]) * int(X.shape[1]) * (4 if X.dtype == np.float32 else 8)


def _load(vectors: Vectors) -> Any:
    """Return the rows as an array or CSR matrix in memory."""
    X = vectors.X
    return X if isinstance(X, np.ndarray) or scipy.sparse.issparse(X) else X[:]


def _model_class(args: argparse.Namespace, vectors: Vectors) -> tuple[Any, str]:
    """Return the estimator for these options and data, and a message if the size decided."""
    if args.minibatch is not None or args.batch_size is not None:
        if args.minibatch is False and args.batch_size is not None:
            raise InvalidInputError("--batch-size requires --minibatch; leave --no-minibatch out.")
        return (SCNN if args.minibatch is False else MiniBatchSCNN), ""
    X = vectors.X
    codes = X.shape[0] * (args.n_components or X.shape[1]) * (4 if X.dtype == np.float32 else 8)
    needed, limit = _float_bytes(X) + 2 * codes, memory_limit()
    if needed <= limit:
        return SCNN, ""
    return MiniBatchSCNN, (
        f"{vectors.path} has {X.shape[0]} vectors with {X.shape[1]} columns. SCNN would need about"
        f" {needed / 1e9:.1f} GB of memory for them and their codes, which is more than"
        f" {limit / 1e9:.1f} GB, so MiniBatchSCNN learns from batches. Use --no-minibatch for SCNN."
    )


def memory_limit() -> float:
    """Return how many bytes ``fit`` may use for the data and their codes.

    It is half of the memory of the computer, and at most 4 GB. The memory that other programs use
    does not matter, so that the same command learns the same model.
    """
    try:
        return min(MAX_BYTES, 0.5 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):  # Windows
        return MAX_BYTES


def _create_model(cls: Any, args: argparse.Namespace) -> Any:
    """Return an estimator with the given options. The defaults are those of the estimator."""
    names = set(cls().get_params()) & set(vars(args))
    options = {name: getattr(args, name) for name in names}
    return cls(**{name: value for name, value in options.items() if value is not None})


@contextmanager
def show_progress(*, quiet: bool) -> Iterator[Callable[[Iteration], None] | None]:
    """Provide a callback for ``fit`` that prints the progress to stderr, or None if quiet.

    A terminal shows one line that is updated, if rich is installed. Otherwise a new line is
    printed every two seconds.
    """
    if quiet:
        yield None
        return
    if sys.stderr.isatty():
        try:
            from rich.console import Console
        except ImportError:
            pass
        else:
            with Console(stderr=True).status("starting") as status:
                yield lambda iteration: status.update(str(iteration))
            return
    last = -math.inf

    def print_line(iteration: Iteration) -> None:
        nonlocal last
        if iteration.seconds - last >= SECONDS_BETWEEN_LINES:
            last = iteration.seconds
            print(iteration, file=sys.stderr, flush=True)

    yield print_line


def encode(args: argparse.Namespace) -> None:
    """Compute the codes of the vectors in a file, one block of rows at a time."""
    _check_output(args.output, args.X, args.model, table=True)
    model, _ = _describe_network(args.model)
    for name in ENCODE_PARAMETERS:
        _set_parameter(model, name, getattr(args, name))
    _check_applicable(model, args)
    vectors = _open(args, args.X)
    names_in = getattr(model, "feature_names_in_", None)
    check_columns(vectors, model.n_features_in_, names_in, args.exclude)
    # Blocks are arrays without names. scikit-learn would warn about this for each block.
    vars(model).pop("feature_names_in_", None)
    names = list(model.get_feature_names_out())
    n = n_nonzero = 0

    def codes() -> Iterator[Any]:
        nonlocal n, n_nonzero
        for block in vectors.blocks(len(names)):
            U = model.transform(block)
            n += block.shape[0]
            n_nonzero += int(np.count_nonzero(U.data if scipy.sparse.issparse(U) else U))
            yield U
        if not n:
            raise InvalidInputError(f"{args.X} has no rows of numbers.")

    write_vectors(args.output, codes(), names=names, sparse=True)
    if not args.quiet:
        zeros = 1 - n_nonzero / (n * len(names))
        print_line(f"{args.output}: codes of {n} vectors, {len(names)} columns, {zeros:.1%} zeros")


def decode(args: argparse.Namespace) -> None:
    """Reconstruct vectors from the codes in a file, one block of rows at a time."""
    _check_output(args.output, args.codes, args.model, table=True)
    model, _ = _describe_network(args.model)
    _set_parameter(model, "transform_algorithm", args.transform_algorithm)
    _set_parameter(model, "split_sign", args.split_sign)
    codes = _open(args, args.codes)
    check_columns(codes, len(model.get_feature_names_out()))
    names = getattr(model, "feature_names_in_", None)
    n = 0

    def decoded() -> Iterator[Any]:
        nonlocal n
        for U in codes.blocks(model.n_features_in_):
            n += U.shape[0]
            yield model.inverse_transform(U)
        if not n:
            raise InvalidInputError(f"{args.codes} has no rows of numbers.")

    write_vectors(args.output, decoded(), names=None if names is None else list(names))
    if not args.quiet:
        print_line(f"{args.output}: {n} vectors, {model.n_features_in_} features")


def _set_parameter(model: Any, name: str, value: Any) -> None:
    """Set a parameter of the model to the value of the option of this name, if it was given."""
    if value is None:
        return
    if name not in model.get_params():
        option = f"--{name.replace('_', '-')}"
        raise InvalidInputError(
            f"{type(model).__name__} has no parameter {name}; leave {option} out."
        )
    model.set_params(**{name: value})


def _check_applicable(model: Any, args: argparse.Namespace) -> None:
    """Check that the options of ``encode`` have an effect for this model."""
    algorithm, mode = (getattr(model, n, "") for n in ("transform_algorithm", "threshold_mode"))
    for option, value, modes, others in (
        ("--threshold", args.threshold, ("hard", "soft"), ()),
        ("--transform-n-nonzero-coefs", args.transform_n_nonzero_coefs, ("top_k",), GREEDY),
    ):
        applies = algorithm in others or (algorithm == "encoder" and mode in modes)
        if value is not None and not applies:
            raise InvalidInputError(
                f"{option} applies to transform_algorithm encoder with threshold_mode"
                f" {' or '.join(modes)}, but this model has {algorithm} with {mode}; leave"
                f" {option} out."
            )


def _check_output(output: str, *inputs: str, table: bool = False) -> None:
    """Check that the output can be written, before any time is spent on its contents."""
    if table and file_format(output) == "parquet":
        import_pyarrow()
    check_output_path(output)
    for path in inputs:
        if os.path.exists(output) and os.path.exists(path) and os.path.samefile(output, path):
            raise InvalidInputError(
                f"the output must not be the input {path}; choose another name for the output."
            )


def info(args: argparse.Namespace) -> None:
    """Print information about a model file, one line or JSON member per fact."""
    facts = _facts(args.model)
    if args.json:
        print(json.dumps(facts, indent=2))
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        print_line(f"{name.replace('_', ' '):{width}}  {_short_text(value)}")


def _describe_network(path: str) -> tuple[Any, dict[str, Any]]:
    """Load a network, and information about its file. Files of pipelines raise an error."""
    model, about = describe(path)
    if not isinstance(model, SCNN | MiniBatchSCNN):
        raise InvalidInputError(
            f"{path} must contain a network, such as lincode fit writes, but it contains a"
            f" {type(model).__name__}; use lincode.load in Python."
        )
    return model, about


def _facts(path: str) -> dict[str, Any]:
    """Return the facts that ``info`` prints, in this order."""
    model, about = _describe_network(path)
    m, p = model.components_.shape
    usage = getattr(model, "usage_", None)
    has_modes = hasattr(model, "threshold_mode")
    top_k = has_modes and model.threshold_mode == "top_k"
    facts = {
        "model": type(model).__name__,
        "components": m,
        "features": p,
        "dtype": str(model.components_.dtype),
        "alpha": getattr(model, "alpha_", model.alpha),
        "density": None if usage is None else usage.mean(),
        "transform_algorithm": getattr(model, "transform_algorithm", None),
        "encoder_weight": getattr(model, "encoder_weight", None),
        "encoder_ridge": getattr(model, "encoder_ridge_", None),
        "encoder_r2": getattr(model, "encoder_r2_", None),
        "threshold_mode": getattr(model, "threshold_mode", None),
        "threshold": None if top_k else getattr(model, "threshold_", None),
        "matching_threshold": getattr(model, "matching_threshold_", None),
        "matching_density": getattr(model, "matching_density_", None),
        "n_nonzero_coefs": model.n_nonzero_coefs_ if top_k else None,
        "decoder": hasattr(model, "decoder_") if has_modes else None,
        "refined": hasattr(model, "refined_encoder_") if has_modes else None,
        "energy": model.energy_,
        "iterations": model.n_iter_,
        "stop_reason": model.stop_reason_,
        "feature_names": getattr(model, "feature_names_in_", None),
        "format": about["format"],
        "saved": about["saved"],
        "versions": about["versions"],
        "left_out": about["left_out"] or None,
        "file_bytes": os.path.getsize(path),
        "parameters": model.get_params(),
    }
    return {name: _json_value(value) for name, value in facts.items() if value is not None}


def _json_value(value: Any) -> Any:
    """Convert arrays to lists, and infinity, which JSON cannot represent, to text."""
    if isinstance(value, dict):
        return {name: _json_value(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_json_value(entry) for entry in value]
    if isinstance(value, np.ndarray | np.generic):
        return _json_value(value.tolist())
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _short_text(value: Any) -> str:
    """Return a value as text, with at most five entries of a list."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_short_text(entry)}" for name, entry in value.items())
    if isinstance(value, list):
        if value and isinstance(value[0], list):
            return f"{len(value)} lists of {len(value[0])}"
        return ", ".join(map(_short_text, value[:5])) + (", ..." if len(value) > 5 else "")
    return str(value)
