"""The report is made from the records alone and says which data and runs they come from."""

import re
from pathlib import Path

import pytest
from paper.cli import main
from paper.errors import PaperError
from paper.experiments import mnist_units
from paper.experiments.claims import OUTCOMES
from paper.experiments.experiment import Record, Run, Table
from paper.experiments.records import Store
from paper.experiments.registry import EXPERIMENTS
from paper.report import write_report
from paper.report.figures import make_figure
from paper.report.tables import to_csv, to_markdown

from tests.paper.reports import figure_names, read, write_records

pytestmark = pytest.mark.usefixtures("no_fsync")


@pytest.mark.slow
def test_full_report_has_all_figures_tables_and_claims(full_report: Path) -> None:
    folder = full_report / "paper"
    page = read(folder / "index.html")
    all_records = Store(full_report).read()
    for name in figure_names():
        assert (folder / "figures" / f"{name}.svg").read_text().startswith("<?xml")
        assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert sum(link.startswith("data:image/svg") for link in page.links) == len(figure_names())
    assert set(EXPERIMENTS) <= set(page.ids)
    assert f"{len(all_records)} runs, paper scale" in " ".join(page.text.split())
    assert "Only " not in page.text
    for x in EXPERIMENTS.values():
        plan = set(x.runs("paper", 0, False))
        records = [r for r in all_records if r.run in plan]
        assert bool(x.claims(records)) == x.has_claims
        for claim in x.claims(records):
            assert claim.sentence in page.text
            assert claim.outcome in OUTCOMES
        for table in x.tables(records):
            assert (folder / "tables" / f"{table.name}.md").exists()
            assert (folder / "tables" / f"{table.name}.csv").exists()
        assert f"python -m paper reproduce {x.id} --scale paper" in page.text


@pytest.mark.slow
def test_page_needs_no_other_file(full_report: Path) -> None:
    page = full_report / "paper" / "index.html"
    assert all(link.startswith(("data:", "#")) for link in read(page).links)
    assert "http" not in page.read_text().split("base64")[0]


@pytest.mark.usefixtures("svg_only")
@pytest.mark.slow
@pytest.mark.parametrize("fraction", [0.02, 0.3, 0.7])
def test_page_says_if_runs_are_missing(tmp_path: Path, fraction: float) -> None:
    write_records(tmp_path, fraction=fraction)
    assert "Only " in read(write_report(tmp_path)).text


@pytest.mark.usefixtures("svg_only")
@pytest.mark.parametrize("one", EXPERIMENTS)
def test_report_of_one_experiment(tmp_path: Path, one: str) -> None:
    write_records(tmp_path, experiments=[one])
    assert one in read(write_report(tmp_path)).ids


@pytest.mark.usefixtures("no_figures")
def test_claims_are_not_judged_while_points_are_missing(tmp_path: Path) -> None:
    runs = EXPERIMENTS["digits-components"].runs("paper", 0, False)
    write_records(tmp_path, only=[run for run in runs if run.settings["m"] < 150])
    page = write_report(tmp_path).read_text(encoding="utf-8")
    own = page.split('<section id="digits-components">')[1].split("</section>")[0]
    assert "Of 2 claims, 0 were reproduced, 0 were not reproduced" in own
    assert own.count('class="outcome not-judged"') == own.count('class="outcome ') == 2


@pytest.mark.usefixtures("no_figures")
def test_claims_are_judged_with_one_repetition_of_every_point(tmp_path: Path) -> None:
    runs = EXPERIMENTS["digits-components"].runs("paper", 0, False)
    write_records(tmp_path, only=[run for run in runs if run.seed == 0])
    page = write_report(tmp_path).read_text(encoding="utf-8")
    own = page.split('<section id="digits-components">')[1].split("</section>")[0]
    assert "Only 66 of 198 runs are complete" in own
    assert "not judged" not in own


