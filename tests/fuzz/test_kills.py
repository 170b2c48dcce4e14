"""Commands that are killed at random moments.

Afterwards no half-written file has its final name, the same command completes, and nothing of the
killed process is left. One case is one kill.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paper.cli import main as reproduction
from paper.cache import read_record

from lincode import SCNN, load, save
from lincode.cli import main
from lincode.vectors import read_vectors
from tests.fuzz.cases import fuzz
from tests.fuzz.scratch import scratch_folder

N, P, M = 3000, 30, 24
ENCODE = ["encode", "scnn.model", "X.csv", "-q", "-o"]
OUTPUTS = ("codes.npz", "codes.npy", "codes.csv", "codes.parquet", "codes.tsv.gz")
COMMANDS: dict[str, list[str]] = {
    "fit": ["fit", "X.npy", "-m", str(M), "--tol", "0", "--max-iter", "10"],
    "fit, batches": ["fit", "X.csv", "-m", str(M), "--batch-size", "300", "--max-iter", "2"],
}
CHECKPOINT = ["--checkpoint-path", "checkpoint", "--checkpoint-every", "0", "-o", "model", "-q"]
STDERR = "stderr.txt"
"""What the last process has printed, in the folder of the inputs."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the platform has no signals"),
]


@functools.cache
def inputs() -> Path:
    """Return a folder with samples and a model."""
    folder = scratch_folder("kills")
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((M, P))
    codes = rng.standard_normal((N, M)) * (rng.random((N, M)) < 0.2)
    X = (codes @ atoms + 0.1 * rng.standard_normal((N, P))).round(4)
    np.save(folder / "X.npy", X)
    np.savetxt(folder / "X.csv", X, delimiter=",")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save(SCNN(M, random_state=0, max_iter=3).fit(X), folder / "scnn.model")
    return folder


@contextlib.contextmanager
def working_folder() -> Iterator[Path]:
    """Provide an empty folder with links to the inputs."""
    folder = inputs() / "work"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in ("X.npy", "X.csv", "scnn.model"):
        (folder / name).symlink_to(inputs() / name)
    yield folder


def files(folder: Path) -> set[str]:
    """Return the names of the files that commands have written, also of hidden ones."""
    return {path.name for path in folder.iterdir() if not path.is_symlink()}


def run_command(folder: Path, arguments: list[str]) -> None:
    """Run a command; the process ends with its exit code."""
    os.chdir(folder)
    sys.stderr = open(folder.parent / STDERR, "w")  # noqa: SIM115 (until the process ends)
    sys.exit(main(arguments))


