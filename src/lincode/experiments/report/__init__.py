"""Figures, tables and one page, drawn from records alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lincode.experiments.experiment import SCALES, Claim, Experiment, Record, Run, Scale, Table
from lincode.experiments.records import Store, write_whole
from lincode.experiments.registry import EXPERIMENTS
from lincode.experiments.report.figures import draw_figures
from lincode.experiments.report.page import page
from lincode.experiments.report.tables import claims_table, csv, markdown


@dataclass(frozen=True)
class Chapter:
    """An experiment and all that is to be said of it."""

    experiment: Experiment
    records: Sequence[Record]
    n_runs: int
    """In a full reproduction"""
    claims: Sequence[Claim]
    tables: Sequence[Table]
    figures: Sequence[Path]
    """SVG files, with PNG files beside them"""

    @property
    def data(self) -> str:
        """What it ran on, as the records have it."""
        return "; ".join(sorted({record.data["name"] for record in self.records}))

    @property
    def seconds(self) -> float:
        """Of all its runs."""
        return sum(record.seconds for record in self.records)


def write_report(out: Path, scale: Scale | None = None) -> Path:
    """Draw all there is under ``out``; the page's path.

    Parameters
    ----------
    out : Path
        Where ``lincode reproduce`` put its records.
    scale : {"smoke", "paper"} or None
        None means paper if there are such records.
    """
    records = Store(out).read()
    if not records:
        raise ValueError(
            f"{out} has no records to draw from: run `lincode reproduce all --out {out}` first, or"
            " give the folder that has them with --out."
        )
    there = {record.run.scale for record in records}
    shown = scale if scale is not None else max(there, key=SCALES.index)
    chapters = [
        chapter for x in EXPERIMENTS.values() if (chapter := chapter_of(x, records, shown, out))
    ]
    for chapter in chapters:
        for table in chapter.tables:
            caption = f"{table.title}. Data: {chapter.data}."
            write_whole(out / "tables" / f"{table.name}.md", markdown(table, caption))
            write_whole(out / "tables" / f"{table.name}.csv", csv(table, caption))
    claims = claims_table((c.experiment.title, c.claims) for c in chapters)
    caption = f"{claims.title}. Data: {'; '.join(dict.fromkeys(c.data for c in chapters))}."
    write_whole(out / "tables" / "claims.md", markdown(claims, caption))
    write_whole(out / "tables" / "claims.csv", csv(claims, caption))
    write_whole(out / "index.html", page(chapters, shown))
    return out / "index.html"


def chapter_of(
    experiment: Experiment, records: Sequence[Record], scale: Scale, out: Path
) -> Chapter | None:
    """The chapter of an experiment; None if it has no records at this scale."""
    seeds = [record.run.seed for record in records if record.run.scale == scale]
    first = min(seeds, default=0)
    plans = {embedded: experiment.runs(scale, first, embedded) for embedded in (False, True)}
    groups = {run.group for run in plans[False]}
    own = [r for r in records if r.run.scale == scale and r.run.group in groups]
    # Where there are records of both kinds, the real data count.
    own = [r for r in own if not r.run.embedded] or own
    if not own:
        return None
    plan: list[Run] = plans[own[0].run.embedded]
    drawn = draw_figures(experiment, own, out / "figures")
    return Chapter(
        experiment, own, len(set(plan) | {r.run for r in own}), experiment.claims(own),
        experiment.tables(own), drawn,
    )  # fmt: skip
