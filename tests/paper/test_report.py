"""The report is made from the records alone and says which data and runs they come from."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paper.cli import main
from paper.errors import PaperError
from paper.experiments import mnist_noise, mnist_units
from paper.experiments.experiment import Record, Run, Scale, Table
from paper.experiments.records import Store, versions
from paper.experiments.registry import EXPERIMENTS
from paper.report import figures, write_report
from paper.report.figures import make_figure
from paper.report.tables import to_csv, to_markdown

from lincode.metrics import THRESHOLDS

RESULTS = Path(__file__).parents[2] / "paper" / "results"


def random_result(run: Run, rng: np.random.Generator) -> dict[str, Any]:
    """Return a result of the right form without any training."""
    settings = run.settings

    def some(n: int) -> list[float]:
        return [float(x) for x in rng.uniform(0.1, 0.9, n)]

    svm = {"val_error": 0.03, "test_error": 0.031, "C": 1.0, "zeros": 0.82}
    if run.group == "pca":
        return {"rms": float(rng.uniform(0.01, 0.1))}
    if run.group == "missing-pixels":
        best = [
            {
                "lam": 0.1,
                "test_rms": x,
                "sparsity_curve": sorted(some(len(THRESHOLDS))),
            }
            for x in some(5)
        ]
        return {"val_rms": [some(5) for _ in settings["lams"]], "chosen": best}
    if run.group == "mnist-units":
        return {"fit_seconds": 1.0, "n_iter": 3, "plain": svm, "split": svm}
    if run.group == "mnist-noise":
        names = (
            [mnist_noise.RAW]
            if settings["method"] == mnist_noise.RAW
            else [mnist_noise.ENCODER, mnist_noise.RELEARNED]
        )
        return dict.fromkeys(names, svm)
    if run.group == "mnist-methods":
        return svm
    columns = (
        "val_accuracy",
        "test_accuracy",
        "C",
        "zeros",
        "val_sparsity_area",
        "sparsity_area",
        "fit_seconds",
        "encode_seconds",
    )
    return {name: some(len(settings["lams"])) for name in columns}


def write_records(
    out: Path,
    scale: Scale = "paper",
    experiments: Sequence[str] = tuple(EXPERIMENTS),
    embedded: bool = False,
    fraction: float = 1.0,
    only: Sequence[Run] = (),
) -> int:
    rng = np.random.default_rng(0)
    planned = {run for x in experiments for run in EXPERIMENTS[x].runs(scale, 0, embedded)}
    runs = set(only) or planned
    chosen = sorted(runs, key=lambda run: run.key)[: max(1, round(fraction * len(runs)))]
    for run in chosen:
        name = "embedded: other data" if embedded else "MNIST"
        data = {"name": name, "sha256": "0"}
        Store(out).write(Record(run, random_result(run, rng), 2.0, data, versions(), "now"))
    return len(chosen)


@pytest.fixture(autouse=True, scope="module")
def no_fsync() -> Iterator[None]:
    """Save time when hundreds of records are written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda file: None)
        yield


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save time in tests of texts and tables."""
    monkeypatch.setattr("paper.report.make_figures", lambda experiment, records: {})


@pytest.fixture
def svg_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save time in tests that do not need PNG files."""
    monkeypatch.delitem(figures.METADATA, "png")


@pytest.fixture(scope="module")
def full_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a report with all runs of the paper's scale."""
    folder = tmp_path_factory.mktemp("report")
    write_records(folder)
    write_report(folder)
    return folder


