"""The committed results: the page, the docs and the README agree with the records."""

from pathlib import Path

import pytest
from paper.experiments import accuracy_sparsity, mnist_units
from paper.experiments.claims import NOT_REPRODUCED, Estimate, Tally
from paper.experiments.digit_grid import COMPARABLE, GRID_PROTOCOL, PAPER_START, difference
from paper.experiments.features import error_rate_of
from paper.experiments.networks import BASELINES, NETWORKS
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
    assert len(set(counted)) == len(counted) <= 36
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


def test_the_start_matters_for_scnn_and_large_digits(chapters: list[Chapter]) -> None:
    """The text of Figure 9 says so: SCNN loses accuracy only from weights in [−1, 1]."""
    (chapter,) = (c for c in chapters if c.experiment.id == "competitors")

    def loss(network: str, m: int) -> Estimate:
        small, large = (
            [r for r in chapter.records if (r["network"], r["m"], r["side"]) == (network, m, side)]
            for side in (14, 28)
        )
        return difference(small, large)

    for m in (25, 100):
        assert (loss(PAPER_START, m) - COMPARABLE).value > 0
        assert loss(PAPER_START, m).holds
        assert (loss("SCNN", m) - COMPARABLE).fails


def test_no_network_is_more_accurate_than_raw_pixels_and_pca(chapters: list[Chapter]) -> None:
    """The protocol of Figures 5, 8 and 9 says so, with the range of the differences."""
    (chapter,) = (c for c in chapters if c.experiment.id == "accuracy-sparsity")
    found = accuracy_sparsity.by_variant(chapter.records)
    better = [difference(found[x], found[y]) for x in BASELINES for y in NETWORKS]
    assert all(estimate.holds for estimate in better)
    low, high = (f"{100 * f(estimate.value for estimate in better):.1f}" for f in (min, max))
    assert f"better than every network by {low} to {high} points" in " ".join(GRID_PROTOCOL)


def test_noise_and_a_ridge_reduce_the_error_of_table_2(chapters: list[Chapter]) -> None:
    """The text of Table 2 says so, and that the paper's λ and threshold increase it."""
    (chapter,) = (c for c in chapters if c.experiment.id == "mnist-units")
    rows = {
        row: {m: error_rate_of(own).mean for m, own in best.items()}
        for row, best in mnist_units.best_of_rows(chapter.records).items()
    }
    plain = rows.pop(mnist_units.AS_IN_PAPER)
    assert set(plain) == {400, 800, 1200, 1600}
    for row, errors in rows.items():
        larger = "threshold" in row or row.startswith("…")
        if "trained longer" not in row:
            assert all((error > plain[m]) == larger for m, error in errors.items()), row
