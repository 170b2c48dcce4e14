"""Everything, small: each experiment runs from data to page."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lincode.experiments.records import Store
from lincode.experiments.registry import EXPERIMENTS


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
def test_all_experiments_run_from_data_to_page(tmp_path: Path, embedded: bool) -> None:
    command = [sys.executable, "-m", "lincode", "reproduce", "all", "--out", str(tmp_path)]
    done = subprocess.run(
        [*command, "--embedded"] if embedded else command, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    records = Store(tmp_path).read()
    for x in EXPERIMENTS.values():
        assert set(x.runs("smoke", 0, embedded)) <= {record.run for record in records}
    assert all(record.run.embedded == embedded for record in records)
    assert all(record.data["name"].startswith("embedded") == embedded for record in records)
    page = (tmp_path / "smoke" / "index.html").read_text(encoding="utf-8")
    assert all(f'id="{name}"' in page for name in EXPERIMENTS)
    assert ("Not on the paper’s data" in page) == embedded


def test_without_data_the_papers_scale_says_what_to_do(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lincode", "reproduce", "pca", "--scale", "paper"]
    done = subprocess.run(
        [*command, "--data-dir", str(tmp_path), "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "lincode data fetch bsds300" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
