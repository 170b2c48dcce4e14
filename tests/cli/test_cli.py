"""What all commands share: help, versions, sentences, exit codes."""

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
from sklearn.utils import check_array

import lincode
from lincode import cli
from lincode.cli import main, progress
from lincode.core.encoder_step import encode
from lincode.vectors import read_vectors


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], int]:
    """Run a function as if it were a command."""

    def run(function: Callable[[], Any]) -> int:
        parser = argparse.ArgumentParser()
        parser.set_defaults(func=lambda args: function() or 0)
        monkeypatch.setattr(cli, "_parser", lambda: parser)
        return main([])

    return run


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    for name in ("fit", "encode", "decode", "info", "data", "reproduce"):
        assert f"\n    {name}" in text
    text.encode("ascii")  # for any terminal


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


def test_no_command_is_an_error() -> None:
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 2


def raising(error: BaseException) -> Callable[[], None]:
    def function() -> None:
        raise error

    return function


def test_sentences_are_lines(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    nothing = Path("/nowhere/at/all.npy")
    for function, text in (
        (lambda: read_vectors(nothing), f"there is no file {nothing}.\n"),
        (nothing.stat, f"No such file or directory: {nothing}.\n"),
        (lambda: check_array([[np.nan]]), "Input contains NaN.\n"),
        (raising(MemoryError("9 TiB")), "the memory does not suffice: 9 TiB."),
    ):
        assert command(function) == 2
        assert capsys.readouterr().err.startswith(f"lincode: {text}")


@pytest.mark.parametrize(
    "bug",
    [
        lambda: np.ones(3) @ np.ones(4),  # a ValueError, but nobody's sentence
        lambda: __import__("a_module_that_is_not_there"),
        raising(ValueError("from elsewhere")),
        raising(lincode.EnergyRoseError("a step raised the energy")),
        raising(KeyError("key")),
    ],
)
def test_bugs_keep_their_traceback(bug: Any, command: Any) -> None:
    with pytest.raises((ValueError, ImportError, RuntimeError, KeyError)):
        command(bug)


def test_bugs_inside_lincode_keep_their_traceback(command: Any) -> None:
    """Raised in a line of ours, but not by us."""
    with pytest.raises(ValueError, match="mismatch"):
        command(lambda: encode(np.ones((2, 3)), np.ones((2, 4)), 0.1))


def test_interruption(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(raising(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "lincode: interrupted.\n"


def test_warnings_are_lines_said_once(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def warn() -> None:
        for _ in range(3):
            warnings.warn("SCNN: raise\n max_iter.", ConvergenceWarning, stacklevel=2)

    assert command(warn) == 0
    assert capsys.readouterr().err == "lincode: warning: SCNN: raise max_iter.\n"


def iteration(n: int, seconds: float) -> lincode.Iteration:
    return lincode.Iteration(n, 10, 0.5, 0.1, seconds)


def test_plain_lines_are_not_many(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress(quiet=False) as show:
        assert show is not None
        for n in range(1, 8):
            show(iteration(n, 0.5 * n))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ["1/10", "5/10"]
    with progress.progress(quiet=True) as show:
        assert show is None


def test_a_terminal_gets_one_live_line(monkeypatch: pytest.MonkeyPatch) -> None:
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
    with progress.progress(quiet=False) as show:
        assert show is not None
        show(iteration(1, 0.1))
    assert shown == [str(iteration(1, 0.1)), "end"]


def test_a_terminal_without_rich_gets_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with progress.progress(quiet=False) as show:
        assert show is not None
        show(iteration(1, 0.1))
    assert "iteration 1/10" in capsys.readouterr().err


def module(*arguments: str, folder: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lincode", *arguments],
        cwd=folder, text=True, capture_output=True, check=False, **options,
    )  # fmt: skip


def test_as_a_program(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", np.random.default_rng(0).standard_normal((50, 4)))
    fit = module("fit", "X.npy", "-m", "5", "--max-iter", "1", "-o", "model", folder=tmp_path)
    assert fit.returncode == 0
    assert fit.stdout.startswith("model: 50 vectors; 5 units of 4 features")
    assert "lincode: warning: SCNN: max_iter was reached" in fit.stderr
    assert ".py:" not in fit.stderr
    bad = module("info", "X.npy", folder=tmp_path)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.startswith("lincode: X.npy is no model file")


def test_a_reader_that_stops_reading() -> None:
    code = (
        "import sys; from lincode import cli;"
        "parser = __import__('argparse').ArgumentParser();"
        "parser.set_defaults(func=lambda args: print('x') or 0);"
        "cli._parser = lambda: parser; sys.exit(cli.main([]))"
    )
    buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        ended = subprocess.run(
            [sys.executable, "-c", code],
            stdout=closed, stderr=subprocess.PIPE, check=False, env=buffered,
        )  # fmt: skip
    assert ended.returncode == 141
    assert ended.stderr == b""
