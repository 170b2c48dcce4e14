"""The examples in the README and the guide run as printed, and the files they name are there."""

import csv
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "docs/guide.md"]


def examples(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_examples_run_as_printed(page: str) -> None:
    names: dict[str, object] = {}  # a page's later examples use what its earlier ones made
    assert examples(page)
    for example in examples(page):
        exec(compile(example, page, "exec"), names)


def test_the_readme_shows_ten_lines_and_what_they_print(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (example,) = examples("README.md")
    assert len([line for line in example.splitlines() if line]) <= 10
    exec(compile(example, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "74% zeros; converged" in printed
    assert "(1797, 64)" in printed


@pytest.mark.parametrize("page", PAGES)
def test_files_named_are_there(page: str) -> None:
    named = re.findall(r"[`(]([\w./-]+\.(?:md|py))[`)]", (ROOT / page).read_text())
    for name in named:
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("table", ["mnist-units", "mnist-noise-variance"])
def test_the_readme_shows_the_results_that_are_there(table: str) -> None:
    path = ROOT / "results" / "paper" / "tables" / f"{table}.md"
    if not path.exists():
        pytest.skip(f"{path.name} is not made yet")
    readme = (ROOT / "README.md").read_text()
    for line in path.read_text().splitlines()[2:]:
        assert line in readme, line


def test_the_readme_counts_the_claims_as_the_page_does() -> None:
    path = ROOT / "results" / "paper" / "tables" / "claims.csv"
    with open(path, encoding="utf-8", newline="") as file:
        verdicts = [row["verdict"] for row in csv.DictReader(file)]
    counts = [verdicts.count(x) for x in ("holds", "does not hold", "too close to say")]
    words = "{} hold, {} do not, {} are too close to say".format(*counts)
    assert words in " ".join((ROOT / "README.md").read_text().split())


def test_pictures_named_are_there() -> None:
    for name in re.findall(r"!\[.*?\]\((.*?)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / name).exists(), name