@pytest.mark.usefixtures("no_figures")
def test_smoke_scale_is_named_and_judges_nothing(tmp_path: Path) -> None:
    write_records(tmp_path, scale="smoke")
    page = read(write_report(tmp_path))
    assert "This is the smoke scale" in page.text
    assert "0 were reproduced, 0 were not reproduced, 0 are inconclusive" in page.text
    for table in tables_of(tmp_path):
        assert "smoke scale" in table.read_text(), table


def tables_of(out: Path) -> list[Path]:
    found = [*out.glob("*/tables/*.md"), *out.glob("*/tables/*.csv")]
    assert found
    return found


@pytest.mark.usefixtures("no_figures")
def test_embedded_data_are_named_in_all_tables_and_figures(tmp_path: Path) -> None:
    write_records(tmp_path, scale="smoke", embedded=True)
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "Not on the paper’s data" in page
    captions = re.findall("<caption>(.*?)</caption>", page)
    assert captions
    assert all("embedded: other data; smoke scale" in caption for caption in captions)
    for table in tables_of(tmp_path):
        assert "embedded: other data" in table.read_text()
    records = Store(tmp_path).read()
    for x in EXPERIMENTS.values():
        plan = set(x.runs("smoke", 0, True))
        own = [r for r in records if r.run in plan]
        for plot in x.plots.values():
            title = make_figure(plot, own).get_suptitle()
            assert title.endswith("data: embedded: other data (smoke scale)")


@pytest.mark.usefixtures("no_figures")
def test_real_data_are_preferred_to_embedded_data(tmp_path: Path) -> None:
    write_records(tmp_path, scale="smoke", embedded=True, experiments=["pca"])
    write_records(tmp_path, scale="smoke", experiments=["pca"])
    page = read(write_report(tmp_path))
    assert "Not on the paper’s data" not in page.text
    assert "embedded" not in page.text


@pytest.mark.usefixtures("no_figures")
def test_each_scale_has_its_own_page(tmp_path: Path) -> None:
    write_records(tmp_path, scale="smoke", experiments=["pca"])
    write_records(tmp_path, scale="paper", experiments=["pca"])
    assert "paper scale" in read(write_report(tmp_path)).text
    first = (tmp_path / "paper" / "index.html").read_bytes()
    assert "smoke scale" in read(write_report(tmp_path, "smoke")).text
    assert (tmp_path / "paper" / "index.html").read_bytes() == first


@pytest.mark.usefixtures("no_figures")
def test_records_of_other_settings_or_seeds_are_not_used(tmp_path: Path) -> None:
    write_records(tmp_path, experiments=["pca"])
    before = (write_report(tmp_path).parent / "tables" / "pca.md").read_text()
    run = EXPERIMENTS["pca"].runs("paper", 0, False)[0]
    others = [
        Run("pca", "paper", 0, False, {**run.settings, "n": 7}),
        Run("pca", "paper", 99, False, run.settings),
    ]
    write_records(tmp_path, only=others)
    page = read(write_report(tmp_path))
    assert (tmp_path / "paper" / "tables" / "pca.md").read_text() == before
    assert "Only " not in page.text


def test_scale_without_records_is_refused(tmp_path: Path) -> None:
    write_records(tmp_path, scale="smoke", experiments=["pca"])
    with pytest.raises(PaperError, match="no records of the paper scale"):
        write_report(tmp_path, "paper")
    assert not (tmp_path / "paper").exists()


@pytest.mark.usefixtures("svg_only")
@pytest.mark.slow
def test_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    write_records(tmp_path, scale="smoke", experiments=["pca", "sparsity"])
    first = write_report(tmp_path).read_bytes()
    assert write_report(tmp_path).read_bytes() == first


def test_folder_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PaperError, match="has no records: run"):
        write_report(tmp_path)


@pytest.mark.usefixtures("no_figures")
def test_page_shows_the_command(tmp_path: Path) -> None:
    write_records(tmp_path, scale="smoke", embedded=True, experiments=["pca"])
    assert (
        "python -m paper reproduce pca --scale smoke --embedded"
        in read(write_report(tmp_path)).text
    )


