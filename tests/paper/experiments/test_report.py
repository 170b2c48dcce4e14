"""The report: drawn from records alone, whole with few of them, honest about what they are."""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lincode.experiments import mnist_noise, mnist_units
from lincode.experiments.experiment import Record, Run, Scale, Table
from lincode.experiments.records import Store, versions
from lincode.experiments.registry import EXPERIMENTS
from lincode.experiments.report import write_report
from lincode.experiments.report.figures import titled
from lincode.experiments.report.tables import csv, markdown
from lincode.metrics import THRESHOLDS


def invented(run: Run, rng: np.random.Generator) -> dict[str, Any]:
    """A result of the right shape, without any training."""
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
        names = [mnist_noise.RAW] if settings["method"] == mnist_noise.RAW else [
            mnist_noise.ENCODER, mnist_noise.RELEARNED
        ]  # fmt: skip
        return dict.fromkeys(names, svm)
    if run.group == "mnist-methods":
        return svm
    columns = (
        "val_accuracy", "test_accuracy", "C", "zeros", "val_sparsity_area", "sparsity_area",
        "fit_seconds", "encode_seconds",
    )  # fmt: skip
    return {name: some(len(settings["lams"])) for name in columns}


def invent(
    out: Path, scale: Scale = "paper", experiments: Sequence[str] = tuple(EXPERIMENTS),
    embedded: bool = False, share: float = 1.0, only: Sequence[Run] = (),
) -> int:  # fmt: skip
    rng = np.random.default_rng(0)
    planned = {run for x in experiments for run in EXPERIMENTS[x].runs(scale, 0, embedded)}
    runs = set(only) or planned
    chosen = sorted(runs, key=lambda run: run.key)[: max(1, round(share * len(runs)))]
    for run in chosen:
        name = "embedded: other data" if embedded else "MNIST"
        data = {"name": name, "sha256": "0"}
        Store(out).write(Record(run, invented(run, rng), 2.0, data, versions(), "now"))
    return len(chosen)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda file: None)  # hundreds of records


class Reader(HTMLParser):
    """Sees to it that tags are closed, and collects what a test asks for."""

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
    return {name for x in EXPERIMENTS.values() for name in x.figures}


def test_a_full_report_has_every_figure_table_and_claim(tmp_path: Path) -> None:
    n = invent(tmp_path)
    page = read(write_report(tmp_path))
    folder = tmp_path / "paper"
    for name in figure_names():
        assert (folder / "figures" / f"{name}.svg").read_text().startswith("<?xml")
        assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert sum(link.startswith("data:image/svg") for link in page.links) == len(figure_names())
    assert set(EXPERIMENTS) <= set(page.ids)
    assert f"{n} runs, paper scale" in " ".join(page.text.split())
    assert "Only " not in page.text
    for x in EXPERIMENTS.values():
        plan = set(x.runs("paper", 0, False))
        records = [r for r in Store(tmp_path).read() if r.run in plan]
        assert x.claims(records), x.id
        for claim in x.claims(records):
            assert claim.sentence in page.text
        for table in x.tables(records):
            assert (folder / "tables" / f"{table.name}.md").exists()
            assert (folder / "tables" / f"{table.name}.csv").exists()
        assert f"lincode reproduce {x.id} --scale paper" in page.text


def test_the_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    invent(tmp_path)
    page = read(write_report(tmp_path))
    assert all(link.startswith(("data:", "#")) for link in page.links)
    assert "http" not in write_report(tmp_path).read_text().split("base64")[0]


@pytest.mark.parametrize("share", [0.02, 0.3, 0.7])
def test_part_of_the_runs_gives_a_page_that_says_so(tmp_path: Path, share: float) -> None:
    invent(tmp_path, share=share)
    assert "Only " in read(write_report(tmp_path)).text


@pytest.mark.parametrize("one", EXPERIMENTS)
def test_one_experiment_alone_is_drawn(tmp_path: Path, one: str) -> None:
    invent(tmp_path, experiments=[one])
    assert one in read(write_report(tmp_path)).ids


def test_no_verdict_while_points_are_missing(tmp_path: Path) -> None:
    runs = EXPERIMENTS["digits-components"].runs("paper", 0, False)
    invent(tmp_path, only=[run for run in runs if run.settings["m"] < 150])
    page = read(write_report(tmp_path))
    assert "not judged" in page.text
    assert "does not hold" not in page.text


