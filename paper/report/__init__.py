"""Figures, tables and one HTML page, made from the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from paper.errors import PaperError
from paper.experiments.experiment import SCALES, Scale
from paper.experiments.records import Store, write_atomically
from paper.experiments.registry import EXPERIMENTS
from paper.report.chapters import Chapter, make_chapter
from paper.report.docs import update_file
from paper.report.page import make_page
from paper.report.tables import claims_table, to_csv, to_markdown


def write_report(out: Path, scale: Scale | None = None, update: Sequence[Path] = ()) -> Path:
    """Write figures, tables and the page of one scale and return the path of the page.

    Parameters
    ----------
    out : Path
        The folder with the records of ``python -m paper reproduce``.
    scale : {"smoke", "paper"} or None
        None means paper if there are such records.
    update : sequence of Path
        Markdown files in which the tally and the tables between markers are replaced.
    """
    shown, chapters = read_chapters(out, scale)
    folder = out / shown
    figures = {name: own for chapter in chapters for name, own in chapter.figures.items()}
    write_files(folder / "figures", figures)
    tables = [*(table for chapter in chapters for table in chapter.tables), claims_table(chapters)]
    texts = {f"{table.name}.md": to_markdown(table) for table in tables}
    write_files(folder / "tables", texts | {f"{table.name}.csv": to_csv(table) for table in tables})
    write_atomically(folder / "index.html", make_page(chapters, shown))
    for path in update:
        update_file(path, chapters, folder / "figures")
    return folder / "index.html"


def read_chapters(out: Path, scale: Scale | None = None) -> tuple[Scale, list[Chapter]]:
    """Return the scale and the chapters of the records in a folder."""
    records = Store(out).read()
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
        if path.name not in contents and path.suffix in SUFFIXES:
            path.unlink()


SUFFIXES = {".svg", ".png", ".md", ".csv"}