def test_special_characters_in_cells_are_escaped() -> None:
    table = Table("t", "T", ["a", "b"], [["x|y", '1,"2']], data="D")
    assert "x\\|y" in to_markdown(table)
    assert to_markdown(table).startswith("T. Data: D.")
    assert to_csv(table).splitlines() == ["a,b,data", 'x|y,"1,""2",D']


@pytest.mark.parametrize("sparse", [("SCNN", "Sparsenet"), ("Sparsenet",)])
def test_networks_that_are_never_sparse_are_not_judged(sparse: tuple[str, ...]) -> None:
    records = []
    for run in EXPERIMENTS["accuracy-sparsity"].runs("paper", 0, False):
        area = 0.9 if run.settings["network"] in sparse else 0.3
        n = len(run.settings["lams"])
        result = {
            "val_accuracy": [0.9] * n,
            "test_accuracy": [0.85] * n,
            "val_sparsity_area": [area] * n,
        }
        records.append(Record(run, result, 1.0, {}, {}, ""))
    claims = EXPERIMENTS["accuracy-sparsity"].claims(records)
    assert [claim.outcome for claim in claims] == [
        "inconclusive",
        "inconclusive",
        "reproduced" if "SCNN" in sparse else "not judged",
        "reproduced",
        "not judged",
        "inconclusive" if "SCNN" in sparse else "not judged",
    ]
    assert "never that sparse" in claims[4].here
    assert "0.0 %" not in claims[4].here


def test_training_with_noise_or_a_ridge_has_its_own_row() -> None:
    """Noise is judged too, but is not counted."""
    by_setting = {
        (run.settings["lam"], run.settings.get("noise"), run.settings.get("encoder_ridge")): run
        for run in EXPERIMENTS["mnist-units"].runs("paper", 0, False)
        if run.seed == 0 and run.settings["m"] == 400 and "training" not in run.settings
        if max(run.settings.get("zeros", {}).get("plain", [0])) == 0.92 or "noise" in run.settings
    }

    def record(noise: float | None, ridge: float | None, test: float) -> Record:
        svm = {"val_error": test, "test_error": test, "C": 3.0, "zeros": 0.88}
        run = by_setting[0.5, noise, ridge]
        result = {"fit_seconds": 1.0} | dict.fromkeys(run.settings["Cs"], svm)
        return Record(run, result, 1.0, {}, {}, "")

    records = [
        record(None, None, 0.0276),
        record(0.3, None, 0.0228),
        record(None, 0.3, 0.021),
        record(None, 1.0, 0.0225),
    ]
    without, with_noise = mnist_units.claims(records)
    assert (without.outcome, with_noise.outcome) == ("inconclusive", "reproduced")
    assert (without.counted, with_noise.counted) == (True, False)
    assert "noise" in with_noise.sentence
    assert "noise" not in without.sentence
    (table,) = mnist_units.tables(records)
    rows = {name: cells for name, *cells in table.rows}
    assert rows[mnist_units.AS_IN_PAPER] == ["2.76 % (± 0.16)"]
    assert rows[mnist_units.WITH_NOISE] == ["2.28 % (± 0.15)"]
    assert rows["SCNN, ridge on the encoder + linear SVM"] == ["2.10 % (± 0.14)"]
    settings = [row[1] for row in table.rows if row[0] == mnist_units.SETTINGS]
    # One λ was tried. 88 % is the last of the fractions with noise, and 0.3 the smaller ridge.
    assert settings[0] == "0.5, 88 %, 3"
    assert settings[1] == "0.5, 88 %*, 3"
    assert settings[2] == "0.5, 88 %, 3, 0.3*"


@pytest.mark.usefixtures("no_figures")
def test_command_prints_the_path_of_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_records(tmp_path, scale="smoke", experiments=["pca"])
    assert main(["report", "--out", str(tmp_path)]) == 0
    assert str(tmp_path / "smoke" / "index.html") in capsys.readouterr().out
