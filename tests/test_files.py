"""Temporary files: those of killed processes are deleted, those in use are not."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lincode import SCNN, save
from lincode.cli import commands, main
from lincode.exceptions import InvalidInputError
from lincode.files import FOREIGN_SECONDS, atomic_write, remove_old_temporary_files
from lincode.vectors import open_vectors

ROOT = Path(__file__).parents[1]
fcntl = pytest.importorskip("fcntl", reason="the platform has no locks")


def write_slowly(path: Path) -> None:
    """Write a part of a file and wait."""
    with atomic_write(path) as file:
        file.write(b"new")
        file.flush()
        time.sleep(600)


def wait_for_part(folder: Path, n_bytes: int = 0) -> Path:
    """Return the temporary file in a folder as soon as it has a given size."""
    for _ in range(6000):
        for path in folder.glob(".lincode-*.part"):
            if path.stat().st_size >= n_bytes:
                return path
        time.sleep(0.01)
    raise AssertionError("no temporary file was written")


@pytest.mark.slow
def test_temporary_files_of_killed_processes_are_deleted(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    process = multiprocessing.get_context("spawn").Process(
        target=write_slowly, args=(tmp_path / "a",)
    )
    process.start()
    part = wait_for_part(tmp_path, n_bytes=3)
    with atomic_write(tmp_path / "b") as file:
        file.write(b"other")
    assert part.exists()  # a live process is writing it
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert part.exists()
    assert (tmp_path / "a").read_text() == "old"
    with atomic_write(tmp_path / "b") as file:
        file.write(b"another")
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_files_of_other_computers_are_deleted_if_they_are_old(tmp_path: Path) -> None:
    other = tmp_path / ".lincode-00000000-0123456789ab.part"
    other.write_text("half")
    remove_old_temporary_files(tmp_path)
    assert other.exists()
    long_ago = time.time() - FOREIGN_SECONDS - 60
    os.utime(other, (long_ago, long_ago))
    with open(other, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        remove_old_temporary_files(tmp_path)
        assert other.exists()
    remove_old_temporary_files(tmp_path)
    assert not other.exists()


def test_a_new_file_that_was_deleted_before_it_was_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, n_calls = fcntl.flock, 0

    def delete_and_lock(file: Any, operation: int) -> None:
        nonlocal n_calls
        n_calls += 1
        if n_calls == 1:
            os.unlink(file.name)
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", delete_and_lock)
    with atomic_write(tmp_path / "a") as file:
        file.write(b"text")
    assert (tmp_path / "a").read_bytes() == b"text"
    assert os.listdir(tmp_path) == ["a"]


def test_interruptions_while_the_file_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fcntl, "flock", interrupt)
    with (
        pytest.warns(ResourceWarning, match="unclosed"),
        pytest.raises(KeyboardInterrupt),
        atomic_write(tmp_path / "a"),
    ):
        pass
    assert os.listdir(tmp_path) == []


def test_pipes_and_links_in_the_folder_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("other")
    (tmp_path / ".lincode-link.part").symlink_to(tmp_path / "other")
    os.mkfifo(tmp_path / ".lincode-pipe.part")
    with atomic_write(tmp_path / "a") as file:
        file.write(b"text")
    names = [".lincode-link.part", ".lincode-pipe.part", "a", "other"]
    assert sorted(os.listdir(tmp_path)) == names


def test_private_files_are_private_while_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "a").chmod(0o600)
    with atomic_write(tmp_path / "a") as file:
        assert os.fstat(file.fileno()).st_mode & 0o777 == 0o600
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_file_systems_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(37, "No locks available")

    (tmp_path / ".lincode-old.part").write_text("half")
    monkeypatch.setattr(fcntl, "flock", fail)
    with atomic_write(tmp_path / "a") as file:
        file.write(b"text")
    assert sorted(os.listdir(tmp_path)) == [".lincode-old.part", "a"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (signal.SIGTERM, 143, b"lincode: terminated."),
        (signal.SIGINT, 130, b"lincode: interrupted."),
    ],
)
def test_signals_end_commands_that_wait_for_input(
    tmp_path: Path, number: signal.Signals, code: int, message: bytes
) -> None:
    X = np.random.default_rng(0).standard_normal((50, 3))
    save(SCNN(3, random_state=0).fit(X), tmp_path / "model")
    command = [sys.executable, "-m", "lincode", "encode", "model", "-", "-o", "codes.csv"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        # Shells start processes in the background with SIGINT ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"1,2,3\n" * 10)  # and more would follow
        process.stdin.flush()
        wait_for_part(tmp_path)
        process.send_signal(number)
        try:
            assert process.wait(60) == code  # while standard input is open
        finally:
            process.kill()
        assert process.stderr.read().splitlines()[-1] == message
    assert os.listdir(tmp_path) == ["model"]


def test_standard_input_after_a_line_of_it_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"# title\na,b\n1,2\n3,4\n")
    os.close(writing)
    with open(reading, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert stdin.buffer.read(8) == b"# title\n"
        vectors = open_vectors("-")
        assert vectors.names == ["a", "b"]
        np.testing.assert_array_equal(np.vstack(list(vectors.blocks())), [[1, 2], [3, 4]])


@pytest.mark.parametrize("other", [ValueError("Operation cancelled"), SystemExit(1)])
def test_sigterm_while_a_library_replaces_exceptions(
    other: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_: object) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except BaseException as error:
            raise other from error

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(commands, "info", run)
    assert main(["info", "model"]) == 143
    assert capsys.readouterr().err == "lincode: terminated.\n"
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_checkpoint_is_kept_until_the_model_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", np.random.default_rng(0).standard_normal((200, 4)))
    line = "fit X.npy -m 3 --tol 0 --max-iter 4 -q -o model --checkpoint-path c"
    command = [*line.split(), "--checkpoint-every", "0"]

    def fail(*_: object) -> None:
        assert Path("c").exists()
        raise OSError(28, "No space left on device", "model")

    monkeypatch.setattr(commands, "save", fail)
    assert main(command) == 2
    assert sorted(os.listdir()) == ["X.npy", "c"]
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert main(command) == 0
    assert sorted(os.listdir()) == ["X.npy", "model"]


def test_the_checkpoint_must_not_be_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "X.npy", np.eye(3))
    command = ["fit", str(tmp_path / "X.npy"), "-o", str(tmp_path / "m")]
    assert main([*command, "--checkpoint-path", str(tmp_path / "." / "m")]) == 2
    assert "--checkpoint-path must not be the output" in capsys.readouterr().err


def test_the_choice_of_batches_does_not_depend_on_free_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = commands.memory_limit()
    monkeypatch.setattr("builtins.open", lambda *_, **__: pytest.fail("a file was read"))
    assert commands.memory_limit() == expected


BLOCK = """
import runpy, sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[-1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Block())
sys.path.insert(0, "")
runpy.run_module("paper", run_name="__main__")
"""


@pytest.mark.slow
@pytest.mark.parametrize("package", ["jinja2", "matplotlib", "pandas", "PIL", "pooch", "rich"])
def test_the_reproduction_names_its_extra(package: str) -> None:
    command = [sys.executable, "-c", BLOCK, "reproduce", package]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert f"No module named '{package}" in done.stderr
    assert "pip install -e '.[paper]'" in done.stderr


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="create it first"), atomic_write(tmp_path / "a/b"):
        raise InvalidInputError("the block must not start")
