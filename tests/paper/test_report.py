"""The smoke runs of all experiments, and the report that is made from them."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from paper.cache import Cache
from paper.errors import PaperError
from paper.experiments import EXPERIMENTS
from paper.experiments.tables import Table
from paper.report import read_chapters, to_csv, to_markdown, write_report


class Reader(HTMLParser):
    """A parser that checks that tags are closed and collects links and ids."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        named = dict(attrs)
        self.links += [named[k] for k in ("src", "href") if k in named]
        self.ids += [named["id"]] if "id" in named else []
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_all_smoke_runs_have_a_record(name: str, smoke: Path) -> None:
    records = {record.run: record for record in Cache(smoke).read()}
    for run in EXPERIMENTS[name].runs("smoke", 0, True):
        assert records[run].data["name"].startswith("embedded: ")
        content = json.loads(Cache(smoke).path(run).read_text())
        assert content["parameters"], "the parameters of the estimators are recorded"


def test_report_has_all_figures_and_tables(smoke: Path) -> None:
    folder = smoke / "smoke"
    for x in EXPERIMENTS.values():
        for name in x.plots:
            assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
            assert b"<svg" in (folder / "figures" / f"{name}.svg").read_bytes()
    tables = {path.name for path in (folder / "tables").iterdir()}
    assert {"claims.md", "mnist-units.csv", "competitors.md"} <= tables


def test_page_is_complete_and_says_that_the_data_are_others(smoke: Path) -> None:
    page = (smoke / "smoke" / "index.html").read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert set(EXPERIMENTS) <= set(reader.ids)
    inside = {link[1:] for link in reader.links if link.startswith("#")}
    assert inside <= set(reader.ids)
    assert all(link.startswith(("#", "data:")) for link in reader.links), "no other file is needed"
    assert "Not on the paper’s data" in page
    assert re.search(r"0 were reproduced, 0 were not reproduced.* not judged", page)


def test_the_same_records_give_the_same_report(smoke: Path) -> None:
    def contents() -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in (smoke / "smoke").rglob("*.*") if p.is_file()}

    first = contents()
    (smoke / "smoke" / "tables" / "old.md").write_text("from an older report")
    write_report(smoke)
    assert contents() == first


def test_missing_runs_are_named(smoke: Path, tmp_path: Path) -> None:
    records = smoke / "smoke" / "records" / "pca"
    copy = tmp_path / "smoke" / "records" / "pca"
    copy.mkdir(parents=True)
    for path in sorted(records.iterdir())[1:]:
        (copy / path.name).write_bytes(path.read_bytes())
    (chapter,) = read_chapters(tmp_path)[1]
    n = len(chapter.plan)
    assert chapter.not_run == [f"1 of {n} planned runs."]
    write_report(tmp_path)
    page = (tmp_path / "smoke" / "index.html").read_text(encoding="utf-8")
    assert f"Only {n - 1} of {n} runs are complete" in page
    assert "No run is complete" in page
    with pytest.raises(PaperError, match="no records of the paper scale"):
        read_chapters(tmp_path, "paper")


def test_tables_are_written_as_markdown_and_csv() -> None:
    table = Table("t", "Title", ["a", "b"], [["|u|", "1,5"]], "MNIST")
    assert (
        to_markdown(table) == "Title. Data: MNIST.\n\n| a | b |\n| --- | --- |\n| \\|u\\| | 1,5 |\n"
    )
    assert to_csv(table) == 'a,b,data\n|u|,"1,5",MNIST\n'