def test_one_draw_of_every_point_is_enough_for_a_verdict(tmp_path: Path) -> None:
    runs = EXPERIMENTS["digits-components"].runs("paper", 0, False)
    invent(tmp_path, only=[run for run in runs if run.seed == 0])
    own = read(write_report(tmp_path)).text.split("500 digits of 14×14")[1].split("Figures 6")[0]
    assert "Only 30 of 90 runs are done" in own
    assert "not judged" not in own


def test_the_smoke_scale_judges_nothing_and_says_what_it_is(tmp_path: Path) -> None:
    invent(tmp_path, scale="smoke")
    page = read(write_report(tmp_path))
    assert "This is the smoke scale" in page.text
    assert "does not hold" not in page.text
    for table in tables_of(tmp_path):
        assert "smoke scale" in table.read_text(), table


def tables_of(out: Path) -> list[Path]:
    found = [*out.glob("*/tables/*.md"), *out.glob("*/tables/*.csv")]
    assert found
    return found


def test_embedded_data_are_named_in_every_table_and_figure(tmp_path: Path) -> None:
    invent(tmp_path, scale="smoke", embedded=True)
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
        for draw in x.figures.values():
            title = titled(x, draw, own).get_suptitle()
            assert title.endswith("data: embedded: other data (smoke scale)")


def test_real_data_count_where_there_are_both(tmp_path: Path) -> None:
    invent(tmp_path, scale="smoke", embedded=True, experiments=["pca"])
    invent(tmp_path, scale="smoke", experiments=["pca"])
    page = read(write_report(tmp_path))
    assert "Not on the paper’s data" not in page.text
    assert "embedded" not in page.text


def test_each_scale_has_a_page_of_its_own(tmp_path: Path) -> None:
    invent(tmp_path, scale="smoke", experiments=["pca"])
    invent(tmp_path, scale="paper", experiments=["pca"])
    assert "paper scale" in read(write_report(tmp_path)).text
    first = (tmp_path / "paper" / "index.html").read_bytes()
    assert "smoke scale" in read(write_report(tmp_path, "smoke")).text
    assert (tmp_path / "paper" / "index.html").read_bytes() == first


def test_records_of_other_settings_or_seeds_are_not_mixed_in(tmp_path: Path) -> None:
    invent(tmp_path, experiments=["pca"])
    before = (write_report(tmp_path).parent / "tables" / "pca.md").read_text()
    run = EXPERIMENTS["pca"].runs("paper", 0, False)[0]
    strangers = [
        Run("pca", "paper", 0, False, {**run.settings, "n": 7}),
        Run("pca", "paper", 99, False, run.settings),
    ]
    invent(tmp_path, only=strangers)
    page = read(write_report(tmp_path))
    assert (tmp_path / "paper" / "tables" / "pca.md").read_text() == before
    assert "Only " not in page.text


def test_a_scale_without_records_is_refused(tmp_path: Path) -> None:
    invent(tmp_path, scale="smoke", experiments=["pca"])
    with pytest.raises(ValueError, match="no records of paper scale"):
        write_report(tmp_path, "paper")
    assert not (tmp_path / "paper").exists()


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    invent(tmp_path, scale="smoke", experiments=["pca", "sparsity"])
    first = write_report(tmp_path).read_bytes()
    assert write_report(tmp_path).read_bytes() == first


def test_no_records_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no records to draw from"):
        write_report(tmp_path)


def test_the_command_on_the_page_makes_the_page(tmp_path: Path) -> None:
    invent(tmp_path, scale="smoke", embedded=True, experiments=["pca"])
    assert "lincode reproduce pca --scale smoke --embedded" in read(write_report(tmp_path)).text


def test_cells_cannot_break_a_table() -> None:
    table = Table("t", "T", ["a", "b"], [["x|y", '1,"2']], data="D")
    assert "x\\|y" in markdown(table)
    assert markdown(table).startswith("T. Data: D.")
    assert csv(table).splitlines() == ["a,b,data", 'x|y,"1,""2",D']


