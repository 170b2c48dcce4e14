"""The command line: ``lincode fit``, ``encode``, ``decode`` and ``info``.

Arrays are npy files (memory-mapped) or sparse npz files, and tables are read by pyarrow in batches.
"""

from __future__ import annotations

import argparse
import inspect
import json
import math
import os
import re
import shlex
import signal
import sys
import tempfile
import threading
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
import scipy.sparse

import lincode
from lincode import SCNN, Iteration, MiniBatchSCNN
from lincode.exceptions import InvalidInputError, MissingDependencyError
from lincode.io import atomic_write, load, output_path, save

FORMATS = ("npy", "npz", "csv", "parquet")
INPUTS = "npy, npz (sparse), csv, csv.gz, parquet, or a folder of csv or parquet files"
OUTPUTS = "the file to write: npy, npz (sparse), csv or parquet"
NO_OPTIONS = {"callback", "dict_init", "sparse_output", "verbose", "warm_start"}
ENCODE_OPTIONS = {"split_sign", "n_jobs"}
SHORT_OPTIONS = {"n_components": ["-m"], "transform_algorithm": ["--algorithm"]}
BLOCK_BYTES = 2**25
"""The rows of a block and their codes need about this much memory."""
PROGRESS_SECONDS = 2.0
"""The time between two lines of progress, and the compile time from which a line is printed."""
MAX_BYTES = 4e9
"""SCNN is not used by default if the data and their codes need more memory."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 2 for invalid input or 130 after Ctrl-C."""
    argv = sys.argv[1:] if argv is None else argv
    args = build_parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: print_message(f"warning: {message}")
            # Blocks are arrays without names. The columns were chosen by their names.
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            args.func(args)
            sys.stdout.flush()
    except KeyboardInterrupt:
        print_message(_interrupted(args, shlex.join(["lincode", *argv])))
        return 130
    except (InvalidInputError, MissingDependencyError, OSError, MemoryError) as error:
        print_message(str(error) or type(error).__name__)
        return 2
    return 0


def _interrupted(args: argparse.Namespace, command: str) -> str:
    """Return what was saved before Ctrl-C, and the command that continues."""
    if args.func is not fit:
        return "interrupted, and nothing was written."
    if not args.checkpoint or not os.path.exists(args.checkpoint):
        return "interrupted, and nothing was saved. With --checkpoint FILE a training can continue."
    return f"interrupted. The network {_saved(args.checkpoint)}. To continue: {command}"


def _saved(path: str) -> str:
    return f"was saved to {path} on {time.ctime(os.path.getmtime(path))}"


