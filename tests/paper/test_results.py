"""The committed results: the page, the docs and the README agree with the records."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from paper.cache import Cache
from paper.experiments import (
    EXPERIMENTS,
    accuracy_sparsity,
    competitors,
    digits,
    mnist_noise,
    mnist_units,
    pca,
    sparsity,
)
from paper.experiments.claims import NOT_REPRODUCED, REPRODUCED, Estimate, Tally
from paper.experiments.digits import COMPARABLE, PAPER_START, difference
from paper.experiments.features import error_rate_of
from paper.experiments.networks import BASELINES, NETWORKS
from paper.experiments.tables import TEXTS
from paper.report import claims_table, read_chapters, to_markdown
from paper.report.page import Chapter

from lincode.metrics import THRESHOLDS

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "paper" / "results"
pytestmark = pytest.mark.skipif(not RESULTS.exists(), reason="the results are not in the sdist")


@pytest.fixture(scope="module")
def chapters() -> list[Chapter]:
    return read_chapters(RESULTS, "paper")[1]


def test_page_docs_and_readme_have_the_tally_of_the_records(chapters: list[Chapter]) -> None:
    expected = Tally.of(claim for chapter in chapters for claim in chapter.claims).sentence
    for path in (RESULTS / "paper" / "index.html", ROOT / "README.md", ROOT / "docs" / "paper.md"):
        assert expected in " ".join(path.read_text(encoding="utf-8").split()), path


def test_every_planned_run_has_a_record(chapters: list[Chapter]) -> None:
    assert [chapter.experiment.id for chapter in chapters] == list(EXPERIMENTS)
    assert {c.experiment.id: c.missing for c in chapters if c.missing} == {}


def test_every_record_says_how_it_was_made(chapters: list[Chapter]) -> None:
    """The commit of unmodified code, the number of cores and the parameters of all estimators."""
    for run in {record.run for chapter in chapters for record in chapter.records}:
        content = json.loads(Cache(RESULTS).path(run).read_text(encoding="utf-8"))
        assert re.fullmatch("[0-9a-f]{40}", content["commit"]), run.label
        assert content["cores"] >= 1, run.label
        assert content["parameters"], run.label


def test_committed_tables_and_those_of_the_docs_are_those_of_the_records(
    chapters: list[Chapter],
) -> None:
    docs = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    tables = {table.name: table for chapter in chapters for table in chapter.tables}
    for table in (*tables.values(), claims_table(chapters)):
        committed = RESULTS / "paper" / "tables" / f"{table.name}.md"
        assert committed.read_text(encoding="utf-8") == to_markdown(table)
    for name in ("mnist-methods", "mnist-units", "mnist-noise-variance", "competitors-claims"):
        assert to_markdown(tables[name]).partition("\n\n")[2] in docs, name


def test_claims_are_distinct_and_explained(chapters: list[Chapter]) -> None:
    counted = [claim for c in chapters for claim in c.claims if claim.counted]
    assert len({claim.sentence for claim in counted}) == len(counted)
    for claim in counted:
        if claim.outcome != REPRODUCED:
            assert claim.why, claim.sentence
            assert set(claim.shown_by) <= set(EXPERIMENTS), claim.sentence


def test_all_experiments_are_explained() -> None:
    for x in EXPERIMENTS.values():
        assert x.texts("protocol")
        for kind in ("protocol", "departures", "not_run"):
            assert all(sentence.endswith((".", "):")) for sentence in x.texts(kind))
        assert all(x.caption(name) for name in x.plots)


def chapter_of(chapters: list[Chapter], name: str) -> Chapter:
    (found,) = (chapter for chapter in chapters if chapter.experiment.id == name)
    return found


def test_start_and_passes_decide_whether_competitors_are_less_accurate(
    chapters: list[Chapter],
) -> None:
    """The text of Figure 5 says so."""
    tables = {table.name: table for table in chapter_of(chapters, "competitors").tables}
    for training, *outcomes in tables["competitors-claims"].rows:
        by_units = {25: outcomes[0:2], 100: outcomes[2:4], 150: outcomes[4:6]}
        if training.startswith("weights in [−1, 1]"):
            assert all(own == ["holds"] * 2 for own in by_units.values()), training
        elif training.endswith(" 2 passes"):
            assert by_units[25] == ["holds"] * 2, training
            assert "holds" not in by_units[100], training
        elif training.endswith(" 50 passes"):
            assert by_units[100] == by_units[150] == ["does not hold"] * 2, training


def test_competitors_lose_more_accuracy_with_few_units_and_large_digits(
    chapters: list[Chapter],
) -> None:
    """The text of Figure 9 says so."""
    found = competitors.accuracies(chapter_of(chapters, "competitors").records)
    for training, row in found.iterrows():
        if str(training).startswith(("ASCNN", "SAANN")):
            small, large = (np.mean(row[f" 25 units, {side}×{side}"]) for side in (14, 28))
            assert small - large > COMPARABLE, training
    cells = digits.cells(chapter_of(chapters, "digits-input-size").records, "side")
    assert all(difference(cells[x][14], cells[x][28]).holds for x in digits.OTHERS)


def test_the_start_matters_for_scnn_and_large_digits(chapters: list[Chapter]) -> None:
    """The text of Figure 9 says so: SCNN loses accuracy only from weights in [−1, 1]."""
    records = competitors.with_joined_lams(chapter_of(chapters, "competitors").records)

    def loss(network: str, m: int) -> Estimate:
        small, large = (
            [r for r in records if (r["network"], r["m"], r["side"]) == (network, m, side)]
            for side in (14, 28)
        )
        return difference(small, large)

    for m in (25, 100):
        assert (loss(PAPER_START, m) - COMPARABLE).value > 0
        assert loss(PAPER_START, m).holds
        assert (loss("SCNN", m) - COMPARABLE).fails


def test_no_network_is_more_accurate_than_raw_pixels_and_pca(chapters: list[Chapter]) -> None:
    """The protocol of Figures 5, 8 and 9 says so, with the range of the differences."""
    chapter = chapter_of(chapters, "accuracy-sparsity")
    found = accuracy_sparsity.by_variant(chapter.records)
    better = [difference(found[x], found[y]) for x in BASELINES for y in NETWORKS]
    assert all(estimate.holds for estimate in better)
    low, high = (f"{100 * f(estimate.value for estimate in better):.1f}" for f in (min, max))
    assert f"better than every network by {low} to {high} points" in " ".join(
        TEXTS["grid"]["protocol"]
    )


def test_longer_trainings_do_not_change_the_order_of_the_decreases(chapters: list[Chapter]) -> None:
    """The text of Figure 2 says so."""
    found = pca.errors(chapter_of(chapters, "pca").records)
    n = pca.LONGER_REPETITIONS
    longer = ["SCNN", *pca.LONGER]
    decrease = [np.mean(found.loc[x, 10][:n]) - np.mean(found.loc[x, 50][:n]) for x in longer]
    assert decrease[2] > decrease[0] > decrease[1]
    error = {x: np.mean(found.loc[x, 10]) for x in pca.METHODS}
    assert max(error, key=error.__getitem__) == "SAANN"


def test_scnn_loses_more_accuracy_with_sparse_codes(chapters: list[Chapter]) -> None:
    """The text of Figure 8 says so: more than Sparsenet and SAANN."""
    found = accuracy_sparsity.by_variant(chapter_of(chapters, "accuracy-sparsity").records)
    loss = {}
    for x in NETWORKS:
        best, sparse = (digits.rate(found[x], area) for area in (0.0, accuracy_sparsity.SPARSE))
        assert best is not None
        assert sparse is not None
        loss[x] = best.mean - sparse.mean
    assert loss["SCNN"] > 2 * max(loss["Sparsenet"], loss["SAANN"])
    assert abs(loss["SAANN"]) < 0.01
    in_range = {x: [k for k, lam in enumerate(found[x][0]["lams"]) if lam <= 1] for x in NETWORKS}

    def sparse_samples(x: str) -> list[bool]:
        areas = [np.array(r["val_sparsity_area"])[in_range[x]] for r in found[x]]
        return [bool(own.max() >= accuracy_sparsity.SPARSE) for own in areas]

    assert all(sparse_samples("SAANN"))
    assert not any(sparse_samples("ASCNN"))


def test_lams_in_the_range_of_the_paper_are_too_small_for_ascnn(chapters: list[Chapter]) -> None:
    """The text of Figure 3 says so: the validation errors are then larger than those of SCNN."""
    records = chapter_of(chapters, "missing-pixels").records
    errors = {(r["network"], r.run.seed): np.array(r["val_rms"]) for r in records}
    for record in records:
        if record["network"] == "ASCNN":
            own = [k for k, lam in enumerate(record["lams"]) if lam <= 1]
            scnn = errors["SCNN", record.run.seed].min(axis=0)
            assert len(own) == 2
            assert np.all(errors["ASCNN", record.run.seed][own] > scnn)


def test_the_scale_of_the_patches_hardly_changes_the_errors(chapters: list[Chapter]) -> None:
    """The text of Figure 3 says so."""
    records = chapter_of(chapters, "sparsity").records

    def errors(scaled: bool) -> dict[tuple[str, int], list[float]]:
        own = [r for r in records if sparsity.is_scaled(r) == scaled]
        return {(r["network"], r.run.seed): [x["test_rms"] for x in r["chosen"]] for r in own}

    unscaled = errors(False)
    assert set(unscaled) == set(errors(True))
    for key, own in errors(True).items():
        assert_allclose(own, unscaled[key], rtol=0.02, err_msg=str(key))


def test_the_scale_of_the_patches_decides_one_claim_about_sparsity(chapters: list[Chapter]) -> None:
    """The text of Figure 4 says so, and that no network is sparse at a threshold of 0.01."""
    chapter = chapter_of(chapters, "sparsity")
    scaled, linear, thresholded = (
        [claim.outcome for claim in chapter.claims[k : k + 4]] for k in (0, 4, 8)
    )
    assert [claim.counted for claim in chapter.claims] == [True] * 4 + [False] * 8
    assert scaled == [NOT_REPRODUCED, NOT_REPRODUCED, REPRODUCED, NOT_REPRODUCED]
    assert linear == thresholded == [NOT_REPRODUCED, REPRODUCED, REPRODUCED, NOT_REPRODUCED]
    low = int(np.searchsorted(THRESHOLDS, sparsity.LOW))
    for is_scaled in (True, False):
        own = [r for r in chapter.records if sparsity.is_scaled(r) == is_scaled]
        for x, curves in sparsity.curves(own).items():
            assert curves[:, :, low].max() < sparsity.HIGH, x


def test_errors_on_noisy_digits_are_smaller_than_in_the_paper(chapters: list[Chapter]) -> None:
    """The text of Table 3 says so: by more than one point at every σ."""
    records = mnist_noise.by_reading(chapter_of(chapters, "mnist-noise").records)
    found = mnist_noise.best(records[mnist_noise.COUNTED])
    for x in (mnist_noise.ENCODER, mnist_noise.RELEARNED):
        for own, printed in zip(found[x].values(), mnist_noise.PAPER[x], strict=True):
            assert printed - error_rate_of(own).mean > 0.01


def test_longer_training_hardly_changes_the_error_of_table_2(chapters: list[Chapter]) -> None:
    """The text of Table 2 says so: by less than two standard errors."""
    found = mnist_units.best_of_rows(chapter_of(chapters, "mnist-units").records)
    (longer,) = found["SCNN, trained longer + linear SVM"][400]
    first = found[mnist_units.AS_IN_PAPER][400][0]
    assert first[0]["lam"] == longer[0]["lam"]
    change = error_rate_of([first]) - error_rate_of([longer])
    assert not change.holds
    assert not change.fails


def test_noise_and_a_ridge_reduce_the_error_of_table_2(chapters: list[Chapter]) -> None:
    """The text of Table 2 says so, and that the paper's λ and threshold increase it."""
    chapter = chapter_of(chapters, "mnist-units")
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