class Reader(HTMLParser):
    """A parser that checks that tags are closed and collects links, ids and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        named = dict(attrs)
        self.links += [named[k] for k in ("src", "href") if k in named]
        self.ids += [named["id"]] if "id" in named else []
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: Path) -> Reader:
    reader = Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    assert reader.open == []
    return reader


def figure_names() -> set[str]:
    return {name for x in EXPERIMENTS.values() for name in x.plots}


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
        assert x.claims(records), x.id
        for claim in x.claims(records):
            assert claim.sentence in page.text
            assert claim.reproduced is None or isinstance(claim.reproduced, bool)
        for table in x.tables(records):
            assert (folder / "tables" / f"{table.name}.md").exists()
            assert (folder / "tables" / f"{table.name}.csv").exists()
        assert f"python -m paper reproduce {x.id} --scale paper" in page.text


@pytest.mark.slow
def test_page_needs_no_other_file(full_report: Path) -> None:
    page = full_report / "paper" / "index.html"
    assert all(link.startswith(("data:", "#")) for link in read(page).links)
    assert "http" not in page.read_text().split("base64")[0]


@pytest.mark.skipif(not RESULTS.exists(), reason="the results are not part of the sdist")
@pytest.mark.usefixtures("no_figures")
def test_outcomes_of_the_committed_records(tmp_path: Path) -> None:
    for path in RESULTS.glob("*/records"):
        (tmp_path / path.parent.name).mkdir()
        (tmp_path / path.parent.name / "records").symlink_to(path)
    page = write_report(tmp_path)
    text = " ".join(read(page).text.split())
    assert "24 of 39 claims that could be judged were reproduced; 4 more are inconclusive" in text
    for name in ("claims", "mnist-units", "digits-components"):
        new = (tmp_path / "paper" / "tables" / f"{name}.csv").read_text()
        assert new == (RESULTS / "paper" / "tables" / f"{name}.csv").read_text()


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
    page = read(write_report(tmp_path))
    assert "not judged" in page.text
    assert "not reproduced" not in page.text


@pytest.mark.usefixtures("no_figures")
def test_claims_are_judged_with_one_repetition_of_every_point(tmp_path: Path) -> None:
    runs = EXPERIMENTS["digits-components"].runs("paper", 0, False)
    write_records(tmp_path, only=[run for run in runs if run.seed == 0])
    own = read(write_report(tmp_path)).text.split("500 digits of 14×14")[1].split("Figures 6")[0]
    assert "Only 30 of 90 runs are complete" in own
    assert "not judged" not in own


@pytest.mark.usefixtures("no_figures")
def test_smoke_scale_is_named_and_judges_nothing(tmp_path: Path) -> None:
    write_records(tmp_path, scale="smoke")
    page = read(write_report(tmp_path))
    assert "This is the smoke scale" in page.text
    assert "not reproduced" not in page.text
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
            title = make_figure(x, plot, own).get_suptitle()
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
    assert [claim.reproduced for claim in claims] == [
        None,
        None,
        True if "SCNN" in sparse else None,
        True,
        None,
    ]
    assert [claim.inconclusive for claim in claims] == [True, True, False, False, False]
    assert "never that sparse" in claims[4].here
    assert "0.0 %" not in claims[4].here


def test_choices_are_made_on_validation_data() -> None:
    """A run with a smaller test error but a larger validation error is not shown."""

    def record(lam: float, val: float, test: float) -> Record:
        run = Run("mnist-units", "paper", 0, False, {"m": 400, "lam": lam, "n": [1, 1, 10_000]})
        svm = {"val_error": val, "test_error": test, "C": 1.0, "zeros": 0.8}
        return Record(run, {"plain": svm, "split": svm, "fit_seconds": 1.0}, 1.0, {}, {}, "")

    honest, lucky = record(0.5, 0.025, 0.0275), record(0.6, 0.026, 0.020)
    assert mnist_units.best_by_units([lucky, honest], "plain")[400] is honest
    (claim,) = mnist_units.claims([lucky, honest])
    assert claim.here == "2.75 % (± 0.16)"
    assert not claim.reproduced


def test_training_with_noise_or_a_ridge_has_its_own_row() -> None:
    """Noise has a claim of its own, too."""
    by_setting = {
        (run.settings["lam"], run.settings.get("noise"), run.settings.get("encoder_ridge")): run
        for run in EXPERIMENTS["mnist-units"].runs("paper", 0, False)
        if run.settings["m"] == 400
    }

    def record(noise: float | None, ridge: float | None, test: float) -> Record:
        svm = {"val_error": test, "test_error": test, "C": 3.0, "zeros": 0.88}
        result = {"plain": svm, "split": svm | {"zeros": 0.6}, "fit_seconds": 1.0}
        return Record(by_setting[0.5, noise, ridge], result, 1.0, {}, {}, "")

    records = [
        record(None, None, 0.0276),
        record(0.3, None, 0.0228),
        record(None, 0.3, 0.021),
        record(None, 1.0, 0.0225),
    ]
    without, with_noise = mnist_units.claims(records)
    assert (without.reproduced, with_noise.reproduced) == (False, True)
    assert "noise" in with_noise.sentence
    assert "noise" not in without.sentence
    (table,) = mnist_units.tables(records)
    rows = {name: cells for name, *cells in table.rows}
    assert rows[mnist_units.AS_IN_PAPER] == ["2.76 %"]
    assert rows[mnist_units.WITH_NOISE] == ["2.28 %"]
    assert rows["SCNN, ridge on the encoder + linear SVM"] == ["2.10 %"]
    settings = [row[1] for row in table.rows if row[0] == "… λ, zeros, C, ridge"]
    assert settings[0] == "0.5, 88 %, 3*"
    assert settings[2] == "0.5, 88 %, 3*, 0.3"


CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
CHECK_IMAGES = """<script>
window.addEventListener("load", () => {
  const all = [...document.images];
  const broken = all.filter(i => !(i.complete && i.naturalWidth > 0)).length;
  const wide = document.documentElement.scrollWidth > window.innerWidth;
  document.title = `images=${all.length} broken=${broken} wide=${wide} errors=${window.faults}`;
});
</script>"""
COUNT_ERRORS = (
    "<script>window.faults = 0; window.addEventListener('error', () => faults++, true);</script>"
)


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 500])
def test_browser_shows_the_page(full_report: Path, tmp_path: Path, width: int) -> None:
    page = full_report / "paper" / "index.html"
    watched = tmp_path / "watched.html"
    text = (
        page.read_text()
        .replace("<head>", f"<head>{COUNT_ERRORS}")
        .replace("</body>", f"{CHECK_IMAGES}</body>")
    )
    watched.write_text(text)
    done = subprocess.run(
        [
            str(CHROMIUM),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--window-size={width},1000",
            "--enable-logging=stderr",
            "--virtual-time-budget=5000",
            "--dump-dom",
            watched.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    title = re.search("<title>(.*?)</title>", done.stdout)
    assert title is not None
    assert title[1] == f"images={len(figure_names())} broken=0 wide=false errors=0"
    assert "CONSOLE" not in done.stderr


@pytest.mark.usefixtures("no_figures")
def test_command_prints_the_path_of_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_records(tmp_path, scale="smoke", experiments=["pca"])
    assert main(["report", "--out", str(tmp_path)]) == 0
    assert str(tmp_path / "smoke" / "index.html") in capsys.readouterr().out
