"""Figures, tables and one HTML page, made from the records."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jinja2

from paper.errors import PaperError
from paper.experiments.experiment import (
    SCALES,
    Claim,
    Experiment,
    Record,
    Run,
    Scale,
    Table,
    duration,
)
from paper.experiments.records import Store, write_atomically
from paper.experiments.registry import EXPERIMENTS
from paper.report.figures import make_figures
from paper.report.tables import claims_table, to_csv, to_markdown

CHOSEN = ("lam", "noise", "encoder_ridge")
"""The settings that are chosen on validation data."""


@dataclass(frozen=True)
class Chapter:
    """An experiment and its results."""

    experiment: Experiment
    records: Sequence[Record]
    n_runs: int
    """The number of runs of a complete reproduction"""
    claims: Sequence[Claim]
    tables: Sequence[Table]
    data: str
    """The data, and the scale if it is not that of the paper"""
    figures: Mapping[str, bytes]
    """The content of the figures by the names of their files"""

    @property
    def where(self) -> str:
        """The number of the figure or table."""
        return self.experiment.title.partition(":")[0]

    @property
    def seconds(self) -> float:
        """The total time of all runs."""
        return sum(record.seconds for record in self.records)

    @property
    def embedded(self) -> bool:
        """Whether data from scikit-learn were used."""
        return self.records[0].run.embedded

    @property
    def command(self) -> str:
        """The command that makes the records."""
        run = min((record.run for record in self.records), key=lambda run: run.seed)
        words = ["python -m paper reproduce", self.experiment.id, "--scale", run.scale]
        words += ["--embedded"] if run.embedded else ["--data-dir DATA"]
        return " ".join(words + ([f"--seed {run.seed}"] if run.seed else []))


def write_report(out: Path, scale: Scale | None = None) -> Path:
    """Write figures, tables and the page of one scale and return the path of the page.

    Parameters
    ----------
    out : Path
        The folder with the records of ``python -m paper reproduce``.
    scale : {"smoke", "paper"} or None
        None means paper if there are such records.
    """
    records = Store(out).read()
    scales = {record.run.scale for record in records}
    if not records or scale not in {None, *scales}:
        which = f" of the {scale} scale" if records else ""
        raise PaperError(
            f"{out} has no records{which}: run `python -m paper reproduce all --out {out}"
            f"{f' --scale {scale}' if scale else ''}` first, or choose another folder with --out."
        )
    shown = scale if scale is not None else max(scales, key=SCALES.index)
    folder = out / shown
    own = [record for record in records if record.run.scale == shown]
    found = [make_chapter(x, own, shown) for x in EXPERIMENTS.values()]
    chapters = [chapter for chapter in found if chapter is not None]
    for chapter in chapters:
        for name, content in chapter.figures.items():
            write_atomically(folder / "figures" / name, content)
    for table in [*(t for c in chapters for t in c.tables), claims_table(chapters)]:
        write_atomically(folder / "tables" / f"{table.name}.md", to_markdown(table))
        write_atomically(folder / "tables" / f"{table.name}.csv", to_csv(table))
    write_atomically(folder / "index.html", make_page(chapters, shown))
    return folder / "index.html"


def make_chapter(experiment: Experiment, records: Sequence[Record], scale: Scale) -> Chapter | None:
    """Return the chapter of an experiment, or None if it has no records.

    Only planned runs are used, with the lowest seed that has records. Real data are preferred to
    data from scikit-learn.
    """
    groups = {run.group for run in experiment.runs(scale, 0, False)}
    seeds = sorted({record.run.seed for record in records if record.run.group in groups})
    for embedded in (False, True):
        for seed in seeds:
            plan = set(experiment.runs(scale, seed, embedded))
            own = [record for record in records if record.run in plan]
            if own:
                return chapter_of(experiment, own, plan, scale)
    return None


def chapter_of(
    experiment: Experiment, own: Sequence[Record], plan: set[Run], scale: Scale
) -> Chapter:
    """Return a chapter. Claims are judged only if every point of the plan has a record."""
    claims = experiment.claims(own)
    complete = {point_of(run) for run in plan} == {point_of(record.run) for record in own}
    if scale == "smoke" or not complete:
        claims = [replace(claim, reproduced=None, inconclusive=False) for claim in claims]
    data = "; ".join(sorted({record.data["name"] for record in own}))
    if scale != "paper":
        data += f"; {scale} scale"
    tables = [replace(table, data=data) for table in experiment.tables(own)]
    figures = make_figures(experiment, own)
    return Chapter(experiment, own, len(plan), claims, tables, data, figures)


def point_of(run: Run) -> str:
    """Return what identifies a run, except its seed and what is chosen on validation data."""
    settings = {k: v for k, v in run.settings.items() if k not in CHOSEN}
    return json.dumps([run.group, settings], sort_keys=True)


def make_page(chapters: Sequence[Chapter], scale: str) -> str:
    """Return the HTML page, which contains its figures and needs no other file."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(
        base64=lambda content: b64encode(content).decode(),
        duration=duration,
        numeric_columns=numeric_columns,
    )
    claims = [claim for chapter in chapters for claim in chapter.claims]
    records = {record.run.key: record for chapter in chapters for record in chapter.records}
    return environment.get_template("page.html.j2").render(
        chapters=chapters,
        scale=scale,
        n_judged=sum(claim.reproduced is not None for claim in claims),
        n_reproduced=sum(claim.reproduced is True for claim in claims),
        n_inconclusive=sum(claim.inconclusive for claim in claims),
        n_records=len(records),
        seconds=sum(record.seconds for record in records.values()),
        embedded=sorted({chapter.data for chapter in chapters if chapter.embedded}),
    )


def numeric_columns(table: Table) -> list[bool]:
    """Return for each column whether it contains numbers, which are aligned to the right."""
    return [any(cell[:1].isdigit() for cell in cells) for cells in zip(*table.rows, strict=True)]
