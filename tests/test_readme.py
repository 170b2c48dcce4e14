"""The examples in the documentation run, and its figures and files exist."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
from matplotlib import pyplot as plt

import lincode

ROOT = Path(__file__).parents[1]
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
    *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
]
RESULTS = ROOT / "paper" / "results" / "paper"
IN_SDIST = not RESULTS.exists() and not (ROOT / ".git").exists()
"""Whether the tests run from an unpacked sdist, which does not contain the results."""


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def examples(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", read(page), re.DOTALL)


def installed_examples(page: str) -> list[tuple[str, str]]:
    """Return the Python blocks of a page, with the block that follows directly, or "".

    A comment before a block, such as ``<!-- needs skops -->``, names packages. The block is left
    out if one of them is not installed.
    """
    pattern = r"(?:<!-- needs ([\w, ]+) -->\n+)?```python\n(.*?)```\n(?:\n```\n(.*?)```)?"
    found = re.findall(pattern, read(page), re.DOTALL)
    assert [example for _, example, _ in found] == examples(page)
    return [
        (example, output)
        for packages, example, output in found
        if all(importlib.util.find_spec(name) for name in re.findall(r"\w+", packages))
    ]


def assert_about_equal(printed: str, output: str) -> None:
    """Check that texts are equal, and that numbers in them differ by at most a tenth."""
    number = r"\d+(?:\.\d+)?"
    assert re.split(number, printed) == re.split(number, output)
    values = [float(value) for value in re.findall(number, output)]
    assert [float(value) for value in re.findall(number, printed)] == pytest.approx(values, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES[1:] if "```python" in read(page)])
def test_examples_run(
    page: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any, tmp_path: Path
) -> None:
    if "import spams" in read(page):
        pytest.importorskip("spams")
    monkeypatch.chdir(tmp_path)  # examples may write files
    names: dict[str, object] = {}  # the examples of a page share their variables
    try:
        for example, output in installed_examples(page):
            exec(compile(example, page, "exec"), names)
            printed = capsys.readouterr().out
            if output:
                assert_about_equal(printed, output)
    finally:
        plt.close("all")
    assert not list(tmp_path.iterdir())


def test_readme_has_a_short_example_with_its_output(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = examples("README.md")
    assert len([line for line in example.splitlines() if line]) <= 10
    exec(compile(example, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert f"```python\n{example}```\n\n```\n{printed}```" in read("README.md")


@pytest.mark.parametrize("page", PAGES)
def test_linked_files_exist(page: str) -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", read(page)):
        if not (IN_SDIST and "paper/results" in target):
            assert (ROOT / page).parent.joinpath(target).exists(), target


@pytest.mark.parametrize("page", PAGES)
def test_named_files_exist(page: str) -> None:
    folders = (ROOT, Path(lincode.__file__).parent, (ROOT / page).parent)
    for name in re.findall(r"`([\w./-]+/[\w.-]+\.(?:md|py))`", read(page)):
        assert any((folder / name).exists() for folder in folders), name
