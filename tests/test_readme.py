"""The examples in the documentation run, and its figures and files exist."""

import csv
import re
from pathlib import Path

import pytest

import lincode

ROOT = Path(__file__).parents[1]
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "docs/guide.md",
    "docs/large_data.md",
    "docs/scale.md",
    "docs/encoder.md",
    "docs/refinement.md",
    "docs/missing.md",
    "docs/paper.md",
    "docs/architecture.md",
    "benchmarks/README.md",
]
PAGES_WITH_EXAMPLES = [
    "docs/guide.md",
    "docs/large_data.md",
    "docs/scale.md",
    "docs/encoder.md",
    "docs/refinement.md",
    "docs/missing.md",
    "docs/paper.md",
]
RESULTS = ROOT / "paper" / "results" / "paper"
IN_SDIST = not RESULTS.exists() and not (ROOT / ".git").exists()
"""Whether the tests run from an unpacked sdist, which does not contain the results."""
needs_results = pytest.mark.skipif(IN_SDIST, reason="the sdist does not contain the results")


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def examples(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", read(page), re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES_WITH_EXAMPLES)
def test_examples_run(page: str) -> None:
    names: dict[str, object] = {}  # the examples of a page share their variables
    assert examples(page)
    for example in examples(page):
        exec(compile(example, page, "exec"), names)


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


@needs_results
@pytest.mark.parametrize("table", ["mnist-units", "mnist-noise-variance", "mnist-methods"])
def test_paper_page_has_the_tables_of_the_results(table: str) -> None:
    lines = (RESULTS / "tables" / f"{table}.md").read_text(encoding="utf-8").splitlines()
    page = read("docs/paper.md").splitlines()
    for line in lines[2:]:
        assert line in page, line


@needs_results
def test_paper_page_counts_the_claims() -> None:
    with open(RESULTS / "tables" / "claims.csv", encoding="utf-8", newline="") as file:
        outcomes = [row["outcome"] for row in csv.DictReader(file)]
    counts = [outcomes.count(x) for x in ("reproduced", "not reproduced", "inconclusive")]
    expected = "Of {} claims, {} were reproduced, {} were not reproduced, and {} are inconclusive."
    page = " ".join(read("docs/paper.md").split())
    assert expected.format(len(outcomes), *counts) in page
