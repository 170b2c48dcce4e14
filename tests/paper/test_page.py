"""The page: its parts, its links, and how a browser shows it."""

import re
from pathlib import Path

import pytest
from paper.errors import PaperError
from paper.experiments.claims import OUTCOMES, RULE
from paper.experiments.experiment import Run
from paper.experiments.registry import EXPERIMENTS
from paper.report import read_chapters, write_report
from paper.report.chapters import describe_runs
from paper.report.docs import update_file

from tests.browser import CHROMIUM, run_in_browser
from tests.paper.reports import figure_names, read, write_records

pytestmark = pytest.mark.usefixtures("no_fsync")


def section(page: str, name: str) -> str:
    """Return the HTML of a section."""
    return page.split(f'<section id="{name}">')[1].split("</section>")[0]


@pytest.mark.slow
def test_summary_has_all_claims_before_the_first_chapter(full_report: Path) -> None:
    page = (full_report / "paper" / "index.html").read_text(encoding="utf-8")
    _, chapters = read_chapters(full_report, "paper")
    summary = section(page, "claims")
    assert page.index('<section id="claims">') < page.index(
        f'<section id="{next(iter(EXPERIMENTS))}">'
    )
    claims = [claim for chapter in chapters for claim in chapter.claims]
    assert sum(claim.counted for claim in claims) == 36
    counted, extra = summary.split("not counted")
    assert len(re.findall('href="#claim-', counted)) == 36
    assert len(re.findall('class="outcome ', counted)) == 36
    assert len(re.findall('class="outcome ', extra)) == len(claims) - 36 > 0
    assert page.count(RULE) == 1


@pytest.mark.slow
def test_links_lead_to_a_place_of_the_page(full_report: Path) -> None:
    page = read(full_report / "paper" / "index.html")
    targets = {link[1:] for link in page.links if link.startswith("#")}
    assert targets <= set(page.ids)
    assert {f"claim-{k}" for k in range(1, 36)} <= targets
    assert len(page.ids) == len(set(page.ids))


@pytest.mark.slow
def test_every_chapter_has_a_tally_lists_and_a_link_back(full_report: Path) -> None:
    page = (full_report / "paper" / "index.html").read_text(encoding="utf-8")
    for x in EXPERIMENTS.values():
        own = section(page, x.id)
        assert 'href="#claims"' in own
        assert ("<b>Of " in own) == x.has_claims
        assert own.count("<h2>") == 1
        assert "<h3>Protocol</h3>" in own
        assert ("<h3>Departures from the paper</h3>" in own) == bool(x.departures)
        assert own.count("<figcaption>") == len(x.plots)
    assert "All planned runs are complete" not in page, "some methods of Table 1 are never run"


@pytest.mark.slow
def test_figures_have_no_second_title(full_report: Path) -> None:
    """Titles are text in the SVG only if the fonts are not paths, so the sources are read."""
    from paper.report.figures import make_figure

    _, chapters = read_chapters(full_report, "paper")
    for chapter in chapters:
        for plot in chapter.experiment.plots.values():
            assert make_figure(plot, chapter.records).get_suptitle() == ""


@pytest.mark.usefixtures("no_figures")
def test_files_of_an_older_report_are_removed(tmp_path: Path) -> None:
    write_records(tmp_path, experiments=["pca"])
    old = tmp_path / "paper" / "tables" / "old.csv"
    old.parent.mkdir()
    old.write_text("old")
    write_report(tmp_path)
    assert {path.name for path in old.parent.iterdir()} == {
        f"{name}.{form}" for name in ("pca", "claims") for form in ("md", "csv")
    }


@pytest.mark.usefixtures("no_figures")
def test_runs_that_are_missing_are_named(tmp_path: Path) -> None:
    runs = EXPERIMENTS["pca"].runs("paper", 0, False)
    write_records(tmp_path, only=[r for r in runs if r.seed < 18 and r.settings["m"] != 50])
    page = write_report(tmp_path).read_text(encoding="utf-8")
    text = " ".join(re.sub("<[^>]*>", " ", section(page, "not-run")).split())
    methods = "method: ASCNN, PCA, SAANN, SCNN"
    assert f"Planned but not run: {methods}; units: 50." in text
    assert f"Planned but not run: {methods}; units: 10, 30; seed: 18, 19." in text
    assert "Figure 9: accuracy against the size of the input No run is complete" in text


