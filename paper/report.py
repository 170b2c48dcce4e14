"""The report: figures, tables and the page, made from the records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from paper.cache import SCALES, Cache, Record, Scale, write_atomically
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


@dataclass(frozen=True)
class Chapter:
    """An experiment and its results."""

    experiment: Experiment
    records: Sequence[Record]
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
    """Return the chapter of an experiment, or None if a planned run has no record.

    Real data are preferred to data from scikit-learn.
    """
    for embedded in (False, True):
        plan = set(experiment.runs(scale, embedded))
        own = sorted((r for r in records if r.run in plan), key=lambda r: r.run.seed)
        if len(own) == len(plan):
            claims = experiment.claims(own)
            if scale == "smoke":
                claims = [replace(claim, margins={}) for claim in claims]
            names = "; ".join(sorted({record.data["name"] for record in own}))
            tables = [replace(table, data=names) for table in experiment.tables(own)]
            return Chapter(experiment, own, claims, tables)
        if own:
            print(f"{experiment.id}: left out, {len(own)} of {len(plan)} runs have a record")
    return None


def make_blocks(chapters: Sequence[Chapter]) -> dict[str, str]:
    """Return the parts of the page that depend on the records, by their names."""
    claims = [claim for chapter in chapters for claim in chapter.claims]
    blocks = {"tally": tally(claims), "strip": strip(chapters)}
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
        "|" + "|".join(cell.replace("|", "\\|") for cell in cells) + "|" for cells in every
    )