def run() -> NoReturn:
    """Run the command of this process and exit with its exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and delete temporary files
    sys.exit(main())


def print_message(text: str) -> None:
    """Print a message as one line to stderr."""
    print(f"lincode: {' '.join(text.split())}", file=sys.stderr)


def progress_printer(args: argparse.Namespace) -> Callable[[object], None]:
    """Return a function that prints its argument if the last time was two seconds ago."""
    last = time.monotonic()

    def show(text: object) -> None:
        nonlocal last
        if not args.quiet and time.monotonic() - last >= PROGRESS_SECONDS:
            last = time.monotonic()
            print(text, file=sys.stderr, flush=True)

    return show


@contextmanager
def announced_compilation(args: argparse.Namespace) -> Iterator[None]:
    """Print a line two seconds after functions began to be compiled."""
    from numba.core import event

    text = "functions are compiled for this machine, which is done once ..."
    timer = threading.Timer(PROGRESS_SECONDS, print_message, [text])

    class Listener(event.Listener):
        def on_start(self, event: object) -> None:
            if not args.quiet and timer.ident is None:
                timer.start()

        def on_end(self, event: object) -> None:
            pass

    try:
        with event.install_listener("numba:compile", Listener()):
            yield
    finally:
        timer.cancel()


class CommandParser(argparse.ArgumentParser):
    """A parser that prints one line for an invalid command line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; {self.prog} --help lists the options.\n")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of ``lincode``. The function of a command is stored as ``func``."""
    parser = CommandParser(prog="lincode", description="Learn sparse codes of vectors.")
    parser.add_argument("--version", action="version", version=f"lincode {lincode.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(
        func: Callable[..., None], *, model: str = "", X: str = "", output: str = ""
    ) -> Any:
        text = (func.__doc__ or "").partition("\n")[0]
        added = commands.add_parser(func.__name__, help=text, description=text)
        added.set_defaults(func=func)
        if model:
            added.add_argument("model", help=model)
        if X:
            added.add_argument("X", help=f"{X}, one per row: {INPUTS}")
            added.add_argument("-o", "--output", required=True, metavar="FILE", help=output)
            _add_table_options(added)
        return added

    add = command(fit, X="the vectors", output="the model file to write").add_argument
    text = "train MiniBatchSCNN instead of SCNN (default: if the data are large)"
    add("--minibatch", action=argparse.BooleanOptionalAction, help=text)
    text = "save the model regularly to this file, and continue from it if it exists"
    add("--checkpoint", metavar="FILE", help=text)
    text = "the least time between two checkpoints (default: 60)"
    add("--checkpoint-every", type=float, default=60.0, metavar="SECONDS", help=text)
    _add_parameters(add, lambda name: name not in NO_OPTIONS)
    model = "a file that fit or lincode.save wrote"
    add = command(encode, model=model, X="the vectors", output=OUTPUTS).add_argument
    _add_parameters(add, lambda name: name in ENCODE_OPTIONS or name.startswith("transform_"))
    add = command(decode, model=model, X="the codes", output=OUTPUTS).add_argument
    _add_parameters(add, lambda name: name == "split_sign")
    command(info, model=model).add_argument("--json", action="store_true", help="print JSON")
    return parser


def _add_table_options(parser: argparse.ArgumentParser) -> None:
    add: Any = parser.add_argument
    names = {"type": lambda text: text.split(","), "metavar": "A,B,...", "default": []}
    add("--columns", **names, help="columns of a table to read, in this order (default: all)")
    add("--exclude", **names, help="columns of a table to leave out, such as a label")
    add("--no-header", action="store_true", help="the first row of csv files contains numbers")
    add("--dtype", choices=("float32", "float64"), help="type of the numbers of a table")
    add("-q", "--quiet", action="store_true", help="print only errors and warnings")


def _add_parameters(add: Callable[..., Any], chosen: Callable[[str], bool]) -> None:
    """Add an option for each chosen parameter of the estimators, with help of their docstrings."""
    for name, (cls, default) in estimator_parameters().items():
        if not chosen(name):
            continue
        found = re.search(rf"^{name} : (.+)$", inspect.getdoc(cls) or "", re.MULTILINE)
        options: dict[str, Any] = {"help": found[1].replace("%", "%%") if found else None}
        options["default"] = 0 if name == "random_state" else argparse.SUPPRESS
        if isinstance(default, bool):
            options["action"] = argparse.BooleanOptionalAction
        else:
            options |= {"type": parse_value, "metavar": "VALUE"}
        add(*SHORT_OPTIONS.get(name, []), f"--{name.replace('_', '-')}", dest=name, **options)


def estimator_parameters() -> dict[str, tuple[type, Any]]:
    """Return the estimator and the default value of each parameter of SCNN and MiniBatchSCNN."""
    classes = ((cls, inspect.signature(cls).parameters) for cls in (MiniBatchSCNN, SCNN))
    return {name: (cls, found[name].default) for cls, found in classes for name in found}


def parse_value(text: str) -> float | str | None:
    """Return a number, None or text. The estimators check it."""
    if text.lower() == "none":
        return None
    try:
        return float(text) if re.search("[.einf]", text.lower()) else int(text)
    except ValueError:
        return text