@pytest.mark.usefixtures("no_figures")
def test_runs_of_another_chapter_are_named_once(tmp_path: Path) -> None:
    runs = EXPERIMENTS["mnist-methods"].runs("paper", 0, False)
    write_records(tmp_path, only=[run for run in runs if run.group == "mnist-methods"])
    page = write_report(tmp_path).read_text(encoding="utf-8")
    text = " ".join(re.sub("<[^>]*>", " ", section(page, "not-run")).split())
    assert "Runs of Table 2 are missing (see there)." in text
    assert "threshold: alpha" not in text


def test_description_of_runs_is_short_and_complete() -> None:
    def run(seed: int, **settings: object) -> Run:
        return Run("g", "paper", seed, False, {"n": [1, 2], "fixed": 7, **settings})

    plan = [run(k, network=x, m=m) for k in range(3) for x in "AB" for m in (5, 10)]
    plan += [run(0, network="C", lam=0.5)]
    assert describe_runs([], plan) == []
    assert describe_runs(plan[:4], plan) == ["network: A, B; units: 5, 10; seed: 0"]
    assert describe_runs([plan[-1]], plan) == ["network: C; λ: 0.5; seed: 0"]
    (line,) = describe_runs([plan[5], plan[9]], plan)
    assert line == "network: A; units: 10; seed: 1, 2"


@pytest.mark.usefixtures("no_figures")
def test_results_in_markdown_files_are_updated(tmp_path: Path) -> None:
    write_records(tmp_path, experiments=["pca"])
    path = tmp_path / "notes.md"
    path.write_text(
        "A <!-- begin tally -->\nold<!-- end tally --> B\n"
        "<!-- begin figure figure-2-pca -->\nold<!-- end figure figure-2-pca -->\n"
        "<!-- begin figure competitors -->\nold<!-- end figure competitors -->\n"
        "<!-- begin table pca -->\nold\n<!-- end table pca -->\nC\n"
    )
    _, chapters = read_chapters(tmp_path)
    write_report(tmp_path, update=[path])
    text = path.read_text()
    assert f"A <!-- begin tally -->\n{chapters[0].tally.sentence}<!-- end tally --> B" in text
    assert "| units | 10 | 30 | 50 |" in text
    assert "](paper/figures/figure-2-pca.png)" in text
    assert "<!-- begin figure competitors -->\n\nNot run yet.\n\n<!-- end" in text
    assert text.endswith("<!-- end table pca -->\nC\n")
    assert "old" not in text
    figures = tmp_path / "paper" / "figures"
    update_file(path, chapters, figures)
    assert path.read_text() == text
    path.write_text("<!-- begin table nothing -->\n<!-- end table nothing -->")
    with pytest.raises(PaperError, match="no results for the comment `begin table nothing`"):
        update_file(path, chapters, figures)


MEASURE = """
const frame = await open("/index.html", {width});
const {{document, innerWidth, faults, getComputedStyle}} = frame.contentWindow;
const images = [...document.images];
const wide = [...document.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth);
return {{
  width: innerWidth,
  images: images.length,
  broken: images.filter(i => !(i.complete && i.naturalWidth > 0)).length,
  pageScrolls: document.documentElement.scrollWidth > innerWidth,
  wide: wide.length,
  hidden: wide.filter(e => getComputedStyle(e).overflowX !== "auto").length,
  claims: [...document.querySelectorAll("#claims .outcome")].filter(e => e.offsetWidth).length,
  faults,
}};"""


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 400])
def test_browser_shows_the_page(full_report: Path, tmp_path: Path, width: int) -> None:
    folder = full_report / "paper"
    page = (folder / "index.html").read_text(encoding="utf-8")
    server = run_in_browser(folder, tmp_path, MEASURE.format(width=width), seconds=120)
    found, summary = server.result, section(page, "claims")
    assert found["width"] == width, found
    assert (found["images"], found["broken"]) == (len(figure_names()), 0)
    assert not found["pageScrolls"]
    assert found["hidden"] == 0
    assert found["wide"] > (20 if width == 400 else -1)
    assert found["claims"] == summary.count('class="outcome ') > len(OUTCOMES)
    assert not found["faults"]
    assert not server.missing
