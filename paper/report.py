"""The report: figures, tables and the page, made from the records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from paper.cache import SCALES, Cache, Record, Run, Scale, write_atomically
from paper.errors import PaperError
from paper.experiments import EXPERIMENTS
from paper.experiments.claims import SYMBOLS, Claim, tally
from paper.experiments.tables import Experiment, Table

STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e5e5",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
}
CHOSEN = ("lam", "lams", "noise", "encoder_ridge", "zeros", "Cs", "trainer", "starts")
"""The settings that are chosen on validation data, and those that list their values."""


@dataclass(frozen=True)
class Chapter:
    """An experiment and its results."""

    experiment: Experiment
    records: Sequence[Record]
    missing: Sequence[Run]
    """The planned runs without a record"""
    claims: Sequence[Claim]
    tables: Sequence[Table]


def write_report(out: Path, scale: Scale | None = None, page: Path | None = None) -> Path:
    """Write the figures and tables of one scale, and fill in a page; return their folder.

    ``out`` is the folder with the records of ``python -m paper reproduce``. The scale None means
    paper if there are such records.
    """
    shown, chapters = read_chapters(out, scale)
    folder = out / shown
    write_files(folder / "figures", make_figures(chapters))
    blocks = make_blocks(chapters)
    tables = {table.name: to_markdown(table) for chapter in chapters for table in chapter.tables}
    tables["claims"] = "\n\n".join(blocks.values()) + "\n"
    write_files(folder / "tables", {f"{name}.md": text for name, text in tables.items()})
    if page is not None:
        write_atomically(page, filled(page.read_text(encoding="utf-8"), blocks))
    return folder


def read_chapters(out: Path, scale: Scale | None = None) -> tuple[Scale, list[Chapter]]:
    """Return the scale and the chapters of the records in a folder."""
    records = Cache(out).read()
    scales = {record.run.scale for record in records}
    if not records or scale not in {None, *scales}:
        which = f" of the {scale} scale" if records else ""
        raise PaperError(
            f"{out} has no records{which}: run `python -m paper reproduce all --out {out}"
            f"{f' --scale {scale}' if scale else ''}` first, or choose another folder with --out."
        )
    shown = scale if scale is not None else max(scales, key=SCALES.index)
    own = [record for record in records if record.run.scale == shown]
    found = [make_chapter(x, own, shown) for x in EXPERIMENTS.values()]
    return shown, [chapter for chapter in found if chapter is not None]


def make_chapter(experiment: Experiment, records: Sequence[Record], scale: Scale) -> Chapter | None:
    """Return the chapter of an experiment, or None if it has no records.

    Only planned runs are used, with the lowest seed that has records. Real data are preferred to
    data from scikit-learn. Claims are judged only if every point that they need has a record.
    """
    groups = {run.group for run in experiment.runs(scale, 0, False)}
    seeds = sorted({record.run.seed for record in records if record.run.group in groups})
    for embedded in (False, True):
        for seed in seeds:
            plan = list(dict.fromkeys(experiment.runs(scale, seed, embedded)))
            keys = set(plan)
            own = [record for record in records if record.run in keys]
            if not own:
                continue
            found = {record.run for record in own}
            needed = {point_of(run) for run in plan if experiment.used_by_claims(run)}
            claims: Sequence[Claim] = []
            if needed <= {point_of(run) for run in found}:
                claims = experiment.claims(own)
            if scale == "smoke":
                claims = [replace(claim, margins={}) for claim in claims]
            names = "; ".join(sorted({record.data["name"] for record in own}))
            tables = [replace(table, data=names) for table in experiment.tables(own)]
            missing = [run for run in plan if run not in found]
            return Chapter(experiment, own, missing, claims, tables)
    return None


def point_of(run: Run) -> str:
    """Return what identifies a run, except its seed and what is chosen on validation data."""
    settings = {k: v for k, v in run.settings.items() if k not in CHOSEN}
    return json.dumps([run.group, settings], sort_keys=True)


def make_blocks(chapters: Sequence[Chapter]) -> dict[str, str]:
    """Return the parts of the page that depend on the records, by their names."""
    claims = [claim for chapter in chapters for claim in chapter.claims]
    blocks = {"tally": tally(claims), "strip": strip(chapters), "missing": missing_runs(chapters)}
    number = 0
    for chapter in chapters:
        rows = []
        for claim in chapter.claims:
            number += 1
            anchor = f'<a id="claim-{number}"></a>{number}'
            cells = [anchor, claim.sentence, claim.paper, claim.text, claim.verdict_text]
            rows.append(cells)
        columns = ["", "claim", "paper", "here", "verdict"]
        blocks[chapter.experiment.id] = grid(columns, rows)
        for table in chapter.tables:
            blocks[table.name] = blocks.get(table.name, grid(table.columns, table.rows))
    return blocks


def missing_runs(chapters: Sequence[Chapter]) -> str:
    """Return the number of planned runs without a record, by experiment."""
    counts = {x.experiment.id: (len(x.missing), len(x.missing) + len(x.records)) for x in chapters}
    cells = [f"`{name}` {n}/{planned}" for name, (n, planned) in counts.items() if n]
    return f"Planned runs without a record: {', '.join(cells) or 'none'}."


def strip(chapters: Sequence[Chapter]) -> str:
    """Return one link for each claim, with the symbol of its verdict, coloured by the site."""
    claims = [claim for chapter in chapters for claim in chapter.claims]
    cells = [
        f'<a href="#claim-{number}" class="verdict {claim.outcome.split()[0]}">'
        f"{number}&nbsp;{SYMBOLS.get(claim.outcome, '')}</a>"
        for number, claim in enumerate(claims, 1)
    ]
    return "\n".join(["<p>", *cells, "</p>"])


def filled(page: str, blocks: Mapping[str, str]) -> str:
    """Return a page with the text between ``<!-- name -->`` and ``<!-- end -->`` replaced."""
    for name, text in blocks.items():
        start = f"<!-- {name} -->\n"
        before, found, rest = page.partition(start)
        if found:
            page = f"{before}{start}\n{text}\n\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
    return page


def write_files(folder: Path, contents: Mapping[str, str | bytes]) -> None:
    """Write the files of a folder and remove those of an older report."""
    for name, content in contents.items():
        write_atomically(folder / name, content)
    for path in folder.glob("*.*"):
        if path.name not in contents and path.suffix in (".svg", ".png", ".md", ".csv"):
            path.unlink()


def make_figures(chapters: Iterable[Chapter]) -> dict[str, bytes]:
    """Return the content of each figure as PNG, by the names of the files.

    The title of a figure names the data if they are not those of the paper's scale.
    """
    return {f"{name}.png": content for name, content in figures(chapters)}


def figures(chapters: Iterable[Chapter]) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each figure."""
    with matplotlib.rc_context(STYLE):
        for chapter in chapters:
            run = chapter.records[0].run
            for name, plot in chapter.experiment.plots.items():
                figure = Figure(figsize=(6.4, 4.2), layout="constrained")
                plot(figure, chapter.records)
                if run.scale != "paper" or run.embedded:
                    names = sorted({record.data["name"] for record in chapter.records})
                    figure.suptitle(f"data: {'; '.join(names)} ({run.scale} scale)", fontsize=10)
                buffer = BytesIO()
                figure.savefig(buffer, format="png", dpi=140, metadata={"Software": None})
                yield name, buffer.getvalue()


def to_markdown(table: Table) -> str:
    """Return a table with its caption as Markdown."""
    return f"{table.caption}\n\n{grid(table.columns, table.rows)}\n"


def grid(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return the lines of a table in Markdown. A bar inside a cell is escaped."""
    every = [columns, ["---"] * len(columns), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |" for cells in every
    )