def start(target: Callable[..., None], *args: Any) -> Any:
    """Start a function in a new process, which has lincode imported already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["lincode.cli", __name__])
    process = context.Process(target=target, args=args)
    process.start()
    return process


def kill_after(process: Any, seconds: float, number: signal.Signals) -> bool:
    """Send a signal after some time; return whether the process was still running."""
    process.join(seconds)
    killed = bool(process.is_alive())
    if killed:
        os.kill(process.pid, number)
        process.join()
        assert process.exitcode in (-number, 128 + number, 0), (inputs() / STDERR).read_text()
    return killed


def complete(folder: Path, arguments: list[str]) -> None:
    process = start(run_command, folder, arguments)
    process.join()
    assert process.exitcode == 0, (inputs() / STDERR).read_text()


@functools.cache
def usual_fit(kind: str) -> tuple[Any, float]:
    """Return the model of a command that is not killed, and how long the command takes."""
    with working_folder() as folder:
        begin = time.monotonic()
        complete(folder, [*COMMANDS[kind], *CHECKPOINT])
        return load(folder / "model"), time.monotonic() - begin


@functools.cache
def encode_seconds() -> float:
    with working_folder() as folder:
        begin = time.monotonic()
        complete(folder, [*ENCODE, "codes.npy"])
        return time.monotonic() - begin


MOMENT = st.floats(0, 1.1)
SIGNAL = st.sampled_from([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])


@given(st.sampled_from(sorted(COMMANDS)), MOMENT, SIGNAL)
@fuzz(2, part=0.05)
def test_killed_fit(kind: str, moment: float, number: signal.Signals) -> None:
    arguments = [*COMMANDS[kind], *CHECKPOINT]
    expected, seconds = usual_fit(kind)
    with working_folder() as folder:
        kill_after(start(run_command, folder, arguments), moment * seconds, number)
        if number == signal.SIGTERM:
            assert files(folder) <= {"checkpoint", "model"}
        if (folder / "model").exists():
            load(folder / "model")
        complete(folder, arguments)
        assert files(folder) == {"model"}
        model = load(folder / "model")
    if kind == "fit":
        assert (np.diff(model.energy_path_) <= 0).all()
        np.testing.assert_allclose(model.energy_, expected.energy_, rtol=1e-3)
    else:
        np.testing.assert_array_equal(model.components_, expected.components_)


@functools.cache
def expected_codes() -> Any:
    return load(inputs() / "scnn.model").transform(np.load(inputs() / "X.npy"))


@given(st.sampled_from(OUTPUTS), st.booleans(), MOMENT, SIGNAL)
@fuzz(2, part=0.05)
def test_killed_encode(output: str, replaced: bool, moment: float, number: signal.Signals) -> None:
    arguments, seconds = [*ENCODE, output], moment * encode_seconds()
    with working_folder() as folder:
        if replaced:
            (folder / output).write_text("old")
        kill_after(start(run_command, folder, arguments), seconds, number)
        if number == signal.SIGTERM:
            assert files(folder) <= {output}
        if (folder / output).exists() and (folder / output).read_bytes() != b"old":
            check_codes(folder / output)
        complete(folder, arguments)
        assert files(folder) == {output}
        check_codes(folder / output)


def check_codes(path: Path) -> None:
    codes = read_vectors(path).X
    dense = codes.toarray() if hasattr(codes, "toarray") else codes
    np.testing.assert_allclose(dense, expected_codes(), rtol=1e-12, atol=1e-12)


def save_repeatedly(folder: Path) -> None:
    """Save two models in turn to the same file."""
    rng = np.random.default_rng(0)
    models = [SCNN(10, random_state=0, max_iter=2) for _ in range(2)]
    warnings.simplefilter("ignore")
    for k, model in enumerate(models):
        model.fit(rng.standard_normal((50, 2000))).set_params(verbose=k)
    save(models[0], folder / "model")
    (folder / "started").touch()
    while True:
        for model in models:
            save(model, folder / "model")


@given(MOMENT)
@fuzz(1, part=0.05)
def test_killed_save(moment: float) -> None:
    with working_folder() as folder:
        process = start(save_repeatedly, folder)
        while not (folder / "started").exists():
            time.sleep(0.01)
        assert kill_after(process, 0.1 + 0.3 * moment, signal.SIGKILL)
        model = load(folder / "model")
        assert model.verbose in (0, 1)
        assert len(files(folder)) <= 3
        save(model, folder / "model")
        assert files(folder) == {"model", "started"}


def reproduce(out: Path) -> None:
    """Reproduce one experiment at the smoke scale; the process ends with the exit code."""
    sys.stdout = sys.stderr = open(out.parent / STDERR, "w")  # noqa: SIM115 (until the process ends)
    arguments = ["reproduce", "pca", "--embedded", "--jobs", "1"]
    sys.exit(reproduction([*arguments, "--out", str(out)]))


@functools.cache
def reproduction_seconds() -> float:
    begin = time.monotonic()
    process = start(reproduce, inputs() / "reproduction")
    process.join()
    assert process.exitcode == 0
    return time.monotonic() - begin


@given(MOMENT, SIGNAL)
@fuzz(1, part=0.02)
def test_killed_reproduction(moment: float, number: signal.Signals) -> None:
    seconds = moment * reproduction_seconds()
    out = inputs() / "killed-reproduction"
    shutil.rmtree(out, ignore_errors=True)
    kill_after(start(reproduce, out), seconds, number)
    for path in out.rglob("*.json"):
        read_record(path)  # it is complete
    process = start(reproduce, out)
    process.join()
    assert process.exitcode == 0
    assert relative_files(out) == relative_files(inputs() / "reproduction")


def relative_files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