@pytest.mark.parametrize("sparse", [("SCNN", "Sparsenet"), ("Sparsenet",)])
def test_what_was_never_sparse_is_not_judged(sparse: tuple[str, ...]) -> None:
    records = []
    for run in EXPERIMENTS["accuracy-sparsity"].runs("paper", 0, False):
        area = 0.9 if run.settings["network"] in sparse else 0.3
        n = len(run.settings["lams"])
        result = {
            "val_accuracy": [0.9] * n, "test_accuracy": [0.85] * n,
            "val_sparsity_area": [area] * n,
        }  # fmt: skip
        records.append(Record(run, result, 1.0, {}, {}, ""))
    claims = EXPERIMENTS["accuracy-sparsity"].claims(records)
    assert [claim.holds for claim in claims] == [
        None,
        None,
        True if "SCNN" in sparse else None,
        True,
        None,
    ]
    assert [claim.close for claim in claims] == [True, True, False, False, False]
    assert "never so sparse" in claims[4].ours
    assert "0.0 %" not in claims[4].ours


def test_choices_are_made_on_validation_data() -> None:
    """The run with the lower test error but the higher validation error is not the one shown."""

    def record(lam: float, val: float, test: float) -> Record:
        run = Run("mnist-units", "paper", 0, False, {"m": 400, "lam": lam, "n": [1, 1, 10_000]})
        svm = {"val_error": val, "test_error": test, "C": 1.0, "zeros": 0.8}
        return Record(run, {"plain": svm, "split": svm, "fit_seconds": 1.0}, 1.0, {}, {}, "")

    honest, lucky = record(0.5, 0.025, 0.0275), record(0.6, 0.026, 0.020)
    assert mnist_units.best_by_units([lucky, honest], "plain")[400] is honest
    (claim,) = mnist_units.claims([lucky, honest])
    assert claim.ours == "2.75 % (± 0.16)"
    assert not claim.holds


def test_what_is_learned_with_noise_is_a_row_and_a_claim_of_its_own() -> None:
    by_setting = {
        (run.settings["m"], run.settings["lam"], run.settings.get("noise")): run
        for run in EXPERIMENTS["mnist-units"].runs("paper", 0, False)
    }

    def record(noise: float | None, test: float) -> Record:
        svm = {"val_error": test, "test_error": test, "C": 3.0, "zeros": 0.88}
        result = {"plain": svm, "split": svm | {"zeros": 0.6}, "fit_seconds": 1.0}
        return Record(by_setting[400, 0.5, noise], result, 1.0, {}, {}, "")

    records = [record(None, 0.0276), record(0.3, 0.0228)]
    without, with_noise = mnist_units.claims(records)
    assert (without.holds, with_noise.holds) == (False, True)
    assert "noise" in with_noise.sentence
    assert "noise" not in without.sentence
    (table,) = mnist_units.tables(records)
    rows = {name: cells for name, *cells in table.rows}
    assert rows[mnist_units.AS_PRINTED] == ["2.76 %"]
    assert rows[mnist_units.WITH_NOISE] == ["2.28 %"]
    assert ["… λ, zeros, C", "0.5, 88 %, 3*"] in [list(row) for row in table.rows]


CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
WATCH = """<script>
window.addEventListener("load", () => {
  const all = [...document.images];
  const broken = all.filter(i => !(i.complete && i.naturalWidth > 0)).length;
  const wide = document.documentElement.scrollWidth > window.innerWidth;
  document.title = `images=${all.length} broken=${broken} wide=${wide} errors=${window.faults}`;
});
</script>"""
COUNT = (
    "<script>window.faults = 0; window.addEventListener('error', () => faults++, true);</script>"
)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
@pytest.mark.parametrize("width", [1400, 500])
def test_a_real_browser_shows_the_page(tmp_path: Path, width: int) -> None:
    invent(tmp_path)
    page = write_report(tmp_path)
    watched = tmp_path / "watched.html"
    text = (
        page.read_text().replace("<head>", f"<head>{COUNT}").replace("</body>", f"{WATCH}</body>")
    )
    watched.write_text(text)
    done = subprocess.run(
        [
            str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},1000",
            "--enable-logging=stderr", "--virtual-time-budget=5000", "--dump-dom",
            watched.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    title = re.search("<title>(.*?)</title>", done.stdout)
    assert title is not None
    assert title[1] == f"images={len(figure_names())} broken=0 wide=false errors=0"
    assert "CONSOLE" not in done.stderr


def test_the_command_draws(tmp_path: Path) -> None:
    invent(tmp_path, experiments=["pca"])
    command = [sys.executable, "-m", "lincode", "report", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert str(tmp_path / "paper" / "index.html") in done.stdout
