"""The parts that all commands share: help, version, error messages, exit codes, progress."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import lincode
from lincode import cli
from lincode.cli import main
from lincode.cli.commands import show_progress
from lincode.core.encoder_step import Thresholding, encode
from lincode.exceptions import EnergyIncreaseError, MissingDependencyError
from lincode.vectors import read_vectors


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], int]:
    """Return a function that runs another function as a command."""

    def run(function: Callable[[], Any]) -> int:
        parser = argparse.ArgumentParser()
        parser.set_defaults(func=lambda args: function())
        monkeypatch.setattr(cli, "build_parser", lambda: parser)
        return main([])

    return run


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    for name in ("fit", "encode", "decode", "info"):
        assert f"\n    {name}" in text
    text.encode("ascii")  # Every terminal can show it.


@pytest.mark.parametrize("name", ["fit", "encode", "decode", "info"])
def test_help_of_commands(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([name, "--help"])
    assert stopped.value.code == 0
    capsys.readouterr().out.encode("ascii")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"lincode {lincode.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["fit", "X.npy", "-o", "m", "--\x1b[31m"], r"unrecognized arguments: --\x1b[31m"),
    ],
)
def test_invalid_command_lines_are_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert capsys.readouterr().err == (
        f"lincode: {message}. Use lincode --help to list the arguments.\n"
    )


def raising(error: BaseException) -> Callable[[], None]:
    def function() -> None:
        raise error

    return function


def test_errors_in_the_input_are_printed_as_one_line(
    command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = Path("/missing/X.npy")
    for function, text in (
        (lambda: read_vectors("X.doc"), "the name of a file of vectors must end in .npy, .npz"),
        (lambda: read_vectors(missing), f"No such file or directory: {missing}.\n"),
        (missing.stat, f"No such file or directory: {missing}.\n"),
        (lambda: lincode.SCNN().fit([[np.inf]]), "Input X contains infinity"),
        (lambda: lincode.SCNN(tol=-1).fit([[1.0]]), "tol must be a finite number of at least 0"),
        (lambda: lincode.SCNN().transform([[1.0]]), "This SCNN instance is not fitted yet."),
        (raising(MissingDependencyError("a\npackage is missing.")), "a package is missing.\n"),
        (raising(MemoryError("9 TiB")), "not enough memory: 9 TiB. lincode fit --minibatch"),
    ):
        assert command(function) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"lincode: {text}")
        assert error.count("\n") == 1


@pytest.mark.parametrize(
    "bug",
    [
        lambda: np.ones(3) @ np.ones(4),
        lambda: encode(np.ones((2, 3)), np.ones((2, 4)), Thresholding()),
        lambda: __import__("a_module_that_does_not_exist"),
        raising(ValueError("a bug")),
        raising(TypeError("a bug")),
        raising(EnergyIncreaseError("a step increased the energy")),
        raising(OSError("an error without a number")),
        raising(KeyError("key")),
    ],
)
def test_bugs_keep_their_traceback(bug: Any, command: Any) -> None:
    with pytest.raises((ValueError, TypeError, ImportError, RuntimeError, OSError, KeyError)):
        command(bug)


def test_interruption(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(raising(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "lincode: interrupted.\n"


def test_warnings_are_printed_once_as_one_line(
    command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def warn() -> None:
        for _ in range(3):
            warnings.warn("SCNN: increase\n max_iter.", ConvergenceWarning, stacklevel=2)

    assert command(warn) == 0
    assert capsys.readouterr().err == "lincode: warning: SCNN: increase max_iter.\n"


def iteration(n: int, seconds: float) -> lincode.Iteration:
    return lincode.Iteration(n, 10, 0.5, 0.1, seconds)


def test_progress_is_printed_every_two_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(quiet=False) as show:
        assert show is not None
        for n in range(1, 8):
            show(iteration(n, 0.5 * n))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ["1/10", "5/10"]
    with show_progress(quiet=True) as show:
        assert show is None


def test_a_terminal_shows_one_line_that_is_updated(monkeypatch: pytest.MonkeyPatch) -> None:
    import rich.console

    shown: list[str] = []

    class Status:
        def __enter__(self) -> Status:
            return self

        def __exit__(self, *_: object) -> None:
            shown.append("end")

        def update(self, text: str) -> None:
            shown.append(text)

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(rich.console.Console, "status", lambda self, text: Status())
    with show_progress(quiet=False) as show:
        assert show is not None
        show(iteration(1, 0.1))
    assert shown == [str(iteration(1, 0.1)), "end"]


def test_a_terminal_without_rich_shows_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with show_progress(quiet=False) as show:
        assert show is not None
        show(iteration(1, 0.1))
    assert "iteration 1/10" in capsys.readouterr().err


@pytest.mark.slow
def test_as_a_program(tmp_path: Path) -> None:
    """Run Python processes, because warnings and tracebacks are printed differently there."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "lincode", *arguments]
        return subprocess.run(command, cwd=tmp_path, text=True, capture_output=True, check=False)

    np.save(tmp_path / "X.npy", np.random.default_rng(0).standard_normal((50, 4)))
    fit = run("fit", "X.npy", "-m", "5", "--max-iter", "1", "-o", "model")
    assert fit.returncode == 0
    assert fit.stdout.startswith("model: 50 vectors, 5 components, 4 features, alpha ")
    assert "lincode: warning: SCNN: max_iter was reached" in fit.stderr
    assert ".py:" not in fit.stderr
    bad = run("info", "X.npy")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.startswith("lincode: X.npy is not a model file")


@pytest.mark.slow
def test_a_reader_that_stops_reading() -> None:
    code = (
        "import sys; from lincode import cli;"
        "parser = __import__('argparse').ArgumentParser();"
        "parser.set_defaults(func=lambda args: print('x'));"
        "cli.build_parser = lambda: parser; sys.exit(cli.main([]))"
    )
    buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        process = subprocess.run(
            [sys.executable, "-c", code],
            stdout=closed,
            stderr=subprocess.PIPE,
            check=False,
            env=buffered,
        )
    assert process.returncode == 141
    assert process.stderr == b""
