"""Figures, tables and one HTML page, made from the records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from paper.cache import SCALES, Cache, Scale, write_atomically
from paper.errors import PaperError
from paper.experiments import EXPERIMENTS
from paper.experiments.tables import Table
from paper.report.page import Chapter, make_chapter, make_page

STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e5e5",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.hashsalt": "lincode",
    "svg.fonttype": "path",
}
METADATA: dict[str, dict[str, None]] = {"png": {"Software": None}, "svg": {"Date": None}}
"""What is left out of the files, so that the same records give the same bytes."""


def write_report(out: Path, scale: Scale | None = None) -> Path:
    """Write figures, tables and the page of one scale and return the path of the page.

    ``out`` is the folder with the records of ``python -m paper reproduce``. The scale None means
    paper if there are such records.
    """
    shown, chapters = read_chapters(out, scale)
    folder = out / shown
    figures = make_figures(chapters)
    write_files(folder / "figures", figures)
    tables = [*(table for chapter in chapters for table in chapter.tables), claims_table(chapters)]
    texts = {f"{table.name}.md": to_markdown(table) for table in tables}
    write_files(folder / "tables", texts | {f"{table.name}.csv": to_csv(table) for table in tables})
    write_atomically(folder / "index.html", make_page(chapters, shown, figures))
    return folder / "index.html"


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


def write_files(folder: Path, contents: Mapping[str, str | bytes]) -> None:
    """Write the files of a folder and remove those of an older report."""
    for name, content in contents.items():
        write_atomically(folder / name, content)
    for path in folder.glob("*.*"):
        if path.name not in contents and path.suffix in (".svg", ".png", ".md", ".csv"):
            path.unlink()


def make_figures(chapters: Iterable[Chapter]) -> dict[str, bytes]:
    """Return the content of each figure as SVG and PNG, by the names of the files.

    The title of a figure names the data if they are not those of the paper's scale.
    """
    made = {}
    with matplotlib.rc_context(STYLE):
        for chapter in chapters:
            run = chapter.records[0].run
            for name, plot in chapter.experiment.plots.items():
                figure = Figure(figsize=(6.4, 4.2), layout="constrained")
                plot(figure, chapter.records)
                if run.scale != "paper" or run.embedded:
                    names = sorted({record.data["name"] for record in chapter.records})
                    figure.suptitle(f"data: {'; '.join(names)} ({run.scale} scale)", fontsize=10)
                for form, metadata in METADATA.items():
                    buffer = BytesIO()
                    figure.savefig(buffer, format=form, dpi=140, metadata=metadata)
                    made[f"{name}.{form}"] = buffer.getvalue()
    return made


def to_markdown(table: Table) -> str:
    """Return a table with its caption as Markdown. A bar inside a cell is escaped."""
    rows = [table.columns, ["---"] * len(table.columns), *table.rows]
    lines = ["| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |" for cells in rows]
    return "\n".join([table.caption, "", *lines]) + "\n"


def to_csv(table: Table) -> str:
    """Return a table as CSV, with the data in the last column."""
    frame = pd.DataFrame(table.rows, columns=table.columns)
    if table.data:
        frame["data"] = table.data
    return str(frame.to_csv(index=False, lineterminator="\n"))


def claims_table(chapters: Iterable[Chapter]) -> Table:
    """Return all claims in one table."""
    rows = [
        [
            chapter.where,
            claim.sentence,
            claim.paper,
            claim.here,
            claim.outcome,
            "yes" if claim.counted else "no",
            chapter.data,
        ]
        for chapter in chapters
        for claim in chapter.claims
    ]
    columns = ["where", "claim", "paper", "here", "outcome", "counted", "data"]
    return Table("claims", "The paper's claims and the results here", columns, rows)