def given_parameters(args: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of the estimators that were given as options."""
    return {name: value for name, value in vars(args).items() if name in estimator_parameters()}


@dataclass
class Rows:
    """The rows of a file: an array or a CSR matrix, or a table that is read in record batches."""

    shape: tuple[int, int]
    dtype: Any
    X: Any = None
    batches: Callable[[], Iterator[Any]] | None = None
    names: list[str] | None = None

    def blocks(self, n_outputs: int) -> Iterator[Any]:
        """Yield blocks of rows, which need about BLOCK_BYTES with ``n_outputs`` more columns."""
        n = 0
        for block in self._blocks(n_outputs):
            is_sparse = scipy.sparse.issparse(block)
            if np.isinf(block.data if is_sparse else block).any():
                entries = block.toarray() if is_sparse else block
                row, column = np.argwhere(np.isinf(entries))[0]
                name = self.names[column] if self.names else column
                raise InvalidInputError(f"row {n + row}, column {name}, is infinite; correct it.")
            yield block
            n += block.shape[0]

    def _blocks(self, n_outputs: int) -> Iterator[Any]:
        size = max(1, BLOCK_BYTES // (8 * (self.shape[1] + n_outputs)))
        if self.batches is None:
            X = self.X if scipy.sparse.issparse(self.X) else np.asarray(self.X)
            yield from (X[start : start + size] for start in range(0, self.shape[0], size))
            return
        parts: list[Any] = []
        for batch in self.batches():
            parts.append(batch)
            if sum(map(len, parts)) >= size:
                yield np.concatenate(parts)
                parts = []
        if parts:
            yield np.concatenate(parts)


def file_format(path: str) -> str:
    """Return the format of a file by its name, or that of the first file in a folder."""
    if Path(path).is_dir():
        files = sorted(file for file in Path(path).rglob("[!._]*") if file.is_file())
        return file_format(str(files[0]).removesuffix(".gz")) if files else "parquet"
    suffix = path.lower().rpartition(".")[2]
    if suffix not in FORMATS:
        raise InvalidInputError(f"the name must end with .{', .'.join(FORMATS)}, got {path}.")
    return suffix


def open_rows(path: str, args: argparse.Namespace, columns: Sequence[str] = ()) -> Rows:
    """Open a file of vectors. ``columns`` are read from a table unless ``args`` chooses others."""
    form = file_format(path.removesuffix(".gz"))
    if form in ("csv", "parquet"):
        rows = _open_table(path, form, args, columns)
    else:
        X = scipy.sparse.load_npz(path).tocsr() if form == "npz" else np.load(path, mmap_mode="r")
        rows = Rows(X.shape, X.dtype, X)
        if args.columns or args.exclude:
            raise InvalidInputError("--columns and --exclude apply to tables; leave them out.")
    if len(rows.shape) != 2 or 0 in rows.shape:
        raise InvalidInputError(f"there must be rows and columns, got the shape {rows.shape}.")
    return rows


def _are_numbers(names: Sequence[str]) -> bool:
    """Return whether all names are numbers, but not all integers, which pandas uses as names."""
    try:
        return bool(np.isfinite([float(name) for name in names]).all()) and not all(
            name.isdecimal() for name in names
        )
    except ValueError:
        return False


def _open_table(path: str, form: str, args: argparse.Namespace, columns: Sequence[str]) -> Rows:
    """Open a table with pyarrow. Numbers are float32 if all columns are, and float64 otherwise."""
    pa: Any = import_pyarrow()
    options = pa.csv.ReadOptions(autogenerate_column_names=args.no_header)
    reader = pa.dataset.CsvFileFormat(read_options=options) if form == "csv" else form
    schema = pa.dataset.dataset(path, format=reader).schema
    names = args.columns or [*columns] or [n for n in schema.names if n not in args.exclude]
    if unknown := ", ".join(sorted({*names, *args.exclude} - set(schema.names))):
        raise InvalidInputError(f"there is no column {unknown}; check the names.")
    if form == "csv" and not args.no_header and _are_numbers(schema.names):
        raise InvalidInputError("the first row must contain names of columns; add --no-header.")
    if "" in names:
        raise InvalidInputError(
            "a column has no name, such as an index that pandas wrote; name the columns to use"
            " by --columns, or write the file without the index."
        )
    if text := [name for name in names if not _is_number(pa.types, schema.field(name).type)]:
        excluded = ",".join([*args.exclude, *text])
        raise InvalidInputError(f"columns must be numbers; leave others out: --exclude {excluded}")
    others = [name for name in schema.names if name not in {*names, *args.exclude}]
    if others and len(columns) and not (args.columns or args.quiet):
        more = f" and {len(others) - 5} others" * (len(others) > 5)
        print_message(f"columns that the model does not use: {', '.join(others[:5])}{more}")
    single = all(schema.field(name).type == pa.float32() for name in names)
    dtype = np.dtype(args.dtype or ("float32" if single else "float64"))
    # Types are given, because those that pyarrow infers from the first rows of a text may be wrong.
    types = dict.fromkeys(names, pa.float64())
    table = pa.dataset.dataset(path, schema=pa.schema(types.items()), format=reader)
    convert = pa.csv.ConvertOptions(include_columns=names, column_types=types)

    def batches() -> Iterator[Any]:
        for file in table.files:  # The batches of a dataset would be read far ahead.
            if form == "csv":
                opened = pa.csv.open_csv(file, read_options=options, convert_options=convert)
            else:
                opened = pa.parquet.ParquetFile(file, pre_buffer=False)
                opened = opened.iter_batches(2**13, columns=names)
            for batch in opened:
                columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in names]
                yield np.column_stack(columns).astype(dtype, copy=False)

    shape = (table.count_rows(), len(names))
    return Rows(shape, dtype, None, batches, None if args.no_header else names)


def _is_number(types: Any, kind: Any) -> bool:
    tests = types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null
    return any(test(kind) for test in tests)


def import_pyarrow() -> Any:
    """Return pyarrow with its modules for tables."""
    try:
        import pyarrow.csv
        import pyarrow.dataset
        import pyarrow.parquet
    except ImportError as error:
        raise MissingDependencyError("tables need pyarrow: pip install 'lincode[cli]'.") from error
    return pyarrow


@contextmanager
def named_errors(path: str) -> Iterator[None]:
    """Add the name of a file to the errors of the libraries and estimators that read it."""
    try:
        yield
    except FileNotFoundError as error:
        raise InvalidInputError(f"{path} does not exist.") from error
    except (ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidInputError(f"{path}: {error}") from error


def write_rows(path: str, blocks: Iterator[Any], n_rows: int, names: Sequence[str]) -> None:
    """Write blocks of rows, one at a time. The file is written completely or not at all."""
    form, shape = file_format(path), (n_rows, len(names))
    with atomic_write(path) as file:
        if form == "npy":
            for block in blocks:
                if file.tell() == 0:
                    header = np.lib.format.header_data_from_array_1_0(np.ascontiguousarray(block))
                    np.lib.format.write_array_header_1_0(file, header | {"shape": shape})
                file.write(np.ascontiguousarray(block).data)
        elif form == "npz":
            _write_sparse(file, blocks, shape)
        else:
            _write_table(file, blocks, form, list(names))


def _write_sparse(file: BinaryIO, blocks: Iterator[Any], shape: tuple[int, int]) -> None:
    """Write a file of ``scipy.sparse.save_npz``. Its members are temporary files until the end."""
    dtypes: dict[str, Any] = {"data": np.float64, "indices": np.int32, "indptr": np.int64}
    with ExitStack() as stack:
        folder = Path(file.name).parent
        parts = {name: stack.enter_context(tempfile.TemporaryFile(dir=folder)) for name in dtypes}
        last = np.zeros(1, np.int64)
        parts["indptr"].write(last.data)
        for block in map(scipy.sparse.csr_array, blocks):
            dtypes["data"], indptr = block.dtype, last[-1] + block.indptr[1:].astype(np.int64)
            parts["data"].write(block.data.data)
            parts["indices"].write(block.indices.astype(np.int32).data)
            parts["indptr"].write(indptr.data)
            last = indptr
        members: dict[str, Any] = {
            name: np.memmap(part, dtypes[name], "r") if part.tell() else np.empty(0, dtypes[name])
            for name, part in parts.items()
        }
        np.savez_compressed(file, **members, shape=np.array(shape), format=np.array(b"csr"))


def _write_table(file: BinaryIO, blocks: Iterator[Any], form: str, names: list[str]) -> None:
    pa = import_pyarrow()
    cls = pa.parquet.ParquetWriter if form == "parquet" else pa.csv.CSVWriter
    with ExitStack() as stack:
        writer = None
        for block in blocks:
            table = pa.table([pa.array(column) for column in block.T.copy()], names=names)
            writer = writer or stack.enter_context(cls(file, table.schema))
            writer.write_table(table)


def fit(args: argparse.Namespace) -> None:
    """Learn a model from a file of vectors."""
    if output_path(args.output).suffix[1:] in FORMATS:
        raise InvalidInputError(f"{args.output} is the name of a table; name a model *.skops.")
    with named_errors(args.X), announced_compilation(args):
        rows = open_rows(args.X, args)
        if rows.names:
            _warn_about_scales(next(rows.blocks(0)), rows.names)
        model = _trained(args, rows)
    if rows.names is not None:
        model.feature_names_in_ = np.array(rows.names, dtype=object)
    save(model, args.output)
    if args.checkpoint:
        Path(args.checkpoint).unlink(missing_ok=True)
    if not args.quiet:
        print(f"{args.output}: {type(model).__name__}, {len(model.components_)} components")


def _warn_about_scales(X: Any, names: Sequence[str]) -> None:
    """Warn if the largest values of columns differ by more than a factor of a thousand."""
    values = np.fmax.reduce(np.abs(X), axis=0)
    found = sorted((value, name) for value, name in zip(values, names, strict=True) if value > 0)
    if found and found[-1][0] > 1000 * found[0][0]:
        values = " and ".join(f"{value:.3g} in {name}" for value, name in (found[-1], found[0]))
        text = f"the largest values of columns are as different as {values}, and small columns"
        print_message(f"warning: {text} have little effect; scale them first (StandardScaler).")


def _trained(args: argparse.Namespace, rows: Rows) -> Any:
    """Return a fitted model, which continues from the checkpoint if there is one."""
    cls, options = _model_class(args, rows), given_parameters(args)
    if unknown := sorted(set(options) - set(inspect.signature(cls).parameters)):
        raise InvalidInputError(f"{cls.__name__} has no parameter {unknown[0]}; leave it out.")
    continues = bool(args.checkpoint) and os.path.exists(args.checkpoint)
    model = load(args.checkpoint) if continues else cls()
    if continues and not args.quiet:
        print_message(f"training continues with the network that {_saved(args.checkpoint)}.")
    if type(model) is not cls:
        problem = f"the checkpoint contains {type(model).__name__}, but this is {cls.__name__}"
        raise InvalidInputError(f"{problem}; delete it or use the options that it was made with.")
    warm = {"warm_start": continues} if "warm_start" in model.get_params() else {}
    model.set_params(**options, **warm, callback=_callback(args))
    if cls is MiniBatchSCNN and (rows.X is None or (continues and not warm)):
        _fit_blocks(model, rows)
    else:
        model.fit(np.concatenate(list(rows.blocks(0))) if rows.X is None else rows.X)
    return model.set_params(callback=None, **dict.fromkeys(warm, False))


def _fit_blocks(model: Any, rows: Rows) -> None:
    """Learn from the blocks of a file, in passes until the mean energy of a pass is stable.

    A model that has seen rows before continues with the row after the last one. When batches refine
    the network, its error replaces the energy. If there were too few rows for that, the network is
    refined on the largest block at the end.
    """
    (n, p), seen = rows.shape, getattr(model, "n_samples_seen_", 0)
    levels = {False: math.inf, True: math.inf}
    for _ in range(seen // n, model.max_iter):
        seen, start = seen % n, len(getattr(model, "energy_path_", ()))
        for block in rows.blocks(model.n_components or p):
            if seen < block.shape[0]:
                model.partial_fit(block[seen:])
            seen = max(0, seen - block.shape[0])
        refines = len(model.energy_path_) == start
        level = 1 - model.encoder_r2_ if refines else float(np.mean(model.energy_path_[start:]))
        if level >= (1 - model.tol) * levels[refines]:
            break
        levels[refines] = level
    if model.refine and len(model.energy_path_) == model.n_steps_:
        model.calibrate(max(rows.blocks(model.n_components or p), key=lambda X: X.shape[0]))


def _model_class(args: argparse.Namespace, rows: Rows) -> Any:
    """Return SCNN, or MiniBatchSCNN if its options are given or if the data are large."""
    if args.minibatch is not None:
        return MiniBatchSCNN if args.minibatch else SCNN
    (n, p), m = rows.shape, getattr(args, "n_components", None)
    m = m if isinstance(m, int) else p  # the estimator refuses other values
    n_numbers = 1.5 * rows.X.nnz if scipy.sparse.issparse(rows.X) else n * p
    is_large = (n_numbers + 2 * n * m) * (4 if rows.dtype == np.float32 else 8) > MAX_BYTES
    only_minibatch = set(given_parameters(args)) - set(inspect.signature(SCNN).parameters)
    return MiniBatchSCNN if is_large or only_minibatch else SCNN


def _callback(args: argparse.Namespace) -> Callable[[Iteration], None]:
    """Return a function that prints the progress and writes the checkpoint."""
    checkpoint, show = None, progress_printer(args)
    if args.checkpoint:
        from lincode.callbacks import Checkpoint

        checkpoint = Checkpoint(args.checkpoint, args.checkpoint_every)

    def call(iteration: Iteration) -> None:
        show(iteration)
        if checkpoint is not None:
            checkpoint(iteration)

    return call


def encode(args: argparse.Namespace) -> None:
    """Compute the codes of vectors."""
    model = _load_model(args)
    if "sparse_output" in model.get_params():
        model.set_params(sparse_output=file_format(args.output) == "npz")
    columns, names = getattr(model, "feature_names_in_", ()), model.get_feature_names_out()
    _convert(args, model.transform, columns, names)


def decode(args: argparse.Namespace) -> None:
    """Reconstruct vectors from codes."""
    model = _load_model(args)
    names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.n_features_in_)])
    _convert(args, model.inverse_transform, (), names)


def _load_model(args: argparse.Namespace) -> Any:
    """Load the model, and change the parameters that were given as options."""
    if str(output_path(args.output)) in map(os.path.realpath, (args.X, args.model)):
        raise InvalidInputError(f"{args.output} would be overwritten; choose another output file.")
    file_format(args.output)
    model = load(args.model)
    with named_errors(args.model):
        if not hasattr(model, "transform") or not hasattr(model, "inverse_transform"):
            name = type(model).__name__
            raise InvalidInputError(f"this {name} computes no codes; save its steps up to SCNN.")
        return model.set_params(**given_parameters(args))


def _convert(args: Any, convert: Callable[[Any], Any], columns: Any, names: Any) -> None:
    """Write the results of a method for all rows of a file."""
    with named_errors(args.X), announced_compilation(args):
        rows, show = open_rows(args.X, args, columns), progress_printer(args)

        def results() -> Iterator[Any]:
            n = 0
            for block in rows.blocks(len(names)):
                yield convert(block)
                n += block.shape[0]
                show(f"{n} of {rows.shape[0]} rows")

        write_rows(args.output, results(), rows.shape[0], names)
    if not args.quiet:
        print(f"{args.output}: {rows.shape[0]} rows, {len(names)} columns")


def info(args: argparse.Namespace) -> None:
    """Print information about a model file: fitted attributes and parameters."""
    model = load(args.model)
    facts: dict[str, Any] = {"model": type(model).__name__}
    for name, value in vars(model).items():
        if isinstance(value, np.ndarray):
            facts[name] = f"array of {value.dtype}, shape {value.shape}"
        elif name.endswith("_"):
            facts[name] = value.item() if isinstance(value, np.generic) else value
    facts |= model.get_params()
    if args.json:
        print(json.dumps(facts, indent=2, default=str))
    else:
        print("\n".join(f"{name:{max(map(len, facts))}}  {facts[name]}" for name in facts))
