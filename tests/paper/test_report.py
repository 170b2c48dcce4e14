"""The smoke runs of all experiments, and the report that is made from them."""

import json
from pathlib import Path

import pytest
from paper.cache import Cache
from paper.errors import PaperError
from paper.experiments import EXPERIMENTS
from paper.experiments.tables import Table
from paper.report import filled, read_chapters, to_markdown, write_report


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_all_smoke_runs_have_a_record(name: str, smoke: Path) -> None:
    records = {record.run: record for record in Cache(smoke).read()}
    for run in EXPERIMENTS[name].runs("smoke", True):
        assert records[run].data["name"].startswith("embedded: ")
        content = json.loads(Cache(smoke).path(run).read_text())
        assert content["parameters"], "the parameters of the estimators are recorded"


def test_report_has_all_figures_and_tables(smoke: Path) -> None:
    folder = smoke / "smoke"
    for x in EXPERIMENTS.values():
        for name in x.plots:
            assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    tables = {path.stem: path.read_text(encoding="utf-8") for path in (folder / "tables").iterdir()}
    assert {"claims", "mnist-units", "competitors"} <= set(tables)
    assert "Data: embedded: scikit-learn's digits" in tables["mnist-units"]
    assert "✓" not in tables["claims"], "claims are judged at the scale of the paper only"


def test_the_same_records_give_the_same_report(smoke: Path) -> None:
    def contents() -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in (smoke / "smoke").rglob("*.*") if p.is_file()}

    first = contents()
    (smoke / "smoke" / "tables" / "old.md").write_text("from an older report")
    write_report(smoke)
    assert contents() == first


def test_experiments_with_missing_runs_are_left_out(smoke: Path, tmp_path: Path) -> None:
    records = smoke / "smoke" / "records" / "pca"
    copy = tmp_path / "smoke" / "records" / "pca"
    copy.mkdir(parents=True)
    first, *others = sorted(records.iterdir())
    for path in others:
        (copy / path.name).write_bytes(path.read_bytes())
    assert not read_chapters(tmp_path)[1]
    (copy / first.name).write_bytes(first.read_bytes())
    (chapter,) = read_chapters(tmp_path)[1]
    assert chapter.experiment.id == "pca"
    with pytest.raises(PaperError, match="no records of the paper scale"):
        read_chapters(tmp_path, "paper")


def test_parts_of_a_page_are_replaced() -> None:
    page = "A\n<!-- one -->\nold\n<!-- end -->\nB\n<!-- other -->\nkept\n<!-- end -->\n"
    new = filled(page, {"one": "new", "absent": "x"})
    assert new == page.replace("old\n", "\nnew\n\n")
    assert filled(new, {"one": "new"}) == new


def test_tables_are_written_as_markdown() -> None:
    table = Table("t", "Title", ["a", "b"], [["|u|", "1,5"]], "MNIST")
    assert to_markdown(table) == "Title. Data: MNIST.\n\n|a|b|\n|---|---|\n|\\|u\\||1,5|\n"
