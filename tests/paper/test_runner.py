"""Runs are measured and recorded, also after failures and interruptions."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from paper.cli import main
from paper.errors import PaperError, RunsFailedError
from paper.experiments.experiment import Run, Scale
from paper.experiments.records import Store
from paper.experiments.registry import EXPERIMENTS, MEASURES, TYPICAL_SECONDS
from paper.experiments.runner import Task, TimeLeft, run_task, run_tasks
from paper.experiments.samples import Samples

ROOT = Path(__file__).parents[2]
PCA = EXPERIMENTS["pca"].runs("smoke", 0, True)
FAST = [run for run in PCA if run.settings["method"] == "PCA"]


def tasks(runs: list[Run], out: Path) -> list[Task]:
    return [Task(run, out, None, 1) for run in runs]


def start(out: Path, *more: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "paper", "reproduce", "pca", "--embedded", "--out", str(out)]
    return subprocess.Popen(
        [*command, *more], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def until(true: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "timeout"
        time.sleep(0.02)


def records(out: Path) -> list[Path]:
    return sorted(out.glob("*/records/*/*.json"))


BAD = Run("pca", "smoke", 0, True, {"method": "PCA", "m": 10_000, "n": 300})


@pytest.mark.slow
def test_runs_are_recorded_by_any_number_of_processes(tmp_path: Path) -> None:
    """Every run is reported, a failed run does not stop the others, and the results are equal."""
    runs = [run for run in PCA if run.settings["method"] in ("PCA", "SCNN")]
    for jobs in (1, 2):
        out = tmp_path / str(jobs)
        reported: dict[Run, float | Exception] = {}
        with pytest.raises(RunsFailedError, match=f"1 of {len(runs) + 1} runs failed"):
            run_tasks(tasks([BAD, *runs], out), jobs, reported.__setitem__)
        assert "n_components" in str(reported.pop(BAD))
        assert set(reported) == set(runs)
        records = Store(out).read()
        assert {record.run for record in records} == set(runs)
        assert all(record.data["name"].startswith("embedded") for record in records)
        assert all(record.seconds > 0 for record in records)
    one, two = (Store(tmp_path / str(jobs)).read() for jobs in (1, 2))
    for a, b in zip(one, two, strict=True):
        assert a.result["rms"] == pytest.approx(b.result["rms"], rel=1e-9)
        assert a.data == b.data


def test_all_successful_runs_raise_no_error(tmp_path: Path) -> None:
    reported: list[Run] = []
    run_tasks(tasks(FAST, tmp_path), 1, lambda run, outcome: reported.append(run))
    assert reported == FAST


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_system_error_stops_all_runs_and_keeps_records(tmp_path: Path, jobs: int) -> None:
    """The error is a file in place of the folder for records."""
    (tmp_path / "file").touch()
    last = PCA[-1]
    bad = Task(FAST[0], tmp_path / "file", None, 1)
    good = [Task(run, tmp_path / "out", None, 1) for run in (FAST[0], *PCA[1:])]
    reported: list[Run] = []
    with pytest.raises(PaperError, match=r"stopped by an error of the system.*file"):
        run_tasks([good[0], bad, *good[1:]], jobs, lambda run, outcome: reported.append(run))
    assert reported[0] == FAST[0]
    assert last not in reported
    assert {record.run for record in Store(tmp_path / "out").read()} == set(reported)


def test_command_reports_failed_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails_at_5(run: Run, samples: Samples) -> dict[str, float]:
        return {"rms": 1 / (run.settings["m"] - 5)}

    monkeypatch.setitem(MEASURES, "pca", fails_at_5)
    command = ["reproduce", "pca", "--embedded", "--jobs", "1", "--out", str(tmp_path)]
    assert main(command) == 1
    out, err = capsys.readouterr()
    n_failed = len(PCA) // 2
    assert err.count("ZeroDivisionError") == n_failed
    assert f"paper: {n_failed} of {len(PCA)} runs failed, see above" in err
    assert f"[1/{len(PCA)}] pca SCNN m=5 n=300 seed=0: failed; time left unknown" in out
    assert len(records(tmp_path)) == len(PCA) - n_failed


def test_only_the_first_repetitions_are_run_if_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def runs(scale: Scale, seed: int, embedded: bool) -> list[Run]:
        return [replace(PCA[0], seed=seed + k) for k in range(4)]

    monkeypatch.setitem(EXPERIMENTS, "pca", replace(EXPERIMENTS["pca"], runs=runs))
    monkeypatch.setitem(MEASURES, "pca", lambda run, samples: {"rms": 0.1})
    monkeypatch.setattr("paper.cli.write_report", lambda out, scale, update: out)
    command = ["reproduce", "pca", "--embedded", "--jobs", "1", "--out", str(tmp_path)]
    assert main([*command, "--seed", "5", "--repetitions", "2"]) == 0
    assert {record.run.seed for record in Store(tmp_path).read()} == {5, 6}
    assert main([*command, "--seed", "5"]) == 0
    assert "4 runs, 2 already complete" in capsys.readouterr().out


@pytest.mark.parametrize("out", ["file", "/proc/nowhere"])
def test_unusable_output_folder_is_refused_first(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.delitem(MEASURES, "pca")
    command = ["reproduce", "pca", "--embedded", "--jobs", "1", "--out", str(tmp_path / out)]
    assert main(command) == 2
    assert "runs, " not in capsys.readouterr().out


def test_interrupted_run_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(run: Run, samples: Samples) -> dict[str, float]:
        raise KeyboardInterrupt

    monkeypatch.setitem(MEASURES, "pca", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_task(Task(FAST[0], tmp_path, None, 1))
    assert not list(tmp_path.rglob("*.*"))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_same_command_continues_after_an_interruption(
    tmp_path: Path, how: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """No process is left behind and no complete run is measured again."""
    stopped = start(tmp_path, "--jobs", "2")
    until(lambda: len(records(tmp_path)) >= 2)
    children = children_of(stopped.pid)
    assert len(children) >= 2
    stopped.send_signal(how)
    _, errors = stopped.communicate(timeout=60)
    if how == signal.SIGINT:
        assert stopped.returncode == 130
        assert "Traceback" not in errors
    until(lambda: not any(alive(pid) for pid in children), 60)
    kept = {path: path.stat().st_mtime_ns for path in records(tmp_path)}
    assert 2 <= len(kept) < len(PCA)
    Store(tmp_path).read()  # all are complete

    assert main(["reproduce", "pca", "--embedded", "--jobs", "1", "--out", str(tmp_path)]) == 0
    out, errors = capsys.readouterr()
    assert f"{len(PCA)} runs, {len(kept)} already complete" in out
    assert len(records(tmp_path)) == len(PCA)
    assert all(path.stat().st_mtime_ns == made for path, made in kept.items()), "measured twice"
    assert (tmp_path / "smoke" / "index.html").exists()
    assert "Traceback" not in errors


def children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_killed_process_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fatal = Task(FAST[0], tmp_path, None, -9)
    monkeypatch.setattr("paper.experiments.runner.run_task", kill_self)
    with pytest.raises(PaperError, match="A process was killed"):
        run_tasks([fatal, fatal], 2, lambda run, outcome: None)


def kill_self(task: Task) -> float:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0.0


def test_time_left_is_estimated_from_similar_runs() -> None:
    left = TimeLeft(PCA, 1, TYPICAL_SECONDS)
    n = len(PCA) // 2  # the methods with the first number of units
    for run in PCA[:n]:
        left.note(run, 10.0 if run.settings["method"] == "SCNN" else 1.0)
    rest = PCA[n:]
    expected = sum(10.0 if run.settings["method"] == "SCNN" else 1.0 for run in rest)
    assert left.seconds() == pytest.approx(expected)
    for run in rest:
        left.note(run, 1.0)
    assert left.seconds() == 0


def test_time_of_other_groups_is_estimated_in_proportion() -> None:
    one, other = PCA[0], EXPERIMENTS["missing-pixels"].runs("smoke", 0, True)[0]
    left = TimeLeft([one, other], 1, {"pca": 2.0, "missing-pixels": 50.0})
    left.note(one, 1.0)
    assert left.seconds() == 25.0


def test_every_group_has_a_typical_time() -> None:
    assert set(TYPICAL_SECONDS) == set(MEASURES)
