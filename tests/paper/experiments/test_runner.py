"""Runs become records whatever happens to the processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lincode.cli import main
from lincode.experiments.experiment import Run
from lincode.experiments.records import Store
from lincode.experiments.registry import EXPERIMENTS, MEASURES, TYPICAL
from lincode.experiments.runner import RunsFailedError, Task, TimeLeft, do, perform
from lincode.experiments.samples import Samples

PCA = EXPERIMENTS["pca"].runs("smoke", 0, True)
FAST = [run for run in PCA if run.settings["method"] == "PCA"]


def tasks(runs: list[Run], out: Path) -> list[Task]:
    return [Task(run, out, None, 1) for run in runs]


def start(out: Path, *more: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "lincode", "reproduce", "pca", "--embedded", "--out", str(out)]
    return subprocess.Popen(
        [*command, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def until(true: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.02)


def records(out: Path) -> list[Path]:
    return sorted(out.glob("*/records/*/*.json"))


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_run_is_told_and_kept(tmp_path: Path, jobs: int) -> None:
    told: list[Run] = []
    perform(tasks(FAST, tmp_path), jobs, lambda run, outcome: told.append(run))
    assert set(told) == set(FAST)
    kept = Store(tmp_path).read()
    assert {record.run for record in kept} == set(FAST)
    assert all(record.data["name"].startswith("embedded") for record in kept)
    assert all(record.seconds > 0 for record in kept)


def test_processes_and_this_one_find_the_same(tmp_path: Path) -> None:
    runs = [run for run in PCA if run.settings["method"] in ("PCA", "SCNN")]
    for jobs in (1, 2):
        perform(tasks(runs, tmp_path / str(jobs)), jobs, lambda run, outcome: None)
    one, two = (Store(tmp_path / str(jobs)).read() for jobs in (1, 2))
    for a, b in zip(one, two, strict=True):
        assert a.result["rms"] == pytest.approx(b.result["rms"], rel=1e-9)
        assert a.data == b.data


BAD = Run("pca", "smoke", 0, True, {"method": "PCA", "m": 10_000, "n": 300})


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_fails_is_told_and_the_others_are_done(tmp_path: Path, jobs: int) -> None:
    told: dict[Run, float | Exception] = {}
    with pytest.raises(RunsFailedError, match=f"1 of {len(FAST) + 1} runs failed"):
        perform(tasks([BAD, *FAST], tmp_path), jobs, told.__setitem__)
    assert "n_components" in str(told.pop(BAD))
    assert set(told) == set(FAST)
    assert {record.run for record in Store(tmp_path).read()} == set(FAST)


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_of_the_machine_ends_all_and_keeps_what_is_done(tmp_path: Path, jobs: int) -> None:
    """Here a folder that is none: every later run would meet it too."""
    (tmp_path / "file").touch()
    last = PCA[-1]
    bad = Task(FAST[0], tmp_path / "file", None, 1)
    good = [Task(run, tmp_path / "out", None, 1) for run in (FAST[0], *PCA[1:])]
    told: list[Run] = []
    with pytest.raises(OSError, match="file"):
        perform([good[0], bad, *good[1:]], jobs, lambda run, outcome: told.append(run))
    assert told[0] == FAST[0]
    assert last not in told
    assert {record.run for record in Store(tmp_path / "out").read()} == set(told)


def test_the_command_tells_of_runs_that_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails_at_5(run: Run, samples: Samples) -> dict[str, float]:
        return {"rms": 1 / (run.settings["m"] - 5)}

    monkeypatch.setitem(MEASURES, "pca", fails_at_5)
    command = ["reproduce", "pca", "--embedded", "--jobs", "1", "--out", str(tmp_path)]
    assert main(command) == 1
    out, err = capsys.readouterr()
    assert err.count("ZeroDivisionError") == 4
    assert f"lincode: 4 of {len(PCA)} runs failed, see above" in err
    assert f"[1/{len(PCA)}] pca SCNN 5 300 seed 0: failed; time left unknown" in out
    assert len(records(tmp_path)) == len(PCA) - 4


@pytest.mark.parametrize("out", ["file", "/proc/nowhere"])
def test_a_folder_that_cannot_be_is_refused_before_anything_runs(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.delitem(MEASURES, "pca")
    command = ["reproduce", "pca", "--embedded", "--jobs", "1", "--out", str(tmp_path / out)]
    assert main(command) == 2
    assert "runs, " not in capsys.readouterr().out


def test_an_interrupted_run_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(run: Run, samples: Samples) -> dict[str, float]:
        raise KeyboardInterrupt

    monkeypatch.setitem(MEASURES, "pca", interrupted)
    with pytest.raises(KeyboardInterrupt):
        do(Task(FAST[0], tmp_path, None, 1))
    assert not list(tmp_path.rglob("*.*"))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_stopped_at_any_moment_the_same_command_goes_on(tmp_path: Path, how: int) -> None:
    stopped = start(tmp_path, "--jobs", "2")
    until(lambda: len(records(tmp_path)) >= 2)
    stopped.send_signal(how)
    _, errors = stopped.communicate(timeout=60)
    if how == signal.SIGINT:
        assert stopped.returncode == 130
        assert "Traceback" not in errors
    kept = {path: path.stat().st_mtime_ns for path in records(tmp_path)}
    assert 2 <= len(kept) < len(PCA)
    Store(tmp_path).read()  # whole, every one

    out, errors = start(tmp_path, "--jobs", "2").communicate(timeout=120)
    assert f"{len(PCA)} runs, " in out
    assert len(records(tmp_path)) == len(PCA)
    assert all(path.stat().st_mtime_ns == made for path, made in kept.items()), "made twice"
    assert (tmp_path / "smoke" / "index.html").exists()
    assert "Traceback" not in errors


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks processes up in /proc")
def test_processes_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    parent = start(tmp_path, "--jobs", "2")
    until(lambda: len(records(tmp_path)) >= 1)
    children = children_of(parent.pid)
    assert len(children) >= 2
    parent.kill()
    parent.communicate(timeout=60)
    until(lambda: not any(alive(pid) for pid in children), 60)


def children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_killed_process_is_told_of_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fatal = Task(FAST[0], tmp_path, None, -9)
    monkeypatch.setattr("lincode.experiments.runner.do", kill_self)
    with pytest.raises(OSError, match="A process was killed"):
        perform([fatal, fatal], 2, lambda run, outcome: None)


def kill_self(task: Task) -> float:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0.0


def test_the_time_left_is_that_of_runs_alike() -> None:
    left = TimeLeft(PCA, 1, TYPICAL)
    for run in PCA[:4]:
        left.note(run, 10.0 if run.settings["method"] == "SCNN" else 1.0)
    rest = PCA[4:]
    expected = sum(10.0 if run.settings["method"] == "SCNN" else 1.0 for run in rest)
    assert left.seconds() == pytest.approx(expected)
    for run in rest:
        left.note(run, 1.0)
    assert left.seconds() == 0


def test_the_time_of_runs_of_another_kind_is_in_proportion() -> None:
    one, other = PCA[0], EXPERIMENTS["missing-pixels"].runs("smoke", 0, True)[0]
    left = TimeLeft([one, other], 1, {"pca": 2.0, "missing-pixels": 50.0})
    left.note(one, 1.0)
    assert left.seconds() == 25.0


def test_every_kind_of_run_has_a_typical_time() -> None:
    assert set(TYPICAL) == set(MEASURES)
