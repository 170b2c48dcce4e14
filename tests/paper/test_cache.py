"""Runs and their records: keys, complete files only, and runs that fail or are killed."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from paper import experiments
from paper.cache import Cache, Record, Run, read_record, write_atomically
from paper.cli import main
from paper.errors import PaperError, RunsFailedError

RUN = Run("pca", "smoke", 0, True, {"method": "SCNN", "m": 5, "n": 300, "stop": {"tol": 0.1}})
ROOT = Path(__file__).parents[2]


def test_records_survive_a_round_trip(tmp_path: Path) -> None:
    record = Record(RUN, {"rms": 0.25}, 1.5, {"name": "MNIST", "sha256": "0"})
    cache = Cache(tmp_path)
    cache.write(record, {"SCNN": {"alpha": 1.0}})
    assert cache.read() == [record]
    content = json.loads(cache.path(RUN).read_text())
    assert content["parameters"] == {"SCNN": {"alpha": 1.0}}
    assert content["cores"] >= 1
    assert content["versions"]["lincode"]
    assert (record["rms"], record["m"]) == (0.25, 5)


def test_keys_depend_on_everything_but_the_order_of_the_settings() -> None:
    same = replace(RUN, settings=dict(sorted(RUN.settings.items())))
    assert same.key == RUN.key
    others = [replace(RUN, seed=1), replace(RUN, embedded=False), replace(RUN, scale="paper")]
    others.append(replace(RUN, settings={**RUN.settings, "m": 6}))
    assert len({run.key for run in (RUN, *others)}) == 5
    # The key of a committed record.
    settings = {"method": "PCA", "m": 10, "n": 2000, "stop": {}}
    assert Run("pca", "paper", 0, False, settings).key == "a7456800eb58"


def test_other_versions_are_ignored_and_files_that_are_no_records_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path)
    cache.write(Record(RUN, {}, 1.0, {}), {})
    monkeypatch.setitem(cache_versions(), "pca", 7)
    assert cache.read() == []
    path = tmp_path / "half.json"
    path.write_text('{"format": 1, "experi')
    with pytest.raises(PaperError, match="is not a valid record"):
        read_record(path)


def cache_versions() -> dict[str, int]:
    from paper.cache import VERSIONS

    return VERSIONS


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new" / "a.txt"
    write_atomically(path, "old")

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, "new")
    assert [p.read_text() for p in path.parent.iterdir()] == ["old"]


def test_a_run_that_fails_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = []

    def measure(run: Run, samples: Any) -> dict[str, Any]:
        calls.append(run.seed)
        if run.seed == 1:
            raise ValueError("a bug")
        samples.digits((10, 10, 10), run.seed)
        return {"rms": 1.0, "parameters": {}}

    monkeypatch.setitem(experiments.MEASURES, "pca", measure)
    runs = [replace(RUN, seed=k) for k in (2, 1, 0)]
    with pytest.raises(RunsFailedError, match="1 of 3 runs failed"):
        Cache(tmp_path).run_missing(runs, None, 1)
    assert calls == [0, 1, 2], "the first repetitions come first"
    assert "ValueError: a bug" in capsys.readouterr().out
    with pytest.raises(RunsFailedError):
        Cache(tmp_path).run_missing(runs, None, 1)
    assert calls[3:] == [1], "only the failed run is tried again"


@pytest.mark.slow
def test_a_killed_command_leaves_complete_records_and_can_be_continued(tmp_path: Path) -> None:
    words = ["reproduce", "pca", "--embedded", "--jobs", "1", "--out", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "paper", *words], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    limit = time.monotonic() + 120
    while not list(tmp_path.rglob("*.json")) and time.monotonic() < limit:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = {record.run.key for record in Cache(tmp_path).read()}
    assert kept
    assert main(words) == 0
    planned = {run.key for run in experiments.EXPERIMENTS["pca"].runs("smoke", True)}
    assert kept <= planned == {record.run.key for record in Cache(tmp_path).read()}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reproduce", "pca", "--scale", "paper", "--embedded"], "only be used with --scale smoke"),
        (["reproduce", "pca", "--data-dir", "nowhere"], "python -m paper fetch bsds300"),
        (["report", "--out", "nowhere"], "has no records"),
    ],
)
def test_wrong_input_is_reported(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err
