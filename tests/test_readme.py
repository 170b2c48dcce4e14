"""The README's example runs as printed, and its files are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    examples = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(examples) == 1
    assert len([line for line in examples[0].splitlines() if line]) <= 10
    exec(compile(examples[0], "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "zeros; converged" in printed
    assert "(1797, 64)" in printed


def test_files_named_are_there() -> None:
    for name in re.findall(r"`([\w./-]+\.(?:md|py))`", README):
        assert (ROOT / name).exists(), name
