"""All experiments at the smoke scale."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from paper.cli import main
from paper.experiments.records import Store
from paper.experiments.registry import EXPERIMENTS

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "embedded",
    [
        True,
        pytest.param(
            False,
            marks=pytest.mark.skipif("LINCODE_DATA" not in os.environ, reason="no LINCODE_DATA"),
        ),
    ],
)
def test_all_experiments_run(tmp_path: Path, embedded: bool) -> None:
    command = [sys.executable, "-m", "paper", "reproduce", "all", "--out", str(tmp_path)]
    done = subprocess.run(
        [*command, "--embedded"] if embedded else command, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    records = Store(tmp_path).read()
    for x in EXPERIMENTS.values():
        assert set(x.runs("smoke", 0, embedded)) <= {record.run for record in records}
    assert all(record.run.embedded == embedded for record in records)
    assert all(record.data["name"].startswith("embedded") == embedded for record in records)
    assert all(record.parameters and record.cores and record.commit for record in records)
    page = (tmp_path / "smoke" / "index.html").read_text(encoding="utf-8")
    assert all(f'id="{name}"' in page for name in EXPERIMENTS)
    assert ("Not on the paper’s data" in page) == embedded


def test_missing_data_at_the_papers_scale_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["reproduce", "pca", "--scale", "paper", "--data-dir", str(tmp_path)]
    assert main([*command, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("paper: ")
    assert "python -m paper data fetch bsds300" in error
    assert not (tmp_path / "out").exists()


def test_help_names_all_commands_and_experiments(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert all(f"\n    {name}" in text for name in ("reproduce", "report", "data"))
    with pytest.raises(SystemExit):
        main(["reproduce", "--help"])
    text = capsys.readouterr().out
    assert all(x.id in text and x.title in text for x in EXPERIMENTS.values())


def test_other_errors_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr("paper.cli.write_report", fail)
    with pytest.raises(ValueError, match="a bug"):
        main(["report"])
