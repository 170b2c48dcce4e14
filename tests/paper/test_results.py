"""The committed results: the page and the tables agree with the records."""

import json
import re
from pathlib import Path

import pytest
from paper.cache import Cache
from paper.experiments import EXPERIMENTS, accuracy_sparsity, digits, mnist_units
from paper.experiments.digits import difference
from paper.experiments.features import error_rate_of
from paper.experiments.networks import BASELINES, NETWORKS
from paper.report import Chapter, filled, make_blocks, read_chapters, to_markdown

ROOT = Path(__file__).parents[2]
RESULTS, PAGE = ROOT / "paper" / "results", ROOT / "docs" / "paper.md"
pytestmark = pytest.mark.skipif(not RESULTS.exists(), reason="the results are not in the sdist")


@pytest.fixture(scope="module")
def chapters() -> list[Chapter]:
    return read_chapters(RESULTS, "paper")[1]


def test_page_has_the_claims_of_the_records(chapters: list[Chapter]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page, make_blocks(chapters)) == page
    for name in ("tally", "strip", *EXPERIMENTS):
        assert f"<!-- {name} -->" in page


def test_page_is_short() -> None:
    visible = re.sub("<[^>]*>", "", PAGE.read_text(encoding="utf-8"))
    assert len(visible.split()) <= 2500


def test_the_planned_runs_are_the_records() -> None:
    planned = {run for x in EXPERIMENTS.values() for run in x.runs("paper", False)}
    recorded = {record.run for record in Cache(RESULTS).read()}
    assert planned == recorded


def test_every_claim_is_judged(chapters: list[Chapter]) -> None:
    assert [chapter.experiment.id for chapter in chapters] == list(EXPERIMENTS)
    claims = [claim for chapter in chapters for claim in chapter.claims]
    assert len({claim.sentence for claim in claims}) == len(claims) == 41
    assert all(claim.verdicts for claim in claims)


def test_every_record_says_how_it_was_made(chapters: list[Chapter]) -> None:
    """The commit of unmodified code, the number of cores and the parameters of all estimators."""
    for run in {record.run for chapter in chapters for record in chapter.records}:
        content = json.loads(Cache(RESULTS).path(run).read_text(encoding="utf-8"))
        assert re.fullmatch("[0-9a-f]{40}", content["commit"]), run.label
        assert content["cores"] >= 1, run.label
        assert content["parameters"], run.label


def test_committed_tables_are_those_of_the_records(chapters: list[Chapter]) -> None:
    for table in (table for chapter in chapters for table in chapter.tables):
        committed = RESULTS / "paper" / "tables" / f"{table.name}.md"
        assert committed.read_text(encoding="utf-8") == to_markdown(table)


def chapter_of(chapters: list[Chapter], name: str) -> Chapter:
    (found,) = (chapter for chapter in chapters if chapter.experiment.id == name)
    return found


def test_no_network_is_more_accurate_than_raw_pixels_and_pca(chapters: list[Chapter]) -> None:
    """The text of Figure 8 says so, with the range of the differences."""
    chapter = chapter_of(chapters, "accuracy-sparsity")
    found = accuracy_sparsity.by_variant(chapter.records)
    better = [difference(found[x], found[y]) for x in BASELINES for y in NETWORKS]
    assert min(estimate.value for estimate in better) > 0
    low, high = (f"{100 * f(estimate.value for estimate in better):.1f}" for f in (min, max))
    assert f"{low} to {high} points" in PAGE.read_text(encoding="utf-8")


def test_the_chosen_lambdas_are_inside_of_their_grids(chapters: list[Chapter]) -> None:
    """Except λ = 0. Otherwise a network might be more accurate with λ that were not tried."""
    records = {r.run: r for chapter in chapters for r in chapter.records}.values()
    own = [r for r in records if r.run.group.startswith("digits") and r["network"] in NETWORKS]
    chosen = [(r["lams"][digits.chosen(r) or 0], r["lams"]) for r in digits.with_all_lams(own)]
    assert all(min(lams) < lam < max(lams) for lam, lams in chosen if lam > 0)


def test_encoders_with_an_early_stop_have_smaller_errors(chapters: list[Chapter]) -> None:
    """The text of Table 2 says so; from weights in [−1, 1] they have much larger ones."""
    (record,) = (
        r
        for r in chapter_of(chapters, "mnist-units").records
        if "encoder_steps" in r.run.settings and "starts" not in r.run.settings
    )
    limit = record[mnist_units.LIMIT]["test_error"]
    for t in mnist_units.STEPS:
        assert record[f"from 0, {t} steps"]["test_error"] < limit
        assert record[f"from [−1, 1], {t} steps"]["test_error"] > 0.1


def test_a_ridge_and_noise_reduce_the_error_of_table_2(chapters: list[Chapter]) -> None:
    records = chapter_of(chapters, "mnist-units").records
    rows = mnist_units.best_of_rows(records, mnist_units.READINGS | mnist_units.IMPROVED)
    for row in mnist_units.IMPROVED:
        for m, own in rows[row].items():
            chosen = rows[mnist_units.CHOSEN][m]
            assert error_rate_of(own).mean < error_rate_of(chosen).mean


def test_small_learning_rates_are_best_for_the_start_of_the_paper(
    chapters: list[Chapter],
) -> None:
    """A headline says how often the best rate is one with which the weights hardly change."""
    own = [
        r
        for r in chapter_of(chapters, "digits-components").records
        if r.run.group == "competitors" and (r["init"], r["passes"]) == ("paper", 50)
    ]
    best = [r["learning_rate"][max(range(6), key=r["val_accuracy"].__getitem__)] for r in own]
    small = sum(rate in r["rates"][:2] for rate, r in zip(best, own, strict=True))
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"In {small} of {len(own)} trainings" in page
