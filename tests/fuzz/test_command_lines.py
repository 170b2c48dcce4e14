"""Random command lines of ``lincode``, with good and bad files.

A command succeeds, or it prints one sentence, writes nothing and changes no file.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import os
import re
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from lincode import SAANN, SCNN, MiniBatchSCNN, load, save
from lincode.cli import main
from lincode.exceptions import InvalidInputError
from lincode.vectors import read_vectors, write_vectors
from tests.fuzz.cases import fuzz, note_refusal
from tests.fuzz.damage import ByteChange, apply_changes, byte_changes
from tests.fuzz.scratch import scratch_folder
from tests.fuzz.watching import watched

M, P = 4, 3
X = np.random.default_rng(0).standard_normal((30, P)).round(3)
OLD = b"This file existed before."
SUFFIXES = ("npy", "npz", "csv", "tsv", "csv.gz", "parquet")
MODELS = ("scnn.model", "batches.model", "saann.model", "damaged.model", "X.npy", "nothing", "")
TABLES = (
    *(f"X.{suffix}" for suffix in SUFFIXES),
    *("X.npy", "codes.npy", "sparse.npz", "two.npz", "wide.npy", "folder", "empty", "-"),
    *("nan.csv", "ragged.csv", "names.csv", "label.csv", "one.csv", "zeros.npy", "text.npy"),
    *("bomb.csv.gz", "damaged.npz", "damaged.parquet", "empty.csv", "nothing.npy", "X.txt", ""),
    *("scnn.model", "large.npy", "pipe.npy", "\udcff.npy"),
)
OUTPUTS = (
    *("out.npy", "out.npz", "out.csv", "out.tsv.gz", "out.parquet", "out.model", "old.npy"),
    *("old.csv", "old.model", "folder", "missing/out.npy", "X.npy", "scnn.model", "out.txt", ""),
    *("readonly/out.npy", "link.npy"),
)


@functools.cache
def folder() -> Path:
    """Return a folder with all files that command lines may name."""
    path = scratch_folder("command-lines")
    with warnings.catch_warnings(), contextlib.chdir(path):
        warnings.simplefilter("ignore")
        _write_tables()
        model: Any = SCNN(M, 0.2, random_state=0, tol=1e-2).fit(X)
        save(model, "scnn.model")
        np.save("codes.npy", model.transform(X))
        save(MiniBatchSCNN(M, 0.2, random_state=0, max_iter=2).fit(X), "batches.model")
        save(SAANN(M, 0.01, max_iter=2, random_state=0).fit(X), "saann.model")
        data = Path("scnn.model").read_bytes()
        Path("damaged.model").write_bytes(data[:100] + b"x" + data[101:])
        for name in ("old.npy", "old.csv", "old.model"):
            Path(name).write_bytes(OLD)
        os.mkfifo("pipe.npy")
        Path("link.npy").symlink_to("link-target.npy")
    return path


def _write_tables() -> None:
    for suffix in SUFFIXES:
        write_vectors(f"X.{suffix}", [X])
    Path("folder").mkdir()
    write_vectors("folder/1.parquet", [X])
    Path("empty").mkdir()
    Path("readonly").mkdir(mode=0o500)
    scipy.sparse.save_npz("sparse.npz", scipy.sparse.csc_matrix(X * (X > 0)))
    np.savez("two.npz", X=X, y=X[:, :2])
    np.save("wide.npy", np.tile(X, 3))
    np.save("zeros.npy", np.zeros((5, P)))
    np.save("large.npy", X * 1e200)
    np.save("text.npy", np.array([["a", "b"]]))
    Path("nan.csv").write_text("a,b,c\n1,2,3\n1,nan,3\n")
    Path("ragged.csv").write_text("1,2,3\n1,2\n")
    Path("names.csv").write_text("a,b,a\n1,2,3\n")
    Path("label.csv").write_text("a,label,b,c\n" + "1,x,2,3\n4,y,5,7\n" * 5)
    Path("one.csv").write_text("1,2,3\n")
    Path("empty.csv").write_text("")
    Path("X.txt").write_text("1 2 3\n")
    Path("bomb.csv.gz").write_bytes(gzip.compress(b"0,0,0\n" * 200_000, 9))
    for suffix in ("npz", "parquet"):
        data = Path(f"X.{suffix}").read_bytes()
        Path(f"damaged.{suffix}").write_bytes(data[: len(data) // 2] + b"\0" + data[-90:])


@dataclass(frozen=True)
class Line:
    """A command line."""

    arguments: tuple[str, ...]

    @property
    def output(self) -> str:
        """The name after -o, or that of no file."""
        _, _, after = " ".join(self.arguments).partition(" -o ")
        return after.split(" ")[0] or "no output"


NUMBERS = ("1", "2", "3", "0", "-1", "0.5", "1e-3", "1e300", "nan", "inf", "x", "", "1" * 5000, "٣")
FIT_OPTIONS: dict[str, tuple[str, ...]] = {
    "-m": ("2", "4", "9", *NUMBERS),
    "--alpha": ("0.1*max", "mean", "2*mean", "x*max", *NUMBERS),
    "--max-iter": ("1", "3", *NUMBERS),
    "--tol": NUMBERS,
    "--random-state": NUMBERS,
    "--batch-size": ("5", "10", *NUMBERS),
    "--checkpoint-path": ("checkpoint", "old.npy", "folder", "missing/c", "out.model", ""),
    "--checkpoint-every": NUMBERS,
    "--dtype": ("float32", "float64", "int8"),
    "--encoder-weight": NUMBERS,
    "--encoder-ridge": ("auto", *NUMBERS),
    "--threshold-mode": ("hard", "soft", "top_k", "x"),
    "--refine-max-iter": ("2", *NUMBERS),
}
ENCODE_OPTIONS: dict[str, tuple[str, ...]] = {
    "--threshold": ("match", "alpha", *NUMBERS),
    "--transform-n-nonzero-coefs": NUMBERS,
    "--transform-tol": NUMBERS,
    "--algorithm": ("encoder", "exact", "lasso", "omp", "ols", "x"),
}
COMMON_OPTIONS: dict[str, tuple[str, ...]] = {
    "--key": ("X", "y", "z", ""),
    "--columns": ("1", "1,2,3", "a,b,c", "3,2,1", "1,1", "9", ",", '"', "a,9" * 50, "\x1b[31m"),
    "--exclude": ("label", "2", "1,2,3", "x", ""),
    "--header": ("auto", "yes", "no", "x"),
    "--n-jobs": ("1", "2", "-1", "0", "x", "9" * 30),
    "--max-size": ("1MB", "1GB", "10", "x", "-1", "1" * 50, "1e3"),
}
FLAGS = {
    "fit": ("--positive-code", "--minibatch", "--no-minibatch", "--no-fit-gains", "--fit-decoder"),
    "encode": ("--positive-code", "--no-positive-code", "--split-sign", "--no-split-sign"),
    "decode": ("--split-sign", "--no-split-sign"),
    "info": ("--json",),
}
COMMANDS = ("fit", "encode", "decode", "info")
OPTIONS = {
    "fit": FIT_OPTIONS | ENCODE_OPTIONS | COMMON_OPTIONS,
    "encode": ENCODE_OPTIONS | COMMON_OPTIONS,
    "decode": {"--algorithm": ENCODE_OPTIONS["--algorithm"]} | COMMON_OPTIONS,
    "info": {},
}
SURE = {
    "fit": ("X.npy", "-m", "3", "--max-iter", "3", "-o", "out.model"),
    "encode": ("scnn.model", "X.npy", "-o", "out.npy"),
    "decode": ("scnn.model", "codes.npy", "-o", "out.csv"),
    "info": ("scnn.model",),
}
"""Arguments with which each command succeeds."""


@st.composite
def lines(draw: st.DrawFn) -> Line:
    """A command line, often one that succeeds except for one or two arguments."""
    command = draw(st.sampled_from(COMMANDS))
    arguments = list(SURE[command])
    if draw(st.booleans()):
        arguments[0] = draw(st.sampled_from(TABLES if command == "fit" else MODELS))
    if command in ("encode", "decode") and draw(st.booleans()):
        arguments[1] = draw(st.sampled_from(TABLES))
    if command != "info" and draw(st.booleans()):
        arguments[-1] = draw(st.sampled_from(OUTPUTS))
    for _ in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from(sorted(OPTIONS[command]) or ["--key"]))
        values = st.sampled_from(OPTIONS[command].get(name, ("x",)))
        arguments += [name, draw(values)]
    if draw(st.booleans()):
        arguments.append(draw(st.sampled_from((*FLAGS[command], "-q"))))
    if draw(st.integers(0, 9)) == 0:
        del arguments[draw(st.integers(0, len(arguments) - 1))]
    if draw(st.integers(0, 19)) == 0:
        command = draw(st.sampled_from(["", "x", "--version", "--help", "-"]))
    return Line((command, *arguments))


def files() -> dict[str, Any]:
    """Return the contents of all files in the folder, also of hidden ones."""
    found: dict[str, Any] = {}
    for path in sorted(Path(".").rglob("*")):
        if path.is_symlink():
            continue
        found[str(path)] = path.read_bytes() if path.is_file() else path.is_dir()
    return found


def run(line: Line, stdin: bytes) -> tuple[int, str, str]:
    """Return the exit code and what was printed."""
    out, err = io.StringIO(), io.StringIO()
    stream = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "stdin", stream),
        watched(),
    ):
        try:
            code = main(line.arguments)
        except SystemExit as error:  # of argparse
            code = int(error.code or 0)
    return code, out.getvalue(), err.getvalue()


def check_line(line: Line, stdin: bytes = b"") -> None:
    """Run a command line and check what it prints and writes."""
    with contextlib.chdir(folder()):
        before = files()
        code, out, err = run(line, stdin)
        after = files()
        assert code in (0, 2), (code, err)
        check_printed(code, out, err)
        changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
        if code == 0:
            assert changed <= {os.path.relpath(os.path.realpath(line.output))}, changed
            if changed:
                check_output(line)
        else:
            note_refusal(InvalidInputError())
            assert not changed, changed
        for name in changed:  # as they were, for the next example
            Path(name).unlink(missing_ok=True)
            if name in before:
                Path(name).write_bytes(before[name])


def check_printed(code: int, out: str, err: str) -> None:
    """Everything is printable, and an error is one sentence after the warnings."""
    assert all(line.isprintable() for line in (out + err).splitlines())
    assert "Traceback" not in err
    lines = [line for line in err.splitlines() if not line.startswith("lincode: warning: ")]
    if code == 0:
        assert not [line for line in lines if line.startswith("lincode: error")]
        return
    assert out == ""
    errors = [line for line in lines if re.match(r"lincode( \w+)?: ", line)]
    assert len(errors) == 1, err
    assert errors[0] == lines[-1]
    assert len(errors[0].split()) >= 4, err
    assert len(errors[0]) < 3000


def check_output(line: Line) -> None:
    """The output is complete and finite."""
    if line.arguments[0] == "fit":
        assert np.isfinite(load(line.output).components_).all()
        return
    table = read_vectors(line.output).X
    values = table.data if scipy.sparse.issparse(table) else table
    assert np.isfinite(values).all()


@given(lines(), st.sampled_from([b"", b"1,2,3\n4,5,7\n", b"a\tb\tc\n1\t2\t3\n", b"\xff\xfe"]))
@fuzz(60, part=2)
def test_command_lines(line: Line, stdin: bytes) -> None:
    check_line(line, stdin)


@given(st.sampled_from(SUFFIXES), st.sampled_from(["fit", "encode"]), byte_changes())
@fuzz(60, part=2)
def test_damaged_input(suffix: str, command: str, changes: list[ByteChange]) -> None:
    data = apply_changes((folder() / f"X.{suffix}").read_bytes(), changes)
    name = f"damaged-input.{suffix}"
    (folder() / name).write_bytes(data)
    arguments = [name if argument == "X.npy" else argument for argument in SURE[command]]
    check_line(Line((command, *arguments)))


def test_commands_that_must_succeed() -> None:
    for command in COMMANDS:
        with contextlib.chdir(folder()):
            code, _, err = run(Line((command, *SURE[command])), b"")
            assert code == 0, err
        check_line(Line((command, *SURE[command])))
