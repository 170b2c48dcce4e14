"""The committed results: the page, the docs and the README agree with the records."""

from pathlib import Path

import pytest
from paper.experiments.claims import NOT_REPRODUCED, Tally
from paper.experiments.registry import EXPERIMENTS
from paper.report import read_chapters, write_report
from paper.report.chapters import Chapter
from paper.report.docs import update_text

from tests.paper.reports import RESULTS, ROOT, read

pytestmark = [
    pytest.mark.skipif(not RESULTS.exists(), reason="the results are not part of the sdist"),
    pytest.mark.usefixtures("no_fsync", "no_figures"),
]
FIGURES = "../paper/results/paper/figures"
DOCS = (ROOT / "README.md", ROOT / "docs" / "paper.md")


@pytest.fixture
def chapters() -> list[Chapter]:
    return read_chapters(RESULTS, "paper")[1]


def sentence_of(chapters: list[Chapter]) -> str:
    return Tally.of(claim for chapter in chapters for claim in chapter.claims).sentence


def test_page_docs_and_readme_have_the_tally_of_the_records(chapters: list[Chapter]) -> None:
    expected = sentence_of(chapters)
    assert expected in " ".join(read(RESULTS / "paper" / "index.html").text.split())
    for path in DOCS:
        text = " ".join(path.read_text(encoding="utf-8").split())
        assert expected in text, f"run python -m paper report --out paper/results --update {path}"
        assert text.count(" claims, ") == 1


def test_docs_have_the_tables_and_figures_of_the_records(chapters: list[Chapter]) -> None:
    for path in DOCS:
        text = path.read_text(encoding="utf-8")
        assert update_text(text, chapters, FIGURES) == text, (
            f"run python -m paper report --out paper/results --update {path}"
        )


def test_committed_tables_are_those_of_the_records(tmp_path: Path) -> None:
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "records").symlink_to(RESULTS / "paper" / "records")
    write_report(tmp_path)
    new = {path.name: path.read_text() for path in (tmp_path / "paper" / "tables").iterdir()}
    old = {path.name: path.read_text() for path in (RESULTS / "paper" / "tables").iterdir()}
    assert new == old


def test_claims_are_distinct(chapters: list[Chapter]) -> None:
    counted = [claim.sentence for c in chapters for claim in c.claims if claim.counted]
    assert len(set(counted)) == len(counted) <= 35
    assert not [sentence for sentence in counted if "noise in training" in sentence]


def test_claims_that_are_not_reproduced_name_the_experiment_that_shows_why(
    chapters: list[Chapter],
) -> None:
    shown = {chapter.experiment.id for chapter in chapters}
    for chapter in chapters:
        for claim in chapter.claims:
            if claim.outcome == NOT_REPRODUCED:
                assert claim.why, claim.sentence
                assert claim.shown_by, claim.sentence
                assert set(claim.shown_by) <= shown, claim.sentence


def test_all_experiments_are_explained_in_short_lists() -> None:
    for x in EXPERIMENTS.values():
        assert x.protocol
        for sentence in (*x.protocol, *x.departures, *x.not_run):
            assert sentence.endswith((".", "):")), sentence
            assert len(sentence) < 420, sentence
        assert set(x.captions) == set(x.plots)


def test_competitors_are_less_accurate_if_started_as_in_the_paper(chapters: list[Chapter]) -> None:
    """The text of Figure 5 says so."""
    (chapter,) = (c for c in chapters if c.experiment.id == "competitors")
    (table,) = (t for t in chapter.tables if t.name == "competitors-claims")
    for training, *outcomes in table.rows:
        figure_5 = outcomes[:2]
        if training.startswith("weights in [−1, 1]"):
            assert figure_5 == ["holds"] * 2, training
        elif training.endswith(" 50 passes"):
            assert "holds" not in figure_5, training
